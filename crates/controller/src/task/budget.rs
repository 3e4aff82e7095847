//! Budgets: what the Tasks of an Agent or template may use together, and what a single run may use.

use std::sync::Arc;

use api::{Task, TaskPhase};
use kubeopencode_core::{budget::Allowance, queue::SharedBudget, resolved::ResolvedTask};

use super::target::{Target, TargetKind};
use crate::context::{Context, now};

/// Tells the queue of `target` what its Tasks may use together, before a decision.
pub fn observe(ctx: &Context, target: &Target) {
    let agent = match target.kind {
        TargetKind::Agent => ctx.seen.agents.object(&target.key),
        TargetKind::Template => None,
    };
    let own = agent.as_ref().and_then(|agent| agent.spec.budget.as_ref());
    let budget = SharedBudget::of(own, ctx.platform().budget.as_ref());
    ctx.queues.set_budget(target, budget, now(), || ended_on(ctx, target));
}

fn ended_on(ctx: &Context, target: &Target) -> Vec<Arc<Task>> {
    let ended = |task: &Task| task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_finished);
    ctx.seen.tasks.in_namespace(&target.key.namespace, |task| ended(task) && Target::of(task).as_ref() == Some(target))
}

/// The most that a run may use: its own budget, and what is left now of the one that it shares.
pub fn allowance(ctx: &Context, task: &Task, resolved: &ResolvedTask) -> Allowance {
    let own = resolved.budget.as_ref().map(Allowance::from).unwrap_or_default();
    Target::of(task).map_or(own, |target| own.and(ctx.queues.left(&target, now())))
}
