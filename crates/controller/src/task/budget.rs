//! Budgets: the shared one of all Tasks of an Agent or template, and the one of a single run.

use std::sync::Arc;

use api::{Task, TaskPhase};
use domain::run::{
    budget::Allowance,
    queue::{Budgets, TaskKey},
    resolved::ResolvedTask,
    target::Target,
};

use crate::shared::{Shared, now};

/// Updates the shared budget in the queue of `target`, before an admission decision.
pub fn observe(shared: &Shared, target: &Target) {
    let agent = target.agent_key().and_then(|agent| shared.cache.agents.object(&agent));
    let own = agent.as_ref().and_then(|agent| agent.spec.budget.as_ref());
    let budgets = Budgets::of(own, shared.platform().budget.as_ref());
    shared.tasks.queues.with(|index| index.set_budget(target, &budgets, || ended_on(shared, target)));
}

fn ended_on(shared: &Shared, target: &Target) -> Vec<Arc<Task>> {
    let ended = |task: &Task| task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_finished);
    shared.cache.tasks.in_namespace(&target.namespace, |task| ended(task) && Target::of(task).as_ref() == Some(target))
}

/// The limits of a run: those of its settings, and its share of the shared budgets.
pub fn allowance(shared: &Shared, task: &Task, resolved: &ResolvedTask) -> Allowance {
    let own = resolved.budget.as_ref().map(Allowance::from).unwrap_or_default();
    let Some(target) = Target::of(task) else { return own };
    let key = TaskKey::of(task);
    own.and(shared.tasks.queues.with(|index| index.budget_share(&target, &key, now())))
}
