//! # The controllers
//!
//! A thin shell: what is known of the cluster comes in by [`watch`], what is to be done waits in [`work`], and each
//! reconciler fetches, asks `kubeopencode_core`, applies and reports. It decides nothing itself.
//!
//! | module | what it keeps true |
//! |---|---|
//! | [`task`] | admitted Tasks have one Pod, ended ones a final status |
//! | [`agent`] | an Agent has its Deployment, Service, claims, contexts and password |
//! | [`template`] | an AgentTemplate says whether it can be used, and by how many it is |
//! | [`cron`] | Tasks are created by the clock |
//! | [`registry`] | a catalogue says which of its assets are there |
//! | [`config`] | the platform is as KubeOpenCodeConfig says |
//!
//! Invariants: I1 and I2 (name and owner of a Pod, claim on the version seen), I3 (one decision a target at a time), I5
//! (one final write), I6 (nothing is written that is so already), I9 (what cannot be read affects only itself).

pub mod agent;
pub mod apply;
pub mod bindings;
pub mod config;
pub mod context;
pub mod cron;
mod depth;
pub mod events;
mod failpoint;
pub mod fence;
pub mod http;
pub mod lease;
pub mod metrics;
pub mod parts;
pub mod registry;
pub mod remote;
pub mod secret;
pub mod task;
pub mod template;
pub mod traces;
pub mod watch;
pub mod work;

use std::{future::Future, hash::Hash, io, sync::Arc, time::Duration};

use api::{Instruction, KubeOpenCodeConfig, Model, ModelProvider, RemoteMCPServer, Task, names::labels};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Client, Resource, ResourceExt as _, runtime::watcher};
use kubeopencode_core::{dependencies::Other, queue::TaskKey};
use serde::de::DeserializeOwned;
use tokio::{sync::watch as signal, task::JoinSet};
use tower::Layer as _;

use context::Context;
use events::Events;
use fence::{Fence, FenceLayer};
use metrics::Metrics;
use remote::Remote;
use task::queues::{Standing, Target, joins_later, stop_requested};
use watch::{Change, Key, Seen};
use work::{Next, Queue};

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How to run.
#[derive(Clone)]
pub struct Options {
    /// Where to serve metrics and health; nowhere inside a process that has a server of its own.
    pub listen: Option<http::Addresses>,
    /// Namespace of the leader lease; without one, this process assumes that it is alone.
    pub lease_namespace: Option<String>,
    /// Tasks that are worked on at once.
    pub concurrency: usize,
    /// Looks up an environment variable.
    pub environment: Environment,
}

