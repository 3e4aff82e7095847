//! Starts the platform in one process: API server, definitions, workload controllers, node, and our own controllers.
//!
//! A start either succeeds completely or leaves nothing running.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use apiserver::{ApiServer, Storage};
use depot::Depot;
use domain::run::retention::LogLimits;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _};
use node::{Engine, ImageMap, Isolation, Node, NodeOptions, ServiceForwarding};
use sha2::{Digest as _, Sha256};
use store::{Directory, Retention, Store};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use workloads::{Settings, Workloads, this_node};

use crate::{
    credentials, definitions,
    kubelet::NodeKubelet,
    state_dir::{self, StateDir},
};

const NODE: &str = "local";
/// Default port of the API server.
pub const API_PORT: u16 = 7443;
/// Directory of the store in the state directory.
pub const STORE: &str = "store";
/// Where earlier versions kept the logs of Tasks.
pub const LOGS: &str = "logs";
/// Tasks that our controllers reconcile concurrently.
const CONCURRENCY: usize = 32;
/// How long Pods have to terminate when the platform stops; then they are killed.
const POD_GRACE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// Keep objects in memory only.
    pub in_memory: bool,
    /// Port of the API server; 0 for any free one. `None` for [`API_PORT`] or, if it is taken, any free one.
    pub api_port: Option<u16>,
    /// An additional file to write the kubeconfig to.
    pub kubeconfig: Option<PathBuf>,
    /// Run unknown images with the programs of this machine.
    pub host_images: bool,
    /// Podman or Docker, to run containers from real images.
    pub engine: Option<Engine>,
    /// The executable of this program, as mounted into containers.
    pub program: PathBuf,
    /// The executable of OpenCode, if there is one on this machine.
    pub opencode: Option<PathBuf>,
    /// Maximum size of an archived log, in bytes.
    pub log_limit: u64,
    /// Which archived logs are removed.
    pub log_limits: LogLimits,
    /// How much of artefacts and caches is kept.
    pub retention: Retention,
}

