//! The node: watches the Pods that are bound to it and runs a worker for each.

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
    logs::{LogOptions, stream},
    network::addresses::Addresses,
    pod::{Event, Object, PodHandle, Worker, downward_api::Machine, journal::History, removal},
    process::{
        cgroups::{self, Cgroups},
        exec::Exec,
        isolation::{self, Isolation, IsolationError},
        signals,
    },
    runtime::{
        Runtime,
        engine::{Engine, EngineError},
        images::ImageMap,
    },
    status::events::Events,
    volumes::memory,
};

/// How long a shutdown waits for killed processes, beyond its grace period.
const AFTER_KILL: Duration = Duration::from_secs(10);
/// A Pod on this machine accepts at once or not at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Pods with this `spec.nodeName` run here.
    pub name: String,
    /// Directory for volumes, logs and journals of Pods. Not visible to containers.
    pub root: PathBuf,
    /// Images that are mapped to programs on this machine.
    pub images: ImageMap,
    /// Loopback network for Pod addresses, and its prefix length.
    pub network: (Ipv4Addr, u8),
    /// Further files and directories of the machine that are hidden from containers, whether or not they exist.
    pub hidden: Vec<PathBuf>,
    /// Whether Pods may use hostPath volumes.
    pub host_paths: bool,
    /// Podman or Docker; then containers use real images.
    pub engine: Option<Engine>,
    /// The program that is started for containers: one that calls [`crate::container_main`] when its first argument is
    /// [`crate::CONTAINER_ARGUMENT`]. Defaults to this program.
    pub program: PathBuf,
}

