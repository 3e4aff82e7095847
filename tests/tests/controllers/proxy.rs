//! A proxy to the API server whose connections can be cut.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use blackbox::{control_plane::ControlPlane, controller::Reachable as _};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// Whether connections get through, and how often all of them were cut.
#[derive(Clone, Copy)]
struct ConnectionState {
    open: bool,
    cuts: u64,
}

/// Forwards connections to an API server until it is stopped.
pub struct Proxy {
    state: watch::Sender<ConnectionState>,
    worker: JoinHandle<()>,
    dir: TempDir,
}

impl Proxy {
    pub async fn start(cluster: &ControlPlane) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = cluster.url().strip_prefix("https://").context("the API server has no address")?;
        let server = server.trim_end_matches('/').to_owned();
        let dir = tempfile::tempdir()?;
        let config = fs::read_to_string(cluster.kubeconfig_path())?.replace(&server, &address.to_string());
        fs::write(dir.path().join("kubeconfig"), config)?;
        let state = watch::Sender::new(ConnectionState { open: true, cuts: 0 });
        let updates = state.subscribe();
        let worker = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, server.clone(), updates.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { state, worker, dir })
    }

    /// A kubeconfig that leads through this proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Cuts every connection. New ones get through.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Cuts every connection, and lets none through.
    pub fn close(&self) {
        self.state.send_modify(|state| *state = ConnectionState { open: false, cuts: state.cuts + 1 });
    }

    /// Lets new connections through.
    pub fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn forward(mut client: TcpStream, server: String, mut state: watch::Receiver<ConnectionState>) {
    let ConnectionState { open, cuts } = *state.borrow();
    if !open {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = state.wait_for(|state| state.cuts > cuts) => {}
    }
}