/// Errors of a start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on port {port} of 127.0.0.1 ({source}): choose another one with --api-port")]
    Port { port: u16, source: io::Error },
    #[error(transparent)]
    State(#[from] state_dir::Error),
    #[error(transparent)]
    ApiServer(#[from] apiserver::Error),
    /// The message includes the causes.
    #[error("{}", chain(.0))]
    Node(node::Error),
    /// The kubeconfig file belongs to another program.
    #[error("{} exists and is not a kubeconfig of kubeopencode: choose another file with --kubeconfig", .0.display())]
    KubeconfigTaken(PathBuf),
    #[error(transparent)]
    Definitions(#[from] definitions::Error),
    #[error(transparent)]
    Store(#[from] store::OpenError),
    #[error("the objects cannot be read: {0}")]
    Identity(#[source] kube::Error),
    #[error("cannot start the workload controllers: {0}")]
    Workloads(#[source] kube::Error),
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A running platform.
pub struct Platform {
    client: Client,
    address: SocketAddr,
    kubeconfig: PathBuf,
    kubeconfig_text: String,
    moved: bool,
    server: JoinHandle<()>,
    controllers: JoinHandle<()>,
    workloads: Workloads,
    node: Arc<Node>,
    forwarding: ServiceForwarding,
    store: Store,
    depot: JoinHandle<()>,
    page_host: String,
    stop_controllers: watch::Sender<bool>,
    stop_server: watch::Sender<bool>,
}

impl Platform {
    /// Starts everything. Returns when kubectl can be used.
    pub async fn start(state: &StateDir, options: Options) -> Result<Self, Error> {
        // The most frequent error first, while nothing runs yet.
        let (listener, moved) = listen(options.api_port).await?;
        let address = listener.local_addr().map_err(|source| Error::Port { port: API_PORT, source })?;
        if let Some(file) = &options.kubeconfig {
            refuse_foreign(file)?;
        }
        let objects = state.path().join("api");
        let storage = if options.in_memory { Storage::Memory } else { Storage::Directory(objects) };
        let Networks { pods: network, services: service_addresses } = Networks::of(state.path());
        let api = ApiServer::open(apiserver::Options { storage, service_addresses }).await?;
        let kubeconfig = state.path().join("kubeconfig");
        let kubeconfig_text = api.kubeconfig(address)?;
        for file in [Some(&kubeconfig), options.kubeconfig.as_ref()].into_iter().flatten() {
            match api.write_kubeconfig(file, address) {
                // On a full disk that of an earlier start stays; it is valid for the same port.
                Err(error) if file.exists() => tracing::warn!("{error}; the earlier kubeconfig stays"),
                written => written?,
            }
        }
        let client = api.client();
        let hash_file = (!options.in_memory).then(|| state.path().join("definitions.sha256"));
        definitions::install(&client, hash_file.as_deref()).await?;
        // Connections wait in the listener until now, so our kinds are served from the first request on. If anything
        // below fails, dropping `stop_server` stops the server.
        let (stop_server, server_stopped) = watch::channel(false);
        let server = tokio::spawn(serve(api.clone(), listener, server_stopped));

        let store = open_store(state.path(), options.log_limit).await?.with_retention(options.retention);
        bind(&store, &client).await?;
        let (depot_listener, depot_url) = depot_listener().await?;
        let settings = Settings { node: NODE.to_owned(), certificate_authority: api.authority().to_owned() };
        let images = ImageMap::ours(&options.program, options.opencode.as_deref()).host_images(options.host_images);
        let mut hidden: Vec<PathBuf> = credentials::of_machine().into_iter().collect();
        hidden.push(state.path().to_owned());
        hidden.extend(options.kubeconfig.clone());
        let engine = options.engine;
        let runs_images = engine.is_some();
        let runtime = engine.as_ref().map(Engine::version);
        let node_root = state.path().join("node");
        let node_directory = node_root.to_string_lossy().into_owned();
        let node_options = NodeOptions { images, hidden, network, engine, ..NodeOptions::new(NODE, node_root) };
        // Before anything that would have to be stopped: the kernel may not permit what the node needs.
        let node = Node::start(client.clone(), node_options).await.map_err(Error::Node)?;
        let workloads = Workloads::start(client.clone(), settings).await.map_err(Error::Workloads)?;
        if let Some(runtime) = runtime {
            this_node::set_runtime(&client, NODE, &runtime).await.map_err(Error::Workloads)?;
        }
        let node = Arc::new(node);
        api.attach_node(Arc::new(NodeKubelet(Arc::downgrade(&node))));
        let forwarding = ServiceForwarding::start(client.clone());
        let (stop_controllers, controllers_stopped) = watch::channel(false);
        let places = Places { depot_url, node_directory, runs_images };
        let controllers =
            tokio::spawn(control(client.clone(), store.clone(), options.log_limits, places, controllers_stopped));
        let depot = Depot::new(client.clone(), store.clone(), depot::Options::default());
        let depot = tokio::spawn(keep_results(depot, depot_listener, stop_server.subscribe()));
        let kubeconfig = options.kubeconfig.unwrap_or(kubeconfig);
        Ok(Self {
            client,
            address,
            kubeconfig,
            kubeconfig_text,
            moved,
            server,
            controllers,
            workloads,
            node,
            forwarding,
            store,
            depot,
            page_host: page_host(&api.derive_secret("host name of the page")),
            stop_controllers,
            stop_server,
        })
    }

    /// An in-process client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the default port was taken.
    pub fn moved(&self) -> bool {
        self.moved
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The content of the kubeconfig.
    pub(crate) fn kubeconfig_text(&self) -> &str {
        &self.kubeconfig_text
    }

    /// Where logs, records and results of runs are kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Host name of the page. Containers must not learn it.
    pub fn page_host(&self) -> &str {
        &self.page_host
    }

    pub fn isolation(&self) -> &Isolation {
        self.node.isolation()
    }

    /// Stops everything, Pods included. All state is on disk already.
    pub async fn stop(self) {
        let Self { server, controllers, workloads, node, forwarding, depot, stop_controllers, stop_server, .. } = self;
        // Controllers first: they would replace terminated Pods.
        stop_controllers.send_replace(true);
        if controllers.await.is_err() {
            tracing::warn!("the controller task failed");
        }
        workloads.stop().await;
        if let Some(node) = Arc::into_inner(node) {
            node.shutdown(POD_GRACE).await;
        } else {
            // A request still holds the node; dropping it kills all Pods.
            tracing::warn!("the node is busy: Pods are killed without a grace period");
        }
        drop(forwarding);
        stop_server.send_replace(true);
        if depot.await.is_err() {
            tracing::warn!("the depot task failed");
        }
        if server.await.is_err() {
            tracing::warn!("the API server task failed");
        }
    }
}

/// A name below `localhost`, which browsers resolve to this machine without asking DNS. It is the same after a restart,
/// so that addresses in the history of a browser work.
fn page_host(secret: &[u8; 32]) -> String {
    let label = secret.iter().take(10).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("{label:020x}.localhost")
}

/// The loopback addresses of Pods and Services. They are derived from the path of the state directory: a platform keeps
/// them across restarts, and two platforms on one machine rarely collide.
#[derive(Debug, PartialEq, Eq)]
struct Networks {
    pods: (Ipv4Addr, u8),
    /// First address of the Service range.
    services: Ipv4Addr,
}

impl Networks {
    fn of(state: &Path) -> Self {
        let digest = Sha256::digest(state.as_os_str().as_encoded_bytes());
        // 127.16 to 127.127 for Pods, 128 higher for Services, sixteen platforms per second octet.
        let (second, third) = (16 + digest[0] % 112, digest[1] & 0xf0);
        Self { pods: (Ipv4Addr::new(127, second, third, 0), 20), services: Ipv4Addr::new(127, second + 112, third, 1) }
    }
}

async fn serve(api: ApiServer, listener: TcpListener, stop: watch::Receiver<bool>) {
    if let Err(error) = api.serve(listener, stopped(stop)).await {
        tracing::error!(%error, "the API server failed");
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Without a sender no stop request can come; the process is exiting.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A listener for the depot, and the URL at which Pods reach it. Pods end with the platform, so any port will do.
async fn depot_listener() -> Result<(TcpListener, String), Error> {
    let failed = |source| Error::Port { port: 0, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let url = format!("http://{}", listener.local_addr().map_err(failed)?);
    Ok((listener, url))
}

async fn keep_results(depot: Depot, listener: TcpListener, stop: watch::Receiver<bool>) {
    if let Err(error) = depot.serve(listener, stopped(stop)).await {
        tracing::error!(%error, "the depot failed");
    }
}

/// Opens the store of a state directory, and moves what an earlier version left in files there.
async fn open_store(state: &Path, log_limit: u64) -> Result<Store, Error> {
    let store = Store::directory(&state.join(STORE))?.with_log_limit(log_limit);
    let files = state.join(LOGS);
    if files.is_dir() {
        match take_over(&store, &files).await {
            Ok(tasks) => tracing::info!(tasks, "moved the logs of an earlier version into the store"),
            // Tried again at the next start, for example when the disk has space again.
            Err(error) => tracing::warn!(%error, "logs of an earlier version cannot be read now"),
        }
    }
    Ok(store)
}

/// Binds the store to the objects beside it. Where these are not those of the store, as after one of both was restored,
/// what the store has is kept as a copy, instead of being removed with the Tasks that are not there.
async fn bind(store: &Store, client: &Client) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let cluster = namespaces.get("kube-system").await.map_err(Error::Identity)?.uid().unwrap_or_default();
    match store.move_to(&cluster).await {
        Ok(false) => {}
        Ok(true) => tracing::warn!("the store has results of Tasks of another cluster; they stay until they expire"),
        // The disk may be full; nothing is removed from there either.
        Err(error) => tracing::warn!(%error, "it is not known whether the store belongs to these objects"),
    }
    Ok(())
}

async fn take_over(store: &Store, files: &Path) -> Result<usize, store::Error> {
    let tasks = store.take_over(&Directory::open(files)?).await?;
    // Fails, as intended, if anything else is there.
    let _ = std::fs::remove_dir(files);
    Ok(tasks)
}

/// What the controllers must know about this process.
struct Places {
    depot_url: String,
    node_directory: String,
    /// Whether containers are made from images.
    runs_images: bool,
}

/// Runs our own controllers, configured for Pod addresses and Services on loopback.
async fn control(client: Client, store: Store, log_limits: LogLimits, places: Places, stop: watch::Receiver<bool>) {
    let environment = move |name: &str| match name {
        domain::contract::environment::ADDRESSING => Some("Local".to_owned()),
        domain::contract::environment::DEPOT_URL => Some(places.depot_url.clone()),
        domain::contract::environment::RUNS_IMAGES => Some(places.runs_images.to_string()),
        domain::contract::environment::NODE_DIRECTORY => Some(places.node_directory.clone()),
        name => std::env::var(name).ok(),
    };
    let options = controller::Options {
        listen: None,
        lease_namespace: None,
        concurrency: CONCURRENCY,
        environment: Arc::new(environment),
        log_archive: Some(Arc::new(store)),
        log_limits,
        // The embedded API server checks the authors of Tasks.
        task_secrets: domain::task_secrets::Checked::Elsewhere,
    };
    if let Err(error) = controller::run(client, options, stopped(stop)).await {
        tracing::error!(%error, "the controllers failed");
    }
}

/// A listener, and whether the default port was taken.
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

/// Refuses to overwrite a kubeconfig that is not ours.
fn refuse_foreign(file: &Path) -> Result<(), Error> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(()) };
    let config = kube::config::Kubeconfig::from_yaml(&text);
    let ours = config.is_ok_and(|config| config.clusters.iter().all(|cluster| cluster.name == "kubeopencode"));
    if ours { Ok(()) } else { Err(Error::KubeconfigTaken(file.to_owned())) }
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
        // This process or another one on this machine uses it; either way it is taken.
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
    fn a_foreign_kubeconfig_is_not_overwritten() {
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