impl NodeOptions {
    /// Default options, without images.
    pub fn new(name: &str, root: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            root,
            images: ImageMap::default(),
            network: (Ipv4Addr::new(127, 80, 0, 0), 16),
            hidden: Vec::new(),
            host_paths: false,
            engine: None,
            // Valid even if the file is replaced by a newer version.
            program: PathBuf::from("/proc/self/exe"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("pods {name:?} not found")]
    NoPod { name: String },
    #[error("container {container} is not valid for pod {pod}")]
    NoContainer { pod: String, container: String },
    #[error("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating")]
    NotStarted { pod: String, container: String },
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious { pod: String, container: String },
    #[error("container {container:?} in pod {pod:?} is not running")]
    NotRunning { pod: String, container: String },
    #[error("cannot connect to port {port} of pod {pod:?} at {address}")]
    Connect { pod: String, address: Ipv4Addr, port: u16, source: io::Error },
    #[error("cannot run a command in the container")]
    Exec(#[source] io::Error),
}

/// State that the workers of a node share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) root: PathBuf,
    pub(crate) runtime: Runtime,
    /// Whether the node can change file owners and mount file systems.
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
    pub(crate) fn pod_directory(&self, uid: &str) -> PathBuf {
        self.root.join("pods").join(uid)
    }

    pub(crate) fn claims(&self, namespace: &str) -> PathBuf {
        self.root.join("claims").join(namespace)
    }

    /// The empty directory in which root file systems are built.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// Removes a Pod whose worker has finished.
    pub(crate) fn remove(&self, uid: &str) {
        self.pods().remove(uid);
        self.left.notify_waiters();
    }

    /// Removes the files of a deleted Pod. Its containers are removed first: a log whose file is missing would be read
    /// as empty.
    pub(crate) fn remove_pod_files(&self, uid: &str) -> io::Result<()> {
        let known = self.pods().get(uid).cloned();
        if let Some(handle) = known {
            handle.containers().clear();
        }
        remove_files(&self.pod_directory(uid))
    }

    /// Handles the deletion of a Pod object.
    fn pod_deleted(self: &Arc<Self>, uid: &str) {
        let known = self.pods().get(uid).cloned();
        if known.is_none_or(|handle| !handle.send(Event::Deleted)) {
            let (shared, uid) = (Arc::clone(self), uid.to_owned());
            tokio::task::spawn_blocking(move || {
                // Files that cannot be removed now are removed at the next start.
                let _ = shared.remove_pod_files(&uid);
                shared.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(&uid);
                shared.remove(&uid);
            });
        }
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<String, Arc<PodHandle>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a worker for a Pod, or sends the new version to its worker. A finished Pod gets a worker again only to be
    /// removed.
    pub(crate) fn sync_pod(self: &Arc<Self>, pod: Arc<Pod>) {
        let uid = pod.uid().unwrap_or_default();
        let known = self.pods().get(&uid).cloned();
        if let Some(handle) = known
            && (handle.send(Event::Pod(Arc::clone(&pod))) || pod.metadata.deletion_timestamp.is_none())
        {
            return;
        }
        let name = pod.name_any();
        match Worker::begin(Arc::clone(self), pod) {
            Ok(handle) => drop(self.pods().insert(uid, handle)),
            Err(error) => tracing::error!(pod = name, %error, "cannot run Pod: its directory is not writable"),
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
    /// Starts a node. Containers that an earlier node on the same directory left behind are terminated first.
    pub async fn start(client: Client, options: NodeOptions) -> Result<Self, Error> {
        let NodeOptions { name, root, images, network, mut hidden, host_paths, engine, program } = options;
        signals::reset_ignored();
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
        let mut addresses = Addresses::new(network.0, network.1);
        // Before the cgroups of an earlier node are removed: they must be empty.
        for entry in fs::read_dir(root.join("pods")).map_err(fails(&root))?.flatten() {
            if let Some(history) = History::read(&entry.path()) {
                history.kill_leftovers();
                addresses.reserve(&history.uid, history.address);
            }
        }
        let (isolation, runtime) = if let Some(engine) = engine {
            cgroups::remove_leftovers(&root);
            let engine = engine.of_node(&cgroups::name(&root), &root).await.map_err(fails(&root))?;
            (Isolation::of_engine(&engine), Runtime::Engine(engine))
        } else {
            let (isolation, helper) = isolation::probe(&program, &root).await?;
            (isolation, Runtime::Processes(helper))
        };
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

    /// How containers are isolated on this machine.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Arc<PodHandle>, Error> {
        let pods = self.shared.pods();
        let named = pods.values().filter(|pod| pod.namespace == namespace && pod.name == name);
        named.max_by_key(|pod| pod.started).cloned().ok_or_else(|| Error::NoPod { name: name.to_owned() })
    }

    /// The log of a container.
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

    /// Runs a command in a running container.
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

    /// Connects to a port of a Pod: on its own address, or on localhost, which all Pods share with the machine.
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

    /// Terminates every process that the node started, each within its grace period and all within `grace`. The
    /// statuses of Pods are not changed; the next node on the same directory reports what happened to them.
    pub async fn shutdown(mut self, grace: Duration) {
        self.watches.shutdown().await;
        for pod in self.shared.pods().values() {
            pod.send(Event::Shutdown(grace));
        }
        let all_left = async {
            loop {
                let left = self.shared.left.notified();
                tokio::pin!(left);
                left.as_mut().enable();
                if self.shared.pods().values().all(|pod| pod.is_finished()) {
                    break;
                }
                left.await;
            }
        };
        if tokio::time::timeout(grace + AFTER_KILL, all_left).await.is_err() {
            tracing::warn!("some processes of Pods are still running");
        }
        match &self.shared.runtime {
            Runtime::Engine(engine) => {
                if let Err(problem) = engine.sweep().await {
                    tracing::warn!(problem, "cannot remove some containers");
                }
            }
            Runtime::Processes(helper) => helper.groups.iter().for_each(Cgroups::remove),
        }
        if let Err(error) = memory::unmount_below(&self.shared.root.join("pods")) {
            tracing::warn!(%error, "cannot unmount memory volumes");
        }
    }
}

/// Cleans up after a node that was killed: unmounts its memory volumes and removes its cgroups. Otherwise the directory
/// of the node may not be removable.
pub fn clean_up(root: &Path) -> io::Result<()> {
    let Ok(root) = fs::canonicalize(root) else { return Ok(()) };
    memory::unmount_below(&root.join("pods"))?;
    if let Some(groups) = Cgroups::open(&root) {
        groups.remove();
    }
    Ok(())
}

fn remove_files(dir: &Path) -> io::Result<()> {
    memory::unmount_below(dir)?;
    removal::remove(dir)
}

impl Drop for Node {
    /// Without [`Node::shutdown`], all processes are killed at once.
    fn drop(&mut self) {
        for pod in self.shared.pods().values() {
            pod.send(Event::Shutdown(Duration::ZERO));
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
                shared.sync_pod(Arc::new(pod));
            }
            Ok(Watched::InitDone) => remove_missing(&shared, &listed),
            Ok(Watched::Apply(pod)) => shared.sync_pod(Arc::new(pod)),
            Ok(Watched::Delete(pod)) => shared.pod_deleted(&pod.uid().unwrap_or_default()),
            Err(error) => tracing::debug!(%error, "watch of Pods interrupted"),
        }
    }
}

/// Handles Pods that were deleted while the watch was interrupted.
fn remove_missing(shared: &Arc<Shared>, listed: &HashSet<String>) {
    let kept = fs::read_dir(shared.root.join("pods")).into_iter().flatten().flatten();
    let kept = kept.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut all: HashSet<String> = kept.collect();
    all.extend(shared.pods().keys().cloned());
    for uid in all.difference(listed) {
        shared.pod_deleted(uid);
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
            handle.send(Event::ObjectChanged(name(object.name_any())));
        }
    }
}
