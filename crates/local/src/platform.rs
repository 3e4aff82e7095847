//! The platform, put together: API server, definitions, workload controllers, node, and our own controllers, in one
//! process.
//!
//! Either everything starts or nothing stays: whatever fails takes down what had started before it.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use apiserver::{ApiServer, Storage};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::PostParams,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use node::{Engine, ImageMap, Isolation, Node, NodeOptions, ServiceForwarding};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::LogArchive;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    kubelet::NodeOfThisMachine,
    state_dir::{self, StateDir},
    workloads::{Settings, Workloads, this_node},
};

/// Name of the node.
const NODE: &str = "local";
/// Where the API server listens unless somebody says otherwise.
pub const API_PORT: u16 = 7443;
/// Where logs are kept, in the state directory.
pub const LOGS: &str = "logs";
/// Tasks that our controllers work on at once.
const CONCURRENCY: usize = 32;
/// How long Pods have to end when the platform stops; those that take longer are killed.
const POD_GRACE: Duration = Duration::from_secs(10);
/// A definition is in force at once; a machine that is busy was never seen to need a second.
const DEFINITION_LIMIT: Duration = Duration::from_secs(20);

/// How to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep objects in memory only.
    pub in_memory: bool,
    /// Port of the API server; 0 is any free one. Without one, [`API_PORT`] or, if that is taken, any free one.
    pub api_port: Option<u16>,
    /// Another file to write the kubeconfig to.
    pub kubeconfig: Option<PathBuf>,
    /// Run images that are not known with the programs of this machine.
    pub host_images: bool,
    /// Podman or Docker, if it runs containers from real images.
    pub engine: Option<Engine>,
    /// This program, as containers get it.
    pub program: PathBuf,
    /// OpenCode, if it is on this machine.
    pub opencode: Option<PathBuf>,
}

