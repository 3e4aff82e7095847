//! Logging, cluster and listen addresses of long-running commands.

use std::{io::IsTerminal as _, net::SocketAddr};

use anyhow::Context as _;
use clap::ValueEnum;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Log format of a process.
#[derive(Debug, clap::Args)]
pub struct Log {
    /// Form of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "KUBEOPENCODE_LOG_FORMAT")]
    log_format: LogFormat,
    /// What to log, such as `info` or `kubeopencode_server=debug`.
    #[arg(long, default_value = "info", env = "KUBEOPENCODE_LOG")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Log {
    /// Starts to log to standard error.
    pub fn start(&self) -> anyhow::Result<()> {
        log(&self.log, matches!(self.log_format, LogFormat::Json))
    }
}

/// Starts logging to standard error with these filter directives, in colours on a terminal.
pub fn log(filter: &str, json: bool) -> anyhow::Result<()> {
    let filter: Targets = filter.parse().context("--log cannot be read")?;
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_ansi(colours).with_writer(std::io::stderr);
    if json {
        log.json().finish().with(filter).try_init()?;
    } else {
        log.finish().with(filter).try_init()?;
    }
    Ok(())
}

/// `HOST:PORT`, or `:PORT` for every address.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    full.parse().map_err(|_| "write HOST:PORT or :PORT, such as 127.0.0.1:8080".to_owned())
}

/// The cluster of `KUBECONFIG`, of `~/.kube/config`, or of the Pod in which the process runs.
pub async fn cluster_config() -> anyhow::Result<kube::Config> {
    kube::Config::infer().await.context("no cluster: neither KUBECONFIG, ~/.kube/config nor a Pod's own")
}

/// Returns on SIGTERM or SIGINT.
pub async fn shutdown_requested() {
    // Without handlers the default action of the signal ends the process, which is acceptable.
    if pod::stop::requested().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_is_every_address() {
        assert_eq!(address(":80").unwrap().to_string(), "[::]:80");
        assert_eq!(address("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert!(address("80").is_err() && address("localhost:80").is_err());
    }
}
