//! `kubeopencode controller`.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use controller::{Options, http::Addresses};
use domain::task_secrets::Checked;
use store::Archive;

use crate::{
    log_archive::{LogArchiveArg, LogLimitArgs},
    process::{Log, address, cluster_config, shutdown_requested},
    retention_args::RetentionArgs,
    store_args::StoreArgs,
};

/// Arguments of `kubeopencode controller`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to serve `/metrics`.
    #[arg(long, default_value = ":8080", value_parser = address, env = "KUBEOPENCODE_METRICS_ADDRESS")]
    metrics_bind_address: SocketAddr,
    /// Serve `/metrics` over TLS, with a self-signed certificate.
    #[arg(long)]
    metrics_secure: bool,
    /// Accepted for compatibility; `/metrics` is served over HTTP/1.1 only.
    #[arg(long = "enable-http2")]
    _enable_http2: bool,
    /// Where to serve `/healthz` and `/readyz`.
    #[arg(long, default_value = ":8081", value_parser = address, env = "KUBEOPENCODE_HEALTH_ADDRESS")]
    health_probe_bind_address: SocketAddr,
    /// Work only while holding the leader lease. Needed as soon as two controllers may run at once.
    #[arg(long)]
    leader_elect: bool,
    /// Namespace of the lease; the Pod's own, or `kubeopencode-system`.
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubeopencode-system")]
    leader_elect_namespace: String,
    /// Maximum of concurrent Task passes.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
    /// Let Tasks use Secrets without the label kubeopencode.io/allow-tasks=true although the cluster lacks the policy of
    /// deploy/admission/task-secrets.yaml. Only where everyone who creates Tasks may read every Secret.
    #[arg(long)]
    unchecked_task_secrets: bool,
    #[command(flatten)]
    log_archive: LogArchiveArg,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    log_limits: LogLimitArgs,
    #[command(flatten)]
    retention: RetentionArgs,
    #[command(flatten)]
    log: Log,
}

/// Runs the controllers until SIGTERM or SIGINT, or until the lease is lost.
pub async fn run(args: Args) -> anyhow::Result<()> {
    args.log.start()?;
    let config = cluster_config().await?;
    let client = kube::Client::try_from(config).context("the cluster's configuration cannot be used")?;
    let log_archive: Option<Arc<dyn Archive>> = match args.store.open(&client).await? {
        Some(store) => {
            Some(Arc::new(store.with_log_limit(args.log_limits.of_run()).with_retention(args.retention.retention())))
        }
        None => args.log_archive.open_limited(args.log_limits.of_run())?,
    };
    let options = Options {
        listen: Some(Addresses {
            metrics: args.metrics_bind_address,
            metrics_tls: args.metrics_secure,
            health: args.health_probe_bind_address,
        }),
        lease_namespace: args.leader_elect.then_some(args.leader_elect_namespace),
        concurrency: args.concurrency.max(1),
        environment: Arc::new(pod::env::process),
        log_archive,
        log_limits: args.log_limits.of_archive(),
        task_secrets: if args.unchecked_task_secrets { Checked::Elsewhere } else { Checked::Policy },
    };
    controller::run(client, options, shutdown_requested()).await?;
    Ok(())
}
