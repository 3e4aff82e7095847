//! While a Task runs: follow its Pod, and stop the Pod when a limit is reached.

use std::{sync::Arc, time::Duration};

use api::{Task, conditions::reasons, names::annotations};
use domain::{
    run::{
        milestones,
        outcome::{Evidence, Stop, classify},
        progress::{Progress, may_have_housekeeper, task_started},
        stage::stop_requested,
        startup::{Startup, Trouble, startup},
        target::Target,
        terms::RunTerms,
    },
    workload::names,
};
use futures::{StreamExt as _, pin_mut};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams},
};
use observe::{Key, Next};
use serde_json::json;

use super::{
    approval, finish,
    results::{self, Reading},
    start::{self, Error},
    still_runs, workspace,
};
use crate::{
    logs::Closing,
    shared::{Shared, apply::controller_uid, failpoint, instant, now},
};

/// Only a run that lasts at least this long has its start written while it runs. A shorter one saves the write: the final
/// status contains the start.
const REPORT_START_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// A Pod that was asked to stop has this long, its grace period included; then it is deleted.
const STOP_LIMIT: SignedDuration = SignedDuration::from_secs(75);
/// The housekeeper has this long beyond its own limit, to write its report.
const COLLECT_MARGIN: Duration = Duration::from_mins(1);
/// Only collecting that lasts at least this long is shown in the status while it lasts.
const REPORT_COLLECTING_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// A Pod whose deletion is overdue by this much is on a node that does not respond; the run ends without it.
const UNREACHABLE: SignedDuration = SignedDuration::from_secs(45);

/// Seconds to follow a replay. Past events are delivered at once; one second is the least that the API accepts.
const REPLAY: u32 = 1;

