//! Standby: an Agent that nobody uses sleeps, and wakes when somebody does.

use api::{Agent, names::annotations};
use kube::api::{Patch, PatchParams};
use kubeopencode_core::standby::{
    SUSPENDED_BY_STANDBY, StandbyAction, StandbyPlan, Suspension, Use, is_marked, last_connection, standby,
};
use observe::Key;
use serde_json::{Value, json};

use crate::{
    context::{Context, now},
    task::target::Target,
};

/// Puts an Agent to sleep or wakes it, if its time has come. Answers the plan for its status.
pub async fn pass(ctx: &Context, agent: &Agent) -> Result<StandbyPlan, kube::Error> {
    let key = Key::of(agent);
    let status = agent.status.as_ref();
    let plan = standby(
        &Use {
            standby: agent.spec.standby.as_ref(),
            suspension: Suspension::of(agent),
            marked: is_marked(agent),
            slept: status.and_then(|status| status.suspended) == Some(true),
            tasks: ctx.queues.load(&Target::agent(key.clone())),
            last_connection: last_connection(agent),
            idle_since: status.and_then(|status| status.idle_since.as_ref()).map(|time| time.0),
        },
        now(),
    );
    match plan.action {
        StandbyAction::Keep => {}
        StandbyAction::Suspend => {
            set(ctx, &key, true).await?;
            ctx.events.normal(agent, "StandbySuspended", "nobody used this Agent for its idle timeout");
        }
        StandbyAction::Resume => {
            set(ctx, &key, false).await?;
            ctx.events.normal(agent, "Resumed", "somebody uses this Agent");
        }
        StandbyAction::Unmark => {
            let patch = json!({ "metadata": { "annotations": { annotations::SUSPENDED_BY: null } } });
            ctx.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
    }
    Ok(plan)
}

/// Wakes an Agent because a Task waits for it.
pub async fn wake(ctx: &Context, key: &Key) -> Result<(), kube::Error> {
    let agent = set(ctx, key, false).await?;
    ctx.events.normal(&agent, "Resumed", "a Task waits for this Agent");
    Ok(())
}

async fn set(ctx: &Context, key: &Key, asleep: bool) -> Result<Agent, kube::Error> {
    let by = if asleep { Value::from(SUSPENDED_BY_STANDBY) } else { Value::Null };
    let patch = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: by } },
        "spec": { "suspend": asleep },
    });
    ctx.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await
}
