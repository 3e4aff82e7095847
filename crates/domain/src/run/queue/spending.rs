//! Usage of the budget that the Tasks of an Agent or template share, within its window.

use std::collections::{BTreeMap, HashSet};

use api::{Task, TaskPhase, run::Budget};
use jiff::{SignedDuration, Timestamp};

use super::{Queue, Running, TaskKey};
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

/// The budgets of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Those that count over a window, all Tasks together.
    pub shared: Vec<SharedBudget>,
    /// The limit of each run.
    pub each: Allowance,
}

impl Budgets {
    /// The budgets of an Agent and of the platform: both count.
    pub fn of(agent: Option<&Budget>, platform: Option<&Budget>) -> Self {
        let mut budgets = Self::default();
        for budget in agent.into_iter().chain(platform) {
            match budget.window {
                Some(window) => {
                    budgets.shared.push(SharedBudget { allowance: budget.into(), window: signed(window.to_std()) });
                }
                None => budgets.each = budgets.each.and(budget.into()),
            }
        }
        budgets
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

    /// What ended runs left of the budget.
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

    /// When the oldest usage leaves the window.
    pub fn frees(&self) -> Option<Timestamp> {
        self.runs.first_key_value().map(|((ended, _), _)| later(*ended, self.budget.window))
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

/// The state of the budgets that the Tasks of a target share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetState {
    /// What ended runs left.
    pub left: Allowance,
    /// Set while ended runs left nothing.
    pub used_up: Option<UsedUp>,
    /// When the oldest usage leaves its window.
    pub frees: Option<Timestamp>,
    /// The limit of each run, besides that of its Task.
    pub each: Allowance,
}

impl BudgetState {
    pub fn of(each: Allowance, budgets: &mut [Spending], now: Timestamp) -> Self {
        let mut state = Self { each, ..Self::default() };
        for spending in budgets {
            state.left = state.left.and(spending.left(now));
            state.used_up = state.used_up.or_else(|| spending.used_up(now));
            state.frees = [state.frees, spending.frees()].into_iter().flatten().min();
        }
        state
    }
}

impl Queue {
    /// Sets the state of the shared budgets, and reserves the share of each running Task. Returns whether the reason
    /// changed for which Tasks wait.
    pub fn set_budget(&mut self, state: BudgetState) -> bool {
        let before = (self.budget.used_up.clone(), self.budget.left.is_nothing());
        let mut left = state.left;
        // A share that was given comes first; a run whose share is not known gets one of the rest.
        let is_known = |run: &Running| run.share != Allowance::default();
        for known in [true, false] {
            for run in self.running.values_mut().filter(|run| is_known(run) == known) {
                (run.share, left) = left.take(run.own_limit.and(state.each), run.share);
            }
        }
        self.budget = BudgetState { left, ..state };
        before != (self.budget.used_up.clone(), self.budget.left.is_nothing())
    }

    /// Sets the limit of a running Task itself.
    pub fn set_own_limit(&mut self, key: &TaskKey, limit: Allowance) {
        if let Some(run) = self.running.get_mut(key) {
            run.own_limit = limit;
        }
    }

    /// What a Task that runs or was admitted may use of the shared budgets.
    pub fn share(&self, key: &TaskKey) -> Option<Allowance> {
        self.running.get(key).map(|run| run.share)
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
        let mut spending = Spending::new(Budgets::of(Some(&budget), None).shared[0]);
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
            let shared = Budgets::of(own, platform).shared.into_iter();
            shared.map(|shared| (shared.allowance.tokens, shared.window.as_hours())).collect::<Vec<_>>()
        };
        let hour = budget(json!({"maxTokens": 3, "window": "1h"}));
        assert_eq!(tokens(None, None), []);
        assert_eq!(tokens(Some(&run), None), []);
        assert_eq!(tokens(Some(&day), Some(&run)), [(Some(7), 24)]);
        assert_eq!(tokens(Some(&run), Some(&day)), [(Some(7), 24)]);
        assert_eq!(tokens(Some(&day), Some(&hour)), [(Some(7), 24), (Some(3), 1)], "both count");
        assert_eq!(Budgets::of(Some(&run), Some(&day)).each.tokens, Some(5));
    }

    #[test]
    fn of_several_budgets_the_smallest_rest_counts() {
        let mut day = spending(json!({"maxTokens": 100, "maxCost": "2"}), &[(10, spent(40, "1.5"))]);
        let mut hour = spending(json!({"maxTokens": 50}), &[(10, spent(40, "1.5"))]);
        let state = BudgetState::of(Allowance::default(), &mut [day.clone(), hour.clone()], at(20));
        assert_eq!(state.left, Allowance { tokens: Some(10), cost: Cost::read("0.5") });
        assert_eq!((state.used_up, state.frees), (None, Some(at(70))));
        day.note("more", 1, at(15), spent(0, "0.5"));
        hour.note("more", 1, at(15), spent(0, "0.5"));
        let used = BudgetState::of(Allowance::default(), &mut [hour, day], at(20)).used_up.unwrap().used;
        assert_eq!(used, "spent 2.00 of 2.00");
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
        let raised = Budgets::of(Some(&budget(json!({"maxTokens": 150, "window": "60s"}))), None).shared[0];
        assert!(spending.used_up(at(20)).is_some() && spending.set_budget(raised));
        assert_eq!((spending.used_up(at(20)), spending.left(at(20)).tokens), (None, Some(50)));
        let longer = Budgets::of(Some(&budget(json!({"maxTokens": 150, "window": "2m"}))), None).shared[0];
        assert!(!spending.set_budget(longer));
    }
}
