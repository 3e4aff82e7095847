//! A way to the API server that can be cut.

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
struct Way {
    open: bool,
    cuts: u64,
}

/// Forwards connections to an API server until it is stopped.
pub struct Proxy {
    way: watch::Sender<Way>,
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
        let way = watch::Sender::new(Way { open: true, cuts: 0 });
        let seen = way.subscribe();
        let worker = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, server.clone(), seen.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { way, worker, dir })
    }

    /// A kubeconfig that leads through here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Cuts every connection. New ones get through.
    pub fn cut(&self) {
        self.way.send_modify(|way| way.cuts += 1);
    }

    /// Cuts every connection, and lets none through.
    pub fn close(&self) {
        self.way.send_modify(|way| *way = Way { open: false, cuts: way.cuts + 1 });
    }

    /// Lets new connections through.
    pub fn open(&self) {
        self.way.send_modify(|way| way.open = true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn forward(mut client: TcpStream, server: String, mut way: watch::Receiver<Way>) {
    let Way { open, cuts } = *way.borrow();
    if !open {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = way.wait_for(|way| way.cuts > cuts) => {}
    }
}
