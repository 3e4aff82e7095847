//! A cluster as tests see it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use crate::assets::{Program, progress};
use crate::process::Leash;
use crate::{Error, control_plane, node, packages};

/// kube-controller-manager makes the `default` ServiceAccount in milliseconds, once it runs: 3 s after the API server.
const SERVICE_ACCOUNT_LIMIT: Duration = Duration::from_mins(1);

/// The parts of a cluster. The default is a control plane with all its controllers and no node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Run kube-controller-manager. Without it nothing reconciles Deployments, Jobs and owner references, so that tests
    /// can play that part; Pods are then accepted without a ServiceAccount.
    pub controller_manager: bool,
    /// Run kube-scheduler.
    pub scheduler: bool,
    /// Run a node. Needs root.
    pub node: bool,
    /// Wait for the disk at every write, as a cluster that keeps its data does. Tests throw theirs away.
    pub durable: bool,
    /// More flags for kube-apiserver, such as `--feature-gates=...`.
    pub apiserver_flags: Vec<String>,
    /// An empty or new directory to work in, deleted at the end. Without it, a temporary one.
    pub dir: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: true,
            scheduler: true,
            node: false,
            durable: false,
            apiserver_flags: Vec::new(),
            dir: None,
        }
    }
}

impl Options {
    /// Only the API server and its store: every change of an object comes from the test.
    pub fn api_only() -> Self {
        Self { controller_manager: false, scheduler: false, ..Self::default() }
    }

    /// Lets the API server take mutating admission policies, which are on by default since Kubernetes 1.36. This one has
    /// them as a beta: see [`beta`](crate::beta).
    #[must_use]
    pub fn with_policies(mut self) -> Self {
        self.apiserver_flags.extend([
            "--feature-gates=MutatingAdmissionPolicy=true".to_owned(),
            "--runtime-config=admissionregistration.k8s.io/v1beta1=true".to_owned(),
        ]);
        self
    }

    /// Everything, and a node that runs Pods.
    pub fn with_node() -> Self {
        Self { node: true, ..Self::default() }
    }

    fn programs(&self) -> Vec<Program> {
        let mut programs = Program::CONTROL_PLANE.to_vec();
        programs.retain(|program| match program {
            Program::ControllerManager => self.controller_manager,
            Program::Scheduler => self.scheduler,
            _ => true,
        });
        if self.node {
            programs.extend(Program::NODE);
        }
        programs
    }
}

/// A running cluster. If it was started here, it ends when this is dropped or the process ends.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    kubeconfig: PathBuf,
    /// Parsed once; every client is made from a copy.
    config: Kubeconfig,
    kubectl: PathBuf,
    makes_service_accounts: bool,
    /// None for the cluster of `KUBECONFIG`.
    leash: Option<Leash>,
}

impl Cluster {
    /// Starts a cluster and returns when its API server (and its node, if it has one) is ready.
    pub(crate) async fn start(options: Options) -> Result<Self, Error> {
        if options.node {
            node::check(&options)?;
        }
        prepare(&options).await?;
        let lock = if options.node { Some(node::exclusive().await?) } else { None };
        let mut leash = Leash::new(options.dir.as_deref(), lock)?;
        if options.node {
            node::connect(&leash)?;
        }
        let plane = control_plane::start(&mut leash, &options).await?;
        let cluster = Self {
            config: Kubeconfig::read_from(&plane.kubeconfig)?,
            url: plane.url,
            kubeconfig: plane.kubeconfig,
            kubectl: Program::Kubectl.obtain()?,
            makes_service_accounts: options.controller_manager,
            leash: None,
        };
        if options.node {
            node::join(&mut leash, &plane.authority, &cluster).await?;
        }
        Ok(Self { leash: Some(leash), ..cluster })
    }

    /// The cluster of `KUBECONFIG`, if that is set.
    pub(crate) async fn from_environment() -> Result<Option<Self>, Error> {
        let Some(config) = Kubeconfig::from_env()? else { return Ok(None) };
        let kubeconfig = PathBuf::from(std::env::var_os("KUBECONFIG").unwrap_or_default());
        progress(&format!("using the cluster of KUBECONFIG={}", kubeconfig.display()));
        let url = kube::Config::from_custom_kubeconfig(config.clone(), &KubeConfigOptions::default())
            .await?
            .cluster_url
            .to_string();
        let kubectl = tokio::task::spawn_blocking(|| Program::Kubectl.obtain()).await??;
        Ok(Some(Self { url, kubeconfig, config, kubectl, makes_service_accounts: true, leash: None }))
    }

    /// Where the API server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for an administrator, complete in itself.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The directory of the cluster with the log of each component (`kube-apiserver.log`) and `ca.crt`, if it was
    /// started here.
    pub fn dir(&self) -> Option<&Path> {
        self.leash.as_ref().map(Leash::dir)
    }

    /// A new client for an administrator, without a limit on requests.
    ///
    /// Make one in each test: a client works only as long as the runtime on which it was made, and each `#[tokio::test]`
    /// has its own.
    pub async fn client(&self) -> Result<Client, Error> {
        control_plane::client(self.config.clone()).await
    }

    /// The kubectl that belongs to this cluster.
    pub fn kubectl(&self) -> &Path {
        &self.kubectl
    }

    /// A kubectl command for an administrator of this cluster, not yet run.
    pub fn kubectl_command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig).args(args);
        command
    }

    /// Makes a namespace with a name of its own in which Pods can be created at once.
    pub async fn namespace(&self) -> Result<String, Error> {
        let client = self.client().await?;
        let labels = Some([("kubeopencode.io/testenv".to_owned(), "true".to_owned())].into());
        let metadata = ObjectMeta { generate_name: Some("test-".to_owned()), labels, ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespace = Api::all(client.clone()).create(&PostParams::default(), &namespace).await?.name_any();
        if self.makes_service_accounts {
            self.service_account(client, &namespace).await?;
        }
        Ok(namespace)
    }

    async fn service_account(&self, client: Client, namespace: &str) -> Result<(), Error> {
        let accounts = Api::<ServiceAccount>::namespaced(client, namespace);
        let started = Instant::now();
        while accounts.get_opt("default").await?.is_none() {
            if started.elapsed() > SERVICE_ACCOUNT_LIMIT {
                let manager = Program::ControllerManager.name();
                return Err(Error::NoServiceAccount {
                    namespace: namespace.to_owned(),
                    seconds: SERVICE_ACCOUNT_LIMIT.as_secs(),
                    explanation: match &self.leash {
                        Some(leash) => format!("the end of the log of {manager}:\n{}", leash.log_tail(manager)),
                        None => format!("does {manager} run?"),
                    },
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Makes the image in a docker archive (see [`crate::image::archive`]) available to the Pods of the node.
    pub async fn load_image(&self, archive: &Path) -> Result<(), Error> {
        let dir = self.dir().ok_or(node::Error::NotOurs)?.to_owned();
        let archive = archive.to_owned();
        tokio::task::spawn_blocking(move || node::import(&dir, &archive)).await?
    }
}

/// Finds or makes the binaries (and packages) for `options`.
pub(crate) async fn prepare(options: &Options) -> Result<(), Error> {
    let (programs, node) = (options.programs(), options.node);
    let work = move || -> Result<(), Error> {
        for program in programs {
            program.obtain()?;
        }
        if node {
            packages::obtain()?;
        }
        Ok(())
    };
    tokio::task::spawn_blocking(work).await?
}
