//! `kubeopencode controller`.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use clap::ValueEnum;
use controller::{Options, http::Addresses};

/// Arguments of `kubeopencode controller`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to serve `/metrics`.
    #[arg(long, default_value = ":8080", value_parser = address, env = "KUBEOPENCODE_METRICS_ADDRESS")]
    metrics_bind_address: SocketAddr,
    /// Where to serve `/healthz` and `/readyz`.
    #[arg(long, default_value = ":8081", value_parser = address, env = "KUBEOPENCODE_HEALTH_ADDRESS")]
    health_probe_bind_address: SocketAddr,
    /// Work only while holding the leader lease. Needed as soon as two controllers may run at once.
    #[arg(long)]
    leader_elect: bool,
    /// Namespace of the lease; the Pod's own, or `kubeopencode-system`.
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubeopencode-system")]
    leader_elect_namespace: String,
    /// Tasks that are worked on at once.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Form of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "KUBEOPENCODE_LOG_FORMAT")]
    log_format: LogFormat,
    /// What to log, such as `info` or `kubeopencode_controller=debug`.
    #[arg(long, default_value = "info", env = "KUBEOPENCODE_LOG")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Runs the controllers until SIGTERM or SIGINT, or until the lease is lost.
pub async fn run(args: Args) -> anyhow::Result<()> {
    start_log(&args)?;
    let config =
        kube::Config::infer().await.context("no cluster: neither KUBECONFIG, ~/.kube/config nor a Pod's own")?;
    let client = kube::Client::try_from(config).context("the cluster's configuration cannot be used")?;
    let options = Options {
        listen: Some(Addresses { metrics: args.metrics_bind_address, health: args.health_probe_bind_address }),
        lease_namespace: args.leader_elect.then_some(args.leader_elect_namespace),
        concurrency: args.concurrency.max(1),
        environment: Arc::new(pod::env::process),
    };
    controller::run(client, options, async {
        // Without handlers the default action of the signal ends the process, which is as good.
        if pod::stop::requested().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
    .await?;
    Ok(())
}

fn start_log(args: &Args) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log).context("--log cannot be read")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// `HOST:PORT`, or `:PORT` for every address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    full.parse().map_err(|_| "write HOST:PORT or :PORT, such as 127.0.0.1:8080".to_owned())
}
