//! Tasks: from waiting to a final status.
//!
//! Read it in this order: [`standing`] (where a Task is), [`target`] (what it runs on), [`queues`] (who waits),
//! [`admission`] (who may start), [`budget`] (how much may be used), [`needs`] (what must be there first), [`start`] (claim
//! and Pod), [`made`] (what its Pod told), [`follow`] (while it runs), [`approval`] (while its agent asks a person),
//! [`finish`] (the final status) and [`record`] (what outlives the next run), [`session`] and
//! [`workspace`] (what must not outlive a run), [`cleanup`] (when it goes away).

pub mod admission;
pub mod approval;
pub mod budget;
pub mod cleanup;
pub mod finish;
pub mod follow;
pub mod made;
pub mod needs;
pub mod queues;
pub mod record;
pub mod session;
pub mod standing;
pub mod start;
pub mod target;
pub mod workspace;

use api::{Task, TaskPhase, TaskSpec, conditions::types, kinds::task::TaskTimings, names::annotations};
use k8s_openapi::{
    api::core::v1::{Pod, PodSpec, Volume},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use kubeopencode_core::{dependencies::Missing, status};
use observe::{Key, Next, Seen};
use serde_json::json;

use self::{
    queues::{Queued, Verdict},
    standing::{Standing, joins_later, stop_requested},
    start::Error,
};
use crate::{
    context::{Context, instant, now},
    failpoint,
    parts::User,
};

/// One pass over a Task. If somebody changed it since we looked, we look again.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, Error> {
    match look(ctx, key).await {
        Err(Error::Api(kube::Error::Api(status))) if status.code == 409 => Ok(Next::Retry),
        other => other,
    }
}

async fn look(ctx: &Context, key: &Key) -> Result<Next, Error> {
    let task = match ctx.seen.tasks.get(key) {
        None => {
            ctx.observe_task(key);
            cleanup::gone(ctx, key);
            ctx.parts.forget_user(&User::Task(key.clone()));
            return Ok(Next::Wait);
        }
        Some(Seen::Unreadable(why)) => {
            ctx.report_unreadable::<Task>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(task)) => task,
    };
    if task.metadata.deletion_timestamp.is_some() {
        // Kubernetes deletes the Pod with it; its helper aborts the session when it is told to end.
        return Ok(Next::Wait);
    }
    match Standing::of(&task) {
        Standing::Waiting { epoch } => follow::discard_unstarted(ctx, &task, epoch - 1).await?,
        Standing::Running { .. } => {}
        Standing::Finished { epoch } => follow::discard_unstarted(ctx, &task, epoch).await?,
    }
    match Standing::of(&task) {
        Standing::Waiting { epoch } if stop_requested(&task) => finish::stopped_while_waiting(ctx, &task, epoch).await,
        Standing::Waiting { epoch } => match ctx.queues.verdict(key, &task.uid().unwrap_or_default()) {
            Verdict::Admitted(admission) => match Box::pin(start::start(ctx, &task, &admission)).await {
                Err(error) if error.is_missing() => {
                    lacks(ctx, &task, &error);
                    Ok(Next::Wait)
                }
                Err(Error::Resolve(_)) if task.spec.agent_ref.is_some() => {
                    // The Agent changed since it let the Task in: it waits until the Agent is corrected, and says so.
                    ctx.queues.withdraw(key, &admission);
                    ctx.observe_task(key);
                    Ok(Next::Wait)
                }
                Err(error) if error.is_permanent() => {
                    finish::refused(ctx, &task, epoch, error.reason(), &error.to_string()).await
                }
                other => other,
            },
            Verdict::Refused(refusal) => finish::refused(ctx, &task, epoch, refusal.reason, &refusal.message).await,
            Verdict::Waits(queued) => say_queued(ctx, &task, &queued).await,
            Verdict::Lacks(queued) => match Box::pin(start::check(ctx, &task, epoch)).await {
                Err(error) if error.is_missing() => {
                    if lacks(ctx, &task, &error) {
                        return Ok(Next::Wait);
                    }
                    say_queued(ctx, &task, &queued).await
                }
                Err(error) if !error.is_permanent() => Err(error),
                Ok(()) | Err(_) => {
                    ctx.queues.found(key);
                    ctx.observe_task(key);
                    Ok(Next::Wait)
                }
            },
            Verdict::Undecided => {
                ctx.observe_task(key);
                Ok(joins_later(&task).map_or(Next::Wait, |at| Next::At(instant(at))))
            }
        },
        Standing::Running { epoch, admitted_at } => follow::follow(ctx, &task, epoch, admitted_at).await,
        Standing::Finished { epoch } => finished(ctx, &task, epoch).await,
    }
}

