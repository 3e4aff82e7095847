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
        Ok(Self { cluster, server, namespace: cluster.namespace().await?, kubectl: TempDir::new()? })
    }

    /// Makes kubectl use this cluster and this namespace, whoever starts it.
    pub fn select<'a>(&self, command: &'a mut Command) -> anyhow::Result<&'a mut Command> {
        let config = self.kubectl.path().join("config");
        if !config.exists() {
            fs::copy(self.cluster.kubeconfig_path(), &config)?;
            let select = ["config", "set-context", "--current", "--namespace", &self.namespace];
            run(self.cluster.kubectl_command(select).env("KUBECONFIG", &config))?;
        }
        Ok(command.env("KUBECONFIG", config).env("KUBECACHEDIR", self.kubectl.path()))
    }
}

/// Whoever stores the one KubeOpenCodeConfig of the cluster holds this meanwhile.
pub async fn alone_with_the_config() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// What kubectl prints in the suite's namespace; an error with what it complains about if it fails.
pub fn kubectl(suite: &Suite, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> anyhow::Result<String> {
    run(suite.select(&mut suite.cluster.kubectl_command(args))?)
}

/// The standard output of a command that must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}
