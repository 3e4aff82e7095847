//! While a Task runs: watch its Pod, and end it when its time is over.

use std::{sync::Arc, time::Duration};

use api::{Task, conditions::reasons, names::annotations};
use futures::{StreamExt as _, pin_mut};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams},
};
use kubeopencode_core::{
    milestones, names,
    outcome::{Evidence, Stop, classify},
    pod_progress::Progress,
    startup::{Startup, Trouble, startup},
};
use observe::{Key, Next};
use serde_json::json;

use super::{
    approval, finish,
    standing::stop_requested,
    start::{self, Error},
    still_runs,
    target::{Target, TargetKind},
};
use crate::{
    apply::controller_uid,
    context::{Context, instant, now},
    failpoint,
    logs::Closing,
};

/// A run that lasts at least this long gets its start into the status while it runs; of a shorter one the final status
/// tells it all, and a write is saved.
const WORTH_TELLING: SignedDuration = SignedDuration::from_secs(10);
/// A Pod that was told to end has this long, its own grace period included; then it is deleted for good.
const PATIENCE: SignedDuration = SignedDuration::from_secs(75);
/// A Pod that should have been gone for this long is on a node that does not answer; it is not waited for.
const UNREACHABLE: SignedDuration = SignedDuration::from_secs(45);

/// Seconds to listen to a replay; what happened before is told at once, and less than one second cannot be asked for.
const REPLAY: u32 = 1;

