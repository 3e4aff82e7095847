//! `kubeopencode server`.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use clap::ArgAction;
use depot::Depot;
use server::{Access, Listening, Options, REVIEW_TTL, Range};
use store::{Archive, Store};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    log_archive::LogArchiveArg,
    oidc::OidcArgs,
    process::{Log, address, cluster_config, shutdown_requested},
    store_args::StoreArgs,
};

/// Arguments of `kubeopencode server`.
///
/// | variable | instead of |
/// |---|---|
/// | `KUBEOPENCODE_ADDRESS` | `--address` |
/// | `KUBEOPENCODE_METRICS_ADDRESS` | `--metrics-bind-address` |
/// | `KUBEOPENCODE_BASE_URL` | `--base-url` |
/// | `KUBEOPENCODE_SESSION_KEY_FILE` | `--session-key-file` |
/// | `KUBEOPENCODE_TRUSTED_PROXIES` | `--trusted-proxies` |
/// | `KUBEOPENCODE_OIDC_*` | `--oidc-*` |
/// | `KUBEOPENCODE_LOG_ARCHIVE` | `--log-archive` |
/// | `KUBEOPENCODE_STORE_RECORDS`, `KUBEOPENCODE_STORE_BLOBS` | `--store-records`, `--store-blobs` |
/// | `KUBEOPENCODE_DEPOT_LISTEN` | `--depot-listen` |
/// | `KUBEOPENCODE_LOG`, `KUBEOPENCODE_LOG_FORMAT` | `--log`, `--log-format` |
/// | `KUBEOPENCODE_ADDRESSING` | nothing: `local` where Agents listen on loopback addresses |
/// | `KUBEOPENCODE_*_IMAGE` and the like | nothing: the platform's defaults, shown by explain, as for the controller |
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to serve the API and the page.
    #[arg(long, default_value = ":2746", value_parser = address, env = "KUBEOPENCODE_ADDRESS")]
    address: SocketAddr,
    /// Where to serve `/metrics`; nowhere when unset.
    #[arg(long, value_parser = address, env = "KUBEOPENCODE_METRICS_ADDRESS")]
    metrics_bind_address: Option<SocketAddr>,
    /// Address at which browsers reach this server, such as `https://agents.example.com`. With https, cookies travel by
    /// https only.
    #[arg(long, env = "KUBEOPENCODE_BASE_URL")]
    base_url: Option<String>,
    /// Let anonymous callers read everything, with this server's own rights.
    #[arg(long)]
    anonymous: bool,
    /// Let anonymous callers change everything too. Only for a server that no other person can reach.
    #[arg(long, requires = "anonymous")]
    anonymous_write: bool,
    /// Authenticate callers. `false` is the same as `--anonymous --anonymous-write`.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    auth_enabled: bool,
    /// The same as `--anonymous`.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    auth_allow_anonymous: bool,
    /// Origins of other pages that may use the API, separated by commas; they need tokens.
    #[arg(long, value_delimiter = ',')]
    cors_allowed_origins: Vec<String>,
    /// Maximum of concurrent requests; 0 is unlimited.
    #[arg(long, default_value_t = 0)]
    api_rate_limit: usize,
    /// Sustained requests per second of one client address, four times as many in a burst; 0 is unlimited.
    #[arg(long, default_value_t = 100)]
    requests_per_second: u32,
    /// Proxies whose X-Forwarded-For is believed, as addresses or ranges separated by commas.
    #[arg(long, value_delimiter = ',', env = "KUBEOPENCODE_TRUSTED_PROXIES")]
    trusted_proxies: Vec<Range>,
    /// File with 32 bytes or 64 hexadecimal digits that seal sessions. Several servers need the same; without it,
    /// people log in again after a restart.
    #[arg(long, env = "KUBEOPENCODE_SESSION_KEY_FILE")]
    session_key_file: Option<PathBuf>,
    #[command(flatten)]
    log_archive: LogArchiveArg,
    #[command(flatten)]
    store: StoreArgs,
    /// Where to serve the depot, through which Pods store and fetch files; nowhere when unset. Pods reach it at the URL
    /// that the controller has in `KUBEOPENCODE_DEPOT_URL`.
    #[arg(long, value_name = "ADDRESS", value_parser = address, env = "KUBEOPENCODE_DEPOT_LISTEN")]
    depot_listen: Option<SocketAddr>,
    #[command(flatten)]
    oidc: OidcArgs,
    #[command(flatten)]
    log: Log,
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: Args) -> anyhow::Result<()> {
    args.log.start()?;
    let config = cluster_config().await?;
    let session_key = args.session_key_file.as_ref().map(session_key).transpose()?;
    let client = kube::Client::try_from(config.clone()).context("the cluster's configuration cannot be used")?;
    let store = args.store.open(&client).await?;
    let log_archive: Option<Arc<dyn Archive>> = match &store {
        Some(store) => Some(Arc::new(store.clone())),
        None => args.log_archive.open()?,
    };
    let options = Options {
        address: args.address,
        metrics: args.metrics_bind_address,
        base_url: args.base_url,
        page_host: None,
        anonymous: args.anonymous || args.auth_allow_anonymous || !args.auth_enabled,
        anonymous_write: args.anonymous_write || !args.auth_enabled,
        cors_allowed_origins: args.cors_allowed_origins,
        requests_per_second: args.requests_per_second,
        concurrent_requests: args.api_rate_limit,
        trusted_proxies: args.trusted_proxies,
        session_key,
        agents_on_loopback: pod::env::process(pod::env::ADDRESSING)
            .is_some_and(|value| value.eq_ignore_ascii_case("local")),
        review_ttl: REVIEW_TTL,
        environment: pod::env::process,
        log_archive,
        results: store.clone(),
    };
    let provider = args.oidc.provider()?;
    let depot = match (args.depot_listen, store) {
        (None, _) => None,
        (Some(_), None) => bail!("--depot-listen needs a store: set --store-records and --store-blobs"),
        (Some(address), Some(store)) => Some(serve_depot(address, client, store).await?),
    };
    let listening = Listening::bind_with_provider(Access::Config(Box::new(config)), options, provider).await?;
    listening.serve(shutdown_requested()).await?;
    if let Some(depot) = depot {
        depot.await.context("the depot failed")??;
    }
    Ok(())
}

