//! Standby: an idle Agent is suspended, and resumed when a Task or a person uses it.

use api::{Agent, names::annotations};
use domain::{
    agent::standby::{
        SUSPENDED_BY_STANDBY, StandbyAction, StandbyPlan, Suspension, Use, is_marked, last_connection, standby,
    },
    run::target::Target,
};
use kube::api::{Patch, PatchParams};
use observe::Key;
use serde_json::{Value, json};

use crate::shared::{Shared, now};

/// Suspends or resumes an Agent if that is due. Returns the plan for its status.
pub async fn pass(shared: &Shared, agent: &Agent) -> Result<StandbyPlan, kube::Error> {
    let key = Key::of(agent);
    let status = agent.status.as_ref();
    let plan = standby(
        &Use {
            standby: agent.spec.standby.as_ref(),
            suspension: Suspension::of(agent),
            marked: is_marked(agent),
            slept: status.and_then(|status| status.suspended) == Some(true),
            tasks: shared.tasks.queues.with(|index| index.load(&Target::agent(key.clone()))),
            last_connection: last_connection(agent),
            idle_since: status.and_then(|status| status.idle_since.as_ref()).map(|time| time.0),
        },
        now(),
    );
    match plan.action {
        StandbyAction::Keep => {}
        StandbyAction::Suspend => {
            set(shared, &key, true).await?;
            shared.telemetry.events.normal(agent, "StandbySuspended", "the Agent was idle for its idle timeout");
        }
        StandbyAction::Resume => {
            set(shared, &key, false).await?;
            shared.telemetry.events.normal(agent, "Resumed", "the Agent is in use again");
        }
        StandbyAction::Unmark => {
            let patch = json!({ "metadata": { "annotations": { annotations::SUSPENDED_BY: null } } });
            shared.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
    }
    Ok(plan)
}

/// Resumes an Agent because a Task waits for it.
pub async fn wake(shared: &Shared, key: &Key) -> Result<(), kube::Error> {
    let agent = set(shared, key, false).await?;
    shared.telemetry.events.normal(&agent, "Resumed", "a Task waits for this Agent");
    Ok(())
}

async fn set(shared: &Shared, key: &Key, asleep: bool) -> Result<Agent, kube::Error> {
    let by = if asleep { Value::from(SUSPENDED_BY_STANDBY) } else { Value::Null };
    let patch = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: by } },
        "spec": { "suspend": asleep },
    });
    shared.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await
}