/// Reconciles one run.
pub async fn follow(shared: &Shared, task: &Task, epoch: i64, admitted_at: Option<Timestamp>) -> Result<Next, Error> {
    let admitted_at = admitted_at.unwrap_or_else(now);
    let (terms, written) = start::terms(shared, task, epoch).await?;
    let task = written.as_ref().unwrap_or(task);
    let (pod, gone) = match find(shared, task, epoch).await? {
        Found::Pod(pod) => (Some(pod), false),
        // The last seen status of the Pod still counts.
        Found::Gone(last) => (last, true),
        // The run is stopped before it has a Pod.
        Found::NeverCreated if stop_requested(task) => (None, true),
        Found::NeverCreated => match Box::pin(start::resume(shared, task, epoch)).await {
            // The event of the new Pod brings the run back here.
            Ok(()) => return Ok(Next::Wait),
            Err(error) if error.is_permanent() => {
                return finish::refused(shared, task, epoch, error.reason(), &error.to_string()).await;
            }
            Err(error) => return creation_failed(shared, task, epoch, &terms, admitted_at, error).await,
        },
    };
    let progress = pod.as_deref().map(Progress::of).unwrap_or_default();
    let stop = why_stop(shared, task, &terms, pod.as_deref(), &progress, now());
    let RunTerms { report_required, collect_timeout, .. } = terms;
    // The terms come from settings; the contexts, or an older version, may have made a Pod that keeps nothing.
    let keeps = collect_timeout.is_some() && pod.as_deref().is_none_or(may_have_housekeeper);
    let evidence = Evidence { pod: pod.as_deref(), gone, stop: stop.as_ref(), report_required, keeps };
    if let Some(ending) = classify(&evidence) {
        return finish::ended(shared, task, epoch, &terms, &evidence, ending).await;
    }
    let Some(pod) = pod.clone() else { return Ok(Next::Wait) };
    shared.records.logs.follow(task, epoch, &pod);
    if let Some(stop) = &stop {
        return match end(shared, &pod, stop.reason(), &terms).await? {
            Stopping::Until(at) => Ok(Next::At(instant(at))),
            Stopping::Deleted => Ok(Next::Wait),
            Stopping::Overdue => give_up(shared, task, epoch, &terms, &pod, evidence).await,
        };
    }
    if let Some(deadline) = &pod.metadata.deletion_timestamp {
        let given_up = deadline.0 + UNREACHABLE;
        if now() < given_up {
            return Ok(Next::At(instant(given_up)));
        }
        return give_up(shared, task, epoch, &terms, &pod, evidence).await;
    }
    if let Some(ended_at) = progress.ended_at {
        return collecting(shared, task, epoch, &terms, &pod, evidence, ended_at).await;
    }
    let volume = workspace::volume_of(shared, &pod);
    match startup(Some(&pod), volume.as_deref(), admitted_at, terms.startup_timeout, now()) {
        Startup::Started(at) => {
            approval::runs(shared, task);
            let report_at = at + REPORT_START_AFTER;
            if now() >= report_at {
                report_start(shared, task, &pod, &progress).await?;
            }
            let timeout = terms.timeout.map(|timeout| later(at, timeout));
            let reported = task.status.as_ref().is_some_and(|status| status.start_time.is_some());
            let wake = [timeout, (!reported && now() < report_at).then_some(report_at)].into_iter().flatten().min();
            Ok(wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
        }
        Startup::Waiting { trouble, next_look } => {
            if let Some(trouble) = trouble {
                report_trouble(shared, task, trouble.reason, &trouble.message).await?;
            }
            Ok(Next::At(instant(next_look)))
        }
        Startup::Failed(trouble) => {
            // The Pod is deleted after the status is written, so that a new leader reaches the same verdict.
            let stop = Stop::Startup(trouble);
            let evidence = Evidence { gone: true, stop: Some(&stop), ..evidence };
            match classify(&evidence) {
                Some(ending) => finish::ended(shared, task, epoch, &terms, &evidence, ending).await,
                None => Ok(Next::Retry),
            }
        }
    }
}

/// The agent has finished, and the housekeeper of the run still works. It ends by itself in time; a Pod in which it does
/// not is stopped.
async fn collecting(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    terms: &RunTerms,
    pod: &Pod,
    evidence: Evidence<'_>,
    ended_at: Timestamp,
) -> Result<Next, Error> {
    let overdue = later(ended_at, terms.collect_timeout.unwrap_or_default() + COLLECT_MARGIN);
    // A task that never started holds no lock whose release the housekeeper could wait for.
    if now() >= overdue || !task_started(pod) {
        return match end(shared, pod, reasons::COLLECT_FAILED, terms).await? {
            Stopping::Until(at) => Ok(Next::At(instant(at))),
            Stopping::Deleted => Ok(Next::Wait),
            Stopping::Overdue => give_up(shared, task, epoch, terms, pod, evidence).await,
        };
    }
    let report_at = ended_at + REPORT_COLLECTING_AFTER;
    if now() < report_at {
        return Ok(Next::At(instant(report_at)));
    }
    report_stage(shared, task, reasons::COLLECTING, "the agent has finished; its results are being stored").await?;
    Ok(Next::At(instant(overdue)))
}

/// The Pod of a run cannot be created now. The error is reported and retried until the startup timeout.
async fn creation_failed(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    terms: &RunTerms,
    admitted_at: Timestamp,
    error: Error,
) -> Result<Next, Error> {
    if let Startup::Failed(trouble) = startup(None, None, admitted_at, terms.startup_timeout, now()) {
        let message = format!("{}: {error}", trouble.message);
        let stop = Stop::Startup(Trouble { reason: error.reason(), message });
        let evidence = Evidence { pod: None, gone: true, stop: Some(&stop), report_required: false, keeps: false };
        if let Some(ending) = classify(&evidence) {
            return finish::ended(shared, task, epoch, terms, &evidence, ending).await;
        }
    }
    // After a conflict the Task is only reconciled again.
    let conflict = matches!(&error, Error::Api(kube::Error::Api(status)) if status.code == 409);
    if let Error::Leaving { .. } | Error::WorkspaceLeaving(_) | Error::Api(kube::Error::Api(_)) = &error
        && !conflict
    {
        report_trouble(shared, task, error.reason(), &error.to_string()).await?;
    }
    Err(error)
}

/// Ends a run whose Pod is on a node that does not respond. The Pod, whose status is the evidence, is deleted after the
/// final status is written.
async fn give_up(
    shared: &Shared,
    task: &Task,
    epoch: i64,
    terms: &RunTerms,
    pod: &Pod,
    evidence: Evidence<'_>,
) -> Result<Next, Error> {
    // The log is archived as far as it can be read, and the results are read, before the Pod is deleted.
    if let Closing::Until(at) = shared.records.logs.close(task, epoch, Some(pod), false).await {
        return Ok(Next::At(at));
    }
    if let Reading::Until(at) = results::read(shared, task, epoch, terms).await {
        return Ok(Next::At(at));
    }
    let evidence = Evidence { gone: true, ..evidence };
    let Some(ending) = classify(&evidence) else { return Ok(Next::Retry) };
    let next = finish::ended(shared, task, epoch, terms, &evidence, ending).await?;
    delete(shared, pod).await?;
    Ok(next)
}

/// Deletes the Pod of a run that is over if its task container never started.
pub async fn discard_unstarted(shared: &Shared, task: &Task, epoch: i64) -> Result<(), Error> {
    let key = Key::new(task.namespace().unwrap_or_default(), names::task_pod(&task.name_any(), epoch));
    let unstarted = |pod: &Arc<Pod>| {
        let progress = Progress::of(pod);
        let over = progress.started_at.or(progress.ended_at).is_some() || !still_runs(pod);
        !over && pod.metadata.deletion_timestamp.is_none() && controller_uid(&**pod) == task.metadata.uid.as_deref()
    };
    match shared.cache.pods.object(&key).filter(unstarted) {
        Some(pod) => delete(shared, &pod).await,
        None => Ok(()),
    }
}

enum Found {
    Pod(Arc<Pod>),
    /// The Pod was created and does not exist any more. This is its last seen version, if there is one.
    Gone(Option<Arc<Pod>>),
    NeverCreated,
}

/// Finds the Pod of a run. Only a read from the API server decides that it is gone: the cache may be behind.
async fn find(shared: &Shared, task: &Task, epoch: i64) -> Result<Found, Error> {
    let uid = task.metadata.uid.as_deref();
    let key = Key::new(task.namespace().unwrap_or_default(), names::task_pod(&task.name_any(), epoch));
    let ours = |pod: &Pod| controller_uid(pod) == uid;
    if let Some(pod) = shared.cache.pods.object(&key).filter(|pod| ours(pod)) {
        shared.tasks.last_pods.note(task, epoch, &pod);
        return Ok(Found::Pod(pod));
    }
    if let Some(pod) = shared.api::<Pod>(&key.namespace).get_opt(&key.name).await?.filter(ours) {
        shared.cache.pods.insert_written(pod.clone());
        let pod = Arc::new(pod);
        shared.tasks.last_pods.note(task, epoch, &pod);
        return Ok(Found::Pod(pod));
    }
    let last = shared.tasks.last_pods.last_seen(task, epoch);
    let recorded = task.status.as_ref().is_some_and(|status| status.pod_uid.is_some());
    let gone = last.is_some() || recorded || was_created(shared, task, &key).await?;
    Ok(if gone { Found::Gone(last) } else { Found::NeverCreated })
}

/// Whether the Pod `key` of a run was created, although none exists and none is recorded: the process that claimed the
/// run may have died just after it created the Pod.
///
/// The API server replays the events since the claim. If it does not have them any more, the run may have started, and
/// so counts as started (I1).
async fn was_created(shared: &Shared, task: &Task, key: &Key) -> Result<bool, Error> {
    let Some(since) = task.status.as_ref().and_then(|status| status.claimed_from.as_deref()) else { return Ok(false) };
    let params = WatchParams::default().fields(&format!("metadata.name={}", key.name)).timeout(REPLAY);
    let events = match shared.api::<Pod>(&key.namespace).watch(&params, since).await {
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(true),
        other => other?,
    };
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                if controller_uid(&pod) == task.metadata.uid.as_deref() {
                    return Ok(true);
                }
            }
            WatchEvent::Error(status) if status.code == 410 => return Ok(true),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(false)
}

