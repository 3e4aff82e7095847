//! Usage of the shared budget of each target.

use std::sync::Arc;

use api::{Task, kinds::task::Usage};
use jiff::Timestamp;

use super::Index;
use crate::run::{
    budget::Allowance,
    queue::{SharedBudget, Spending},
    target::Target,
};

impl Index {
    /// Sets the shared budget of `target`. Decide next.
    ///
    /// `finished` returns the finished Tasks of the target. It is called when counting starts; from then on each Task
    /// is counted as it finishes.
    pub fn set_budget(
        &mut self,
        target: &Target,
        budget: Option<SharedBudget>,
        finished: impl FnOnce() -> Vec<Arc<Task>>,
    ) {
        let Some(budget) = budget else {
            self.spending.remove(target);
            return;
        };
        if !self.spending.get_mut(target).is_some_and(|spending| spending.set_budget(budget)) {
            let mut begun = Spending::new(budget);
            for task in finished() {
                begun.note_task(&task);
            }
            self.spending.insert(target.clone(), begun);
        }
    }

    /// What is left of the shared budget of `target`.
    pub fn budget_left(&mut self, target: &Target, now: Timestamp) -> Allowance {
        self.spending.get_mut(target).map(|spending| spending.left(now)).unwrap_or_default()
    }

    /// Records the usage of a run that ended at `ended`, also if its Task is deleted.
    pub fn spent(&mut self, task: &Task, epoch: i64, ended: Timestamp, usage: Option<&Usage>) {
        if let (Some(target), Some(uid), Some(usage)) = (Target::of(task), &task.metadata.uid, usage)
            && let Some(spending) = self.spending.get_mut(&target)
        {
            spending.note(uid, epoch, ended, usage.into());
        }
    }
}
