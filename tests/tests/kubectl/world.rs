//! A namespace on a server, and a shell in which kubectl uses it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use blackbox::{
    control_plane::{ControlPlane, Others, Server},
    controller::Reachable as _,
    embedded,
};
use kube::Client;
use tempfile::TempDir;
use testenv::Program;
use tokio::{process::Command, sync::OnceCell};

use crate::{platform::Platform, scratch::Scratch};

/// A namespace that no other case uses.
pub struct World {
    /// Its name.
    pub namespace: String,
    kubectl: PathBuf,
    /// Where commands run; with a kubeconfig that selects the namespace.
    directory: TempDir,
    /// kubectl's discovery cache, for all cases.
    memory: PathBuf,
}

impl World {
    /// On an API server without nodes.
    pub async fn on(server: Server) -> anyhow::Result<Self> {
        static REAL: OnceCell<ControlPlane> = OnceCell::const_new();
        static EMBEDDED: OnceCell<ControlPlane> = OnceCell::const_new();
        let (cell, name) = if server == Server::Real { (&REAL, "real") } else { (&EMBEDDED, "embedded") };
        let plane = cell.get_or_try_init(|| ControlPlane::start(server, Others::Workloads)).await?;
        Self::new(plane.kubeconfig_path(), plane.namespace().await?, name).await
    }

    /// On `kubeopencode up`, with its node.
    pub async fn on_a_platform() -> anyhow::Result<Self> {
        let platform = Platform::shared().await?;
        Self::new(platform.kubeconfig(), platform.namespace().await?, "platform").await
    }

    async fn new(kubeconfig: &Path, namespace: String, server: &str) -> anyhow::Result<Self> {
        let scratch = Scratch::shared()?;
        let directory = tempfile::Builder::new().prefix("case-").tempdir_in(scratch.path())?;
        let memory = scratch.path().join(server);
        fs::copy(kubeconfig, directory.path().join("kubeconfig"))?;
        let kubectl = tokio::task::spawn_blocking(|| Program::Kubectl.obtain()).await??;
        let world = Self { namespace, kubectl, directory, memory };
        let select = ["config", "set-context", "--current", "--namespace", &world.namespace];
        let selected = world.kubectl(&select).output().await?;
        anyhow::ensure!(selected.status.success(), "{}", String::from_utf8_lossy(&selected.stderr));
        Ok(world)
    }

    /// The directory in which commands run.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client for the administrator.
    pub async fn client(&self) -> anyhow::Result<Client> {
        embedded::client(&self.directory.path().join("kubeconfig")).await
    }

    /// kubectl in this namespace.
    pub fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = self.program(&self.kubectl);
        command.args(args);
        command
    }

    /// The output of kubectl, if it succeeds.
    pub async fn kubectl_output(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.kubectl(args).output().await?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "kubectl {args:?}: {complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Makes objects of a manifest.
    pub async fn create(&self, manifest: &str) -> anyhow::Result<()> {
        let file = tempfile::NamedTempFile::new_in(self.directory())?;
        fs::write(file.path(), manifest)?;
        let name = file.path().to_str().context("a path that is no text")?;
        self.kubectl_output(&["create", "--filename", name]).await?;
        Ok(())
    }

    /// A line of a shell which finds this kubectl.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = self.program(Path::new("sh"));
        command.args(["-u", "-c", line]);
        command
    }

    /// A program whose kubectl, if it has one, uses this namespace.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let usual = env::var_os("PATH").unwrap_or_default();
        let path = self.kubectl.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&usual));
        command
            .current_dir(self.directory.path())
            .env("PATH", env::join_paths(path).unwrap_or_default())
            .env("KUBECONFIG", self.directory.path().join("kubeconfig"))
            .env("KUBECACHEDIR", &self.memory)
            .env("HOME", self.directory.path())
            .env("TMPDIR", self.directory.path())
            .env("NAMESPACE", &self.namespace)
            .env("EXAMPLES", blackbox::cases::repository("examples"))
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("EDITOR")
            .env_remove("KUBE_EDITOR")
            .kill_on_drop(true);
        command
    }
}