/// Why the platform did not start. Each text is one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is taken.
    #[error("port {port} of 127.0.0.1 cannot be used ({source}): name another one with --api-port")]
    Port {
        /// Which one.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] state_dir::Error),
    /// The API server does not start.
    #[error(transparent)]
    ApiServer(#[from] apiserver::Error),
    /// The node does not start.
    #[error("{}", chain(.0))]
    Node(#[from] node::Error),
    /// A kubeconfig would overwrite somebody's own.
    #[error("{} exists and is not a kubeconfig of kubeopencode: name another file with --kubeconfig", .0.display())]
    KubeconfigTaken(PathBuf),
    /// The definitions of our kinds cannot be installed.
    #[error("the definition {name} cannot be installed: {why}")]
    Definition {
        /// Which one.
        name: String,
        /// Why.
        why: kube::Error,
    },
    /// The API server did not take a definition into use.
    #[error("the definition {0} did not come into force")]
    NotEstablished(String),
    /// The log archive cannot be used.
    #[error(transparent)]
    LogArchive(#[from] store::Error),
    /// The workload controllers do not start.
    #[error("the workload controllers cannot start: {0}")]
    Workloads(#[source] kube::Error),
}

/// An error and what it came from, as one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A platform that runs.
pub struct Platform {
    client: Client,
    address: SocketAddr,
    kubeconfig: PathBuf,
    moved: bool,
    server: JoinHandle<()>,
    controllers: JoinHandle<()>,
    workloads: Workloads,
    node: Arc<Node>,
    forwarding: ServiceForwarding,
    log_archive: Arc<dyn LogArchive>,
    /// True for our controllers.
    stop_controllers: watch::Sender<bool>,
    /// True for the API server.
    stop_server: watch::Sender<bool>,
}

impl Platform {
    /// Starts everything. Returns when kubectl can be used.
    pub async fn start(state: &StateDir, options: Options) -> Result<Self, Error> {
        // What most often fails comes first, while nothing runs yet.
        let (listener, moved) = listen(options.api_port).await?;
        let address = listener.local_addr().map_err(|source| Error::Port { port: API_PORT, source })?;
        if let Some(file) = &options.kubeconfig {
            refuse_foreign(file)?;
        }
        let log_archive: Arc<dyn LogArchive> = Arc::new(store::Directory::open(&state.path().join(LOGS))?);
        let objects = state.path().join("api");
        let storage = if options.in_memory { Storage::Memory } else { Storage::Directory(objects) };
        let Networks { pods: network, services: service_addresses } = Networks::of(state.path());
        let api = ApiServer::open(apiserver::Options { storage, service_addresses }).await?;
        let kubeconfig = state.path().join("kubeconfig");
        api.write_kubeconfig(&kubeconfig, address)?;
        if let Some(file) = &options.kubeconfig {
            api.write_kubeconfig(file, address)?;
        }
        let client = api.client();
        let noted = (!options.in_memory).then(|| state.path().join("definitions.sha256"));
        install(&client, noted.as_deref()).await?;
        let settings = Settings { node: NODE.to_owned(), certificate_authority: api.authority().to_owned() };
        let workloads = Workloads::start(client.clone(), settings).await.map_err(Error::Workloads)?;
        let images = ImageMap::ours(&options.program, options.opencode.as_deref()).host_images(options.host_images);
        let hidden = vec![state.path().to_owned()];
        let node_root = state.path().join("node");
        let engine = options.engine;
        if let Some(engine) = &engine {
            this_node::run_by(&client, NODE, &engine.version()).await.map_err(Error::Workloads)?;
        }
        let node_options = NodeOptions { images, hidden, network, engine, ..NodeOptions::new(NODE, node_root) };
        let node = Arc::new(Node::start(client.clone(), node_options).await?);
        api.attach_node(Arc::new(NodeOfThisMachine(Arc::downgrade(&node))));
        let forwarding = ServiceForwarding::start(client.clone());

        let (stop_controllers, controllers_stopped) = watch::channel(false);
        let controllers = tokio::spawn(control(client.clone(), Arc::clone(&log_archive), controllers_stopped));
        let (stop_server, server_stopped) = watch::channel(false);
        let server = tokio::spawn(async move {
            if let Err(error) = api.serve(listener, stopped(server_stopped)).await {
                tracing::error!(%error, "the API server does not serve");
            }
        });
        let kubeconfig = options.kubeconfig.unwrap_or(kubeconfig);
        Ok(Self {
            client,
            address,
            kubeconfig,
            moved,
            server,
            controllers,
            workloads,
            node,
            forwarding,
            log_archive,
            stop_controllers,
            stop_server,
        })
    }

    /// A client in this process that is allowed everything.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where the API server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the usual port was taken, so that it is another one.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// The file that kubectl needs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where logs are kept.
    pub fn log_archive(&self) -> Arc<dyn LogArchive> {
        Arc::clone(&self.log_archive)
    }

    /// What keeps containers apart.
    pub fn isolation(&self) -> &Isolation {
        self.node.isolation()
    }

    /// Stops everything, Pods included. What is kept is on disk already.
    pub async fn stop(self) {
        let Self { server, controllers, workloads, node, forwarding, stop_controllers, stop_server, .. } = self;
        // First those who would answer the end of Pods with new ones.
        stop_controllers.send_replace(true);
        if controllers.await.is_err() {
            tracing::warn!("the controllers ended badly");
        }
        workloads.stop().await;
        if let Some(node) = Arc::into_inner(node) {
            node.shutdown(POD_GRACE).await;
        } else {
            // A request holds it for a moment more, and its end ends all Pods at once.
            tracing::warn!("the node is busy; Pods end without grace");
        }
        drop(forwarding);
        stop_server.send_replace(true);
        if server.await.is_err() {
            tracing::warn!("the API server ended badly");
        }
    }
}

/// The loopback addresses of Pods and Services. They follow from the state directory: a platform that starts again keeps
/// them, and two on one machine hardly ever share any.
#[derive(Debug, PartialEq, Eq)]
struct Networks {
    pods: (Ipv4Addr, u8),
    /// The first one.
    services: Ipv4Addr,
}

impl Networks {
    fn of(state: &Path) -> Self {
        let digest = Sha256::digest(state.as_os_str().as_encoded_bytes());
        // 127.16 to 127.127 for Pods, the same above 127.128 for Services, sixteen platforms in each.
        let (second, third) = (16 + digest[0] % 112, digest[1] & 0xf0);
        Self { pods: (Ipv4Addr::new(127, second, third, 0), 20), services: Ipv4Addr::new(127, second + 112, third, 1) }
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Without a sender nobody will ever ask; then the process itself is at its end.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Our own controllers, for a platform where servers listen on Pod addresses and Services have loopback ones.
async fn control(client: Client, log_archive: Arc<dyn LogArchive>, stop: watch::Receiver<bool>) {
    let environment = |name: &str| match name {
        "KUBEOPENCODE_ADDRESSING" => Some("Local".to_owned()),
        name => std::env::var(name).ok(),
    };
    let options = controller::Options {
        listen: None,
        lease_namespace: None,
        concurrency: CONCURRENCY,
        environment: Arc::new(environment),
        log_archive: Some(log_archive),
    };
    if let Err(error) = controller::run(client, options, stopped(stop)).await {
        tracing::error!(%error, "the controllers ended");
    }
}

/// A listener, and whether the usual port was taken.
async fn listen(port: Option<u16>) -> Result<(TcpListener, bool), Error> {
    let wanted = port.unwrap_or(API_PORT);
    match TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await {
        Ok(listener) => Ok((listener, false)),
        Err(_) if port.is_none() => {
            let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            Ok((any.map_err(|source| Error::Port { port: wanted, source })?, true))
        }
        Err(source) => Err(Error::Port { port: wanted, source }),
    }
}

/// Only a kubeconfig of ours is written over.
fn refuse_foreign(file: &Path) -> Result<(), Error> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(()) };
    let config = kube::config::Kubeconfig::from_yaml(&text);
    let ours = config.is_ok_and(|config| config.clusters.iter().all(|cluster| cluster.name == "kubeopencode"));
    if ours { Ok(()) } else { Err(Error::KubeconfigTaken(file.to_owned())) }
}

/// Installs the definitions of our kinds. `noted` remembers which were installed last: a start must not take long.
async fn install(client: &Client, noted: Option<&Path>) -> Result<(), Error> {
    let definitions = api::crds();
    let mut hasher = Sha256::new();
    for definition in &definitions {
        hasher.update(definition.to_string());
    }
    let hash = format!("{:x}", hasher.finalize());
    if noted.is_some_and(|noted| std::fs::read_to_string(noted).is_ok_and(|found| found == hash)) {
        return Ok(());
    }
    let mut making = JoinSet::new();
    for definition in definitions {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        // Reading a schema is work for a processor, so each is a task of its own.
        making.spawn(async move { define(&api, &definition).await });
    }
    for made in making.join_all().await {
        made?;
    }
    if let Some(noted) = noted {
        // It is only a shortcut: without the note they are installed again next time.
        let _ = std::fs::write(noted, hash);
    }
    Ok(())
}

/// Makes one definition as it is given, and waits until it is in force.
async fn define(api: &Api<CustomResourceDefinition>, definition: &Value) -> Result<(), Error> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let failed = |why| Error::Definition { name: name.to_owned(), why };
    let mut wanted: CustomResourceDefinition =
        serde_json::from_value(definition.clone()).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    // Not applied: comparing the owners of a thousand fields takes longer than everything else at a start.
    match api.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let there = api.get_metadata(name).await.map_err(failed)?;
            wanted.metadata.resource_version = there.metadata.resource_version;
            api.replace(name, &PostParams::default(), &wanted).await.map_err(failed)?;
        }
        other => drop(other.map_err(failed)?),
    }
    let established = await_condition(api.clone(), name, is_crd_established());
    match timeout(DEFINITION_LIMIT, established).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(Error::NotEstablished(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_usual_port_may_be_taken_but_a_named_one_may_not() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen(Some(port)).await.unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--api-port"), "{error}");
        let usual = TcpListener::bind((Ipv4Addr::LOCALHOST, API_PORT)).await;
        let (listener, moved) = listen(None).await.unwrap();
        // Whether we or somebody else on this machine has it: it is taken.
        assert!(moved && listener.local_addr().unwrap().port() != API_PORT, "{usual:?}");
    }

    #[test]
    fn two_platforms_on_one_machine_have_their_own_addresses() {
        let one = Networks::of(Path::new("/home/one/.kubeopencode"));
        assert_eq!(one, Networks::of(Path::new("/home/one/.kubeopencode")));
        assert_ne!(one, Networks::of(Path::new("/home/two/.kubeopencode")));
        assert!(one.pods.0.is_loopback() && one.services.is_loopback());
    }

    #[test]
    fn a_kubeconfig_of_somebody_else_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        refuse_foreign(&file).unwrap();
        let with = |name: &str| {
            format!("{{apiVersion: v1, kind: Config, clusters: [{{name: {name}, cluster: {{server: 'https://x'}}}}]}}")
        };
        std::fs::write(&file, with("kubeopencode")).unwrap();
        refuse_foreign(&file).unwrap();
        for text in [with("production"), "notes".to_owned()] {
            std::fs::write(&file, text).unwrap();
            assert!(refuse_foreign(&file).unwrap_err().to_string().contains("--kubeconfig"));
        }
    }
}
