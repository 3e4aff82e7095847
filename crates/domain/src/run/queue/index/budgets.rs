//! Usage of the shared budgets of each target.

use std::sync::Arc;

use api::{Task, kinds::task::Usage};
use jiff::Timestamp;

use super::Index;
use crate::run::{
    budget::Allowance,
    queue::{BudgetState, Budgets, SharedBudget, Spending, TaskKey},
    target::Target,
};

impl Index {
    /// Sets the shared budgets of `target`. Decide next.
    ///
    /// `finished` returns the finished Tasks of the target. It is called when counting starts; from then on each Task
    /// is counted as it finishes.
    pub fn set_budget(&mut self, target: &Target, budgets: &Budgets, finished: impl FnOnce() -> Vec<Arc<Task>>) {
        let Budgets { shared, each } = budgets;
        if shared.is_empty() {
            self.spending.remove(target);
            return;
        }
        let known = self.spending.get_mut(target).filter(|(_, known)| known.len() == shared.len());
        let same = known.is_some_and(|(known_each, known)| {
            *known_each = *each;
            known.iter_mut().zip(shared).all(|(spending, budget)| spending.set_budget(*budget))
        });
        if !same {
            let tasks = finished();
            let begin = |budget: &SharedBudget| {
                let mut begun = Spending::new(*budget);
                for task in &tasks {
                    begun.note_task(task);
                }
                begun
            };
            self.spending.insert(target.clone(), (*each, shared.iter().map(begin).collect()));
        }
    }

    /// What the run of `task` may use of the shared budgets of `target`: its share, or what is left if it has none yet.
    pub fn budget_share(&mut self, target: &Target, task: &TaskKey, now: Timestamp) -> Allowance {
        let share = self.queues.get(target).and_then(|queue| queue.share(task));
        share.unwrap_or_else(|| self.budget_state(target, now).left)
    }

    pub(super) fn budget_state(&mut self, target: &Target, now: Timestamp) -> BudgetState {
        let budgets = self.spending.get_mut(target);
        budgets.map(|(each, budgets)| BudgetState::of(*each, budgets, now)).unwrap_or_default()
    }

    /// Records the usage of a run that ended at `ended`, also if its Task is deleted.
    pub fn spent(&mut self, task: &Task, epoch: i64, ended: Timestamp, usage: Option<&Usage>) {
        if let (Some(target), Some(uid), Some(usage)) = (Target::of(task), &task.metadata.uid, usage) {
            for spending in self.spending.get_mut(&target).into_iter().flat_map(|(_, budgets)| budgets) {
                spending.note(uid, epoch, ended, usage.into());
            }
        }
    }
}
