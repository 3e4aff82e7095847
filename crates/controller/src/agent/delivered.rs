//! What Tasks delivered to the workspace of their Agent goes away with them.
//!
//! Nobody remembers what is there: it is looked at, and what has no Task is removed. That happens when a Task on the
//! Agent is gone, when the Agent's server becomes ready, and when the controllers begin to work, so nothing stays for
//! good that was missed while the Agent slept or nobody watched. It costs the API server no write.

use std::time::Duration;

use api::{Task, names::labels};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kubeopencode_core::{
    delivered::{DIRECTORY, left_over, removals},
    resolve::resolve_agent,
};
use observe::{Change, Key, Next};
use tokio::time::Instant;

use super::server::Error;
use crate::{
    context::Context,
    task::{
        still_runs,
        target::{Target, TargetKind},
    },
};

/// Many Tasks that are deleted at once get one look.
const PAUSE: Duration = Duration::from_secs(1);
/// How the session is called in which our helper runs, for whoever sees it.
const TITLE: &str = "KubeOpenCode: removal of contexts";

/// A Task changed: if it is gone, so is what it delivered.
pub fn task_changed(ctx: &Context, change: &Change<'_, Task>) {
    if change.now.is_none()
        && let Some(target) = change.was().and_then(Target::of)
    {
        left(ctx, &target);
    }
}

/// Somebody who could deliver to `target` is gone.
pub fn left(ctx: &Context, target: &Target) {
    if target.kind == TargetKind::Agent {
        ctx.work.sweeps.add_at(target.key.clone(), Instant::now() + PAUSE);
    }
}

/// Removes from the workspace of an Agent what Tasks delivered that are gone.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, Error> {
    let Some(agent) = ctx.seen.agents.object(key) else { return Ok(Next::Wait) };
    let Ok(resolved) = resolve_agent(&agent, ctx.template_of(&agent).as_deref(), &ctx.platform()) else {
        return Ok(Next::Wait);
    };
    // One that is not ready brings us back when it is.
    let Some(server) = ctx.servers.of(ctx, &agent).await? else { return Ok(Next::Wait) };
    let found = server.directories(DIRECTORY).await?;
    let names = left_over(found, |name| still_needed(ctx, key, name));
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

/// Whether a Task of this name is on the Agent, or a Pod of one that is gone may still deliver.
fn still_needed(ctx: &Context, agent: &Key, name: &str) -> bool {
    let on = Target::agent(agent.clone());
    let task = ctx.seen.tasks.object(&Key::new(&agent.namespace, name));
    if task.is_some_and(|task| Target::of(&task).as_ref() == Some(&on)) {
        return true;
    }
    let delivers = |pod: &Pod| {
        pod.labels().get(labels::TASK).is_some_and(|task| task == name)
            && Target::of_pod(pod).as_ref() == Some(&on)
            && still_runs(pod)
    };
    !ctx.seen.pods.all(delivers).is_empty()
}
