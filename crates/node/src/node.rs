//! The node: watches the Pods that are bound to it and gives each a life.

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event as Watched},
    },
};
use tokio::{net::TcpStream, sync::Notify, task::JoinSet};

use crate::{
    addresses::Addresses,
    engine::{Engine, EngineError},
    events::Events,
    exec::Exec,
    facts::Machine,
    groups::{self, Groups},
    images::ImageMap,
    isolation::{self, Isolation, IsolationError},
    journal::History,
    logs::{LogOptions, stream},
    pod::{Event, Object, PodHandle, Worker},
    removal,
    runtime::Runtime,
    signals,
    volumes::memory,
};

/// Above its own grace, a shutdown waits this long for processes that were killed.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// A Pod listens on its own address, or it does not.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What a node is made of.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name: Pods with this `spec.nodeName` run here.
    pub name: String,
    /// Its directory: what Pods have in volumes, logs and records. Containers cannot see it.
    pub root: PathBuf,
    /// What stands for which image.
    pub images: ImageMap,
    /// The loopback network that Pods get their addresses from, and the length of its prefix.
    pub network: (Ipv4Addr, u8),
    /// More directories of the machine that containers cannot see.
    pub hidden: Vec<PathBuf>,
    /// Whether Pods may use hostPath volumes.
    pub host_paths: bool,
    /// Podman or Docker, if it runs the containers; then the images are its own.
    pub engine: Option<Engine>,
    /// The program that is started for containers: one that calls [`crate::container_main`] when its first argument is
    /// [`crate::CONTAINER_ARGUMENT`]. This program, unless a test says otherwise.
    pub program: PathBuf,
}