/// Why the run must be stopped, if it must. Computed on every pass; a reason that may no longer hold when the run has
/// ended is kept in an annotation of the Pod.
fn why_stop(
    shared: &Shared,
    task: &Task,
    terms: &RunTerms,
    pod: Option<&Pod>,
    progress: &Progress,
    now: Timestamp,
) -> Option<Stop> {
    let annotated =
        |reason: &str| pod.and_then(|pod| pod.annotations().get(annotations::ENDED_FOR)).is_some_and(|r| r == reason);
    if stop_requested(task) || annotated(reasons::USER_STOPPED) {
        return Some(Stop::User);
    }
    let on_record = task.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    if let (Some(limit), Some(started)) = (terms.timeout, progress.started_at.or(on_record))
        && progress.ended_at.unwrap_or(now) >= later(started, limit)
    {
        return Some(Stop::Timeout(limit));
    }
    let agent = Target::of(task)?.agent_key()?;
    let gone = shared.cache.agents.get(&agent).is_none() && progress.ended_at.is_none();
    if gone || annotated(reasons::AGENT_GONE) {
        return Some(Stop::AgentGone(agent.name));
    }
    None
}

/// How far the stop of a Pod has come.
enum Stopping {
    /// The Pod was asked to stop, and has until then.
    Until(Timestamp),
    /// The Pod was asked to stop, and did not stop in time.
    Overdue,
    /// The Pod was on no node and is deleted.
    Deleted,
}

