//! A control plane as our controllers find it: Kubernetes' own, or the embedded one.
//!
//! Both are reached over HTTPS by a kubeconfig, so that a client cannot distinguish them.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use testenv::{Cluster, Program};
use tokio::time::{Instant, sleep};

use crate::{
    controller::Reachable,
    embedded::{self, Embedded},
    install,
    server::Remote,
};

/// The `default` ServiceAccount is there in milliseconds; a machine that is busy with builds needs longer.
const ACCOUNT_LIMIT: Duration = Duration::from_mins(1);

/// Which API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The one of Kubernetes.
    Real,
    /// Our own, of `kubeopencode up`.
    Embedded,
}

/// Controllers beside ours. There is no scheduler: the stub kubelet binds Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// None: every write is the case's or our controllers'.
    None,
    /// kube-controller-manager, or the workload controllers of `kubeopencode up`.
    Workloads,
}

/// A control plane that knows our kinds. It ends when this is dropped.
pub struct ControlPlane {
    running: Running,
    url: String,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
}

enum Running {
    Real(Box<Cluster>),
    Embedded(Embedded),
}

impl ControlPlane {
    /// Starts one, and returns when it serves our kinds.
    pub async fn start(server: Server, others: Others) -> anyhow::Result<Self> {
        let plane = match server {
            Server::Real => {
                let controller_manager = others == Others::Workloads;
                let options = testenv::Options { controller_manager, ..testenv::Options::api_only() };
                let cluster = testenv::start(options).await?;
                Self {
                    url: cluster.url().to_owned(),
                    kubeconfig: cluster.kubeconfig_path().to_owned(),
                    kubectl: cluster.kubectl().to_owned(),
                    running: Running::Real(Box::new(cluster)),
                }
            }
            Server::Embedded => {
                let embedded = match others {
                    Others::None => Embedded::start().await?,
                    Others::Workloads => Embedded::start_with_workloads().await?,
                };
                Self {
                    url: format!("https://{}", embedded.address()),
                    kubeconfig: embedded.kubeconfig_path(),
                    kubectl: tokio::task::spawn_blocking(|| Program::Kubectl.obtain()).await??,
                    running: Running::Embedded(embedded),
                }
            }
        };
        install::install(&Remote::new(plane.client().await?)).await?;
        Ok(plane)
    }

    /// Where the API server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new client for an administrator, which belongs to the runtime that it is made on.
    pub async fn client(&self) -> anyhow::Result<Client> {
        match &self.running {
            Running::Real(cluster) => Ok(cluster.client().await?),
            Running::Embedded(_) => embedded::client(&self.kubeconfig).await,
        }
    }

    /// A kubectl command for an administrator, not yet run.
    pub fn kubectl_command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig).args(args);
        command
    }

    /// Makes a namespace with a name of its own in which Pods can be created at once.
    pub async fn namespace(&self) -> anyhow::Result<String> {
        let embedded = match &self.running {
            Running::Real(cluster) => return Ok(cluster.namespace().await?),
            Running::Embedded(embedded) => embedded,
        };
        let client = self.client().await?;
        let metadata = ObjectMeta { generate_name: Some("test-".to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespace = Api::all(client.clone()).create(&PostParams::default(), &namespace).await?.name_any();
        let accounts = Api::<ServiceAccount>::namespaced(client, &namespace);
        let started = Instant::now();
        while embedded.has_workloads() && accounts.get_opt("default").await?.is_none() {
            ensure!(started.elapsed() < ACCOUNT_LIMIT, "{namespace} has no ServiceAccount after {ACCOUNT_LIMIT:?}");
            sleep(Duration::from_millis(20)).await;
        }
        Ok(namespace)
    }
}

impl Reachable for ControlPlane {
    fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }
}
