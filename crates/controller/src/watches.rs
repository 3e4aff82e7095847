//! Who is to look when something in the cluster changes.

use std::{fmt::Debug, sync::Arc, time::Instant};

use api::{Instruction, KubeOpenCodeConfig, Model, ModelProvider, RemoteMCPServer, Task, names::labels};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Client, Resource, ResourceExt as _, core::ApiResource, runtime::watcher};
use kubeopencode_core::{queue::TaskKey, rollout};
use observe::{Change, Key, Kind, Queue, Seen};
use serde::de::DeserializeOwned;
use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    agent::{self, delivered},
    apply, config,
    context::Context,
    logs,
    parts::User,
    task::{
        self,
        standing::{Standing, joins_later, stop_requested},
        target::Target,
    },
};

/// Follows every kind, and says who is to look when an object changes.
pub fn follow_all(ctx: &Arc<Context>, client: &Client, watches: &mut JoinSet<()>) {
    let seen = &ctx.seen;
    let all = watcher::Config::default;
    let ours = || watcher::Config::default().labels(&format!("{}={}", labels::APP, labels::APP_VALUE));

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
    follow_owned(ctx, &seen.deployments, client, watches);
    follow_owned(ctx, &seen.services, client, watches);
    follow_owned(ctx, &seen.config_maps, client, watches);
    follow_owned(ctx, &seen.claims, client, watches);
}

/// Follows what we made for Agents: when somebody changes it, its Agent is looked at.
fn follow_owned<K>(ctx: &Arc<Context>, seen: &Kind<K>, client: &Client, watches: &mut JoinSet<()>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ours = watcher::Config::default().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGER));
    let agents = ctx.work.agents.clone();
    watches.spawn(seen.follow(client.clone(), ours, |_| (), move |change| owner_changed(&agents, change)));
}

/// Follows what Agents use or Tasks wait for, and others own. Answers when each kind is known.
pub fn follow_parts(ctx: &Arc<Context>, client: &Client, watches: &mut JoinSet<()>) -> Vec<signal::Receiver<bool>> {
    let kinds = [
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Model>(&()),
        ApiResource::erase::<ModelProvider>(&()),
        ApiResource::erase::<Instruction>(&()),
        ApiResource::erase::<RemoteMCPServer>(&()),
    ];
    let mut follow = |kind| {
        let (complete, is_complete) = signal::channel(false);
        let told = Arc::clone(ctx);
        watches.spawn(ctx.parts.follow(client.clone(), kind, complete, move |user| match user {
            User::Agent(agent) => told.work.agents.add(agent),
            User::Template(template) => told.work.templates.add(template),
            User::Task(task) => told.work.tasks.add(task),
        }));
        is_complete
    };
    kinds.into_iter().map(&mut follow).collect()
}

/// Returns when everything that is followed is known.
pub async fn all_complete(ctx: &Context) {
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
    delivered::task_changed(ctx, change);
    ctx.observe_task(change.key);
    if change.before.is_none() || change.now.is_none() {
        let namespace = &change.key.namespace;
        ctx.metrics.has_tasks(namespace, ctx.seen.tasks.has_any_in(namespace), Instant::now());
    }
    for dependant in ctx.queues.dependants(change.key) {
        ctx.observe_task(&dependant);
    }
    if let Some(cron) = ctx.children.observe(change) {
        ctx.work.crons.add(cron);
    }
    if let Some(gone) = gone(change) {
        ctx.made.forget_task(gone.metadata.uid.as_deref().unwrap_or_default());
        if let Some(owner) = logs::owner(gone).filter(|_| ctx.logs.are_kept()) {
            ctx.work.logs.add(owner);
        }
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

/// The Task that went with a change. Another one of its name may be there by now.
fn gone<'a>(change: &'a Change<'_, Task>) -> Option<&'a Task> {
    let was = change.was()?;
    let replaced = change.object().is_some_and(|now| now.metadata.uid != was.metadata.uid);
    (change.now.is_none() || replaced).then_some(was)
}

fn pod_changed(ctx: &Context, change: &Change<'_, Pod>) {
    if let Some(Seen::Object(pod)) = change.now.or(change.before) {
        ctx.made.changed(pod);
    }
    let Some(pod) = change.last() else { return };
    let Some(task) = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::TASK)) else {
        // Its Deployment tells of most changes. What is wrong with a Pod only the Pod says, and only if that changed
        // there is something to report.
        let said = |pod: Option<&Pod>| pod.and_then(rollout::complaint);
        if let Some(agent) = agent::server::agent_of(pod).filter(|_| said(change.was()) != said(change.object())) {
            ctx.work.agents.add(Key::new(&change.key.namespace, agent));
        }
        return;
    };
    ctx.work.tasks.add(Key::new(&change.key.namespace, task));
    if change.now.is_none()
        && let Some(target) = Target::of_pod(pod)
    {
        delivered::left(ctx, &target);
        task::session::pod_gone(ctx, pod, &Key::new(&change.key.namespace, task), epoch_of(pod));
    }
    if change.object().is_some_and(task::still_runs) {
        ctx.hold_slot(pod);
    } else if let Some(target) = apply::controller_uid(pod).and_then(|uid| ctx.queues.pod_gone(uid)) {
        ctx.work.admissions.add(target);
    }
}

/// Number of the run whose Pod this is.
fn epoch_of(pod: &Pod) -> i64 {
    pod.labels().get(labels::RUN_EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(1)
}

/// An object that an Agent owns changed: look at the Agent.
fn owner_changed<K: Resource>(agents: &Queue<Key>, change: &Change<'_, K>) {
    let owners = change.last().and_then(|object| object.meta().owner_references.as_ref());
    for owner in owners.into_iter().flatten().filter(|owner| owner.kind == "Agent") {
        agents.add(Key::new(&change.key.namespace, &owner.name));
    }
}

impl Context {
    /// Looks at a Task again as the watch last showed it, and asks for the decisions that it concerns.
    pub fn observe_task(&self, key: &Key) {
        let has_pod = |task: &TaskKey| {
            let ours = |pod: &Pod| apply::controller_uid(pod) == Some(&task.uid) && task::still_runs(pod);
            !self.seen.pods.all(ours).is_empty()
        };
        let grace = self.platform().reference_grace_period;
        for target in self.queues.observe(key, grace, |task| self.seen.tasks.object(task), has_pod) {
            self.work.admissions.add(target);
        }
    }

    /// A Pod that runs without a Task, because that was deleted, holds its slot until it has stopped.
    pub(crate) fn hold_slot(&self, pod: &Pod) {
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
        let epoch = epoch_of(pod);
        let task = TaskKey { namespace: key.namespace, name: key.name, uid: uid.to_owned() };
        self.queues.linger(task, epoch, target, self.platform().reference_grace_period);
    }
}