/// Why the controllers ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be served.
    #[error("{0}")]
    Listen(#[from] io::Error),
    /// The client for what lies outside the cluster cannot be made.
    #[error("no HTTP client: {0}")]
    Remote(#[from] reqwest::Error),
    /// The lease was lost.
    #[error("another process leads now; this one ends, so that it can start afresh")]
    LeaseLost,
}

/// How long running passes have to end when the process is asked to.
const GRACE: Duration = Duration::from_secs(20);

/// Runs the controllers until `stop` is ready, or until the lease is lost.
///
/// The client may speak to a cluster or to an API server in this very process.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::default());
    let fence = if options.lease_namespace.is_some() { Fence::closed() } else { Fence::default() };
    let layer = FenceLayer { fence: fence.clone(), metrics: Arc::clone(&metrics) };
    let namespace = client.default_namespace().to_owned();
    let readable = depth::Readable(client);
    let unfenced = Client::new(readable.clone(), namespace.clone());
    let client = Client::new(layer.layer(readable), namespace);
    let identity = identity(&options.environment);
    let events = Events::start(client.clone(), identity.clone());
    let ctx = Arc::new(Context::new(client, events, Arc::clone(&metrics), remote()?, options.environment.clone()));

    let (ready, is_ready) = signal::channel(false);
    if let Some(addresses) = options.listen {
        http::serve(addresses, Arc::clone(&metrics), is_ready).await?;
    }

    let mut watches = JoinSet::new();
    follow_all(&ctx, &unfenced, &mut watches);
    let mut parts = follow_parts(&ctx, &unfenced, &mut watches);
    tokio::pin!(stop);
    tokio::select! {
        () = async {
            all_complete(&ctx).await;
            for complete in &mut parts {
                // The sender lives in the watch.
                let _ = complete.wait_for(|complete| *complete).await;
            }
        } => {}
        () = &mut stop => return Ok(()),
    }
    for pod in ctx.seen.pods.all(task::still_runs) {
        ctx.hold_slot(&pod);
    }
    ready.send_replace(true);

    let (ending, is_ending) = signal::channel(false);
    let (led, mut is_led) = signal::channel(options.lease_namespace.is_none());
    let lease = async {
        let Some(namespace) = &options.lease_namespace else { return std::future::pending().await };
        let mut ending = is_ending.clone();
        lease::lead(unfenced, namespace, &identity, &fence, &led, async move {
            let _ = ending.wait_for(|ending| *ending).await;
        })
        .await;
    };
    tokio::pin!(lease);
    tokio::select! {
        _ = is_led.wait_for(|led| *led) => {}
        () = &mut lease => return Err(Error::LeaseLost),
        () = &mut stop => return Ok(()),
    }
    metrics.leading.set(1);
    tracing::info!(tasks = ctx.seen.tasks.len(), agents = ctx.seen.agents.len(), "working");
    let mut workers = work_all(&ctx, options.concurrency, &is_ending);
    let outcome = tokio::select! {
        () = &mut stop => Ok(()),
        () = &mut lease => Err(Error::LeaseLost),
    };
    tracing::info!("ending");
    ending.send_replace(true);
    let finish = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::warn!("some passes did not end in time");
    }
    if outcome.is_ok() && options.lease_namespace.is_some() {
        lease.await;
    }
    outcome
}

/// The client for what lies outside the cluster.
fn remote() -> Result<Remote, Error> {
    // Whoever comes first chooses for the process; kube chooses the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Remote::new()?)
}

/// Who we are: the Pod's name, or the machine's and a number.
fn identity(environment: &Environment) -> String {
    environment("POD_NAME")
        .or_else(|| environment("HOSTNAME").map(|host| format!("{host}-{}", std::process::id())))
        .unwrap_or_else(|| format!("kubeopencode-{}", std::process::id()))
}

/// Follows every kind, and says who is to look when an object changes.
fn follow_all(ctx: &Arc<Context>, client: &Client, watches: &mut JoinSet<()>) {
    let seen = &ctx.seen;
    let all = watcher::Config::default;
    let ours = || watcher::Config::default().labels(&format!("{}={}", labels::APP, labels::APP_VALUE));
    let managed = || watcher::Config::default().labels(&format!("{}=kubeopencode", labels::MANAGED_BY));

    let told = Arc::clone(ctx);
    watches.spawn(seen.tasks.follow(client.clone(), all(), task::slim, move |change| task_changed(&told, change)));
    let told = Arc::clone(ctx);
    watches.spawn(seen.pods.follow(client.clone(), ours(), task::slim_pod, move |change| pod_changed(&told, change)));
    let told = Arc::clone(ctx);
    watches.spawn(seen.agents.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            told.work.agents.add(change.key.clone());
            told.work.admissions.add(Target::agent(change.key.clone()));
            if let Some(template) = change.last().and_then(|agent| agent.spec.template_ref.as_ref()) {
                told.work.templates.add(Key::new(&change.key.namespace, &template.name));
            }
            if change.now.is_none() {
                for task in told.queues.everyone_on(&Target::agent(change.key.clone())) {
                    told.work.tasks.add(task);
                }
            }
        },
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.templates.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            agent::template_changed(&told, change.key);
        },
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.crons.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| told.work.crons.add(change.key.clone()),
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.registries.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            told.work.registries.add(change.key.clone());
        },
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.configs.follow(
        client.clone(),
        all(),
        |_| (),
        move |change: &Change<'_, KubeOpenCodeConfig>| {
            config::changed(&told, change);
        },
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.deployments.follow(
        client.clone(),
        managed(),
        |_| (),
        move |c| owner_changed(&told.work.agents, c),
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.services.follow(
        client.clone(),
        managed(),
        |_| (),
        move |c| owner_changed(&told.work.agents, c),
    ));
    let told = Arc::clone(ctx);
    watches.spawn(seen.config_maps.follow(
        client.clone(),
        managed(),
        |_| (),
        move |c| owner_changed(&told.work.agents, c),
    ));
    watches.spawn(seen.claims.follow(client.clone(), managed(), |_| (), |_| ()));
}

