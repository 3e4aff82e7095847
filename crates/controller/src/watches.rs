//! Which reconcilers run when an object in the cluster changes.

use std::{fmt::Debug, sync::Arc, time::Instant};

use api::{Instruction, KubeOpenCodeConfig, Model, ModelProvider, RemoteMCPServer, Task, names::labels};
use domain::{
    agent::rollout,
    run::{
        stage::{Stage, joins_later, stop_requested},
        target::Target,
    },
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Client, Resource,
    core::{ApiResource, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use observe::{Cache, Cached, Change, Key, Queue};
use serde::de::DeserializeOwned;
use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    agent::{self, delivered},
    config, image,
    logs::{self, sweep},
    shared::{Shared, apply, dependents::Dependent, now},
    task::{self, queues::epoch_of},
};

/// Watches every kind, and queues the objects to reconcile when one changes.
pub fn follow_all(shared: &Arc<Shared>, client: &Client, watches: &mut JoinSet<()>) {
    let cache = &shared.cache;
    let all = watcher::Config::default;
    let ours = || watcher::Config::default().labels(&format!("{}={}", labels::APP, labels::APP_VALUE));

    let handler = Arc::clone(shared);
    watches.spawn(cache.tasks.follow(client.clone(), all(), task::slim, move |change| task_changed(&handler, change)));
    let handler = Arc::clone(shared);
    watches
        .spawn(cache.pods.follow(client.clone(), ours(), task::slim_pod, move |change| pod_changed(&handler, change)));
    let handler = Arc::clone(shared);
    watches.spawn(cache.agents.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            sweep::target_changed(&handler, change);
            handler.work.agents.add(change.key.clone());
            handler.work.admissions.add(Target::agent(change.key.clone()));
            if let Some(template) = change.last().and_then(|agent| agent.spec.template_ref.as_ref()) {
                handler.work.templates.add(Key::new(&change.key.namespace, &template.name));
            }
            let target = Target::agent(change.key.clone());
            // A changed Agent may refer to other objects.
            let affected = handler.tasks.queues.with(|index| {
                if change.now.is_none() { index.unfinished_on(&target) } else { index.missing_on(&target) }
            });
            for task in affected {
                handler.work.tasks.add(task);
            }
        },
    ));
    let handler = Arc::clone(shared);
    watches.spawn(cache.templates.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            sweep::target_changed(&handler, change);
            agent::template_changed(&handler, change.key);
        },
    ));
    let handler = Arc::clone(shared);
    watches.spawn(cache.crons.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| handler.work.crons.add(change.key.clone()),
    ));
    let handler = Arc::clone(shared);
    watches.spawn(cache.registries.follow(
        client.clone(),
        all(),
        |_| (),
        move |change| {
            handler.work.registries.add(change.key.clone());
        },
    ));
    let handler = Arc::clone(shared);
    watches.spawn(cache.configs.follow(
        client.clone(),
        all(),
        |_| (),
        move |change: &Change<'_, KubeOpenCodeConfig>| {
            config::changed(&handler, change);
        },
    ));
    follow_owned(shared, &cache.deployments, client, watches);
    follow_owned(shared, &cache.services, client, watches);
    follow_owned(shared, &cache.config_maps, client, watches);
    let handler = Arc::clone(shared);
    let managed = watcher::Config::default().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGER));
    watches.spawn(cache.claims.follow(
        client.clone(),
        managed,
        |_| (),
        move |change| {
            owner_changed(&handler.work.agents, change);
            task::workspace::claim_changed(&handler, change);
        },
    ));
}

/// Watches the objects that we own for Agents: a change queues the Agent.
fn follow_owned<K>(shared: &Arc<Shared>, cache: &Cache<K>, client: &Client, watches: &mut JoinSet<()>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let ours = watcher::Config::default().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGER));
    let agents = shared.work.agents.clone();
    watches.spawn(cache.follow(client.clone(), ours, |_| (), move |change| owner_changed(&agents, change)));
}

