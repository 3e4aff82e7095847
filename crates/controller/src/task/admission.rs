//! Admission: one decision for one Agent or template at a time, in memory.

use api::{
    Agent,
    kinds::agent::{Rollout, TaskStart},
};
use domain::run::{
    queue::{Gate, Limits, index::Circumstances},
    resolve::{resolve_agent, resolve_template},
    target::{RunsOn, Target},
};
use kube::api::{Patch, PatchParams};
use observe::Next;
use serde_json::json;

use super::budget;
use crate::{
    agent::standby,
    shared::{Shared, failpoint, instant, metrics, now},
};

/// Decides which of the Tasks that wait for `target` may start, and queues those with a new decision.
pub async fn pass(shared: &Shared, target: &Target) -> Result<Next, kube::Error> {
    budget::observe(shared, target);
    let circumstances = circumstances(shared, target);
    let decided = shared.tasks.queues.with(|index| index.decide(target, circumstances, now()));
    let label = metrics::Target {
        namespace: target.namespace.clone(),
        kind: target.runs_on.kind(),
        name: target.runs_on.name().to_owned(),
    };
    shared.telemetry.metrics.queued(&label, decided.waiting, decided.running);
    if let Some(agent) = target.agent_key()
        && shared.cache.agents.object(&agent).is_some_and(|agent| load_matters(&agent))
    {
        shared.work.agents.add(agent);
    }
    // Starts are recorded before they happen; a record that cannot be written delays no Task.
    let recorded = match &decided.decisions.history {
        Some(history) => record_starts(shared, target, history).await,
        None => Ok(()),
    };
    for key in decided.look_at {
        shared.work.tasks.add(key);
    }
    recorded?;
    if decided.decisions.resume {
        standby::wake(shared, &target.key()).await?;
    }
    Ok(decided.decisions.next_wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
}

/// Whether the Agent has to be reconciled when its load changes.
fn load_matters(agent: &Agent) -> bool {
    let follows = agent.status.as_ref().is_some_and(|status| status.git_sync_statuses.is_some());
    follows || agent.spec.standby.is_some() || agent.spec.rollout == Rollout::WhenIdle
}

fn circumstances(shared: &Shared, target: &Target) -> Circumstances {
    let platform = shared.platform();
    let missing =
        Circumstances { gate: Gate::Missing { since: now() }, limits: Limits::default(), history: Vec::new() };
    let key = target.key();
    match target.runs_on {
        RunsOn::Agent(_) => {
            let Some(agent) = shared.cache.agents.object(&key) else { return missing };
            let template = shared.template_of(&agent);
            let status = agent.status.clone().unwrap_or_default();
            let resolved = resolve_agent(&agent, template.as_deref(), &platform);
            Circumstances {
                gate: Gate::with_settings(&agent, &resolved),
                limits: resolved.as_ref().map(Limits::from).unwrap_or_default(),
                history: status.task_start_history.unwrap_or_default(),
            }
        }
        RunsOn::Template(_) => {
            let Some(template) = shared.cache.templates.object(&key) else { return missing };
            let status = template.status.clone().unwrap_or_default();
            Circumstances {
                gate: Gate::Ready,
                limits: resolve_template(&template, &platform).as_ref().map(Limits::from).unwrap_or_default(),
                history: status.task_start_history.unwrap_or_default(),
            }
        }
    }
}

/// Writes the starts of a target to its status.
async fn record_starts(shared: &Shared, target: &Target, history: &[TaskStart]) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "status": { "taskStartHistory": history } }));
    let params = PatchParams::default();
    let key = target.key();
    match target.runs_on {
        RunsOn::Agent(_) => {
            let written = shared.api::<Agent>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            shared.cache.agents.insert_written(written);
        }
        RunsOn::Template(_) => {
            let written =
                shared.api::<api::AgentTemplate>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            shared.cache.templates.insert_written(written);
        }
    }
    failpoint::reach("start-recorded");
    shared.tasks.queues.with(|index| index.recorded(target, history));
    Ok(())
}
