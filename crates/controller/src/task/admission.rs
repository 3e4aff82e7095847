//! Admission: one decision an Agent or template at a time, in memory.

use api::{names::annotations, names::field_managers};
use kube::api::{Patch, PatchParams};
use kubeopencode_core::{
    queue::{Gate, Limits},
    resolve::{resolve_agent, resolve_template},
};
use serde_json::json;

use super::queues::{Circumstances, Target, TargetKind};
use crate::{
    context::{Context, instant, now},
    metrics,
    work::Next,
};

/// Decides who of those that wait for `target` may start, and tells them.
pub async fn pass(ctx: &Context, target: &Target) -> Result<Next, kube::Error> {
    let decided = ctx.queues.decide(target, circumstances(ctx, target), now());
    let label = metrics::Target {
        namespace: target.key.namespace.clone(),
        kind: match target.kind {
            TargetKind::Agent => "Agent",
            TargetKind::Template => "AgentTemplate",
        },
        name: target.key.name.clone(),
    };
    ctx.metrics.queued(label, decided.waiting, decided.running);
    for key in decided.concerned {
        ctx.work.tasks.add(key);
    }
    if let Some(history) = &decided.decisions.history {
        record_starts(ctx, target, &json!(history)).await?;
    }
    if decided.decisions.resume {
        resume(ctx, target).await?;
    }
    Ok(decided.decisions.next_wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
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
            let ready = status.ready == Some(true) && status.url.is_some() && resolved.is_ok();
            let gate = match (agent.spec.suspend, suspended_by_standby(&agent), ready) {
                (true, true, _) => Gate::Standby,
                (true, false, _) => Gate::SuspendedByUser,
                (false, _, false) => Gate::ServerNotReady,
                (false, _, true) => Gate::Ready,
            };
            Circumstances {
                gate,
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

/// Whether we, and not its user, suspended an Agent.
pub fn suspended_by_standby(agent: &api::Agent) -> bool {
    let by = agent.metadata.annotations.as_ref().and_then(|a| a.get(annotations::SUSPENDED_BY));
    by.is_some_and(|by| by == api::conditions::reasons::STANDBY)
}

async fn record_starts(ctx: &Context, target: &Target, history: &serde_json::Value) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "status": { "taskStartHistory": history } }));
    let params = PatchParams::default();
    let Target { kind, key } = target;
    match kind {
        TargetKind::Agent => {
            let written = ctx.api::<api::Agent>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            ctx.seen.agents.learn(written);
        }
        TargetKind::Template => {
            let written = ctx.api::<api::AgentTemplate>(&key.namespace).patch_status(&key.name, &params, &patch).await?;
            ctx.seen.templates.learn(written);
        }
    }
    Ok(())
}

/// Wakes an Agent that sleeps.
async fn resume(ctx: &Context, target: &Target) -> Result<(), kube::Error> {
    let patch = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: null } },
        "spec": { "suspend": false },
    });
    let params = PatchParams { field_manager: Some(field_managers::AGENT.into()), ..PatchParams::default() };
    let agents = ctx.api::<api::Agent>(&target.key.namespace);
    let agent = agents.patch(&target.key.name, &params, &Patch::Merge(patch)).await?;
    ctx.events.normal(&agent, "Resumed", "a Task waits for this Agent");
    Ok(())
}
