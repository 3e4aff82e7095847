//! Errors of starting a cluster.

use std::fmt;
use std::net::Ipv4Addr;

use crate::{assets, image, node, process, tool};

/// A cluster could not be started or used.
#[derive(thiserror::Error)]
pub enum Error {
    /// A binary could not be found or built.
    #[error(transparent)]
    Assets(#[from] assets::Error),
    /// A program of the machine failed.
    #[error(transparent)]
    Tool(#[from] tool::Error),
    /// A component of the cluster failed or was late.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The node could not be created.
    #[error(transparent)]
    Node(#[from] node::Error),
    /// An image could not be written.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// A certificate could not be created.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The address for the API server cannot be used.
    #[error("cannot listen on {address}")]
    Address {
        /// Which.
        address: Ipv4Addr,
        /// Why.
        source: std::io::Error,
    },
    /// The kubeconfig cannot be read.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The API server refused a request or did not answer.
    #[error("the API server did not do what the harness asked")]
    Api(#[from] kube::Error),
    /// A namespace was created but stayed without its ServiceAccount.
    #[error("namespace {namespace} had no `default` ServiceAccount after {seconds} s; {explanation}")]
    NoServiceAccount {
        /// Which.
        namespace: String,
        /// How long it was waited for.
        seconds: u64,
        /// The log of the controller that should have created the ServiceAccount.
        explanation: String,
    },
    /// The work was cut short because the runtime shuts down.
    #[error("the test ended before its cluster was prepared")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// The message and its causes: what `unwrap` in a test shows, and it may hold a log of many lines.
impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")?;
        let causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source());
        causes.into_iter().try_for_each(|cause| write!(formatter, "\n  because: {cause}"))
    }
}
