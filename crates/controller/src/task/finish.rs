//! The final status of a run: written once, then its slot is free.

use std::time::Duration;

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::{reasons, types},
    kinds::task::{Session, TaskResult},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt as _;
use kubeopencode_core::{
    approval, milestones, names,
    outcome::{Ending, Evidence, Stop},
    pod_progress::Progress,
    retry::retry_after,
    status,
};
use observe::{Key, Next};

use super::{
    follow::{later, time},
    record, session,
    start::{Error, note_rerun},
    workspace,
};
use crate::{
    context::{Context, instant, now},
    failpoint,
    logs::Closing,
};

/// A run ended.
pub async fn ended(
    ctx: &Context,
    task: &Task,
    epoch: i64,
    evidence: &Evidence<'_>,
    ending: Ending,
) -> Result<Next, Error> {
    let pod = evidence.pod;
    let progress = pod.map(Progress::of).unwrap_or_default();
    // The status is final once the log is durable. A run without a Pod has neither log nor session.
    let logs = if pod.is_none() && matches!(evidence.stop, Some(Stop::Startup(_))) {
        None
    } else {
        let logs = match ctx.logs.close(task, epoch, pod, evidence.gone).await {
            Closing::Until(at) => return Ok(Next::At(at)),
            Closing::Over(logs) => logs,
        };
        session::ended(ctx, task, epoch, &ending, &progress);
        logs
    };
    let ended_at = progress.ended_at.unwrap_or_else(now);
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    note_progress(&mut after, pod, &progress);
    // One that was stopped before anybody saw it start has no log that could be missed.
    let missed = !ending.stopped || after.start_time.is_some();
    after.logs = logs.filter(|logs| missed || logs.bytes > Some(0));
    after.phase = Some(ending.phase);
    after.observed_generation = task.metadata.generation;
    after.reason = Some(ending.reason.into());
    after.message = Some(ending.message.clone());
    after.exit_code = ending.exit_code;
    after.completion_time = Some(Time(ended_at));
    after.queue_position = None;
    after.usage = ending.usage();
    ctx.queues.spent(task, epoch, ended_at, after.usage.as_ref());
    let title = names::session_title(&key.namespace, &key.name, &task.uid().unwrap_or_default());
    after.session = ending.session().map(|session| Session { title: Some(title), ..session });
    after.result =
        ending.summary().map(|words| TaskResult { summary: Some(words.to_owned()), ..TaskResult::default() });
    let mut conditions = after.conditions.take().unwrap_or_default();
    let generation = task.metadata.generation;
    let mut set = |type_: &str, holds: bool| {
        status::set(&mut conditions, type_, holds, ending.reason, ending.message.clone(), generation, ended_at);
    };
    set(types::READY, ending.succeeded());
    if ending.stopped {
        set(types::STOPPED, true);
    }
    if ending.disrupted {
        set(types::DISRUPTED, true);
    }
    approval::note(&mut conditions, &[], generation, ended_at);
    after.conditions = Some(conditions);
    milestones::note(&mut after, generation, ended_at);
    if let Some(pod) = pod {
        workspace::ended(ctx, task, pod, ending.phase == TaskPhase::Failed).await;
    }
    if let Some(pause) = retry_after(&ending, &ctx.retry(task), before.attempt.unwrap_or(1)) {
        record::keep(ctx, task, epoch, after, ended_at).await;
        return try_again(ctx, task, epoch, &ending, later(ended_at, pause)).await;
    }
    write(ctx, task, epoch, &before, after).await
}

/// A Task that waited was stopped by its user.
pub async fn stopped_while_waiting(ctx: &Context, task: &Task, epoch: i64) -> Result<Next, Error> {
    let message = "it was stopped while it waited";
    let before = task.status.clone().unwrap_or_default();
    let mut after = closed(task, TaskPhase::Completed, reasons::USER_STOPPED, message);
    let conditions = after.conditions.get_or_insert_default();
    status::set(conditions, types::STOPPED, true, reasons::USER_STOPPED, message, task.metadata.generation, now());
    write(ctx, task, epoch, &before, after).await
}

/// A Task can never run, or its Pod can never be made.
pub async fn refused(ctx: &Context, task: &Task, epoch: i64, reason: &str, message: &str) -> Result<Next, Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = closed(task, TaskPhase::Failed, reason, message);
    let conditions = after.conditions.get_or_insert_default();
    status::set(conditions, types::READY, false, reason, message, task.metadata.generation, now());
    write(ctx, task, epoch, &before, after).await
}

