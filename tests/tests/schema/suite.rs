//! What the tests of this binary share: one API server with our kinds, and a namespace for each test.

use std::{ffi::OsStr, fs, process::Command};

use blackbox::{install, server::Remote};
use tempfile::TempDir;
use testenv::Cluster;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// An API server that serves our kinds, and a namespace on it that no other test uses.
pub struct Suite {
    pub cluster: &'static Cluster,
    pub server: Remote,
    pub namespace: String,
    kubectl: TempDir,
}

impl Suite {
    pub async fn start() -> anyhow::Result<Self> {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let cluster = testenv::shared().await?;
        let server = Remote::new(cluster.client().await?);
        INSTALLED.get_or_try_init(|| install::install(&server)).await?;
        let namespace = cluster.namespace().await?;
        let suite = Self { cluster, server, namespace, kubectl: TempDir::new()? };
        fs::copy(cluster.kubeconfig_path(), suite.kubectl.path().join("config"))?;
        kubectl(&suite, ["config", "set-context", "--current", "--namespace", &suite.namespace])?;
        Ok(suite)
    }

    /// Makes kubectl use this cluster and this namespace, whoever starts it.
    pub fn select<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("KUBECONFIG", self.kubectl.path().join("config")).env("KUBECACHEDIR", self.kubectl.path())
    }
}

/// Whoever stores the one KubeOpenCodeConfig of the cluster holds this meanwhile.
pub async fn alone_with_the_config() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// What kubectl prints in the suite's namespace; an error with what it complains about if it fails.
pub fn kubectl(suite: &Suite, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> anyhow::Result<String> {
    run(suite.select(&mut suite.cluster.kubectl_command(args)))
}

/// The standard output of a command that must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}