/// Follows what Agents use and others own. Answers when each kind is known.
fn follow_parts(ctx: &Arc<Context>, client: &Client, watches: &mut JoinSet<()>) -> Vec<signal::Receiver<bool>> {
    fn follow<K>(ctx: &Arc<Context>, client: &Client, watches: &mut JoinSet<()>) -> signal::Receiver<bool>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        let (complete, is_complete) = signal::channel(false);
        let told = Arc::clone(ctx);
        watches.spawn(ctx.parts.follow::<K>(client.clone(), complete, move |agent| told.work.agents.add(agent)));
        is_complete
    }
    vec![
        follow::<Secret>(ctx, client, watches),
        follow::<ConfigMap>(ctx, client, watches),
        follow::<Model>(ctx, client, watches),
        follow::<ModelProvider>(ctx, client, watches),
        follow::<Instruction>(ctx, client, watches),
        follow::<RemoteMCPServer>(ctx, client, watches),
    ]
}

async fn all_complete(ctx: &Context) {
    let seen = &ctx.seen;
    seen.tasks.complete().await;
    seen.pods.complete().await;
    seen.agents.complete().await;
    seen.templates.complete().await;
    seen.crons.complete().await;
    seen.registries.complete().await;
    seen.configs.complete().await;
    seen.deployments.complete().await;
    seen.services.complete().await;
    seen.config_maps.complete().await;
    seen.claims.complete().await;
}

fn task_changed(ctx: &Context, change: &Change<'_, Task>) {
    ctx.observe_task(change.key);
    for dependant in ctx.queues.dependants(change.key) {
        ctx.observe_task(&dependant);
    }
    if let Some(cron) = ctx.children.observe(change) {
        ctx.work.crons.add(cron);
    }
    let Some(task) = change.object() else {
        ctx.work.tasks.add(change.key.clone());
        return;
    };
    // A Task that waits is looked at when something was decided about it, or when its time comes, not before.
    let waits = matches!(Standing::of(task), Standing::Waiting { .. });
    if !waits || stop_requested(task) || joins_later(task).is_some() {
        ctx.work.tasks.add(change.key.clone());
    }
}

fn pod_changed(ctx: &Context, change: &Change<'_, Pod>) {
    let Some(pod) = change.last() else { return };
    let Some(task) = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::TASK)) else { return };
    ctx.work.tasks.add(Key::new(&change.key.namespace, task));
    if change.object().is_some_and(task::still_runs) {
        ctx.hold_slot(pod);
    } else if let Some(target) = apply::controller_uid(pod).and_then(|uid| ctx.queues.pod_gone(uid)) {
        ctx.work.admissions.add(target);
    }
}

/// An object that an Agent owns changed: look at the Agent.
fn owner_changed<K: Resource>(agents: &Queue<Key>, change: &Change<'_, K>) {
    let owners = change.last().and_then(|object| object.meta().owner_references.as_ref());
    for owner in owners.into_iter().flatten().filter(|owner| owner.kind == "Agent") {
        agents.add(Key::new(&change.key.namespace, &owner.name));
    }
}

