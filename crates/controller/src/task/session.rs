//! A session does not outlive its run: if the client in the Pod could not abort it, it is aborted from here.
//!
//! The client aborts the session when its Pod is told to end. One that was killed, evicted or lost with its node cannot,
//! and OpenCode would go on editing and spending. It is tried beside everything else and not for ever; a status never
//! waits for it.

use std::time::Duration;

use api::Task;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kubeopencode_core::{
    outcome::Ending,
    pod_progress::Progress,
    queue::TaskKey,
    report::RunReport,
    session::{goes_on_after, is_of, may_go_on},
};
use observe::{Key, Next};

use super::{
    approval::opened,
    follow::later,
    standing::Standing,
    target::{Target, TargetKind},
};
use crate::{
    agent::server::Error,
    apply::controller_uid,
    context::{Context, now},
};

/// A server that does not answer for this long is given up. One that starts again has forgotten what it did.
const PATIENCE: Duration = Duration::from_mins(2);

/// A run that is over and may have left a session behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeftBehind {
    agent: Key,
    task: TaskKey,
    epoch: i64,
    until: Timestamp,
}

/// A run ended: if its session may go on, it is aborted.
pub fn ended(ctx: &Context, task: &Task, epoch: i64, ending: &Ending, progress: &Progress) {
    let recorded = task.status.as_ref().and_then(|status| status.start_time.as_ref());
    // Only a run of a Pod that nobody saw may have started without a word.
    let started = progress.created_at.is_none() || progress.started_at.is_some() || recorded.is_some();
    if started && may_go_on(ending) {
        leave(ctx, Target::of(task), TaskKey::of(task), epoch);
    }
}

/// The Pod of a Task is gone. If its Task went before it, nobody else looks after its session.
pub fn pod_gone(ctx: &Context, pod: &Pod, task: &Key, epoch: i64) {
    let uid = controller_uid(pod).unwrap_or_default();
    let exists = ctx.seen.tasks.object(task).is_some_and(|task| task.metadata.uid.as_deref() == Some(uid));
    if !exists && Progress::of(pod).started_at.is_some() && goes_on_after(RunReport::of(pod).as_ref()) {
        let task = TaskKey { namespace: task.namespace.clone(), name: task.name.clone(), uid: uid.to_owned() };
        leave(ctx, Target::of_pod(pod), task, epoch);
    }
}

fn leave(ctx: &Context, target: Option<Target>, task: TaskKey, epoch: i64) {
    if let Some(target) = target.filter(|target| target.kind == TargetKind::Agent) {
        ctx.work.sessions.add(LeftBehind { agent: target.key, task, epoch, until: later(now(), PATIENCE) });
    }
}

/// Aborts what a run left behind on the server of its Agent.
pub async fn pass(ctx: &Context, left: &LeftBehind) -> Result<Next, Error> {
    let LeftBehind { agent, task, epoch, until } = left;
    let Some(agent) = ctx.seen.agents.object(agent) else { return Ok(Next::Wait) };
    if now() >= *until {
        tracing::warn!(agent = %left.agent, task = task.name, epoch, "nobody could tell whether its session goes on");
        return Ok(Next::Wait);
    }
    let Some(server) = ctx.servers.of(ctx, &agent).await? else { return Ok(Next::Retry) };
    let known = ctx.seen.tasks.object(&Key::new(&task.namespace, &task.name));
    let runs_again = known.is_some_and(|known| {
        known.metadata.uid.as_ref() == Some(&task.uid)
            && matches!(Standing::of(&known), Standing::Running { epoch: runs, .. } if runs != *epoch)
    });
    for session in server.busy().await? {
        let Some(about) = opened(&server, &session).await? else { continue };
        if is_of(&about, task, *epoch, runs_again) {
            server.abort(&session).await?;
            tracing::info!(agent = agent.name_any(), task = task.name, epoch, session, "a session was aborted");
        }
    }
    Ok(Next::Wait)
}
