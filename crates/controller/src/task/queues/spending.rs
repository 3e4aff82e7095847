//! What the Tasks of each Agent and template used of the budget that they share.

use std::sync::Arc;

use api::{Task, kinds::task::Usage};
use jiff::Timestamp;
use kubeopencode_core::{
    budget::Allowance,
    queue::{SharedBudget, Spending},
};

use super::{Queues, State};
use crate::task::target::Target;

impl Queues {
    /// The Tasks of `target` share this budget now. Decide next.
    ///
    /// `ended` answers its Tasks that are over. It is asked when counting begins; from then on each is counted as it ends.
    pub fn set_budget(
        &self,
        target: &Target,
        budget: Option<SharedBudget>,
        now: Timestamp,
        ended: impl FnOnce() -> Vec<Arc<Task>>,
    ) {
        let mut state = self.lock();
        let State { lines, spending, .. } = &mut *state;
        let used_up = match budget {
            None => {
                spending.remove(target);
                None
            }
            Some(budget) => {
                let goes_on = spending.get_mut(target).is_some_and(|spending| spending.set_budget(budget));
                if !goes_on {
                    let mut begun = Spending::new(budget);
                    for task in ended() {
                        begun.note_task(&task);
                    }
                    spending.insert(target.clone(), begun);
                }
                spending.get_mut(target).and_then(|spending| spending.used_up(now))
            }
        };
        if let Some(line) = lines.get_mut(target)
            && line.queue.set_used_up(used_up)
        {
            line.retell = true;
        }
    }

    /// What the Tasks of `target` may still use together.
    pub fn left(&self, target: &Target, now: Timestamp) -> Allowance {
        self.lock().spending.get_mut(target).map(|spending| spending.left(now)).unwrap_or_default()
    }

    /// A run ended then and used that, whatever becomes of its Task.
    pub fn spent(&self, task: &Task, epoch: i64, ended: Timestamp, usage: Option<&Usage>) {
        if let (Some(target), Some(uid), Some(usage)) = (Target::of(task), &task.metadata.uid, usage)
            && let Some(spending) = self.lock().spending.get_mut(&target)
        {
            spending.note(uid, epoch, ended, usage.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::run::Budget;
    use kubeopencode_core::queue::{Gate, Limits};
    use observe::Key;
    use serde_json::json;

    use super::*;
    use crate::task::queues::{Circumstances, Verdict};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn target() -> Target {
        Target::agent(Key::new("n", "a"))
    }

    fn task(name: &str, phase: &str) -> Arc<Task> {
        let task = json!({
            "metadata": { "namespace": "n", "name": name, "uid": format!("uid-{name}") },
            "spec": { "agentRef": { "name": "a" } },
            "status": { "phase": phase, "runEpoch": 1, "completionTime": "1970-01-01T00:00:10Z",
                        "usage": { "tokens": { "input": 40, "output": 10 }, "cost": "0.25" } },
        });
        Arc::new(serde_json::from_value(task).unwrap())
    }

    fn observe(queues: &Queues, task: Option<&Arc<Task>>, name: &str) {
        queues.observe(&Key::new("n", name), Duration::ZERO, |_| task.cloned(), |_| false);
    }

    fn decide(queues: &Queues, now: i64, ended: &[Arc<Task>]) -> Vec<Key> {
        let budget: Budget = serde_json::from_value(json!({"maxTokens": 100, "window": "1m"})).unwrap();
        queues.set_budget(&target(), SharedBudget::of(Some(&budget), None), at(now), || ended.to_vec());
        let (limits, grace) = (Limits::default(), Duration::ZERO);
        let circumstances = Circumstances { gate: Gate::Ready, limits, history: Vec::new(), grace };
        queues.decide(&target(), circumstances, at(now)).concerned
    }

    fn waits_for(queues: &Queues, name: &str) -> &'static str {
        match queues.verdict(&Key::new("n", name), &format!("uid-{name}")) {
            Verdict::Waits(told) => told.reason,
            Verdict::Admitted(_) => "admitted",
            _ => "undecided",
        }
    }

    #[test]
    fn tasks_wait_while_those_of_the_window_used_the_budget_up() {
        let queues = Queues::default();
        let waiting = task("w", "Queued");
        observe(&queues, Some(&waiting), "w");
        // One ended before this process began to count, one while it counts; both were deleted since.
        decide(&queues, 20, &[task("x", "Completed")]);
        assert_eq!(waits_for(&queues, "w"), "admitted");
        assert_eq!(queues.left(&target(), at(20)).tokens, Some(50));
        queues.spent(&task("y", "Running"), 1, at(30), task("y", "Failed").status.as_ref().unwrap().usage.as_ref());
        observe(&queues, Some(&task("y", "Failed")), "y");
        observe(&queues, None, "y");

        observe(&queues, Some(&task("v", "Queued")), "v");
        assert_eq!(decide(&queues, 40, &[]), [Key::new("n", "v")]);
        assert_eq!(waits_for(&queues, "v"), "BudgetExceeded");
        assert!(decide(&queues, 69, &[]).is_empty(), "nothing changed, nobody is told");
        decide(&queues, 70, &[]);
        assert_eq!(waits_for(&queues, "v"), "admitted");
    }

    #[test]
    fn those_who_wait_are_told_when_the_budget_is_used_up_and_when_it_is_not() {
        let queues = Queues::default();
        for name in ["v", "w"] {
            observe(&queues, Some(&task(name, "Queued")), name);
        }
        let both = [Key::new("n", "v"), Key::new("n", "w")];
        assert_eq!(decide(&queues, 20, &[task("x", "Completed"), task("y", "Completed")]), both);
        queues.spent(&task("z", "Running"), 1, at(30), task("z", "Failed").status.as_ref().unwrap().usage.as_ref());
        assert_eq!(decide(&queues, 31, &[]), both, "more was used");
        queues.set_budget(&target(), None, at(32), Vec::new);
        let (limits, grace) = (Limits::default(), Duration::ZERO);
        let circumstances = Circumstances { gate: Gate::Ready, limits, history: Vec::new(), grace };
        assert_eq!(queues.decide(&target(), circumstances, at(32)).decisions.admit.len(), 2);
    }
}