/// Serves the depot until the process is asked to stop.
async fn serve_depot(
    address: SocketAddr,
    client: kube::Client,
    store: Store,
) -> anyhow::Result<JoinHandle<std::io::Result<()>>> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(depot = %listener.local_addr()?, "serving the depot");
    let depot = Depot::new(client, store, depot::Options::default());
    Ok(tokio::spawn(async move { depot.serve(listener, shutdown_requested()).await }))
}

/// The key of sessions: 32 bytes, or 64 hexadecimal digits.
fn session_key(path: &PathBuf) -> anyhow::Result<[u8; 32]> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Ok(key) = <[u8; 32]>::try_from(bytes.as_slice()) {
        return Ok(key);
    }
    let text = String::from_utf8_lossy(&bytes);
    let digits: Option<Vec<u8>> =
        text.trim().chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    match digits {
        Some(digits) if digits.len() == 64 => {
            let mut key = [0; 32];
            for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
                *byte = pair[0] << 4 | pair[1];
            }
            Ok(key)
        }
        _ => bail!("{} must hold 32 bytes or 64 hexadecimal digits", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_key_is_32_bytes_or_64_digits() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |content: &[u8]| {
            fs::write(file.path(), content).unwrap();
            session_key(&file.path().to_owned()).ok()
        };
        assert_eq!(read(&[7; 32]), Some([7; 32]));
        assert_eq!(read(format!("{}\n", "0a".repeat(32)).as_bytes()), Some([10; 32]));
        assert_eq!(read(b"short"), None);
    }
}
