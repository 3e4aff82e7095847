//! # The workload controllers
//!
//! What kube-controller-manager and kube-scheduler do on a cluster, as far as one machine needs it. They work on any API
//! server through a client: their tests run on the real one.
//!
//! | module | what it keeps true |
//! |---|---|
//! | `deployment` | a Deployment has a ReplicaSet for its template and goes over from a former one |
//! | `replica_set` | a ReplicaSet has as many Pods as it says |
//! | `scheduler` | a Pod has a node |
//! | `endpoints` | a Service knows its Pods |
//! | `claims` | a claim is bound |
//! | `garbage` | what nobody owns goes |
//! | `namespaces` | a namespace has what Pods need, and goes with everything in it |
//! | `expiry` | Events and stray Pods go |
//!
//! One watch a kind keeps a map and says who is to look when an object changes; one queue hands each item to one worker
//! at a time. A pass reads the maps, decides by a pure function, and writes what differs. Nothing polls; what must happen
//! at a moment is an appointment in the queue.

mod claims;
mod deployment;
mod endpoints;
mod expiry;
mod family;
mod garbage;
mod inventory;
mod kinds;
mod namespaces;
mod pods;
mod replica_set;
mod scheduler;
pub(crate) mod this_node;

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

use inventory::{Entry, Inventory};
use kinds::Kinds;
use node::Events;
use observe::{Change, Key, Kind, Next, Queue};

/// Items that are worked on at once.
const WORKERS: usize = 16;
/// Finished Pods are counted this long after one more has ended, so that many at once are one count.
const COUNT_DELAY: Duration = Duration::from_secs(10);

/// What the controllers are told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the node that Pods get.
    pub node: String,
    /// Certificate of the authority that the API server's own is from, in PEM; every namespace shows it to its Pods.
    pub certificate_authority: String,
}

/// The controllers, at work. Dropping them stops them where they are.
pub struct Workloads {
    world: Arc<World>,
    stop: watch::Sender<bool>,
    /// Ends with the controllers.
    tasks: JoinSet<()>,
}

impl Workloads {
    /// Starts the controllers, and makes the node known. Returns when they know what there is.
    pub async fn start(client: Client, settings: Settings) -> Result<Self, kube::Error> {
        this_node::register(&client, &settings.node).await?;
        let world = Arc::new(World::new(client, settings));
        let mut tasks = JoinSet::new();
        follow_all(&world, &mut tasks);
        kinds::follow_offered(&world).await?;
        world.complete().await;
        let (stop, stopped) = watch::channel(false);
        let worker = Arc::clone(&world);
        tasks.spawn(world.queue.clone().work(WORKERS, stopped, move |work| {
            let world = Arc::clone(&worker);
            async move { world.pass(&work).await }
        }));
        Ok(Self { world, stop, tasks })
    }

    /// Lets passes that have begun end, and stops.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // The queue is the only task that ends by itself.
        self.tasks.join_next().await;
        self.tasks.shutdown().await;
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        // Each of these watches holds the world, so that it would keep itself.
        self.world.kinds.unfollow_all();
    }
}

/// Something to look at.
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
    /// An object, by UID, and whether its owners still want it.
    Owned(String),
    /// An Event, by UID.
    Event(String),
}

/// What every controller shares. No lock is held across an await.
struct World {
    client: Client,
    settings: Settings,
    deployments: Kind<Deployment>,
    replica_sets: Kind<ReplicaSet>,
    pods: Kind<Pod>,
    services: Kind<Service>,
    slices: Kind<EndpointSlice>,
    claims: Kind<PersistentVolumeClaim>,
    namespaces: Kind<Namespace>,
    nodes: Kind<Node>,
    definitions: Kind<CustomResourceDefinition>,
    kinds: Kinds,
    inventory: Mutex<Inventory>,
    queue: Queue<Work>,
    /// What the scheduler tells people.
    events: Events,
}

