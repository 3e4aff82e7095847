//! Usage of the budget that the Tasks of an Agent or template share, within its window.

use std::collections::{BTreeMap, HashSet};

use api::{Task, TaskPhase, run::Budget};
use jiff::{SignedDuration, Timestamp};

use super::Queue;
use crate::{
    duration::{later, signed},
    run::budget::{Allowance, Spent},
};

/// A budget that the Tasks of an Agent or template share, for a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBudget {
    pub allowance: Allowance,
    pub window: SignedDuration,
}

impl SharedBudget {
    /// The budget `own` of an Agent or template, else the platform's. A budget without a window is not shared: it
    /// limits each run alone.
    pub fn of(own: Option<&Budget>, platform: Option<&Budget>) -> Option<Self> {
        let budget = own.or(platform)?;
        Some(Self { allowance: budget.into(), window: signed(budget.window?.to_std()) })
    }
}

/// A shared budget that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// Usage and limit as text.
    pub used: String,
    pub window: SignedDuration,
    /// When budget is available again; `None` if the limit is zero.
    pub until: Option<Timestamp>,
}

/// UID of the Task and epoch.
type Run = (String, i64);

/// Usage of ended runs within the window.
///
/// It is kept in memory and rebuilt from the existing Tasks when a controller starts: a deleted Task counts until the
/// controller ends. A record in the status of the Agent would survive that, but cost a write for every run.
#[derive(Clone, Debug)]
pub struct Spending {
    budget: SharedBudget,
    /// By end, oldest first.
    runs: BTreeMap<(Timestamp, Run), Spent>,
    known: HashSet<Run>,
    sum: Spent,
}

impl Spending {
    pub fn new(budget: SharedBudget) -> Self {
        Self { budget, runs: BTreeMap::new(), known: HashSet::new(), sum: Spent::default() }
    }

    /// Changes the budget. Returns whether that is possible: for a longer window, older usage is not known any more.
    pub fn set_budget(&mut self, budget: SharedBudget) -> bool {
        let same = self.budget.window == budget.window;
        self.budget = budget;
        same
    }

    /// Records the usage of a run that ended at `ended`. Repeating it changes nothing.
    pub fn note(&mut self, uid: &str, epoch: i64, ended: Timestamp, spent: Spent) {
        let run = (uid.to_owned(), epoch);
        if self.known.insert(run.clone()) {
            self.sum = self.sum.plus(spent);
            self.runs.insert((ended, run), spent);
        }
    }

    /// The same from the status of a Task, if it is finished.
    pub fn note_task(&mut self, task: &Task) {
        let Some(status) = task.status.as_ref().filter(|status| status.phase.is_some_and(TaskPhase::is_finished))
        else {
            return;
        };
        if let (Some(uid), Some(epoch), Some(ended), Some(usage)) =
            (&task.metadata.uid, status.run_epoch, &status.completion_time, &status.usage)
        {
            self.note(uid, epoch, ended.0, usage.into());
        }
    }

    pub fn left(&mut self, now: Timestamp) -> Allowance {
        self.prune(now);
        self.budget.allowance.after(self.sum)
    }

    /// `None` while budget is left.
    pub fn used_up(&mut self, now: Timestamp) -> Option<UsedUp> {
        self.prune(now);
        let SharedBudget { allowance, window } = self.budget;
        let used = allowance.used_up(self.sum)?;
        let mut rest = self.sum;
        let until = self.runs.iter().find_map(|((ended, _), spent)| {
            rest = rest.minus(*spent);
            allowance.used_up(rest).is_none().then(|| later(*ended, window))
        });
        Some(UsedUp { used, window, until })
    }

    fn prune(&mut self, now: Timestamp) {
        while let Some(oldest) = self.runs.first_entry()
            && later(oldest.key().0, self.budget.window) <= now
        {
            let ((_, run), spent) = oldest.remove_entry();
            self.known.remove(&run);
            self.sum = self.sum.minus(spent);
        }
    }
}

