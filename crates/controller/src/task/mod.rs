//! Tasks: from waiting to a final status.
//!
//! Read in this order: [`domain::run::stage`] (where a Task is), [`queues`] (which Tasks wait), [`admission`] (which may
//! start), [`budget`] (how much they may use), [`secrets`] (Secrets that they may use), [`needs`] (objects that must exist),
//! [`start`] (claim and Pod), [`last_pods`] (the last state of a Pod), [`follow`] (while a run lasts), [`approval`] (while its agent asks a person),
//! [`finish`] (the final status), [`results`] (what the run left in the store), [`record`] (records that outlive the next run), [`session`] and [`workspace`] (what must
//! not outlive a run), [`cleanup`] (deletion).

pub mod admission;
pub mod approval;
pub mod budget;
pub mod cleanup;
pub mod finish;
pub mod follow;
pub mod last_pods;
pub mod needs;
pub mod queues;
pub mod record;
pub mod results;
pub mod secrets;
pub mod session;
pub mod start;
pub mod workspace;

use api::{
    Task, TaskPhase, TaskSpec,
    conditions::types,
    kinds::task::TaskTimings,
    names::{annotations, labels},
};
use domain::{
    run::{
        dependencies::Missing,
        queue::{
            Admission,
            index::{Decision, Queued},
        },
        stage::{Stage, stop_requested},
    },
    status,
};
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, Volume},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use observe::{Cached, Key, Next};
use serde_json::json;

use self::start::Error;
use crate::shared::{Shared, dependents::Dependent, failpoint, instant, now, settings::SettingsError};

/// Reconciles one Task. A Task that changed during the pass is retried.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, Error> {
    match reconcile(shared, key).await {
        Err(Error::Api(kube::Error::Api(status))) if status.code == 409 => Ok(Next::Retry),
        other => other,
    }
}

async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, Error> {
    let task = match shared.cache.tasks.get(key) {
        None => {
            shared.observe_task(key);
            cleanup::gone(shared, key);
            shared.dependents.remove(&Dependent::Task(key.clone()));
            shared.images.forget(&Dependent::Task(key.clone()));
            return Ok(Next::Wait);
        }
        Some(Cached::Unreadable(why)) => {
            shared.report_unreadable::<Task>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(task)) => task,
    };
    if task.metadata.deletion_timestamp.is_some() {
        // Kubernetes deletes the Pod with it; its helper aborts the session on termination.
        return Ok(Next::Wait);
    }
    match Stage::of(&task) {
        Stage::Waiting { epoch } => follow::discard_unstarted(shared, &task, epoch - 1).await?,
        Stage::Running { .. } => {}
        Stage::Finished { epoch } => follow::discard_unstarted(shared, &task, epoch).await?,
    }
    match Stage::of(&task) {
        Stage::Waiting { epoch } if stop_requested(&task) => finish::stopped_while_waiting(shared, &task, epoch).await,
        Stage::Waiting { epoch } => wait(shared, &task, epoch).await,
        Stage::Running { epoch, admitted_at } => follow::follow(shared, &task, epoch, admitted_at).await,
        Stage::Finished { epoch } => finished(shared, &task, epoch).await,
    }
}

/// Executes the decision about a waiting Task. Without a decision there is nothing to do: the next decision queues the
/// Task.
async fn wait(shared: &Shared, task: &Task, epoch: i64) -> Result<Next, Error> {
    let key = Key::of(task);
    let uid = task.uid().unwrap_or_default();
    match shared.tasks.queues.with(|index| index.decision(&key, &uid)) {
        None => Ok(Next::Wait),
        Some(Decision::Start(admission)) => start(shared, task, &admission).await,
        Some(Decision::Fail(refusal)) => finish::refused(shared, task, epoch, refusal.reason, &refusal.message).await,
        Some(Decision::Wait(queued)) => report_queued(shared, task, &queued).await,
        Some(Decision::WaitForReference(_)) => match Box::pin(start::check(shared, task, epoch)).await {
            Err(error) if error.is_missing() => wait_for_reference(shared, task, &error).await,
            Err(error) if !error.is_permanent() => Err(error),
            // Other errors show when the Task starts.
            Ok(()) | Err(_) => {
                shared.tasks.queues.with(|index| index.found(&key));
                shared.observe_task(&key);
                Ok(Next::Wait)
            }
        },
    }
}

