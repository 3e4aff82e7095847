//! Removes files that Tasks delivered to the workspace of their Agent, once the Tasks are gone.
//!
//! There is no record of the files: the workspace is listed, and files without a Task are removed. That happens when a
//! Task on the Agent is deleted, when the Agent's server becomes ready, and when the controllers start, so files are
//! also removed that were missed while the Agent was suspended or no controller ran. It needs no write to the API
//! server.

use std::time::Duration;

use api::{Task, names::labels};
use domain::{agent::delivered::left_over, run::target::Target};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use observe::{Change, Key, Next};
use tokio::time::Instant;

use super::{companion::Companion, server::Error};
use crate::{shared::Shared, task::still_runs};

/// Tasks that are deleted within this time share one sweep.
const PAUSE: Duration = Duration::from_secs(1);

/// Schedules a sweep if the Task was deleted.
pub fn task_changed(shared: &Shared, change: &Change<'_, Task>) {
    if change.now.is_none()
        && let Some(target) = change.was().and_then(Target::of)
    {
        left(shared, &target);
    }
}

/// Schedules a sweep after a Task or Pod that could deliver to `target` was deleted.
pub fn left(shared: &Shared, target: &Target) {
    if let Some(agent) = target.agent_key() {
        shared.work.sweeps.add_at(agent, Instant::now() + PAUSE);
    }
}

/// Removes the deliveries of deleted Tasks from the workspace of an Agent.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, Error> {
    let Some(agent) = shared.cache.agents.object(key) else { return Ok(Next::Wait) };
    // A server that becomes ready queues a sweep.
    let Some(companion) = Companion::of(shared, &agent).await? else { return Ok(Next::Wait) };
    let names = left_over(companion.tasks().await?, |name| still_needed(shared, key, name));
    let mut failed = None;
    for name in &names {
        match companion.remove(name).await {
            Ok(()) => tracing::debug!(agent = %key, task = name, "the files of a Task that is gone were removed"),
            // One that cannot be removed does not keep the others.
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(Next::Wait), Err)
}

/// Whether the Task exists on the Agent, or a Pod of the deleted Task may still deliver.
fn still_needed(shared: &Shared, agent: &Key, name: &str) -> bool {
    let on = Target::agent(agent.clone());
    let task = shared.cache.tasks.object(&Key::new(&agent.namespace, name));
    if task.is_some_and(|task| Target::of(&task).as_ref() == Some(&on)) {
        return true;
    }
    let delivers = |pod: &Pod| {
        pod.labels().get(labels::TASK).is_some_and(|task| task == name)
            && Target::of_pod(pod).as_ref() == Some(&on)
            && still_runs(pod)
    };
    !shared.cache.pods.all(delivers).is_empty()
}
