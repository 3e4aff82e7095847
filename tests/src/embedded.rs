//! The embedded API server, reached over HTTPS like any other.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::Context as _;
use apiserver::Options;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

/// An embedded API server with its objects in memory. It ends when this is dropped.
pub struct Embedded {
    api: apiserver::ApiServer,
    address: SocketAddr,
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
        Ok(Self { api, address, runtime: Some(runtime) })
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