/// Starts an admitted run. A run that cannot start waits for a missing object, or fails.
async fn start(shared: &Shared, task: &Task, admission: &Admission) -> Result<Next, Error> {
    match Box::pin(start::start(shared, task, admission)).await {
        Err(error) if error.is_missing() => wait_for_reference(shared, task, &error).await,
        Err(Error::Settings(SettingsError::Resolve(_))) if task.spec.agent_ref.is_some() => {
            // The Agent changed since the Task was admitted: the Task waits until the Agent is corrected, and reports that.
            shared.tasks.queues.with(|index| index.withdrawn(admission));
            shared.observe_task(&Key::of(task));
            Ok(Next::Wait)
        }
        Err(error) if error.is_permanent() => {
            finish::refused(shared, task, admission.epoch, error.reason(), &error.to_string()).await
        }
        other => other,
    }
}

/// Makes a Task wait for a missing object that it refers to.
async fn wait_for_reference(shared: &Shared, task: &Task, error: &Error) -> Result<Next, Error> {
    let until = follow::later(now(), error.patience(&shared.platform()));
    let missing = Missing { reason: error.reason(), message: error.to_string(), until };
    let (key, uid) = (Key::of(task), task.uid().unwrap_or_default());
    let (target, queued) = shared.tasks.queues.with(|index| index.missing(&key, &uid, missing));
    if let Some(target) = target {
        shared.work.admissions.add(target);
    }
    if let Some(queued) = queued {
        report_queued(shared, task, &queued).await?;
    }
    Ok(error.look_again().map_or(Next::Wait, |at| Next::At(instant(at))))
}

/// Reports in the status what the Task waits for. The label is written here, so that it costs no time when a slot is
/// free.
async fn report_queued(shared: &Shared, task: &Task, queued: &Queued) -> Result<Next, Error> {
    let labelled = start::label(shared, task).await?;
    let task = labelled.as_ref().unwrap_or(task);
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let (generation, at) = (task.metadata.generation, now());
    after.phase = Some(TaskPhase::Queued);
    after.observed_generation = generation;
    after.agent_ref.clone_from(&task.spec.agent_ref);
    after.template_ref.clone_from(&task.spec.template_ref);
    after.reason = Some(queued.reason.into());
    after.message = Some(queued.message.clone());
    after.queue_position = queued.position;
    let timings = after.timings.get_or_insert_default();
    timings.queued_at.get_or_insert(Time(at));
    let mut conditions = after.conditions.take().unwrap_or_default();
    status::set(&mut conditions, types::QUEUED, true, queued.reason, &queued.message, generation, at);
    after.conditions = Some(conditions);
    if let Some(written) =
        shared.write_status::<Task>(&key, &before, &after, task.resource_version().as_deref()).await?
    {
        shared.insert_written_task(written);
    }
    Ok(Next::Wait)
}

/// A finished Task runs again if its user requests that, and is deleted when it is due.
async fn finished(shared: &Shared, task: &Task, epoch: i64) -> Result<Next, Error> {
    let key = Key::of(task);
    if let Some(target) = shared.tasks.queues.with(|index| index.finished(&key, epoch)) {
        shared.work.admissions.add(target);
    }
    shared.dependents.remove(&Dependent::Task(key.clone()));
    shared.images.forget(&Dependent::Task(key.clone()));
    let asked = task.annotations().get(annotations::RERUN);
    let done = task.status.as_ref().and_then(|status| status.observed_rerun.as_ref());
    if asked.is_some() && asked != done {
        return rerun(shared, task, asked.cloned()).await;
    }
    cleanup::finished(shared, &key);
    Ok(Next::Wait)
}

