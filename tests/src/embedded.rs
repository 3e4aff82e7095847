//! The embedded API server, reached over HTTPS like any other.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use apiserver::Options;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::DeleteParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};
use workloads::{Settings, Workloads};

/// The node that the workload controllers bring along.
const NODE: &str = "embedded";

/// An embedded API server with its objects in memory. It ends when this is dropped.
pub struct Embedded {
    api: apiserver::ApiServer,
    address: SocketAddr,
    /// With a kubeconfig.
    dir: TempDir,
    /// Kept, because dropping them stops them.
    workloads: Option<Workloads>,
    /// Threads of its own: a test that waits for kubectl must not keep the server from answering it.
    runtime: Option<Runtime>,
}

impl Embedded {
    /// Starts a server on a free port of the loopback interface.
    pub async fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("embedded").enable_all().build()?;
        let started = runtime.spawn(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            let api = apiserver::ApiServer::open(Options::default()).await?;
            let serving = api.clone();
            tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
            Ok::<_, anyhow::Error>((api, address))
        });
        let (api, address) = started.await?.context("the embedded API server does not start")?;
        let dir = tempfile::Builder::new().prefix("embedded-").tempdir()?;
        let embedded = Self { api, address, dir, workloads: None, runtime: Some(runtime) };
        embedded.write_kubeconfig(&embedded.kubeconfig_path())?;
        Ok(embedded)
    }

    /// The same with the workload controllers of `kubeopencode up`, and without their node: Pods are not scheduled, as
    /// on a cluster without kube-scheduler.
    pub async fn start_with_workloads() -> anyhow::Result<Self> {
        let mut embedded = Self::start().await?;
        let client = embedded.api.client();
        let settings = Settings { node: NODE.into(), certificate_authority: embedded.api.authority().to_owned() };
        let started = async move {
            let workloads = Workloads::start(client.clone(), settings).await?;
            Api::<Node>::all(client).delete(NODE, &DeleteParams::default()).await?;
            Ok::<_, kube::Error>(workloads)
        };
        let runtime = embedded.runtime.as_ref().context("it ended")?;
        embedded.workloads = Some(runtime.spawn(started).await?.context("the workload controllers do not start")?);
        Ok(embedded)
    }

    /// Whether the workload controllers run.
    pub fn has_workloads(&self) -> bool {
        self.workloads.is_some()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig for an administrator.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Writes a kubeconfig for an administrator.
    pub fn write_kubeconfig(&self, file: &Path) -> anyhow::Result<()> {
        Ok(self.api.write_kubeconfig(file, self.address)?)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Waiting for its threads would block the runtime of the test.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client for the administrator of a kubeconfig, made on the runtime of the caller.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