/// Watches referenced kinds, which other controllers own. Each receiver becomes `true` when the first list of its kind
/// is complete.
pub fn follow_dependencies(
    shared: &Arc<Shared>,
    client: &Client,
    watches: &mut JoinSet<()>,
) -> Vec<signal::Receiver<bool>> {
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
        let (opt_ins, handler) = (Arc::clone(shared), Arc::clone(shared));
        let are_secrets = kind == ApiResource::erase::<Secret>(&());
        let observe = move |event: &Event<PartialObjectMeta>| {
            if are_secrets {
                opt_ins.opt_ins.observe(event).into_iter().for_each(|namespace| opt_ins.work.opt_ins.add(namespace));
            }
        };
        let notify = move |user| match user {
            Dependent::Agent(agent) => handler.work.agents.add(agent),
            Dependent::Template(template) => handler.work.templates.add(template),
            Dependent::Task(task) => handler.work.tasks.add(task),
        };
        watches.spawn(shared.dependents.follow(client.clone(), kind, complete, observe, notify));
        is_complete
    };
    kinds.into_iter().map(&mut follow).collect()
}

/// Returns when the first list of every watched kind is complete.
pub async fn all_complete(shared: &Shared) {
    let cache = &shared.cache;
    cache.tasks.complete().await;
    cache.pods.complete().await;
    cache.agents.complete().await;
    cache.templates.complete().await;
    cache.crons.complete().await;
    cache.registries.complete().await;
    cache.configs.complete().await;
    cache.deployments.complete().await;
    cache.services.complete().await;
    cache.config_maps.complete().await;
    cache.claims.complete().await;
}

fn task_changed(shared: &Shared, change: &Change<'_, Task>) {
    delivered::task_changed(shared, change);
    shared.observe_task(change.key);
    if change.before.is_none() || change.now.is_none() {
        let namespace = &change.key.namespace;
        shared.telemetry.metrics.has_tasks(namespace, shared.cache.tasks.has_any_in(namespace), Instant::now());
    }
    for cron in shared.children.observe(change) {
        shared.work.crons.add(cron);
    }
    if let Some(gone) = gone(change) {
        shared.tasks.last_pods.forget_task(gone.metadata.uid.as_deref().unwrap_or_default());
        task::workspace::task_gone(shared, gone);
        if let Some(owner) = logs::owner(gone).filter(|_| shared.records.logs.are_kept()) {
            shared.work.logs.add(owner);
        }
    }
    let Some(task) = change.object() else {
        shared.work.tasks.add(change.key.clone());
        return;
    };
    // A waiting Task is reconciled after a decision about it, not before.
    let waits = matches!(Stage::of(task), Stage::Waiting { .. });
    if !waits || stop_requested(task) || joins_later(task, now()).is_some() {
        shared.work.tasks.add(change.key.clone());
    }
}

/// The deleted Task, if the change is a deletion. A new Task of its name may exist already.
fn gone<'a>(change: &'a Change<'_, Task>) -> Option<&'a Task> {
    let was = change.was()?;
    let replaced = change.object().is_some_and(|now| now.metadata.uid != was.metadata.uid);
    (change.now.is_none() || replaced).then_some(was)
}

fn pod_changed(shared: &Shared, change: &Change<'_, Pod>) {
    if let Some(Cached::Object(pod)) = change.now.or(change.before) {
        shared.tasks.last_pods.changed(pod);
    }
    task::workspace::pod_changed(shared, change);
    image::pod_changed(shared, change);
    let Some(pod) = change.last() else { return };
    let Some(task) = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::TASK)) else {
        // The Deployment covers most changes. A failing container shows only in the Pod, and is reported only if it
        // changed.
        let complaint = |pod: Option<&Pod>| pod.and_then(rollout::complaint);
        if let Some(agent) =
            agent::server::agent_of(pod).filter(|_| complaint(change.was()) != complaint(change.object()))
        {
            shared.work.agents.add(Key::new(&change.key.namespace, agent));
        }
        return;
    };
    shared.work.tasks.add(Key::new(&change.key.namespace, task));
    if change.now.is_none()
        && let Some(target) = Target::of_pod(pod)
    {
        delivered::left(shared, &target);
        task::session::pod_gone(shared, pod, &Key::new(&change.key.namespace, task), epoch_of(pod));
    }
    if change.object().is_some_and(task::still_runs) {
        shared.hold_slot(pod);
    } else if let Some(target) =
        apply::controller_uid(pod).and_then(|uid| shared.tasks.queues.with(|index| index.pod_gone(uid)))
    {
        shared.work.admissions.add(target);
    }
}

/// Queues the Agent that owns the changed object.
fn owner_changed<K: Resource>(agents: &Queue<Key>, change: &Change<'_, K>) {
    let owners = change.last().and_then(|object| object.meta().owner_references.as_ref());
    for owner in owners.into_iter().flatten().filter(|owner| owner.kind == "Agent") {
        agents.add(Key::new(&change.key.namespace, &owner.name));
    }
}