/// Puts a finished Task back into the queue. Its next run has the next epoch.
async fn rerun(shared: &Shared, task: &Task, asked: Option<String>) -> Result<Next, Error> {
    let key = Key::of(task);
    if stop_requested(task) {
        // The stop was meant for the previous run.
        let patch = json!({ "metadata": { "annotations": { annotations::STOP: null } } });
        let api = shared.api::<Task>(&key.namespace);
        api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        failpoint::reach("stop-taken-back");
    }
    shared.tasks.finished.observe(&key, false);
    // The cache keeps only a part of a finished Task; the patch needs the whole object.
    let Some(whole) = shared.api::<Task>(&key.namespace).get_opt(&key.name).await? else { return Ok(Next::Wait) };
    if !matches!(Stage::of(&whole), Stage::Finished { .. }) {
        // Another pass put it back; the watch event follows.
        return Ok(Next::Wait);
    }
    let before = whole.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.phase = Some(TaskPhase::Queued);
    after.observed_rerun = asked;
    after.attempt = Some(0);
    (after.reason, after.message, after.exit_code) = (None, None, None);
    (after.start_time, after.completion_time) = (None, None);
    after.timings = Some(TaskTimings { queued_at: Some(Time(now())), ..TaskTimings::default() });
    let mut conditions = after.conditions.take().unwrap_or_default();
    conditions.retain(|condition| condition.type_ == types::QUEUED);
    after.conditions = Some(conditions);
    shared.write_status::<Task>(&key, &before, &after, whole.resource_version().as_deref()).await?;
    failpoint::reach("rerun-noted");
    Ok(Next::Wait)
}

/// Drops what the cache does not need. A finished Task keeps what lists, cron, dependents and budgets read.
pub fn slim(task: &mut Task) {
    if let Some(status) = &mut task.status
        && status.phase.is_some_and(TaskPhase::is_finished)
    {
        let spec = std::mem::take(&mut task.spec);
        task.spec = TaskSpec {
            agent_ref: spec.agent_ref,
            template_ref: spec.template_ref,
            depends_on: spec.depends_on,
            ..TaskSpec::default()
        };
        let conditions = status.conditions.take().unwrap_or_default().into_iter();
        let kept: Vec<_> = conditions.filter(|condition| condition.type_ == types::STOPPED).collect();
        status.conditions = (!kept.is_empty()).then_some(kept);
        (status.message, status.session, status.result, status.changes) = (None, None, None, None);
        (status.artifacts, status.caches, status.published) = (None, None, None);
        (status.logs, status.resolved) = (None, None);
        if let Some(all) = &mut task.metadata.labels {
            all.retain(|label, _| label == labels::CRON_TASK);
        }
    }
}

/// Whether the containers of a Pod may still run.
pub fn still_runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Drops what the cache does not need: of the spec of a Pod only the node, the deadline and claims are read.
pub fn slim_pod(pod: &mut Pod) {
    let spec = pod.spec.take().unwrap_or_default();
    let own: Vec<Volume> = spec.volumes.unwrap_or_default().into_iter().filter(has_claim).collect();
    pod.spec = Some(PodSpec {
        volumes: (!own.is_empty()).then_some(own),
        node_name: spec.node_name,
        active_deadline_seconds: spec.active_deadline_seconds,
        ..PodSpec::default()
    });
    if let Some(all) = &mut pod.metadata.annotations {
        all.retain(|key, _| !key.starts_with(annotations::FILE_PREFIX));
    }
}

fn has_claim(volume: &Volume) -> bool {
    volume.ephemeral.is_some() || volume.persistent_volume_claim.is_some()
}
