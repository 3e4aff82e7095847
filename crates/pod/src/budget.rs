//! Counts the usage of a run against its budget.
//!
//! A model step is counted when it ends. Steps of subagents are counted where they are reported: a server reports them,
//! `opencode run` does not.

use std::collections::HashSet;

use domain::contract::report::ReportedUsage;
use domain::opencode::message::Part;
use domain::run::budget::{self, Allowance, Cost, Spent};

use crate::env::{self, Lookup, SettingError};

/// Reads the limits of a run.
pub fn allowance(env: Lookup<'_>) -> Result<Allowance, SettingError> {
    let tokens = match env::text(env, env::BUDGET_MAX_TOKENS) {
        Some(_) => Some(env::number(env, env::BUDGET_MAX_TOKENS, 0)?),
        None => None,
    };
    let cost = match env::text(env, env::BUDGET_MAX_COST) {
        Some(value) => Some(Cost::read(&value).ok_or_else(|| SettingError::Invalid {
            name: env::BUDGET_MAX_COST,
            problem: format!("`{value}` is not an amount of money"),
            expected: "a decimal number such as 2.50",
        })?),
        None => None,
    };
    Ok(Allowance { tokens, cost })
}

/// Counts the steps of a run.
#[derive(Debug, Default)]
pub struct Meter {
    allowance: Allowance,
    /// IDs of counted steps: a step may be reported twice.
    counted: HashSet<String>,
    usage: ReportedUsage,
    /// The last step of the session was the answer: the run is over, and there is nothing to stop.
    answered: bool,
}

impl Meter {
    pub fn new(allowance: Allowance) -> Self {
        Self { allowance, ..Self::default() }
    }

    /// Whether there is any limit.
    pub fn has_limits(&self) -> bool {
        self.allowance != Allowance::default()
    }

    /// Counts a part. `own` is false for the parts of subagents.
    pub fn take(&mut self, part: &Part, own: bool) {
        if part.kind != "step-finish" || (!part.id.is_empty() && !self.counted.insert(part.id.clone())) {
            return;
        }
        self.usage.add(&part.tokens, part.cost);
        if own {
            self.answered = matches!(part.reason.as_deref(), Some("stop" | "length" | "content-filter"));
        }
    }

    /// Why the run must be stopped; `None` if it is over or within its limits.
    pub fn exceeded(&self) -> Option<String> {
        if self.answered {
            return None;
        }
        let tokens = &self.usage.tokens;
        let tokens = tokens.input.saturating_add(tokens.output).saturating_add(tokens.reasoning);
        // The sum is rounded, not each price: otherwise a thousand small answers would be free.
        let spent = Spent { tokens, cost: Cost::of(self.usage.cost) };
        // Before the first step nothing is used, even if the limit is zero.
        let used = self.allowance.used_up(spent).filter(|_| self.usage != ReportedUsage::default())?;
        Some(budget::stopped(&used))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::env::tests::of;

    fn step(id: &str, reason: &str, tokens: u64, cost: f64) -> Part {
        serde_json::from_value(json!({
            "id": id, "type": "step-finish", "reason": reason, "cost": cost,
            "tokens": {"input": tokens - 2, "output": 1, "reasoning": 1, "cache": {"read": 5000, "write": 5000}},
        }))
        .unwrap()
    }

    fn meter(tokens: &str, cost: &str) -> Meter {
        Meter::new(allowance(&of(&[(env::BUDGET_MAX_TOKENS, tokens), (env::BUDGET_MAX_COST, cost)])).unwrap())
    }

    #[test]
    fn a_run_is_over_when_its_steps_used_what_they_may() {
        let check = |tokens: &str, cost: &str, steps: &[(Part, bool)], expected: Option<&str>| {
            let mut meter = meter(tokens, cost);
            assert_eq!(meter.exceeded(), None, "nothing was used yet");
            for (part, own) in steps {
                meter.take(part, *own);
            }
            let expected =
                expected.map(|used| format!("the Task {used}, which is all that its budget allows, and was stopped"));
            assert_eq!(meter.exceeded(), expected, "{steps:?}");
        };
        let calls = |id: &str| (step(id, "tool-calls", 600, 0.3), true);
        let subagent = |id: &str| (step(id, "stop", 600, 0.3), false);
        let answer = |id: &str| (step(id, "stop", 600, 0.3), true);
        check("1000", "", &[calls("a")], None);
        check("1000", "", &[calls("a"), calls("b")], Some("used 1,200 of 1,000 tokens"));
        check("1200", "", &[calls("a"), calls("b")], Some("used 1,200 of 1,200 tokens"));
        check("1000", "", &[calls("a"), calls("a")], None);
        check("1000", "", &[calls("a"), subagent("b")], Some("used 1,200 of 1,000 tokens"));
        // A finished run is not stopped.
        check("1000", "", &[calls("a"), answer("b")], None);
        check("1000", "", &[calls("a"), answer("b"), subagent("c")], None);
        check("1000", "", &[answer("a"), calls("b")], Some("used 1,200 of 1,000 tokens"));
        check("", "0.6", &[calls("a"), calls("b")], Some("spent 0.60 of 0.60"));
        check("", "0.61", &[calls("a"), calls("b")], None);
        check("0", "", &[calls("a")], Some("used 600 of 0 tokens"));
        check("", "", &[calls("a"), calls("b")], None);
    }

    #[test]
    fn many_small_prices_add_up() {
        let mut meter = meter("", "0.001");
        for number in 0..10_000 {
            meter.take(&step(&number.to_string(), "tool-calls", 2, 0.000_000_1), true);
        }
        assert!(meter.exceeded().is_some());
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert_eq!(allowance(&of(&[])).unwrap(), Allowance::default());
        for (name, value) in
            [(env::BUDGET_MAX_TOKENS, "many"), (env::BUDGET_MAX_TOKENS, "-1"), (env::BUDGET_MAX_COST, "$2")]
        {
            assert!(allowance(&of(&[(name, value)])).is_err(), "{value}");
        }
    }
}
