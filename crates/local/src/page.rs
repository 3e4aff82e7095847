//! The page and the REST API, for the owner of this machine.
//!
//! It reaches the API server as everybody does, by its kubeconfig: a caller who comes with a token has the rights of that
//! token and no others. The owner comes with a link that works once.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use server::{Access, Listening, LoginLinks};
use store::Archive;
use tokio::{sync::watch, task::JoinHandle};

/// Where the page is unless somebody says otherwise.
pub const PORT: u16 = 2746;

/// Why there is no page. Each text is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is taken.
    #[error("port {port} of 127.0.0.1 cannot be used: name another one with --port")]
    Port {
        /// Which one.
        port: u16,
    },
    /// Our own kubeconfig cannot be read.
    #[error("the kubeconfig cannot be read: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The server does not start.
    #[error("the page cannot be served: {0}")]
    Server(#[from] server::Error),
}

/// A page that is served.
pub struct Page {
    address: SocketAddr,
    moved: bool,
    links: LoginLinks,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Page {
    /// Serves the page of the platform that `kubeconfig` reaches. Without a `port`, at [`PORT`] or, if that is taken, at
    /// any free one.
    pub async fn start(kubeconfig: &Path, port: Option<u16>, log_archive: Arc<dyn Archive>) -> Result<Self, Error> {
        let config = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let wanted = port.unwrap_or(PORT);
        let bind =
            |port| Listening::bind(Access::Config(Box::new(config.clone())), options(port, Arc::clone(&log_archive)));
        let (listening, moved) = match bind(wanted).await {
            Ok(listening) => (listening, false),
            Err(server::Error::Listen { .. }) if port.is_none() => (bind(0).await?, true),
            Err(server::Error::Listen { .. }) => return Err(Error::Port { port: wanted }),
            Err(error) => return Err(error.into()),
        };
        let (address, links) = (listening.address(), listening.login_links());
        let (stop, mut stopped) = watch::channel(false);
        let server = tokio::spawn(async move {
            let stopped = async move {
                // Without a sender nobody will ever ask; then the process itself is at its end.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            if let Err(error) = listening.serve(stopped).await {
                tracing::error!(%error, "the page is no longer served");
            }
        });
        Ok(Self { address, moved, links, stop, server })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the usual port was taken, so that it is another one.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// A link that logs in the owner of this machine, once.
    pub fn login_link(&self) -> Result<String, Error> {
        Ok(self.links.issue()?)
    }

    /// Ends it.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.server.await.is_err() {
            tracing::warn!("the page ended badly");
        }
    }
}

fn options(port: u16, log_archive: Arc<dyn Archive>) -> server::Options {
    server::Options {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        metrics: None,
        base_url: None,
        anonymous: false,
        anonymous_write: false,
        cors_allowed_origins: Vec::new(),
        // One person's browser and scripts.
        requests_per_second: 0,
        concurrent_requests: 0,
        trusted_proxies: Vec::new(),
        session_key: None,
        agents_on_loopback: true,
        environment: |name| match name {
            "KUBEOPENCODE_ADDRESSING" => Some("Local".to_owned()),
            name => std::env::var(name).ok(),
        },
        log_archive: Some(log_archive),
    }
}
