//! The web page and the REST API for the owner of this machine.
//!
//! The server reaches the API server through its kubeconfig, as any client: a request with a token has the rights of
//! that token and no others. The owner logs in with a single-use link. The page has a host name of its own: browsers send
//! a cookie to every port of a host, and containers can listen on ports of 127.0.0.1.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use server::{Access, Listening, LoginLinks};
use tokio::{sync::watch, task::JoinHandle};

use crate::platform::Platform;

/// Default port of the page.
pub const PORT: u16 = 2746;

/// Errors of the page. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on port {port} of 127.0.0.1: choose another one with --port")]
    Port { port: u16 },
    #[error("cannot read the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("cannot serve the web page: {0}")]
    Server(#[from] server::Error),
}

/// A running web server.
pub struct Page {
    address: SocketAddr,
    moved: bool,
    links: LoginLinks,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Page {
    /// Serves the page of a platform. Without a `port`, on [`PORT`] or, if it is taken, on any free one.
    pub async fn start(platform: &Platform, port: Option<u16>) -> Result<Self, Error> {
        let config = Kubeconfig::from_yaml(platform.kubeconfig_text())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let wanted = port.unwrap_or(PORT);
        let bind = |port| Listening::bind(Access::Config(Box::new(config.clone())), options(port, platform));
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
                // Without a sender no stop request can come; the process is exiting.
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            if let Err(error) = listening.serve(stopped).await {
                tracing::error!(%error, "the web server failed");
            }
        });
        Ok(Self { address, moved, links, stop, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the default port was taken.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// A single-use link that logs in the owner of this machine.
    pub fn login_link(&self) -> Result<String, Error> {
        Ok(self.links.issue()?)
    }

    /// Issues such links.
    pub fn login_links(&self) -> LoginLinks {
        self.links.clone()
    }

    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.server.await.is_err() {
            tracing::warn!("the web server task failed");
        }
    }
}

fn options(port: u16, platform: &Platform) -> server::Options {
    server::Options {
        environment: |name| match name {
            domain::contract::environment::ADDRESSING => Some("Local".to_owned()),
            name => std::env::var(name).ok(),
        },
        log_archive: Some(Arc::new(platform.store().clone())),
        results: Some(platform.store().clone()),
        page_host: Some(platform.page_host().to_owned()),
        ..server::Options::local((Ipv4Addr::LOCALHOST, port).into())
    }
}