/// One look at a run.
pub async fn follow(ctx: &Context, task: &Task, epoch: i64, admitted_at: Option<Timestamp>) -> Result<Next, Error> {
    let admitted_at = admitted_at.unwrap_or_else(now);
    let (pod, gone) = match find(ctx, task, epoch).await? {
        Found::Pod(pod) => (Some(pod), false),
        // What it told last still counts.
        Found::Gone(last) => (last, true),
        // Nobody needs it any more.
        Found::NeverMade if stop_requested(task) => (None, true),
        Found::NeverMade => match Box::pin(start::resume(ctx, task, epoch)).await {
            Ok(pod) => (Some(pod), false),
            Err(error) if error.is_permanent() => {
                return finish::refused(ctx, task, epoch, error.reason(), &error.to_string()).await;
            }
            Err(error) => return not_made(ctx, task, epoch, admitted_at, error).await,
        },
    };
    let progress = pod.as_deref().map(Progress::of).unwrap_or_default();
    let stop = why_stop(ctx, task, pod.as_deref(), &progress, now());
    let evidence =
        Evidence { pod: pod.as_deref(), gone, stop: stop.as_ref(), report_required: ctx.leaves_a_report(task) };
    if let Some(ending) = classify(&evidence) {
        return finish::ended(ctx, task, epoch, &evidence, ending).await;
    }
    let Some(pod) = pod.clone() else { return Ok(Next::Wait) };
    ctx.logs.follow(task, epoch, &pod);
    if let Some(stop) = &stop {
        return match end(ctx, &pod, stop).await? {
            Told::At(at) => Ok(Next::At(instant(at))),
            Told::Deleted => Ok(Next::Wait),
            Told::InVain => give_up(ctx, task, epoch, &pod, evidence).await,
        };
    }
    if let Some(deadline) = &pod.metadata.deletion_timestamp {
        let given_up = deadline.0 + UNREACHABLE;
        if now() < given_up {
            return Ok(Next::At(instant(given_up)));
        }
        return give_up(ctx, task, epoch, &pod, evidence).await;
    }
    match startup(Some(&pod), admitted_at, ctx.startup_timeout(task), now()) {
        Startup::Started(at) => {
            approval::runs(ctx, task);
            let tell_at = at + WORTH_TELLING;
            if now() >= tell_at {
                tell_start(ctx, task, &pod, &progress).await?;
            }
            let timeout = task.spec.timeout.map(|timeout| later(at, timeout.to_std()));
            let told = task.status.as_ref().is_some_and(|status| status.start_time.is_some());
            let wake = [timeout, (!told && now() < tell_at).then_some(tell_at)].into_iter().flatten().min();
            Ok(wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
        }
        Startup::Waiting { trouble, next_look } => {
            if let Some(trouble) = trouble {
                tell_trouble(ctx, task, trouble.reason, &trouble.message).await?;
            }
            Ok(Next::At(instant(next_look)))
        }
        Startup::Failed(trouble) => {
            // Its Pod is deleted once the status is written: who takes over in between sees the same as we do.
            let stop = Stop::Startup(trouble);
            let evidence = Evidence { gone: true, stop: Some(&stop), ..evidence };
            match classify(&evidence) {
                Some(ending) => finish::ended(ctx, task, epoch, &evidence, ending).await,
                None => Ok(Next::Retry),
            }
        }
    }
}

/// The Pod of a run cannot be made now. That is said and tried again, until the run should have started.
async fn not_made(ctx: &Context, task: &Task, epoch: i64, admitted_at: Timestamp, error: Error) -> Result<Next, Error> {
    if let Startup::Failed(trouble) = startup(None, admitted_at, ctx.startup_timeout(task), now()) {
        let message = format!("{}: {error}", trouble.message);
        let stop = Stop::Startup(Trouble { reason: error.reason(), message });
        let evidence = Evidence { pod: None, gone: true, stop: Some(&stop), report_required: false };
        if let Some(ending) = classify(&evidence) {
            return finish::ended(ctx, task, epoch, &evidence, ending).await;
        }
    }
    if let Error::Leaving { .. } | Error::Api(kube::Error::Api(_)) = &error {
        tell_trouble(ctx, task, error.reason(), &error.to_string()).await?;
    }
    Err(error)
}

/// Ends a run whose Pod is on a node that does not answer. The Pod is deleted when the status is written, because what it
/// told goes with it.
async fn give_up(ctx: &Context, task: &Task, epoch: i64, pod: &Pod, evidence: Evidence<'_>) -> Result<Next, Error> {
    // What can be read of its log is read before nobody has it any more.
    if let Closing::Until(at) = ctx.logs.close(task, epoch, Some(pod), false).await {
        return Ok(Next::At(at));
    }
    let evidence = Evidence { gone: true, ..evidence };
    let Some(ending) = classify(&evidence) else { return Ok(Next::Retry) };
    let next = finish::ended(ctx, task, epoch, &evidence, ending).await?;
    delete(ctx, pod).await?;
    Ok(next)
}

/// Deletes the Pod of a run that is over, if its task never started: nobody waits for it any more.
pub async fn discard_unstarted(ctx: &Context, task: &Task, epoch: i64) -> Result<(), Error> {
    let key = Key::new(task.namespace().unwrap_or_default(), names::task_pod(&task.name_any(), epoch));
    let unstarted = |pod: &Arc<Pod>| {
        let progress = Progress::of(pod);
        let over = progress.started_at.or(progress.ended_at).is_some() || !still_runs(pod);
        !over && pod.metadata.deletion_timestamp.is_none() && controller_uid(&**pod) == task.metadata.uid.as_deref()
    };
    match ctx.seen.pods.object(&key).filter(unstarted) {
        Some(pod) => delete(ctx, &pod).await,
        None => Ok(()),
    }
}

enum Found {
    /// It is there.
    Pod(Arc<Pod>),
    /// It was made and is not there any more; this was seen of it last, if anything was.
    Gone(Option<Arc<Pod>>),
    /// It was never made.
    NeverMade,
}

/// The Pod of a run. Only a live look decides that it is gone: the watch may be behind.
async fn find(ctx: &Context, task: &Task, epoch: i64) -> Result<Found, Error> {
    let uid = task.metadata.uid.as_deref();
    let key = Key::new(task.namespace().unwrap_or_default(), names::task_pod(&task.name_any(), epoch));
    let ours = |pod: &Pod| controller_uid(pod) == uid;
    if let Some(pod) = ctx.seen.pods.object(&key).filter(|pod| ours(pod)) {
        ctx.made.note(task, epoch, &pod);
        return Ok(Found::Pod(pod));
    }
    if let Some(pod) = ctx.api::<Pod>(&key.namespace).get_opt(&key.name).await?.filter(ours) {
        ctx.seen.pods.learn(pod.clone());
        let pod = Arc::new(pod);
        ctx.made.note(task, epoch, &pod);
        return Ok(Found::Pod(pod));
    }
    let last = ctx.made.last_seen(task, epoch);
    let recorded = task.status.as_ref().is_some_and(|status| status.pod_uid.is_some());
    let gone = last.is_some() || recorded || was_made(ctx, task, &key).await?;
    Ok(if gone { Found::Gone(last) } else { Found::NeverMade })
}

/// Whether the Pod `key` of a run was made, although none is there and none is on record: the process that claimed the
/// run may have died just after it made the Pod.
///
/// The API server replays what happened since the claim. If it does not remember, the run may have started, and so
/// counts as started (I1).
async fn was_made(ctx: &Context, task: &Task, key: &Key) -> Result<bool, Error> {
    let Some(since) = task.status.as_ref().and_then(|status| status.claimed_from.as_deref()) else { return Ok(false) };
    let params = WatchParams::default().fields(&format!("metadata.name={}", key.name)).timeout(REPLAY);
    let events = match ctx.api::<Pod>(&key.namespace).watch(&params, since).await {
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

/// Whether the run must end before its own end. It is computed anew each time; only what may not be true any more when
/// the run has ended is remembered, with its Pod.
fn why_stop(ctx: &Context, task: &Task, pod: Option<&Pod>, progress: &Progress, now: Timestamp) -> Option<Stop> {
    let told =
        |reason: &str| pod.and_then(|pod| pod.annotations().get(annotations::ENDED_FOR)).is_some_and(|r| r == reason);
    if stop_requested(task) || told(reasons::USER_STOPPED) {
        return Some(Stop::User);
    }
    let on_record = task.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    if let (Some(timeout), Some(started)) = (task.spec.timeout, progress.started_at.or(on_record)) {
        let limit = timeout.to_std();
        if progress.ended_at.unwrap_or(now) >= later(started, limit) {
            return Some(Stop::Timeout(limit));
        }
    }
    let target = Target::of(task)?;
    if target.kind != TargetKind::Agent {
        return None;
    }
    let gone = ctx.seen.agents.get(&target.key).is_none() && progress.ended_at.is_none();
    if gone || told(reasons::AGENT_GONE) {
        return Some(Stop::AgentGone(target.key.name));
    }
    None
}

/// What became of a Pod that is to end.
enum Told {
    /// It was told, and has until then.
    At(Timestamp),
    /// It was told, and did not end in time.
    InVain,
    /// Nobody had it.
    Deleted,
}

/// Ends a Pod so that its log stays: the kubelet stops its containers when its deadline has passed, as gently as it stops
/// those of a Pod that is deleted. A Pod that no kubelet has is deleted.
async fn end(ctx: &Context, pod: &Pod, stop: &Stop) -> Result<Told, Error> {
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    if !scheduled {
        delete(ctx, pod).await?;
        return Ok(Told::Deleted);
    }
    let told = pod.annotations().get(annotations::ENDED_AT).and_then(|at| at.parse::<Timestamp>().ok());
    match told {
        Some(at) if now() >= at + PATIENCE => Ok(Told::InVain),
        Some(at) => Ok(Told::At(at + PATIENCE)),
        None => {
            let at = now();
            let patch = json!({
                "metadata": { "annotations": {
                    annotations::ENDED_AT: at.to_string(),
                    annotations::ENDED_FOR: stop.reason(),
                } },
                "spec": { "activeDeadlineSeconds": 1 },
            });
            let api = ctx.api::<Pod>(&pod.namespace().unwrap_or_default());
            match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    failpoint::reach("told-to-end");
                    Ok(Told::At(at + PATIENCE))
                }
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Told::Deleted),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Deletes exactly this Pod, at once.
async fn delete(ctx: &Context, pod: &Pod) -> Result<(), Error> {
    let precondition = Preconditions { uid: pod.uid(), resource_version: None };
    let params =
        DeleteParams { grace_period_seconds: Some(0), preconditions: Some(precondition), ..DeleteParams::default() };
    match ctx.api::<Pod>(&pod.namespace().unwrap_or_default()).delete(&pod.name_any(), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts the start of a run into its status.
async fn tell_start(ctx: &Context, task: &Task, pod: &Pod, progress: &Progress) -> Result<(), Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    finish::note_progress(&mut after, Some(pod), progress);
    milestones::note(&mut after, task.metadata.generation, now());
    (after.reason, after.message) = (None, None);
    if let Some(written) = ctx.write_status::<Task>(&Key::of(task), &before, &after, None).await? {
        ctx.learn_task(written);
    }
    Ok(())
}

/// Says what holds up the start of a run.
async fn tell_trouble(ctx: &Context, task: &Task, reason: &str, message: &str) -> Result<(), Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.reason = Some(reason.into());
    after.message = Some(message.into());
    if let Some(written) = ctx.write_status::<Task>(&Key::of(task), &before, &after, None).await? {
        ctx.learn_task(written);
        ctx.events.warning(task, reason, message);
    }
    Ok(())
}

pub(super) fn later(at: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| at.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

/// A moment as Kubernetes keeps it.
pub(super) fn time(at: Option<Timestamp>) -> Option<Time> {
    at.map(Time)
}