impl NodeOptions {
    /// A node with this name and directory, and no images.
    pub fn new(name: &str, root: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            root,
            images: ImageMap::default(),
            network: (Ipv4Addr::new(127, 80, 0, 0), 16),
            hidden: Vec::new(),
            host_paths: false,
            engine: None,
            // Also when the file was replaced by a newer version meanwhile.
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// Why a node does not start, or cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its directory cannot be used.
    #[error("cannot use {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not allow what it needs.
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    /// Podman or Docker cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// There is no such Pod here.
    #[error("pods {name:?} not found")]
    NoPod {
        /// Its name.
        name: String,
    },
    /// The Pod has no such container.
    #[error("container {container} is not valid for pod {pod}")]
    NoContainer {
        /// The Pod.
        pod: String,
        /// What was asked for.
        container: String,
    },
    /// The container has not run yet.
    #[error("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")]
    NotStarted {
        /// The Pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// There was no run before this one.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious {
        /// The Pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The container does not run.
    #[error("container {container:?} in pod {pod:?} is not running")]
    NotRunning {
        /// The Pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// Nobody listens there.
    #[error("cannot connect to port {port} of pod {pod:?} at {address}")]
    Connect {
        /// The Pod.
        pod: String,
        /// Its address.
        address: Ipv4Addr,
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot run a command in the container")]
    Exec(#[source] io::Error),
}

/// What the parts of a node share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) root: PathBuf,
    pub(crate) runtime: Runtime,
    /// Whether the node can give files away and mount.
    pub(crate) is_root: bool,
    pub(crate) images: ImageMap,
    pub(crate) host: Ipv4Addr,
    pub(crate) machine: Machine,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) events: Events,
    pub(crate) host_paths: bool,
    pub(crate) hidden: Vec<PathBuf>,
    pods: Mutex<HashMap<String, Arc<PodHandle>>>,
    pub(crate) left: Notify,
}

impl Shared {
    /// The directory of a Pod.
    pub(crate) fn pod_directory(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    /// The directory of the claims of a namespace.
    pub(crate) fn claims(&self, namespace: &str) -> PathBuf {
        self.root.join("claims").join(namespace)
    }

    /// The empty directory in which file systems are built.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// Forgets a Pod that has left.
    pub(crate) fn forget(&self, uid: &str) {
        self.pods().remove(uid);
        self.left.notify_waiters();
    }

    /// Removes the files of a Pod that does not exist any more. Its containers are forgotten first: a log whose file is
    /// gone would be read as an empty one.
    pub(crate) fn remove_files_of(&self, uid: &str) -> io::Result<()> {
        let known = self.pods().get(uid).cloned();
        if let Some(handle) = known {
            handle.containers().clear();
        }
        remove_files(&self.pod_directory(uid))
    }

    /// The Pod does not exist any more.
    fn lose(self: &Arc<Self>, uid: &str) {
        let known = self.pods().get(uid).cloned();
        if known.is_none_or(|handle| !handle.tell(Event::Gone)) {
            let (shared, uid) = (Arc::clone(self), uid.to_owned());
            tokio::task::spawn_blocking(move || {
                // What cannot be removed now is tried at the next start.
                let _ = shared.remove_files_of(&uid);
                shared.addresses.lock().unwrap_or_else(PoisonError::into_inner).give_back(&uid);
                shared.forget(&uid);
            });
        }
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, Arc<PodHandle>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the life of a Pod, or tells it what changed. One that is over comes back only to be removed.
    pub(crate) fn take(self: &Arc<Self>, pod: Arc<Pod>) {
        let uid = pod.uid().unwrap_or_default();
        let known = self.pods().get(&uid).cloned();
        if let Some(handle) = known
            && (handle.tell(Event::Pod(Arc::clone(&pod))) || pod.metadata.deletion_timestamp.is_none())
        {
            return;
        }
        let name = pod.name_any();
        match Worker::begin(Arc::clone(self), pod) {
            Ok(handle) => drop(self.pods().insert(uid, handle)),
            Err(error) => tracing::error!(pod = name, %error, "a Pod cannot be taken: its directory cannot be written"),
        }
    }
}

/// A node that runs Pods as processes of this machine.
pub struct Node {
    shared: Arc<Shared>,
    isolation: Isolation,
    watches: JoinSet<()>,
}

impl Node {
    /// Starts a node. Containers that an earlier node on the same directory left behind are ended first.
    pub async fn start(client: Client, options: NodeOptions) -> Result<Self, Error> {
        let NodeOptions { name, root, images, network, mut hidden, host_paths, engine, program } = options;
        signals::heed_ignored();
        let fails = |path: &PathBuf| {
            let path = path.clone();
            move |source| Error::Directory { path, source }
        };
        for dir in [root.join("pods"), root.join("claims"), root.join("scratch")] {
            fs::create_dir_all(&dir).map_err(fails(&dir))?;
        }
        let root = fs::canonicalize(&root).map_err(fails(&root))?;
        hidden.push(root.clone());
        memory::unmount_below(&root.join("pods")).map_err(fails(&root))?;
        let (isolation, runtime) = if let Some(engine) = engine {
            let engine = engine.of_node(&groups::name(&root), &root).await.map_err(fails(&root))?;
            (Isolation::of_engine(&engine), Runtime::Engine(engine))
        } else {
            let (isolation, helper) = isolation::probe(&program, &root).await?;
            (isolation, Runtime::Processes(helper))
        };
        let mut addresses = Addresses::new(network.0, network.1);
        for entry in fs::read_dir(root.join("pods")).map_err(fails(&root))?.flatten() {
            if let Some(history) = History::read(&entry.path()) {
                history.kill_leftovers();
                addresses.keep(&history.uid, history.address);
            }
        }
        let shared = Arc::new(Shared {
            events: Events::start(client.clone(), "kubelet", &name),
            client: client.clone(),
            root,
            runtime,
            is_root: rustix::process::geteuid().is_root(),
            images,
            host: Ipv4Addr::LOCALHOST,
            machine: Machine::this(),
            addresses: Mutex::new(addresses),
            host_paths,
            hidden,
            pods: Mutex::default(),
            left: Notify::new(),
        });
        let mut watches = JoinSet::new();
        watches.spawn(watch_pods(Arc::clone(&shared), name));
        let config_maps: Api<ConfigMap> = Api::all(client.clone());
        watches.spawn(watch_objects(Arc::clone(&shared), config_maps, Object::ConfigMap));
        let secrets: Api<Secret> = Api::all(client);
        watches.spawn(watch_objects(Arc::clone(&shared), secrets, Object::Secret));
        Ok(Self { shared, isolation, watches })
    }

    /// What keeps containers apart here.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Arc<PodHandle>, Error> {
        let pods = self.shared.pods();
        let named = pods.values().filter(|pod| pod.namespace == namespace && pod.name == name);
        named.max_by_key(|pod| pod.taken).cloned().ok_or_else(|| Error::NoPod { name: name.to_owned() })
    }

    /// What a container printed, from its files.
    pub fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        options: LogOptions,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, Error> {
        let (pod, container) = (pod.to_owned(), container.to_owned());
        let handle = self.pod(namespace, &pod)?;
        let Some(found) = handle.container(&container) else { return Err(Error::NoContainer { pod, container }) };
        let run = match (found.run, options.previous) {
            (None, false) => return Err(Error::NotStarted { pod, container }),
            (Some(run), false) => run,
            (run, true) => match run.and_then(|run| run.checked_sub(1)) {
                Some(previous) => previous,
                None => return Err(Error::NoPrevious { pod, container }),
            },
        };
        Ok(stream(found.log, run, options))
    }

    /// Runs a command in a container that runs.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: Vec<String>,
        tty: bool,
        stdin: bool,
    ) -> Result<Exec, Error> {
        let (pod, container) = (pod.to_owned(), container.to_owned());
        let handle = self.pod(namespace, &pod)?;
        let Some(found) = handle.container(&container) else { return Err(Error::NoContainer { pod, container }) };
        let Some(target) = found.target else { return Err(Error::NotRunning { pod, container }) };
        Exec::start(&self.shared.runtime, &target, command, tty, stdin).await.map_err(Error::Exec)
    }

    /// A connection to a port of a Pod: to its own address, or to localhost, which it shares with the machine.
    pub async fn port_forward(&self, namespace: &str, pod: &str, port: u16) -> Result<TcpStream, Error> {
        let handle = self.pod(namespace, pod)?;
        let address = handle.address;
        let connect = async {
            match TcpStream::connect((address, port)).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|_| error)
                }
                other => other,
            }
        };
        let connected = tokio::time::timeout(CONNECT_LIMIT, connect).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        connected.map_err(|source| Error::Connect { pod: pod.to_owned(), address, port, source })
    }