/// The status of a Task that ends without having run.
fn closed(task: &Task, phase: TaskPhase, reason: &str, message: &str) -> TaskStatus {
    let mut after = task.status.clone().unwrap_or_default();
    note_rerun(task, &mut after);
    after.phase = Some(phase);
    after.observed_generation = task.metadata.generation;
    after.agent_ref.clone_from(&task.spec.agent_ref);
    after.template_ref.clone_from(&task.spec.template_ref);
    after.reason = Some(reason.into());
    after.message = Some(message.into());
    after.completion_time = Some(Time(now()));
    after.queue_position = None;
    let conditions = after.conditions.get_or_insert_default();
    if status::find(conditions, types::QUEUED).is_some() {
        status::set(conditions, types::QUEUED, false, reason, message, task.metadata.generation, now());
    }
    after
}

/// Puts the Task back into the queue, in which it waits from `again` on: its retry policy covers this ending.
async fn try_again(ctx: &Context, task: &Task, epoch: i64, ending: &Ending, again: Timestamp) -> Result<Next, Error> {
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.phase = Some(TaskPhase::Queued);
    after.reason = Some(ending.reason.into());
    after.message = Some(format!("it is tried again: {}", ending.message));
    (after.start_time, after.pod_uid) = (None, None);
    after.timings.get_or_insert_default().queued_at = Some(Time(again));
    let version = task.resource_version();
    failpoint::reach("retry-decided");
    let written = ctx.write_status::<Task>(&key, &before, &after, version.as_deref()).await;
    failpoint::reach("put-back");
    if let Some(written) = written.inspect_err(|_| record::recheck(ctx, task))? {
        ctx.logs.forget(task, epoch);
        ctx.events.warning(task, ending.reason, after.message.unwrap_or_default());
        ctx.learn_task(written);
        ctx.observe_task(&key);
    }
    Ok(Next::At(instant(again)))
}

/// Records how the run ended, writes the final status on the version that was seen, frees the slot, tells people and
/// programs.
async fn write(ctx: &Context, task: &Task, epoch: i64, before: &TaskStatus, after: TaskStatus) -> Result<Next, Error> {
    let key = Key::of(task);
    let version = task.resource_version();
    failpoint::reach("run-ended");
    // One that was never claimed was no run.
    let ran = before.run_epoch == Some(epoch);
    let after = if ran { &record::keep(ctx, task, epoch, after, now()).await } else { &after };
    failpoint::reach("run-recorded");
    match ctx.write_status::<Task>(&key, before, after, version.as_deref()).await {
        Ok(Some(written)) => ctx.learn_task(written),
        Ok(None) => {}
        // It changed since we looked (409), or is gone (404): the watch brings us back if there is anything left to do.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            record::recheck(ctx, task);
            return Ok(Next::Retry);
        }
        Err(error) => return Err(error.into()),
    }
    failpoint::reach("finished");
    ctx.made.forget(task, epoch);
    ctx.logs.forget(task, epoch);
    if let Some(target) = ctx.queues.finished(&key, epoch) {
        ctx.work.admissions.add(target);
    }
    let reason = after.reason.clone().unwrap_or_default();
    let message = after.message.clone().unwrap_or_default();
    if after.phase == Some(TaskPhase::Failed) {
        ctx.events.warning(task, &reason, message);
    } else {
        ctx.events.normal(task, &reason, message);
    }
    let phase = after.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    ctx.metrics.ended(&key.namespace, &phase, &reason, took(after).filter(|_| ran));
    if let Some(collector) = ctx.collector() {
        ctx.traces.ended(collector, task, after);
    }
    Ok(Next::Wait)
}

/// How long the run of a final status took. A node's clock may be behind ours.
fn took(status: &TaskStatus) -> Option<Duration> {
    let admitted = status.timings.as_ref()?.admitted_at.as_ref()?;
    Some(status.completion_time.as_ref()?.0.duration_since(admitted.0).try_into().unwrap_or_default())
}

/// Puts into a status what its Pod tells.
pub(super) fn note_progress(status: &mut TaskStatus, pod: Option<&Pod>, progress: &Progress) {
    if let Some(pod) = pod {
        status.pod_uid = pod.uid();
    }
    status.start_time = time(progress.started_at).or(status.start_time.take());
    let timings = status.timings.get_or_insert_default();
    let keep = |known: &mut Option<Time>, found: Option<Timestamp>| *known = time(found).or(known.take());
    keep(&mut timings.pod_created_at, progress.created_at);
    keep(&mut timings.scheduled_at, progress.scheduled_at);
    keep(&mut timings.prepared_at, progress.prepared_at);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_took_as_long_as_its_status_says() {
        let took = |status| took(&serde_json::from_value(status).unwrap()).map(|took| took.as_secs());
        let admitted = json!({"admittedAt": "2026-01-01T00:00:00Z"});
        let end = "2026-01-01T00:01:30Z";
        assert_eq!(took(json!({"timings": admitted, "completionTime": end})), Some(90));
        assert_eq!(took(json!({"timings": {"queuedAt": "2026-01-01T00:00:00Z"}, "completionTime": end})), None);
    }
}
