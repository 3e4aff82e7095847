//! An embedded Kubernetes-compatible API server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kubeopencode_apiserver::{ApiServer, Options, Storage};
//! let server = ApiServer::open(Options { storage: Storage::Memory, ..Options::default() }).await?;
//! let client = server.client(); // in this process, without sockets, allowed everything
//! # let _ = client; Ok(()) }
//! ```
//!
//! It stores objects, validates, versions and watches them, and says who may do what. Nothing here makes objects true:
//! controllers and nodes are clients like any other. What kubectl, kube-rs and client-go need of a real kube-apiserver
//! behaves the same, down to the texts of refusals.
//!
//! # Invariants
//! - A write that was acknowledged is on disk. Nobody sees a write before that.
//! - Revisions only grow, also across restarts; a watch delivers every change after its revision once, in order, or says
//!   that it cannot (410 Gone).
//! - Objects are JSON from end to end: one table of kinds and generic verbs, no handler for a kind where a row suffices.

mod api;
mod auth;
mod body;
mod client;
mod http;
mod kinds;
mod kubelet;
mod refusal;
mod request;
mod store;
mod streams;
mod verbs;

pub use kubelet::{Attach, Exec, Exit, Kubelet, KubeletError, LogRequest, PortStream, Streams, TerminalSize};

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;

use api::Api;

/// Where objects are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In this process, until it ends.
    #[default]
    Memory,
    /// In a directory that this process alone uses while it runs.
    Directory(PathBuf),
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where objects are kept.
    pub storage: Storage,
    /// The first address for Services. The others follow it within the same 16 bits.
    pub service_addresses: Ipv4Addr,
}

impl Default for Options {
    fn default() -> Self {
        Self { storage: Storage::default(), service_addresses: Ipv4Addr::new(127, 96, 0, 1) }
    }
}

/// Why a server cannot be started, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Cause);

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Store(#[from] store::DiskError),
    #[error(transparent)]
    Keys(#[from] auth::PkiError),
    #[error("the objects that every server has cannot be created: {0}")]
    Bootstrap(String),
}

/// A running API server. It lives as long as it, or a client of it, is held.
#[derive(Clone)]
pub struct ApiServer {
    api: Arc<Api>,
}

impl ApiServer {
    /// Opens the storage and makes sure that the objects are there which every server has.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let api = Api::open(options).await?;
        Ok(Self { api })
    }

    /// A client in this process that is allowed everything. No sockets are involved.
    pub fn client(&self) -> kube::Client {
        client::in_process(Arc::clone(&self.api))
    }

    /// Serves HTTPS on `listener` until `shutdown` is ready; then ends every connection.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let config = self.api.pki.server_config().map_err(Cause::Keys)?;
        http::serve(Arc::clone(&self.api), listener, config, shutdown).await;
        Ok(())
    }

    /// Writes a kubeconfig for an administrator who reaches the server at `address`, such as `127.0.0.1:6443`.
    pub fn write_kubeconfig(&self, file: &Path, address: impl std::fmt::Display) -> Result<(), Error> {
        let config = self.api.pki.kubeconfig(&format!("https://{address}")).map_err(Cause::Keys)?;
        Ok(auth::write_private(file, config.as_bytes()).map_err(Cause::Keys)?)
    }

    /// The certificate that clients trust, PEM; Pods get it as `ca.crt`.
    pub fn authority(&self) -> &str {
        self.api.pki.authority_pem()
    }

    /// Sets who runs Pods: logs, exec, attach and port-forward are passed on.
    pub fn attach_node(&self, node: Arc<dyn Kubelet>) {
        self.api.attach_node(node);
    }
}