/// Stops a Pod so that its log stays: when a deadline has passed, the kubelet stops the containers with the same grace
/// period as on deletion. A Pod that is on no node is deleted.
async fn end(shared: &Shared, pod: &Pod, reason: &str, terms: &RunTerms) -> Result<Stopping, Error> {
    let limit = STOP_LIMIT + SignedDuration::try_from(terms.collect_timeout.unwrap_or_default()).unwrap_or_default();
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    if !scheduled {
        delete(shared, pod).await?;
        return Ok(Stopping::Deleted);
    }
    let asked = pod.annotations().get(annotations::ENDED_AT).and_then(|at| at.parse::<Timestamp>().ok());
    match asked {
        Some(at) if now() >= at + limit => Ok(Stopping::Overdue),
        Some(at) => Ok(Stopping::Until(at + limit)),
        None => {
            let at = now();
            let patch = json!({
                "metadata": { "annotations": {
                    annotations::ENDED_AT: at.to_string(),
                    annotations::ENDED_FOR: reason,
                } },
                "spec": { "activeDeadlineSeconds": 1 },
            });
            let api = shared.api::<Pod>(&pod.namespace().unwrap_or_default());
            match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    failpoint::reach("told-to-end");
                    Ok(Stopping::Until(at + limit))
                }
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Stopping::Deleted),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Deletes exactly this Pod, without a grace period.
async fn delete(shared: &Shared, pod: &Pod) -> Result<(), Error> {
    let precondition = Preconditions { uid: pod.uid(), resource_version: None };
    let params =
        DeleteParams { grace_period_seconds: Some(0), preconditions: Some(precondition), ..DeleteParams::default() };
    match shared.api::<Pod>(&pod.namespace().unwrap_or_default()).delete(&pod.name_any(), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes the start of a run to its status.
async fn report_start(shared: &Shared, task: &Task, pod: &Pod, progress: &Progress) -> Result<(), Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    finish::note_progress(&mut after, Some(pod), progress);
    milestones::note(&mut after, task.metadata.generation, now());
    (after.reason, after.message) = (None, None);
    if let Some(written) = shared.write_status::<Task>(&Key::of(task), &before, &after, None).await? {
        shared.insert_written_task(written);
    }
    Ok(())
}

/// Writes to the status why the start of a run is delayed.
async fn report_trouble(shared: &Shared, task: &Task, reason: &str, message: &str) -> Result<(), Error> {
    if report_stage(shared, task, reason, message).await? {
        shared.telemetry.events.warning(task, reason, message);
    }
    Ok(())
}

/// Writes to the status what happens in a run. Returns whether that is new.
async fn report_stage(shared: &Shared, task: &Task, reason: &str, message: &str) -> Result<bool, Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.reason = Some(reason.into());
    after.message = Some(message.into());
    let written = shared.write_status::<Task>(&Key::of(task), &before, &after, None).await?;
    let is_new = written.is_some();
    if let Some(written) = written {
        shared.insert_written_task(written);
    }
    Ok(is_new)
}

pub(super) fn later(at: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| at.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

/// A moment as Kubernetes keeps it.
pub(super) fn time(at: Option<Timestamp>) -> Option<Time> {
    at.map(Time)
}
