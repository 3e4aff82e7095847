//! A real Kubernetes for tests, on a plain Linux machine, from package registries only.
//!
//! ```no_run
//! # async fn example() -> Result<(), testenv::Error> {
//! let cluster = testenv::shared().await?; // one for all tests of this binary
//! let namespace = cluster.namespace().await?; // one for each test
//! let client = cluster.client().await?; // created on the runtime of this test
//! # let _ = (namespace, client); Ok(()) }
//! ```
//!
//! There are two levels. A *control plane* is etcd, kube-apiserver, kube-controller-manager and kube-scheduler: it needs
//! no privileges, listens on the loopback interface only, and serves to test everything that the API decides: defaulting,
//! validation, RBAC, watches, garbage collection, quotas. A *node* adds a kubelet with containerd, kube-proxy and CoreDNS
//! in namespaces of their own: it needs root, and serves to test running Pods.
//!
//! # Which cluster
//! [`control_plane`], [`node`], [`shared`] and [`shared_node`] look for one in this order:
//! 1. `KUBECONFIG` is set: that cluster is used, and left running.
//! 2. `KUBEBUILDER_ASSETS` is set, or the binaries are in the cache: a new cluster is started from them.
//! 3. Otherwise the missing binaries are built into the cache first, once, which takes minutes and is announced on
//!    standard error.
//!
//! [`start`] takes [`Options`] and never uses `KUBECONFIG`: special options need a cluster of their own.
//! If something is missing (Go, root), the error explains how to get it and the test fails; nothing is
//! skipped.
//!
//! # Guarantees
//! - When the process that started a cluster ends, even by a kill, its processes end too, and its directory, mounts,
//!   routes and network interfaces are gone a moment later.
//! - No packet of a cluster leaves the machine.
//! - Every wait has a limit; its error names the component and shows the end of its log.
//! - Any number of control planes can run side by side, also from several processes. Nodes take turns.
//!
//! # Environment variables
//! | name | meaning |
//! |---|---|
//! | `KUBECONFIG` | use this cluster instead of starting one |
//! | `KUBEBUILDER_ASSETS` | directory with binaries that are preferred to those in the cache |
//! | `XDG_CACHE_HOME` | where the cache is, `~/.cache` if not set |

mod assets;
mod back_ends;
mod cargo;
mod certs;
mod cluster;
mod control_plane;
mod error;
mod node;
mod packages;
mod process;
mod tool;

pub mod image;
pub mod json;
pub mod runner;

pub use assets::{Error as AssetsError, Program, VERSION, cache};
pub use back_ends::{Bucket, Postgres};
pub use cargo::cargo;
pub use cluster::{Cluster, Options};
pub use error::Error;
pub use node::{Error as NodeError, HOST_ADDRESS};
pub use process::Error as ProcessError;
pub use tool::Error as ToolError;

use tokio::sync::OnceCell;

/// A control plane with all its controllers, or the cluster of `KUBECONFIG`.
pub async fn control_plane() -> Result<Cluster, Error> {
    obtain(Options::default()).await
}

/// A control plane and a node that runs Pods, or the cluster of `KUBECONFIG`.
pub async fn node() -> Result<Cluster, Error> {
    obtain(Options::with_node()).await
}

/// The [`control_plane`] that all tests of this process share. The first caller starts it; it ends with the process.
pub async fn shared() -> Result<&'static Cluster, Error> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(control_plane).await
}

/// The [`node`] that all tests of this process share. The first caller starts it; it ends with the process.
pub async fn shared_node() -> Result<&'static Cluster, Error> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    SHARED.get_or_try_init(node).await
}

/// Manifests of admission policies as the API server of [`Options::with_policies`] knows them.
pub fn beta(policies: &str) -> String {
    policies.replace("admissionregistration.k8s.io/v1\n", "admissionregistration.k8s.io/v1beta1\n")
}

/// Starts a cluster of one's own.
pub async fn start(options: Options) -> Result<Cluster, Error> {
    Cluster::start(options).await
}

/// Finds or makes everything that a cluster with `options` is started from, and returns without starting it.
pub async fn prepare(options: &Options) -> Result<(), Error> {
    cluster::prepare(options).await
}

async fn obtain(options: Options) -> Result<Cluster, Error> {
    match Cluster::from_environment().await? {
        Some(cluster) => Ok(cluster),
        None => Cluster::start(options).await,
    }
}