/// Lets a Task wait for what it refers to. Answers whether that is news; then it is decided anew.
fn lacks(ctx: &Context, task: &Task, error: &Error) -> bool {
    let until = follow::later(now(), ctx.platform().reference_grace_period);
    let missing = Missing { reason: error.reason(), message: error.to_string(), until };
    let key = Key::of(task);
    let news = ctx.queues.lacks(&key, &task.uid().unwrap_or_default(), missing);
    if news {
        ctx.observe_task(&key);
    }
    news
}

/// Says in the status what the Task waits for. Its label is written now, not when its turn comes and a slot is empty.
async fn say_queued(ctx: &Context, task: &Task, queued: &Queued) -> Result<Next, Error> {
    let labelled = start::label(ctx, task).await?;
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
    if let Some(written) = ctx.write_status::<Task>(&key, &before, &after, task.resource_version().as_deref()).await? {
        ctx.learn_task(written);
    }
    Ok(Next::Wait)
}

/// A finished Task: run it again if its user asks for it, or let it go when its time has come.
async fn finished(ctx: &Context, task: &Task, epoch: i64) -> Result<Next, Error> {
    let key = Key::of(task);
    ctx.queues.finished(&key, epoch);
    ctx.parts.forget_user(&User::Task(key.clone()));
    let asked = task.annotations().get(annotations::RERUN);
    let done = task.status.as_ref().and_then(|status| status.observed_rerun.as_ref());
    if asked.is_some() && asked != done {
        return rerun(ctx, task, asked.cloned()).await;
    }
    cleanup::finished(ctx, &key);
    Ok(Next::Wait)
}

/// Puts a finished Task back into the queue. Its next run has the next epoch.
async fn rerun(ctx: &Context, task: &Task, asked: Option<String>) -> Result<Next, Error> {
    let key = Key::of(task);
    if stop_requested(task) {
        // The stop was meant for the run that is over.
        let patch = json!({ "metadata": { "annotations": { annotations::STOP: null } } });
        let api = ctx.api::<Task>(&key.namespace);
        api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        failpoint::reach("stop-taken-back");
    }
    ctx.finished.observe(&key, false);
    // In memory a finished Task is slim: what is not there could not be taken back.
    let Some(whole) = ctx.api::<Task>(&key.namespace).get_opt(&key.name).await? else { return Ok(Next::Wait) };
    if !matches!(Standing::of(&whole), Standing::Finished { .. }) {
        // It was put back already; the watch will tell.
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
    ctx.write_status::<Task>(&key, &before, &after, whole.resource_version().as_deref()).await?;
    failpoint::reach("rerun-noted");
    Ok(Next::Wait)
}

/// What of a Task is kept in memory. Of a finished one: what lists, cron, dependents and budgets ask for.
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
        let told: Vec<_> = conditions.filter(|condition| condition.type_ == types::STOPPED).collect();
        status.conditions = (!told.is_empty()).then_some(told);
        (status.message, status.session, status.result) = (None, None, None);
        (status.artifacts, status.logs, status.resolved) = (None, None, None);
        task.metadata.labels = None;
    }
}

/// Whether the containers of a Pod may still run.
pub fn still_runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// What of a Pod is kept in memory: its status says all, of its spec only the node, the deadline and a claim of its own
/// count.
pub fn slim_pod(pod: &mut Pod) {
    let spec = pod.spec.take().unwrap_or_default();
    let own: Vec<Volume> =
        spec.volumes.unwrap_or_default().into_iter().filter(|volume| volume.ephemeral.is_some()).collect();
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