/// Starts the workers of every reconciler.
fn work_all(ctx: &Arc<Context>, concurrency: usize, stop: &signal::Receiver<bool>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let work = &ctx.work;
    workers.spawn(drive(ctx, &work.admissions, 8, stop, "admission", async |ctx, target| {
        task::admission::pass(&ctx, &target).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.tasks, concurrency, stop, "task", async |ctx, key| {
        task::pass(&ctx, &key)
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(ctx, &work.agents, 8, stop, "agent", async |ctx, key| {
        Box::pin(agent::pass(&ctx, &key))
            .await
            .map_err(|error| Failure { reason: error.reason().into(), error: error.to_string() })
    }));
    workers.spawn(drive(ctx, &work.templates, 4, stop, "template", async |ctx, key| {
        template::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.crons, 8, stop, "crontask", async |ctx, key| {
        cron::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.registries, 4, stop, "registry", async |ctx, key| {
        registry::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.configs, 1, stop, "config", async |ctx, key| {
        config::pass(&ctx, &key).await.map_err(Failure::from)
    }));
    workers.spawn(drive(ctx, &work.cleanups, 2, stop, "cleanup", async |ctx, namespace| {
        task::cleanup::pass(&ctx, &namespace).await.map_err(Failure::from)
    }));
    workers
}

/// A pass that failed.
struct Failure {
    reason: String,
    error: String,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self { reason: api::conditions::reasons::APPLY_FAILED.into(), error: error.to_string() }
    }
}

/// Works on one queue.
fn drive<K, F, Fut>(
    ctx: &Arc<Context>,
    queue: &Queue<K>,
    workers: usize,
    stop: &signal::Receiver<bool>,
    name: &'static str,
    pass: F,
) -> impl Future<Output = ()> + Send + 'static
where
    K: Clone + Eq + Hash + std::fmt::Debug + Send + Sync + 'static,
    F: Fn(Arc<Context>, K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
{
    let (ctx, queue, stop) = (Arc::clone(ctx), queue.clone(), stop.clone());
    queue.work(workers, stop, move |key: K| {
        ctx.metrics.passed(name);
        let (ctx, shown) = (Arc::clone(&ctx), key.clone());
        let work = pass(Arc::clone(&ctx), key);
        async move {
            match work.await {
                Ok(next) => next,
                Err(Failure { reason, error }) => {
                    ctx.metrics.failed(name, &reason);
                    tracing::warn!(controller = name, object = ?shown, %reason, %error, "a pass failed");
                    Next::Retry
                }
            }
        }
    })
}

impl Context {
    /// Looks at a Task again as the watch last showed it, and asks for the decisions that it concerns.
    pub fn observe_task(&self, key: &Key) {
        let task = self.seen.tasks.object(key);
        let find = |other: &Key| self.seen.tasks.object(other).map(|task| Other::of(&task));
        let has_pod = |task: &TaskKey| {
            let ours = |pod: &Pod| apply::controller_uid(pod) == Some(&task.uid) && task::still_runs(pod);
            !self.seen.pods.all(ours).is_empty()
        };
        let grace = self.platform().reference_grace_period;
        for target in self.queues.observe(key, task.as_deref(), grace, find, has_pod) {
            self.work.admissions.add(target);
        }
    }

    /// A Pod that runs without a Task, because that was deleted, holds its slot until it has stopped.
    fn hold_slot(&self, pod: &Pod) {
        let labels = pod.labels();
        let (Some(uid), Some(name)) = (apply::controller_uid(pod), labels.get(labels::TASK)) else { return };
        let key = Key::new(pod.namespace().unwrap_or_default(), name);
        let known = self.seen.tasks.get(&key).is_some_and(|seen| match seen {
            Seen::Object(task) => task.metadata.uid.as_deref() == Some(uid),
            Seen::Unreadable(_) => true,
        });
        if known || !self.seen.tasks.is_complete() {
            return;
        }
        let Some(target) = Target::of_pod(pod) else { return };
        let epoch = labels.get(labels::RUN_EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(1);
        let task = TaskKey { namespace: key.namespace, name: key.name, uid: uid.to_owned() };
        self.queues.linger(task, epoch, target, self.platform().reference_grace_period);
    }
}