    /// Ends every process that the node started, each within its own grace period and all within `grace`. The statuses
    /// of the Pods stay as they are; the next node on the same directory says what became of them.
    pub async fn shutdown(mut self, grace: Duration) {
        self.watches.shutdown().await;
        for pod in self.shared.pods().values() {
            pod.tell(Event::Shutdown(grace));
        }
        let all_left = async {
            loop {
                let left = self.shared.left.notified();
                tokio::pin!(left);
                left.as_mut().enable();
                if self.shared.pods().values().all(|pod| pod.rests()) {
                    break;
                }
                left.await;
            }
        };
        if tokio::time::timeout(grace + AFTER_KILL, all_left).await.is_err() {
            tracing::warn!("some processes of Pods did not end");
        }
        match &self.shared.runtime {
            Runtime::Engine(engine) => {
                if let Err(problem) = engine.sweep().await {
                    tracing::warn!(problem, "some containers could not be removed");
                }
            }
            Runtime::Processes(helper) => helper.groups.iter().for_each(Groups::remove),
        }
        if let Err(error) = memory::unmount_below(&self.shared.root.join("pods")) {
            tracing::warn!(%error, "volumes in memory are still mounted");
        }
    }
}

/// Gives back what a node that was killed has left on the machine: the mounts of volumes in memory and its control
/// groups. Without it the node's directory may not be removable.
pub fn give_back(root: &Path) -> io::Result<()> {
    let Ok(root) = fs::canonicalize(root) else { return Ok(()) };
    memory::unmount_below(&root.join("pods"))?;
    if let Some(groups) = Groups::open(&root) {
        groups.remove();
    }
    Ok(())
}

/// Removes the files of a Pod.
fn remove_files(dir: &Path) -> io::Result<()> {
    memory::unmount_below(dir)?;
    removal::remove(dir)
}

impl Drop for Node {
    /// Without a [`Node::shutdown`] everything ends at once.
    fn drop(&mut self) {
        for pod in self.shared.pods().values() {
            pod.tell(Event::Shutdown(Duration::ZERO));
        }
    }
}

async fn watch_pods(shared: Arc<Shared>, node: String) {
    let pods: Api<Pod> = Api::all(shared.client.clone());
    let ours = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = Box::pin(watcher::watcher(pods, ours).default_backoff());
    let mut listed: HashSet<String> = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Watched::Init) => listed.clear(),
            Ok(Watched::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                shared.take(Arc::new(pod));
            }
            Ok(Watched::InitDone) => forget_all_but(&shared, &listed),
            Ok(Watched::Apply(pod)) => shared.take(Arc::new(pod)),
            Ok(Watched::Delete(pod)) => shared.lose(&pod.uid().unwrap_or_default()),
            Err(error) => tracing::debug!(%error, "the watch of Pods was interrupted"),
        }
    }
}

/// Pods that were deleted while nobody watched.
fn forget_all_but(shared: &Arc<Shared>, listed: &HashSet<String>) {
    let kept = fs::read_dir(shared.root.join("pods")).into_iter().flatten().flatten();
    let kept = kept.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: HashSet<String> = kept.collect();
    all.extend(shared.pods().keys().cloned());
    for uid in all.difference(listed) {
        shared.lose(uid);
    }
}

async fn watch_objects<K>(shared: Arc<Shared>, objects: Api<K>, name: impl Fn(String) -> Object)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut events = Box::pin(watcher::watcher(objects, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(Watched::Apply(object) | Watched::InitApply(object) | Watched::Delete(object)) = event else { continue };
        let namespace = object.namespace().unwrap_or_default();
        let handles: Vec<Arc<PodHandle>> = shared.pods().values().cloned().collect();
        for handle in handles.iter().filter(|handle| handle.namespace == namespace) {
            handle.tell(Event::Changed(name(object.name_any())));
        }
    }
}