impl Queue {
    /// Sets whether the shared budget is used up. Returns whether that changed.
    pub fn set_used_up(&mut self, used_up: Option<UsedUp>) -> bool {
        let news = self.used_up != used_up;
        self.used_up = used_up;
        news
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{run::budget::Cost, sample::from_json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn budget(value: serde_json::Value) -> Budget {
        from_json(value)
    }

    fn spent(tokens: u64, cost: &str) -> Spent {
        Spent { tokens, cost: Cost::read(cost).unwrap() }
    }

    /// A budget of one minute, and the usage of runs by the second of their end.
    fn spending(limits: serde_json::Value, runs: &[(i64, Spent)]) -> Spending {
        let mut budget = budget(limits);
        budget.window = Some(std::time::Duration::from_mins(1).into());
        let mut spending = Spending::new(SharedBudget::of(Some(&budget), None).unwrap());
        for (second, spent) in runs {
            spending.note(&format!("uid-{second}"), 1, at(*second), *spent);
        }
        spending
    }

    #[test]
    fn only_a_budget_with_a_window_is_shared() {
        let run = budget(json!({"maxTokens": 5}));
        let day = budget(json!({"maxTokens": 7, "window": "24h"}));
        let tokens = |own: Option<&Budget>, platform: Option<&Budget>| {
            SharedBudget::of(own, platform).map(|shared| (shared.allowance.tokens, shared.window.as_hours()))
        };
        assert_eq!(tokens(None, None), None);
        assert_eq!(tokens(Some(&run), None), None);
        assert_eq!(tokens(Some(&day), Some(&run)), Some((Some(7), 24)));
        assert_eq!(tokens(None, Some(&day)), Some((Some(7), 24)));
        assert_eq!(tokens(Some(&run), Some(&day)), None, "an Agent's own budget is all that counts");
    }

    #[test]
    fn there_is_room_again_when_enough_has_left_the_window() {
        let check =
            |limits: serde_json::Value, runs: &[(i64, Spent)], now: i64, expected: Option<(&str, Option<i64>)>| {
                let found = spending(limits.clone(), runs).used_up(at(now));
                let found =
                    found.as_ref().map(|used_up| (used_up.used.as_str(), used_up.until.map(Timestamp::as_second)));
                assert_eq!(found, expected, "{limits} {runs:?} at {now}");
            };
        let tokens = json!({"maxTokens": 100});
        let runs = [(10, spent(40, "0")), (20, spent(30, "0")), (30, spent(60, "0"))];
        check(tokens.clone(), &[], 0, None);
        check(tokens.clone(), &runs[..2], 30, None);
        check(tokens.clone(), &runs, 30, Some(("used 130 of 100 tokens", Some(70))));
        check(tokens.clone(), &runs, 69, Some(("used 130 of 100 tokens", Some(70))));
        check(tokens.clone(), &runs, 70, None);
        check(json!({"maxTokens": 60}), &runs, 30, Some(("used 130 of 60 tokens", Some(90))));
        check(tokens, &[(10, spent(100, "0"))], 30, Some(("used 100 of 100 tokens", Some(70))));
        let both = json!({"maxTokens": 100, "maxCost": "1"});
        let runs = [(10, spent(100, "0")), (20, spent(0, "1.5"))];
        check(both, &runs, 30, Some(("used 100 of 100 tokens and spent 1.50 of 1.00", Some(80))));
        check(json!({"maxCost": "0"}), &[], 30, Some(("spent 0.00 of 0.00", None)));
    }

    #[test]
    fn a_run_counts_once_and_each_run_of_a_task_counts() {
        let mut spending = spending(json!({"maxTokens": 100}), &[]);
        spending.note("a", 1, at(10), spent(30, "0"));
        spending.note("a", 1, at(11), spent(30, "0"));
        assert_eq!(spending.left(at(20)).tokens, Some(70));
        spending.note("a", 2, at(12), spent(90, "0"));
        assert_eq!(spending.left(at(20)).tokens, Some(0));
        assert_eq!(spending.left(at(71)).tokens, Some(10), "the first has left");
    }

    #[test]
    fn only_tasks_that_are_over_count() {
        let task = |uid: &str, phase: &str| -> Task {
            from_json(json!({
                "metadata": {"name": "t", "uid": uid}, "spec": {},
                "status": {"phase": phase, "runEpoch": 1, "completionTime": "1970-01-01T00:00:10Z",
                           "usage": {"tokens": {"input": 10, "output": 5, "reasoning": 1}, "cost": "0.5"}},
            }))
        };
        let mut spending = spending(json!({"maxTokens": 100, "maxCost": "2"}), &[]);
        for (uid, phase) in [("a", "Completed"), ("b", "Failed"), ("c", "Queued"), ("d", "Running")] {
            spending.note_task(&task(uid, phase));
        }
        assert_eq!(spending.left(at(20)), Allowance { tokens: Some(68), cost: Cost::read("1") });
    }

    #[test]
    fn another_limit_counts_at_once_and_another_window_is_counted_anew() {
        let mut spending = spending(json!({"maxTokens": 100}), &[(10, spent(100, "0"))]);
        let raised = SharedBudget::of(Some(&budget(json!({"maxTokens": 150, "window": "60s"}))), None).unwrap();
        assert!(spending.used_up(at(20)).is_some() && spending.set_budget(raised));
        assert_eq!((spending.used_up(at(20)), spending.left(at(20)).tokens), (None, Some(50)));
        let longer = SharedBudget::of(Some(&budget(json!({"maxTokens": 150, "window": "2m"}))), None).unwrap();
        assert!(!spending.set_budget(longer));
    }
}
