//! The shared state of the controllers, their watches and their work queue.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Namespace, Node, PersistentVolumeClaim, Pod, Service},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Client, Resource, ResourceExt as _,
    core::{Selector, SelectorExt as _},
    runtime::watcher,
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use node::Events;
use observe::{Cache, Change, Key, Next, Queue};

use crate::{
    claims, deployment, endpoints, expiry, garbage,
    graph::{Entry, ObjectGraph},
    kinds::{self, Kinds},
    namespaces, pods, replica_set, scheduler, this_node,
};

/// Number of concurrent passes.
const WORKERS: usize = 16;
/// Delay before finished Pods are counted, so that many Pods that finish together are counted once.
const COUNT_DELAY: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the node that Pods are bound to.
    pub node: String,
    /// CA certificate of the API server in PEM; published in every namespace.
    pub certificate_authority: String,
}

/// The running controllers. Dropping the value aborts them.
pub struct Workloads {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    /// Aborted when the value is dropped.
    tasks: JoinSet<()>,
}

impl Workloads {
    /// Registers the node and starts the controllers. Returns when their caches are complete.
    pub async fn start(client: Client, settings: Settings) -> Result<Self, kube::Error> {
        this_node::register(&client, &settings.node).await?;
        let shared = Arc::new(Shared::new(client, settings));
        let mut tasks = JoinSet::new();
        watch_all(&shared, &mut tasks);
        kinds::watch_served(&shared).await?;
        shared.complete().await;
        let (stop, stopped) = watch::channel(false);
        let worker = Arc::clone(&shared);
        tasks.spawn(shared.queue.clone().work(WORKERS, stopped, move |work| {
            let shared = Arc::clone(&worker);
            async move { shared.reconcile(&work).await }
        }));
        Ok(Self { shared, stop, tasks })
    }

    /// Finishes the running passes, and stops.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // The queue is the only task that ends by itself.
        self.tasks.join_next().await;
        self.tasks.shutdown().await;
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        // Each of these watches holds an `Arc` of the shared state, a cycle that must be broken.
        self.shared.kinds.unwatch_all();
    }
}

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Deployment(Key),
    ReplicaSet(Key),
    Service(Key),
    Claim(Key),
    Schedule(Key),
    StrayPod(Key),
    FinishedPods,
    Namespace(String),
    /// An object, by UID, for garbage collection.
    Owned(String),
    Event(String),
}

/// State that the controllers share. No lock is held across an await.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) pods: Cache<Pod>,
    pub(crate) services: Cache<Service>,
    pub(crate) slices: Cache<EndpointSlice>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) definitions: Cache<CustomResourceDefinition>,
    pub(crate) kinds: Kinds,
    graph: Mutex<ObjectGraph>,
    queue: Queue<Work>,
    /// Events of the scheduler.
    pub(crate) events: Events,
}

impl Shared {
    fn new(client: Client, settings: Settings) -> Self {
        Self {
            events: Events::start(client.clone(), "default-scheduler", &settings.node),
            client,
            settings,
            deployments: Cache::default(),
            replica_sets: Cache::default(),
            pods: Cache::default(),
            services: Cache::default(),
            slices: Cache::default(),
            claims: Cache::default(),
            namespaces: Cache::default(),
            nodes: Cache::default(),
            definitions: Cache::default(),
            kinds: Kinds::default(),
            graph: Mutex::default(),
            queue: Queue::default(),
        }
    }

    async fn complete(&self) {
        self.deployments.complete().await;
        self.replica_sets.complete().await;
        self.pods.complete().await;
        self.services.complete().await;
        self.slices.complete().await;
        self.claims.complete().await;
        self.namespaces.complete().await;
        self.nodes.complete().await;
        self.definitions.complete().await;
    }

