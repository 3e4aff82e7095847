//! Removes files that Tasks delivered to the workspace of their Agent, once the Tasks are gone.
//!
//! There is no record of the files: the workspace is listed, and files without a Task are removed. That happens when a
//! Task on the Agent is deleted, when the Agent's server becomes ready, and when the controllers start, so files are
//! also removed that were missed while the Agent was suspended or no controller ran. It needs no write to the API
//! server.

use std::time::Duration;

use api::{Task, names::labels};
use domain::{
    agent::delivered::{left_over, removals},
    contract::paths::DELIVERIES,
    run::{resolve::resolve_agent, target::Target},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use observe::{Change, Key, Next};
use tokio::time::Instant;

use super::server::Error;
use crate::{shared::Shared, task::still_runs};

/// Tasks that are deleted within this time share one sweep.
const PAUSE: Duration = Duration::from_secs(1);
/// Title of the session in which our helper runs, shown to users.
const TITLE: &str = "KubeOpenCode: removal of contexts";

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
    let Ok(resolved) = resolve_agent(&agent, shared.template_of(&agent).as_deref(), &shared.platform()) else {
        return Ok(Next::Wait);
    };
    // A server that becomes ready queues a sweep.
    let Some(server) = shared.agents.servers.of(shared, &agent).await? else { return Ok(Next::Wait) };
    let found = server.directories(DELIVERIES).await?;
    let names = left_over(found, |name| still_needed(shared, key, name));
    if names.is_empty() {
        return Ok(Next::Wait);
    }
    let printed = server.run(TITLE, &removals(&resolved.workspace_dir, &names)).await?;
    let removed = printed.iter().flat_map(|text| text.lines()).filter(|line| line.trim() == "removed").count();
    if removed < names.len() {
        let said: String = printed.join(" ").chars().take(300).collect();
        tracing::warn!(agent = %key, found = names.len(), removed, %said, "some delivered files stay");
        return Ok(Next::Retry);
    }
    tracing::debug!(agent = %key, removed, "delivered files of Tasks that are gone were removed");
    Ok(Next::Wait)
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
