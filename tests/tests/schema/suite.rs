//! Fixture of this suite: API servers with our kinds, and a namespace for each test.

use std::{
    ffi::OsStr,
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use blackbox::{
    embedded::{self, Embedded},
    install,
    server::Remote,
};
use kube::config::Kubeconfig;
use tempfile::TempDir;
use testenv::{Cluster, Options, Program};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Which API server a case runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The one of Kubernetes.
    Real,
    /// Our own, of `kubeopencode up`.
    Embedded,
}

impl Server {
    /// How many levels of JSON it reads: "Depth of JSON" in docs/local-differences.md.
    pub const fn deepest(self) -> usize {
        match self {
            Self::Real => 10_000,
            Self::Embedded => 400,
        }
    }
}

/// Makes of every case, a function of a [`Server`], one test on each.
macro_rules! on_every_server {
    ($($case:ident),+ $(,)?) => {
        mod real {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() -> anyhow::Result<()> {
                super::$case($crate::suite::Server::Real).await
            })+
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() -> anyhow::Result<()> {
                super::$case($crate::suite::Server::Embedded).await
            })+
        }
    };
}
pub(crate) use on_every_server;

/// An API server, and a namespace on it that no other test uses.
pub struct Suite {
    pub server: Remote,
    which: Server,
    pub namespace: String,
    kubectl: PathBuf,
    /// With a kubeconfig and kubectl's cache.
    directory: TempDir,
    /// The server, if no other test uses it.
    _own: Option<Own>,
}

/// A server that ends with its test.
enum Own {
    Real(#[expect(dead_code, reason = "held, so that it lives")] Box<Cluster>),
    Embedded(#[expect(dead_code, reason = "held, so that it lives")] Embedded),
}

impl Suite {
    /// On the server that all tests share, which serves our kinds.
    pub async fn start(server: Server) -> anyhow::Result<Self> {
        match server {
            Server::Real => {
                static INSTALLED: OnceCell<()> = OnceCell::const_new();
                let cluster = testenv::shared().await?;
                let suite = Self::on_cluster(cluster, cluster.namespace().await?).await?;
                INSTALLED.get_or_try_init(|| install::install(&suite.server)).await?;
                Ok(suite)
            }
            Server::Embedded => {
                static SHARED: OnceCell<Embedded> = OnceCell::const_new();
                static INSTALLED: OnceCell<()> = OnceCell::const_new();
                static COUNT: AtomicUsize = AtomicUsize::new(1);
                let embedded = SHARED.get_or_try_init(Embedded::start).await?;
                let namespace = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
                let suite = Self::on_embedded(embedded, namespace).await?;
                INSTALLED.get_or_try_init(|| install::install(&suite.server)).await?;
                install::namespace(&suite.server, &suite.namespace).await?;
                Ok(suite)
            }
        }
    }

    /// On a server of its own, which does not know our kinds yet, in the namespace `default`.
    pub async fn alone(server: Server) -> anyhow::Result<Self> {
        let namespace = "default".to_owned();
        Ok(match server {
            Server::Real => {
                let cluster = testenv::start(Options::api_only()).await?;
                let suite = Self::on_cluster(&cluster, namespace).await?;
                Self { _own: Some(Own::Real(Box::new(cluster))), ..suite }
            }
            Server::Embedded => {
                let embedded = Embedded::start().await?;
                let suite = Self::on_embedded(&embedded, namespace).await?;
                Self { _own: Some(Own::Embedded(embedded)), ..suite }
            }
        })
    }

    async fn on_cluster(cluster: &Cluster, namespace: String) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        fs::copy(cluster.kubeconfig_path(), directory.path().join("config"))?;
        let server = Remote::new(cluster.client().await?);
        Ok(Self {
            server,
            which: Server::Real,
            namespace,
            kubectl: cluster.kubectl().to_owned(),
            directory,
            _own: None,
        })
    }

    async fn on_embedded(embedded: &Embedded, namespace: String) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let config = directory.path().join("config");
        embedded.write_kubeconfig(&config)?;
        let server = Remote::new(embedded::client(&config).await?);
        let kubectl = tokio::task::spawn_blocking(|| Program::Kubectl.obtain()).await??;
        Ok(Self { server, which: Server::Embedded, namespace, kubectl, directory, _own: None })
    }

    /// A case that stores the only KubeOpenCodeConfig of the server holds this lock meanwhile.
    pub async fn alone_with_the_config(&self) -> MutexGuard<'static, ()> {
        static REAL: Mutex<()> = Mutex::const_new(());
        static EMBEDDED: Mutex<()> = Mutex::const_new(());
        match self.which {
            Server::Real => REAL.lock().await,
            Server::Embedded => EMBEDDED.lock().await,
        }
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        Ok(Kubeconfig::read_from(self.directory.path().join("config"))?)
    }

    /// The kubectl of this suite.
    pub fn kubectl(&self) -> &PathBuf {
        &self.kubectl
    }

    /// Makes kubectl use this server and this namespace.
    pub fn select<'a>(&self, command: &'a mut Command) -> anyhow::Result<&'a mut Command> {
        let config = self.directory.path().join("selected");
        if !config.exists() {
            fs::copy(self.directory.path().join("config"), &config)?;
            let select = ["config", "set-context", "--current", "--namespace", &self.namespace];
            run(Command::new(&self.kubectl).args(select).env("KUBECONFIG", &config))?;
        }
        Ok(command.env("KUBECONFIG", config).env("KUBECACHEDIR", self.directory.path().join("cache")))
    }
}

/// The output of kubectl in the suite's namespace, or its error output.
pub fn kubectl(suite: &Suite, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> anyhow::Result<String> {
    run(suite.select(Command::new(&suite.kubectl).args(args))?)
}

/// The standard output of a command that must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(String::from_utf8(output.stdout)?)
}