    async fn reconcile(self: &Arc<Self>, work: &Work) -> Next {
        let outcome = match work {
            Work::Deployment(key) => deployment::reconcile(self, key).await,
            Work::ReplicaSet(key) => replica_set::reconcile(self, key).await,
            Work::Service(key) => endpoints::reconcile(self, key).await,
            Work::Claim(key) => claims::reconcile(self, key).await,
            Work::Schedule(key) => scheduler::reconcile(self, key).await,
            Work::StrayPod(key) => expiry::stray_pod(self, key).await,
            Work::FinishedPods => expiry::finished_pods(self).await,
            Work::Namespace(name) => namespaces::reconcile(self, name).await,
            Work::Owned(uid) => garbage::reconcile(self, uid).await,
            Work::Event(uid) => expiry::event(self, uid).await,
        };
        match outcome {
            Ok(next) => next,
            // The object is gone or has changed; the watch delivers the change, and the retry reads it.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Next::Retry,
            Err(error) => {
                tracing::warn!(?work, %error, "reconcile failed");
                Next::Retry
            }
        }
    }

    pub(crate) fn graph(&self) -> MutexGuard<'_, ObjectGraph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the metadata watch for every new or changed object.
    pub(crate) fn object_changed(&self, entry: Entry) {
        let namespace = entry.key.namespace.clone();
        if entry.kind.resource.kind == "Event"
            && let Some(written) = entry.written
        {
            self.queue.add_at(Work::Event(entry.uid.clone()), instant(expiry::event_expires(written)));
        }
        for uid in self.graph().put(entry) {
            self.queue.add(Work::Owned(uid));
        }
        self.enqueue_if_terminating(&namespace);
    }

    /// Called by the metadata watch for every deleted object.
    pub(crate) fn object_deleted(&self, uid: &str) {
        let (concerned, gone) = self.graph().remove(uid);
        for uid in concerned {
            self.queue.add(Work::Owned(uid));
        }
        if let Some(gone) = gone {
            self.enqueue_if_terminating(&gone.key.namespace);
            if namespaces::is_default_object(&gone) {
                self.queue.add(Work::Namespace(gone.key.namespace));
            }
        }
    }

    fn enqueue_if_terminating(&self, namespace: &str) {
        let known = self.namespaces.object(&Key::new("", namespace));
        if known.is_some_and(|known| known.metadata.deletion_timestamp.is_some()) {
            self.queue.add(Work::Namespace(namespace.to_owned()));
        }
    }
}

/// Starts the watches of the kinds that controllers read in full; each change enqueues the affected objects.
fn watch_all(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    watch_kind(
        shared,
        tasks,
        &shared.deployments,
        |_| (),
        |shared, change| {
            shared.queue.add(Work::Deployment(change.key.clone()));
        },
    );
    watch_kind(shared, tasks, &shared.replica_sets, |_| (), |shared, change| replica_set_changed(shared, change));
    watch_kind(shared, tasks, &shared.pods, pods::slim, |shared, change| pod_changed(shared, change));
    watch_kind(
        shared,
        tasks,
        &shared.services,
        |_| (),
        |shared, change| {
            shared.queue.add(Work::Service(change.key.clone()));
        },
    );
    watch_kind(
        shared,
        tasks,
        &shared.slices,
        |_| (),
        |shared, change| {
            for name in change.both().filter_map(|slice| slice.labels().get(endpoints::SERVICE)) {
                shared.queue.add(Work::Service(Key::new(&change.key.namespace, name)));
            }
        },
    );
    watch_kind(
        shared,
        tasks,
        &shared.claims,
        |_| (),
        |shared, change| shared.queue.add(Work::Claim(change.key.clone())),
    );
    watch_kind(
        shared,
        tasks,
        &shared.namespaces,
        |_| (),
        |shared, change| {
            shared.queue.add(Work::Namespace(change.key.name.clone()));
        },
    );
    watch_kind(shared, tasks, &shared.nodes, |_| (), |shared, change| node_changed(shared, change));
    watch_kind(shared, tasks, &shared.definitions, slim_definition, |shared, change| {
        match (change.object(), change.was()) {
            (Some(definition), _) => kinds::defined(shared, definition),
            (None, Some(definition)) => kinds::undefined(shared, definition),
            (None, None) => {}
        }
    });
}

