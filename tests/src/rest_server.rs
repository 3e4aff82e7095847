//! The real server as a process of its own: the REST API, and the depot of Pods.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    controller::Reachable,
    daemon::{Daemon, binary},
};

/// The store that a controller and a server share.
#[derive(Clone, Debug)]
pub struct Storage {
    /// URL of the database.
    pub records: String,
    /// Directory of the blobs.
    pub blobs: PathBuf,
    /// URL at which Pods reach the depot; for the controller.
    pub depot: Option<String>,
}

impl Storage {
    /// The variables that name it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("KUBEOPENCODE_STORE_RECORDS", self.records.clone()),
            ("KUBEOPENCODE_STORE_BLOBS", self.blobs.display().to_string()),
        ];
        variables.extend(self.depot.clone().map(|depot| ("KUBEOPENCODE_DEPOT_URL", depot)));
        variables
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct RestServer {
    /// Where it serves the REST API.
    pub address: SocketAddr,
    /// Where it serves the depot.
    pub depot: SocketAddr,
    _daemon: Daemon,
}

impl RestServer {
    /// Starts a server of `cluster` at free ports of `host`, and returns when it serves.
    pub async fn start(
        cluster: &impl Reachable,
        host: impl Into<IpAddr>,
        storage: &Storage,
        program: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(match program {
            Some(program) => program,
            None => binary().await?,
        });
        let free = SocketAddr::new(host.into(), 0).to_string();
        command.args(["server", "--log-format=json", "--address", &free, "--depot-listen", &free]);
        command.env("KUBECONFIG", cluster.kubeconfig_path()).envs(storage.environment());
        let daemon = Daemon::start(command)?;
        let depot = daemon.serving("depot").await?;
        let address = daemon.serving("address").await?;
        Ok(Self { address, depot, _daemon: daemon })
    }
}
