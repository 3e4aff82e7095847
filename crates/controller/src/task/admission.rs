//! Admission: one decision an Agent or template at a time, in memory.

use api::{
    Agent,
    kinds::agent::{Rollout, TaskStart},
};
use kube::api::{Patch, PatchParams};
use kubeopencode_core::{
    queue::{Gate, Limits},
    resolve::{resolve_agent, resolve_template},
};
use observe::Next;
use serde_json::json;

use super::{
    budget,
    queues::Circumstances,
    target::{Target, TargetKind},
};
use crate::{
    agent::standby,
    context::{Context, instant, now},
    failpoint, metrics,
};

/// Decides who of those that wait for `target` may start, and tells them.
pub async fn pass(ctx: &Context, target: &Target) -> Result<Next, kube::Error> {
    budget::observe(ctx, target);
    let decided = ctx.queues.decide(target, circumstances(ctx, target), now());
    let label = metrics::Target {
        namespace: target.key.namespace.clone(),
        kind: match target.kind {
            TargetKind::Agent => "Agent",
            TargetKind::Template => "AgentTemplate",
        },
        name: target.key.name.clone(),
    };
    ctx.metrics.queued(&label, decided.waiting, decided.running);
    if target.kind == TargetKind::Agent && ctx.seen.agents.object(&target.key).is_some_and(|agent| load_matters(&agent))
    {
        ctx.work.agents.add(target.key.clone());
    }
    // Starts are on record before they happen; but nobody waits for a record that cannot be written.
    let recorded = match &decided.decisions.history {
        Some(history) => record_starts(ctx, target, history).await,
        None => Ok(()),
    };
    for key in decided.concerned {
        ctx.work.tasks.add(key);
    }
    recorded?;
    if decided.decisions.resume {
        standby::wake(ctx, &target.key).await?;
    }
    Ok(decided.decisions.next_wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
}

/// Whether an Agent behaves differently when Tasks run on it.
fn load_matters(agent: &Agent) -> bool {
    let follows = agent.status.as_ref().is_some_and(|status| status.git_sync_statuses.is_some());
    follows || agent.spec.standby.is_some() || agent.spec.rollout == Rollout::WhenIdle
}

fn circumstances(ctx: &Context, target: &Target) -> Circumstances {
    let platform = ctx.platform();
    let missing = Circumstances {
        gate: Gate::Missing { since: now() },
        limits: Limits::default(),
        history: Vec::new(),
        grace: platform.reference_grace_period,
    };
    match target.kind {
        TargetKind::Agent => {
            let Some(agent) = ctx.seen.agents.object(&target.key) else { return missing };
            let template = ctx.template_of(&agent);
            let status = agent.status.clone().unwrap_or_default();
            let resolved = resolve_agent(&agent, template.as_deref(), &platform);
            Circumstances {
                gate: Gate::with_settings(&agent, &resolved),
                limits: resolved.as_ref().map(Limits::from).unwrap_or_default(),
                history: status.task_start_history.unwrap_or_default(),
                ..missing
            }
        }
        TargetKind::Template => {
            let Some(template) = ctx.seen.templates.object(&target.key) else { return missing };
            let status = template.status.clone().unwrap_or_default();
            Circumstances {
                gate: Gate::Ready,
                limits: resolve_template(&template, &platform).as_ref().map(Limits::from).unwrap_or_default(),
                history: status.task_start_history.unwrap_or_default(),
                ..missing
            }
        }
    }
}

/// Writes the starts of a target to its status.
async fn record_starts(ctx: &Context, target: &Target, history: &[TaskStart]) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "status": { "taskStartHistory": history } }));
    let params = PatchParams::default();
    let Target { kind, key } = target;
    match kind {
        TargetKind::Agent => {
            let written = ctx.api::<Agent>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            ctx.seen.agents.learn(written);
        }
        TargetKind::Template => {
            let written =
                ctx.api::<api::AgentTemplate>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            ctx.seen.templates.learn(written);
        }
    }
    failpoint::reach("start-recorded");
    ctx.queues.recorded(target, history);
    Ok(())
}