impl World {
    fn new(client: Client, settings: Settings) -> Self {
        Self {
            events: Events::start(client.clone(), "default-scheduler", &settings.node),
            client,
            settings,
            deployments: Kind::default(),
            replica_sets: Kind::default(),
            pods: Kind::default(),
            services: Kind::default(),
            slices: Kind::default(),
            claims: Kind::default(),
            namespaces: Kind::default(),
            nodes: Kind::default(),
            definitions: Kind::default(),
            kinds: Kinds::default(),
            inventory: Mutex::default(),
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

    async fn pass(self: &Arc<Self>, work: &Work) -> Next {
        let outcome = match work {
            Work::Deployment(key) => deployment::pass(self, key).await,
            Work::ReplicaSet(key) => replica_set::pass(self, key).await,
            Work::Service(key) => endpoints::pass(self, key).await,
            Work::Claim(key) => claims::pass(self, key).await,
            Work::Schedule(key) => scheduler::pass(self, key).await,
            Work::StrayPod(key) => expiry::stray_pod(self, key).await,
            Work::FinishedPods => expiry::finished_pods(self).await,
            Work::Namespace(name) => namespaces::pass(self, name).await,
            Work::Owned(uid) => garbage::pass(self, uid).await,
            Work::Event(uid) => expiry::event(self, uid).await,
        };
        match outcome {
            Ok(next) => next,
            // What was decided about is gone or has changed; the watch will tell, and the retry looks.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Next::Retry,
            Err(error) => {
                tracing::warn!(?work, %error, "a pass failed");
                Next::Retry
            }
        }
    }

    fn inventory(&self) -> MutexGuard<'_, Inventory> {
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch of its kind shows an object.
    fn entry_seen(&self, entry: Entry) {
        let namespace = entry.key.namespace.clone();
        if entry.kind.resource.kind == "Event"
            && let Some(written) = entry.written
        {
            self.queue.add_at(Work::Event(entry.uid.clone()), instant(expiry::event_ends(written)));
        }
        for uid in self.inventory().put(entry) {
            self.queue.add(Work::Owned(uid));
        }
        self.look_at_terminating(&namespace);
    }

    /// The watch of its kind shows that an object is gone.
    fn entry_gone(&self, uid: &str) {
        let (concerned, gone) = self.inventory().remove(uid);
        for uid in concerned {
            self.queue.add(Work::Owned(uid));
        }
        if let Some(gone) = gone {
            self.look_at_terminating(&gone.key.namespace);
            if namespaces::is_furniture(&gone) {
                self.queue.add(Work::Namespace(gone.key.namespace));
            }
        }
    }

    fn look_at_terminating(&self, namespace: &str) {
        let known = self.namespaces.object(&Key::new("", namespace));
        if known.is_some_and(|known| known.metadata.deletion_timestamp.is_some()) {
            self.queue.add(Work::Namespace(namespace.to_owned()));
        }
    }
}

/// Follows every kind that a controller reads in full, and says who is to look when an object changes.
fn follow_all(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    follow(
        world,
        tasks,
        &world.deployments,
        |_| (),
        |world, change| {
            world.queue.add(Work::Deployment(change.key.clone()));
        },
    );
    follow(world, tasks, &world.replica_sets, |_| (), |world, change| replica_set_changed(world, change));
    follow(world, tasks, &world.pods, pods::slim, |world, change| pod_changed(world, change));
    follow(
        world,
        tasks,
        &world.services,
        |_| (),
        |world, change| {
            world.queue.add(Work::Service(change.key.clone()));
        },
    );
    follow(
        world,
        tasks,
        &world.slices,
        |_| (),
        |world, change| {
            for name in change.both().filter_map(|slice| slice.labels().get(endpoints::SERVICE)) {
                world.queue.add(Work::Service(Key::new(&change.key.namespace, name)));
            }
        },
    );
    follow(world, tasks, &world.claims, |_| (), |world, change| world.queue.add(Work::Claim(change.key.clone())));
    follow(
        world,
        tasks,
        &world.namespaces,
        |_| (),
        |world, change| {
            world.queue.add(Work::Namespace(change.key.name.clone()));
        },
    );
    follow(world, tasks, &world.nodes, |_| (), |world, change| node_changed(world, change));
    follow(world, tasks, &world.definitions, slim_definition, |world, change| match (change.object(), change.was()) {
        (Some(definition), _) => kinds::defined(world, definition),
        (None, Some(definition)) => kinds::undefined(world, definition),
        (None, None) => {}
    });
}

fn follow<K>(
    world: &Arc<World>,
    tasks: &mut JoinSet<()>,
    kind: &Kind<K>,
    slim: fn(&mut K),
    told: fn(&Arc<World>, &Change<'_, K>),
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (client, world) = (world.client.clone(), Arc::clone(world));
    tasks.spawn(kind.follow(client, watcher::Config::default(), slim, move |change| told(&world, change)));
}

fn replica_set_changed(world: &World, change: &Change<'_, ReplicaSet>) {
    world.queue.add(Work::ReplicaSet(change.key.clone()));
    let namespace = &change.key.namespace;
    for set in change.both() {
        if let Some(owner) = pods::controller_of(set) {
            world.queue.add(Work::Deployment(Key::new(namespace, &owner.name)));
            continue;
        }
        let wants = |deployment: &Deployment| deployment.spec.as_ref().is_some_and(|spec| matches(&spec.selector, set));
        for deployment in world.deployments.in_namespace(namespace, wants) {
            world.queue.add(Work::Deployment(Key::of(&*deployment)));
        }
    }
}

fn pod_changed(world: &World, change: &Change<'_, Pod>) {
    let (key, namespace) = (change.key, &change.key.namespace);
    for pod in change.both() {
        match pods::controller_of(pod) {
            Some(owner) if owner.kind == "ReplicaSet" => {
                let set = Key::new(namespace, &owner.name);
                // Recreate waits for the end of former Pods.
                if let Some(owner) = world.replica_sets.object(&set).as_deref().and_then(pods::controller_of) {
                    world.queue.add(Work::Deployment(Key::new(namespace, &owner.name)));
                }
                world.queue.add(Work::ReplicaSet(set));
            }
            Some(_) => {}
            None => {
                let wants = |set: &ReplicaSet| set.spec.as_ref().is_some_and(|spec| matches(&spec.selector, pod));
                for set in world.replica_sets.in_namespace(namespace, wants) {
                    world.queue.add(Work::ReplicaSet(Key::of(&*set)));
                }
            }
        }
        for service in world.services.in_namespace(namespace, |service| endpoints::selects(service, pod.labels())) {
            world.queue.add(Work::Service(Key::of(&*service)));
        }
    }
    let Some(pod) = change.object() else { return };
    match pods::node_of(pod) {
        None if pod.metadata.deletion_timestamp.is_some() => world.queue.add(Work::StrayPod(key.clone())),
        None => world.queue.add(Work::Schedule(key.clone())),
        Some(node) if node != world.settings.node => world.queue.add(Work::StrayPod(key.clone())),
        Some(_) => {}
    }
    if pods::is_over(pod) {
        world.queue.add_at(Work::FinishedPods, Instant::now() + COUNT_DELAY);
    }
}

fn node_changed(world: &World, change: &Change<'_, Node>) {
    let concerned = world.pods.all(|pod| match pods::node_of(pod) {
        None => pods::is_active(pod),
        Some(node) => change.now.is_none() && node == change.key.name,
    });
    for pod in concerned {
        let key = Key::of(&*pod);
        world.queue.add(if pods::node_of(&pod).is_none() { Work::Schedule(key) } else { Work::StrayPod(key) });
    }
}

fn matches(selector: &LabelSelector, object: &impl Resource) -> bool {
    let none = std::collections::BTreeMap::new();
    Selector::try_from(selector.clone())
        .is_ok_and(|selector| selector.matches(object.meta().labels.as_ref().unwrap_or(&none)))
}

/// Schemas are large, and nobody here reads them.
fn slim_definition(definition: &mut CustomResourceDefinition) {
    definition.metadata.annotations = None;
    for version in &mut definition.spec.versions {
        version.schema = None;
        version.additional_printer_columns = None;
    }
}

/// A moment of the wall clock on the clock of the runtime.
fn instant(moment: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default()
}

/// A look at this moment.
fn at(moment: Timestamp) -> Next {
    Next::At(instant(moment))
}