fn watch_kind<K>(
    shared: &Arc<Shared>,
    tasks: &mut JoinSet<()>,
    kind: &Cache<K>,
    slim: fn(&mut K),
    on_change: fn(&Arc<Shared>, &Change<'_, K>),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (client, shared) = (shared.client.clone(), Arc::clone(shared));
    tasks.spawn(kind.follow(client, watcher::Config::default(), slim, move |change| on_change(&shared, change)));
}

fn replica_set_changed(shared: &Shared, change: &Change<'_, ReplicaSet>) {
    shared.queue.add(Work::ReplicaSet(change.key.clone()));
    let namespace = &change.key.namespace;
    for set in change.both() {
        if let Some(owner) = pods::controller_of(set) {
            shared.queue.add(Work::Deployment(Key::new(namespace, &owner.name)));
            continue;
        }
        let wants = |deployment: &Deployment| deployment.spec.as_ref().is_some_and(|spec| matches(&spec.selector, set));
        for deployment in shared.deployments.in_namespace(namespace, wants) {
            shared.queue.add(Work::Deployment(Key::of(&*deployment)));
        }
    }
}

fn pod_changed(shared: &Shared, change: &Change<'_, Pod>) {
    let (key, namespace) = (change.key, &change.key.namespace);
    for pod in change.both() {
        match pods::controller_of(pod) {
            Some(owner) if owner.kind == "ReplicaSet" => {
                let set = Key::new(namespace, &owner.name);
                // The Recreate strategy waits for old Pods to terminate.
                if let Some(owner) = shared.replica_sets.object(&set).as_deref().and_then(pods::controller_of) {
                    shared.queue.add(Work::Deployment(Key::new(namespace, &owner.name)));
                }
                shared.queue.add(Work::ReplicaSet(set));
            }
            Some(_) => {}
            None => {
                let wants = |set: &ReplicaSet| set.spec.as_ref().is_some_and(|spec| matches(&spec.selector, pod));
                for set in shared.replica_sets.in_namespace(namespace, wants) {
                    shared.queue.add(Work::ReplicaSet(Key::of(&*set)));
                }
            }
        }
        for service in shared.services.in_namespace(namespace, |service| endpoints::selects(service, pod.labels())) {
            shared.queue.add(Work::Service(Key::of(&*service)));
        }
    }
    let Some(pod) = change.object() else { return };
    match pods::node_of(pod) {
        None if pod.metadata.deletion_timestamp.is_some() => shared.queue.add(Work::StrayPod(key.clone())),
        None => shared.queue.add(Work::Schedule(key.clone())),
        Some(node) if node != shared.settings.node => shared.queue.add(Work::StrayPod(key.clone())),
        Some(_) => {}
    }
    if pods::is_over(pod) {
        shared.queue.add_at(Work::FinishedPods, Instant::now() + COUNT_DELAY);
    }
}

fn node_changed(shared: &Shared, change: &Change<'_, Node>) {
    let concerned = shared.pods.all(|pod| match pods::node_of(pod) {
        None => pods::is_active(pod),
        Some(node) => change.now.is_none() && node == change.key.name,
    });
    for pod in concerned {
        let key = Key::of(&*pod);
        shared.queue.add(if pods::node_of(&pod).is_none() { Work::Schedule(key) } else { Work::StrayPod(key) });
    }
}

fn matches(selector: &LabelSelector, object: &impl Resource) -> bool {
    let none = std::collections::BTreeMap::new();
    Selector::try_from(selector.clone())
        .is_ok_and(|selector| selector.matches(object.meta().labels.as_ref().unwrap_or(&none)))
}

/// Drops schemas, which are large and unused here.
fn slim_definition(definition: &mut CustomResourceDefinition) {
    definition.metadata.annotations = None;
    for version in &mut definition.spec.versions {
        version.schema = None;
        version.additional_printer_columns = None;
    }
}

/// Converts wall-clock time to the clock of the runtime.
fn instant(moment: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default()
}

pub(crate) fn at(moment: Timestamp) -> Next {
    Next::At(instant(moment))
}
