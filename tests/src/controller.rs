//! The real controller as a process of its own.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use testenv::Cluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

pub use crate::daemon::binary;
use crate::daemon::{Daemon, LIMIT};

/// A cluster that other processes reach.
pub trait Reachable {
    /// A kubeconfig for an administrator.
    fn kubeconfig_path(&self) -> &Path;
}

impl Reachable for Cluster {
    fn kubeconfig_path(&self) -> &Path {
        Cluster::kubeconfig_path(self)
    }
}

/// How to start it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Dies at this place; see `failpoint.rs` of the controller.
    pub failpoint: Option<&'static str>,
    /// Works only while it holds the lease, under this name.
    pub leader: Option<&'static str>,
    /// Reaches the API server at another address than the cluster's.
    pub kubeconfig: Option<PathBuf>,
    /// Keeps logs and records in this directory.
    pub archive: Option<PathBuf>,
    /// Uses Secrets that Tasks name without a check of its own.
    pub unchecked_task_secrets: bool,
    /// Has these environment variables too.
    pub variables: Vec<(&'static str, String)>,
    /// Is this program, instead of one that is built first.
    pub program: Option<PathBuf>,
}

/// A controller that runs.
#[derive(Debug)]
pub struct Controller {
    daemon: Daemon,
    metrics: SocketAddr,
    health: SocketAddr,
}

impl Deref for Controller {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl Controller {
    /// Starts a controller of `cluster`, and returns when it serves its health.
    pub async fn start(cluster: &impl Reachable, options: Options) -> anyhow::Result<Self> {
        let mut command = Command::new(match &options.program {
            Some(program) => program,
            None => binary().await?,
        });
        command.args(["controller", "--log-format=json", "--log=info,kubeopencode_controller=debug"]);
        command.args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]);
        let kubeconfig = options.kubeconfig.as_deref().unwrap_or(cluster.kubeconfig_path());
        command.env("KUBECONFIG", kubeconfig).env_remove("KUBEOPENCODE_FAILPOINT");
        // The registries and repositories of tests are on this machine.
        command.env("KUBEOPENCODE_ALLOW_LOOPBACK", "true");
        if let Some(place) = options.failpoint {
            command.env("KUBEOPENCODE_FAILPOINT", place);
        }
        if let Some(archive) = &options.archive {
            command.arg("--log-archive").arg(archive);
        }
        command.envs(options.variables);
        if options.unchecked_task_secrets {
            command.arg("--unchecked-task-secrets");
        }
        if let Some(name) = options.leader {
            command.args(["--leader-elect", "--leader-elect-namespace=default"]).env("POD_NAME", name);
        }
        let daemon = Daemon::start(command)?;
        let metrics = daemon.serving("metrics").await?;
        let health = daemon.serving("health").await?;
        Ok(Self { daemon, metrics, health })
    }

    /// Its metrics page: headers and lines.
    pub async fn numbers(&self) -> anyhow::Result<String> {
        get(self.metrics, "/metrics").await
    }

    /// The status code of a probe, such as `200`.
    pub async fn probe(&self, path: &str) -> anyhow::Result<String> {
        let answer = get(self.health, path).await?;
        Ok(answer.split_whitespace().nth(1).context("no answer")?.to_owned())
    }

    /// How many writes the controller sent so far, by verb and resource. Events about objects are not counted.
    pub async fn writes(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let page = self.numbers().await?;
        let mut writes = BTreeMap::new();
        for line in page.lines() {
            let Some(rest) = line.strip_prefix("kubeopencode_api_writes_total{") else { continue };
            let (labels, count) = rest.split_once("} ").context("a line of /metrics has no value")?;
            if !labels.contains("resource=\"events\"") {
                writes.insert(labels.to_owned(), count.parse()?);
            }
        }
        Ok(writes)
    }

    /// Whether it leads.
    pub async fn leads(&self) -> anyhow::Result<bool> {
        Ok(self.numbers().await?.lines().any(|line| line == "kubeopencode_leading 1"))
    }
}

async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    tokio::time::timeout(LIMIT, exchange).await.context("the controller does not answer")?
}
