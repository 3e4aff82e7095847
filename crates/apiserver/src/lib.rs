//! An embedded Kubernetes-compatible API server.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kubeopencode_apiserver::{ApiServer, Options, Storage};
//! let server = ApiServer::open(Options { storage: Storage::Memory, ..Options::default() }).await?;
//! let client = server.client(); // in-process, with all rights
//! # let _ = client; Ok(()) }
//! ```
//!
//! The server stores, validates, versions and watches objects, and authorizes requests. It contains no controllers:
//! controllers and nodes are clients like any other. What kubectl, kube-rs and client-go need of kube-apiserver behaves
//! the same, down to the error messages.
//!
//! # Invariants
//! - An acknowledged write is on disk, and no write is visible before that.
//! - Revisions only grow, also across restarts; a watch delivers every change after its revision once and in order, or
//!   fails with 410 Gone.
//! - Objects are JSON from end to end: one table of kinds and generic verbs, no handler for a kind where a row
//!   suffices.

mod api;
mod auth;
mod body;
mod client;
mod http;
mod kinds;
mod kubelet;
mod request;
mod status_error;
mod store;
mod streams;
mod verbs;

pub use kubelet::{Attach, Exec, Exit, Kubelet, KubeletError, LogRequest, PortStream, Streams, TerminalSize};

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;

use api::Api;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// In memory, until the process ends.
    #[default]
    Memory,
    /// In a directory that this process locks while it runs.
    Directory(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub storage: Storage,
    /// An address of the Service network, a /20. Services can have no other addresses.
    pub service_addresses: Ipv4Addr,
}

impl Default for Options {
    fn default() -> Self {
        Self { storage: Storage::default(), service_addresses: Ipv4Addr::new(127, 96, 0, 1) }
    }
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Cause);

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Store(#[from] store::DiskError),
    #[error(transparent)]
    Keys(#[from] auth::PkiError),
    #[error("cannot create the default objects: {0}")]
    Bootstrap(String),
}

/// A running API server. Lives as long as a clone or a client of it.
#[derive(Clone)]
pub struct ApiServer {
    api: Arc<Api>,
}

impl ApiServer {
    /// Opens the storage and creates the default objects.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let api = Api::open(options).await?;
        Ok(Self { api })
    }

    /// An in-process client with all rights. No sockets are involved.
    pub fn client(&self) -> kube::Client {
        client::in_process(Arc::clone(&self.api))
    }

    /// Serves HTTPS on `listener` until `shutdown` resolves; then closes every connection.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let config = self.api.pki.server_config().map_err(Cause::Keys)?;
        http::serve(Arc::clone(&self.api), listener, config, http::Limits::of_process(), shutdown).await;
        Ok(())
    }

    /// A kubeconfig for an administrator who reaches the server at `address`, such as `127.0.0.1:6443`.
    pub fn kubeconfig(&self, address: impl std::fmt::Display) -> Result<String, Error> {
        Ok(self.api.pki.kubeconfig(&format!("https://{address}")).map_err(Cause::Keys)?)
    }

    /// Writes such a kubeconfig to a file that only this user can read.
    pub fn write_kubeconfig(&self, file: &Path, address: impl std::fmt::Display) -> Result<(), Error> {
        Ok(auth::write_private(file, self.kubeconfig(address)?.as_bytes()).map_err(Cause::Keys)?)
    }

    /// The CA certificate in PEM; Pods get it as `ca.crt`.
    pub fn authority(&self) -> &str {
        self.api.pki.authority_pem()
    }

    /// A secret for one purpose. It stays the same while the storage exists, and differs between storages.
    pub fn derive_secret(&self, purpose: &str) -> [u8; 32] {
        self.api.pki.derive(purpose)
    }

    /// Sets the node that serves logs, exec, attach and port-forward.
    pub fn attach_node(&self, node: Arc<dyn Kubelet>) {
        self.api.attach_node(node);
    }
}
