//! The final status of a run: written once, then the slot is free.

use std::time::Duration;

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::{reasons, types},
    kinds::task::{Session, TaskResult},
};
use domain::{
    run::{
        approval, milestones,
        outcome::{Ending, Evidence, Stop},
        progress::Progress,
        retry::retry_after,
        terms::RunTerms,
    },
    status,
    workload::names,
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt as _;
use observe::{Key, Next};

use super::{
    follow::{later, time},
    record,
    results::{self, Reading},
    session,
    start::{Error, note_rerun},
    workspace,
};
use crate::{
    logs::Closing,
    shared::{Shared, failpoint, instant, now},
};

/// Writes the final status of a run that ended, or puts its Task back into the queue.
pub async fn ended(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    terms: &RunTerms,
    evidence: &Evidence<'_>,
    ending: Ending,
) -> Result<Next, Error> {
    let pod = evidence.pod;
    let progress = pod.map(Progress::of).unwrap_or_default();
    // The status is final only after the log is durable. A run without a Pod has neither log nor session.
    let logs = if pod.is_none() && matches!(evidence.stop, Some(Stop::Startup(_))) {
        None
    } else {
        let logs = match shared.records.logs.close(task, epoch, pod, evidence.gone).await {
            Closing::Until(at) => return Ok(Next::At(at)),
            Closing::Over(logs) => logs,
        };
        session::ended(shared, task, epoch, &ending, &progress);
        logs
    };
    let results = match results::read(shared, task, epoch, terms).await {
        Reading::Until(at) => return Ok(Next::At(at)),
        Reading::Over(results) => results,
    };
    let ended_at = progress.ended_at.unwrap_or_else(now);
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    note_progress(&mut after, pod, &progress);
    // A run that was stopped before its start was seen is not expected to have a log.
    let expected = !ending.stopped || after.start_time.is_some();
    after.logs = logs.filter(|logs| expected || logs.bytes > Some(0));
    after.phase = Some(ending.phase);
    after.observed_generation = task.metadata.generation;
    after.reason = Some(ending.reason.into());
    after.message = Some(ending.message.clone());
    after.exit_code = ending.exit_code;
    after.completion_time = Some(Time(ended_at));
    after.queue_position = None;
    after.usage = ending.usage();
    shared.tasks.queues.with(|index| index.spent(task, epoch, ended_at, after.usage.as_ref()));
    let title = names::session_title(&key.namespace, &key.name, &task.uid().unwrap_or_default());
    after.session = ending.session().map(|session| Session { title: Some(title), ..session });
    after.result =
        ending.summary().map(|summary| TaskResult { summary: Some(summary.to_owned()), ..TaskResult::default() });
    after.changes = ending.changes();
    results::note(shared, task, evidence, &ending, results, &mut after);
    if let (Some(ended), Some(collected)) = (progress.ended_at, progress.collected_at) {
        shared.telemetry.metrics.collected(collected.duration_since(ended).try_into().unwrap_or_default());
    }
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
        workspace::ended(shared, task, terms, pod, ending.phase == TaskPhase::Failed).await;
    }
    if let Some(pause) = retry_after(&ending, &terms.retry, before.attempt.unwrap_or(1)) {
        record::keep(shared, task, epoch, after, ended_at).await;
        return requeue(shared, task, epoch, &ending, later(ended_at, pause)).await;
    }
    write(shared, task, epoch, &before, after).await
}

/// Ends a Task that its user stopped before it was admitted.
pub async fn stopped_while_waiting(shared: &Shared, task: &Task, epoch: i64) -> Result<Next, Error> {
    let message = "the Task was stopped while it was queued";
    let before = task.status.clone().unwrap_or_default();
    let mut after = closed(task, TaskPhase::Completed, reasons::USER_STOPPED, message);
    let conditions = after.conditions.get_or_insert_default();
    status::set(conditions, types::STOPPED, true, reasons::USER_STOPPED, message, task.metadata.generation, now());
    write(shared, task, epoch, &before, after).await
}

