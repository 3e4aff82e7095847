//! Aborts sessions that outlive their run.
//!
//! The client in the Pod aborts its session when the Pod is asked to stop. A client that was killed, evicted or lost with
//! its node cannot, and OpenCode would go on editing and spending. The abort is retried in the background for a limited
//! time; no status waits for it.

use std::time::Duration;

use api::Task;
use domain::{
    contract::report::RunReport,
    run::{
        outcome::Ending,
        progress::Progress,
        queue::TaskKey,
        session::{goes_on_after, is_of, may_go_on},
        stage::Stage,
        target::Target,
    },
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use observe::{Key, Next};

use super::{approval::opened, follow::later};
use crate::{
    agent::server::Error,
    shared::{Shared, apply::controller_uid, now},
};

/// How long the abort is retried. A server that restarts in the meantime has dropped the session.
const ABORT_TIMEOUT: Duration = Duration::from_mins(2);

/// A run that is over and whose session may still be active.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeftBehind {
    agent: Key,
    task: TaskKey,
    epoch: i64,
    until: Timestamp,
}

/// Schedules the abort of the session of a run that ended, if the session may be active.
pub fn ended(shared: &Shared, task: &Task, epoch: i64, ending: &Ending, progress: &Progress) {
    let recorded = task.status.as_ref().and_then(|status| status.start_time.as_ref());
    // A run whose Pod was never seen may have started too.
    let started = progress.created_at.is_none() || progress.started_at.is_some() || recorded.is_some();
    if started && may_go_on(ending) {
        leave(shared, Target::of(task), TaskKey::of(task), epoch);
    }
}

/// Schedules the abort of the session of a deleted Pod whose Task was deleted before it.
pub fn pod_gone(shared: &Shared, pod: &Pod, task: &Key, epoch: i64) {
    let uid = controller_uid(pod).unwrap_or_default();
    let exists = shared.cache.tasks.object(task).is_some_and(|task| task.metadata.uid.as_deref() == Some(uid));
    if !exists && Progress::of(pod).started_at.is_some() && goes_on_after(RunReport::of(pod).as_ref()) {
        let task = TaskKey { namespace: task.namespace.clone(), name: task.name.clone(), uid: uid.to_owned() };
        leave(shared, Target::of_pod(pod), task, epoch);
    }
}

fn leave(shared: &Shared, target: Option<Target>, task: TaskKey, epoch: i64) {
    if let Some(agent) = target.and_then(|target| target.agent_key()) {
        shared.work.sessions.add(LeftBehind { agent, task, epoch, until: later(now(), ABORT_TIMEOUT) });
    }
}

/// Aborts the active sessions of a run on the server of its Agent.
pub async fn pass(shared: &Shared, left: &LeftBehind) -> Result<Next, Error> {
    let LeftBehind { agent, task, epoch, until } = left;
    let Some(agent) = shared.cache.agents.object(agent) else { return Ok(Next::Wait) };
    if now() >= *until {
        tracing::warn!(agent = %left.agent, task = task.name, epoch, "gave up aborting the session of a run: the Agent's server did not respond");
        return Ok(Next::Wait);
    }
    let Some(server) = shared.agents.servers.of(shared, &agent).await? else { return Ok(Next::Retry) };
    let known = shared.cache.tasks.object(&Key::new(&task.namespace, &task.name));
    let runs_again = known.is_some_and(|known| {
        known.metadata.uid.as_ref() == Some(&task.uid)
            && matches!(Stage::of(&known), Stage::Running { epoch: runs, .. } if runs != *epoch)
    });
    for session in server.activities().await?.into_keys() {
        let Some(about) = opened(&server, &session).await? else { continue };
        if is_of(&about, task, *epoch, runs_again) {
            server.abort(&session, opencode::client::REQUEST).await?;
            tracing::info!(agent = agent.name_any(), task = task.name, epoch, session, "aborted a session");
        }
    }
    Ok(Next::Wait)
}