/// Fails a Task that can never run, or whose Pod can never be created.
pub async fn refused(shared: &Shared, task: &Task, epoch: i64, reason: &str, message: &str) -> Result<Next, Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = closed(task, TaskPhase::Failed, reason, message);
    let conditions = after.conditions.get_or_insert_default();
    status::set(conditions, types::READY, false, reason, message, task.metadata.generation, now());
    write(shared, task, epoch, &before, after).await
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

/// Puts the Task back into the queue at the time `again`, because its retry policy covers this ending.
async fn requeue(shared: &Shared, task: &Task, epoch: i64, ending: &Ending, again: Timestamp) -> Result<Next, Error> {
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.phase = Some(TaskPhase::Queued);
    after.reason = Some(ending.reason.into());
    after.message = Some(format!("the Task is retried: {}", ending.message));
    (after.start_time, after.pod_uid) = (None, None);
    after.timings.get_or_insert_default().queued_at = Some(Time(again));
    let version = task.resource_version();
    failpoint::reach("retry-decided");
    let written = shared.write_status::<Task>(&key, &before, &after, version.as_deref()).await;
    failpoint::reach("put-back");
    if let Some(written) = written.inspect_err(|_| record::recheck(shared, task))? {
        shared.records.logs.forget(task, epoch);
        shared.telemetry.events.warning(task, ending.reason, after.message.unwrap_or_default());
        shared.insert_written_task(written);
        shared.observe_task(&key);
    }
    Ok(Next::At(instant(again)))
}

/// Archives the record of the run, writes the final status on the cached version, frees the slot, and emits the event,
/// metrics and trace.
async fn write(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    before: &TaskStatus,
    after: TaskStatus,
) -> Result<Next, Error> {
    let key = Key::of(task);
    let version = task.resource_version();
    failpoint::reach("run-ended");
    // A Task that was never claimed did not run.
    let ran = before.run_epoch == Some(epoch);
    let after = if ran { &record::keep(shared, task, epoch, after, now()).await } else { &after };
    failpoint::reach("run-recorded");
    match shared.write_status::<Task>(&key, before, after, version.as_deref()).await {
        Ok(Some(written)) => shared.insert_written_task(written),
        Ok(None) => {}
        // The cached Task is out of date (409) or deleted (404): the watch delivers what is left to do.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            record::recheck(shared, task);
            return Ok(Next::Retry);
        }
        Err(error) => return Err(error.into()),
    }
    failpoint::reach("finished");
    shared.tasks.last_pods.forget(task, epoch);
    shared.records.logs.forget(task, epoch);
    if let Some(target) = shared.tasks.queues.with(|index| index.finished(&key, epoch)) {
        shared.work.admissions.add(target);
    }
    let reason = after.reason.clone().unwrap_or_default();
    let message = after.message.clone().unwrap_or_default();
    if after.phase == Some(TaskPhase::Failed) {
        shared.telemetry.events.warning(task, &reason, message);
    } else {
        shared.telemetry.events.normal(task, &reason, message);
    }
    let phase = after.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    shared.telemetry.metrics.ended(&key.namespace, &phase, &reason, took(after).filter(|_| ran));
    if let Some(collector) = shared.collector() {
        shared.telemetry.traces.ended(collector, task, after);
    }
    Ok(Next::Wait)
}

/// Time from admission to the end of the run. The node's clock may be behind ours; then it is zero.
fn took(status: &TaskStatus) -> Option<Duration> {
    let admitted = status.timings.as_ref()?.admitted_at.as_ref()?;
    Some(status.completion_time.as_ref()?.0.duration_since(admitted.0).try_into().unwrap_or_default())
}

/// Copies the progress of a Pod into a status.
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
    keep(&mut timings.collected_at, progress.collected_at);
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
