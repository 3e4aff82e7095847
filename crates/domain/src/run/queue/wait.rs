//! Why a Task waits, as reason and message of its condition.

use api::conditions::reasons;
use jiff::{SignedDuration, Timestamp};

use super::{Gate, Queue, TaskKey, UsedUp, history::window};
use crate::run::{
    dependencies::{Absent, Dependencies, Missing},
    target::RunsOn,
};

/// Why a Task waits. The messages contain no numbers that change often: each change would be a status write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The target runs its maximum of Tasks.
    AtCapacity {
        /// Maximum number of running Tasks.
        max: u32,
    },
    /// The quota of starts in the window is used up.
    QuotaExceeded {
        /// Maximum number of starts in the window.
        max: i32,
        window: SignedDuration,
        /// When the next start is possible.
        until: Timestamp,
    },
    /// The shared budget is used up.
    BudgetExceeded(UsedUp),
    /// Running Tasks may use all that is left of the shared budget.
    BudgetReserved,
    /// Its user suspended the Agent.
    Suspended,
    /// The Agent is suspended by standby and is being resumed.
    Waking,
    /// The spec of the Agent is invalid.
    Unusable { reason: &'static str, message: String },
    /// The Agent lacks something that can still be added.
    Lacks(Missing),
    /// The Agent's server is not ready.
    ServerNotReady,
    /// The Agent's server is being replaced by another.
    ServerReplaced,
    /// The Agent or template does not exist.
    Missing {
        /// The Task fails if the target is still missing at this time.
        until: Timestamp,
    },
    /// An object that the Task refers to is missing.
    Reference(Missing),
    /// A dependency does not exist.
    NoSuchTask {
        /// The missing dependency.
        absent: Absent,
        /// Names of all dependencies that are not met.
        on: Vec<String>,
    },
    /// Other Tasks must end first.
    Dependencies {
        /// Names of the dependencies that are not met.
        on: Vec<String>,
    },
}

impl Queue {
    /// Why a Task waits; `None` if it does not, or if the next decision admits or fails it.
    pub fn why(&self, key: &TaskKey) -> Option<Wait> {
        let task = self.waiting.get(key)?;
        match &task.dependencies {
            Dependencies::Met => {}
            Dependencies::Waiting { on, absent: Some(absent) } => {
                return Some(Wait::NoSuchTask { absent: absent.clone(), on: on.clone() });
            }
            Dependencies::Waiting { on, absent: None } => return Some(Wait::Dependencies { on: on.clone() }),
            Dependencies::Missing(missing) => return Some(Wait::Reference(missing.clone())),
            Dependencies::Failed { .. } => return None,
        }
        match &self.gate {
            Gate::Unusable { reason, message } => return Some(Wait::Unusable { reason, message: message.clone() }),
            Gate::Lacks { reason, message, .. } => {
                let missing = |until| Missing { reason, message: message.clone(), until };
                return self.grace_end(task.since).map(missing).map(Wait::Lacks);
            }
            Gate::SuspendedByUser => return Some(Wait::Suspended),
            Gate::Standby => return Some(Wait::Waking),
            Gate::ServerNotReady => return Some(Wait::ServerNotReady),
            Gate::ServerReplaced => return Some(Wait::ServerReplaced),
            Gate::Missing { .. } => return self.grace_end(task.since).map(|until| Wait::Missing { until }),
            Gate::Ready => {}
        }
        self.held_up_by()
    }

    /// Why every Task waits that waits for nothing else: no slot, no start or no budget is left.
    pub fn held_up_by(&self) -> Option<Wait> {
        if let Some(max) = self.limits.max_concurrent.filter(|_| self.at_capacity()) {
            return Some(Wait::AtCapacity { max });
        }
        let quota = self.history.frees().zip(self.limits.quota);
        let quota = quota.map(|(until, quota)| Wait::QuotaExceeded {
            max: quota.max_task_starts,
            window: window(quota),
            until,
        });
        let used_up = || self.budget.used_up.clone().map(Wait::BudgetExceeded);
        quota.or_else(used_up).or_else(|| self.budget.left.is_nothing().then_some(Wait::BudgetReserved))
    }

    pub fn runs_on(&self) -> &RunsOn {
        &self.runs_on
    }
}

impl Wait {
    /// Reason of the condition `Queued`.
    pub fn reason(&self, runs_on: &RunsOn) -> &'static str {
        match (self, runs_on) {
            (Self::AtCapacity { .. }, RunsOn::Agent(_)) => reasons::AGENT_AT_CAPACITY,
            (Self::AtCapacity { .. }, RunsOn::Template(_)) => reasons::TEMPLATE_AT_CAPACITY,
            (Self::QuotaExceeded { .. }, _) => reasons::QUOTA_EXCEEDED,
            (Self::BudgetExceeded(_), _) => reasons::BUDGET_EXCEEDED,
            (Self::BudgetReserved, _) => reasons::BUDGET_RESERVED,
            (Self::Suspended | Self::Waking, _) => reasons::AGENT_SUSPENDED,
            (Self::ServerNotReady | Self::ServerReplaced, _) => reasons::AGENT_SERVER_NOT_READY,
            (Self::Missing { .. }, RunsOn::Agent(_)) => reasons::AGENT_NOT_FOUND,
            (Self::Missing { .. }, RunsOn::Template(_)) => reasons::TEMPLATE_NOT_FOUND,
            (Self::Unusable { reason, .. }, _) => reason,
            (Self::Reference(missing) | Self::Lacks(missing), _) => missing.reason,
            (Self::Dependencies { .. } | Self::NoSuchTask { .. }, _) => reasons::WAITING_FOR_DEPENDENCY,
        }
    }

    /// Message of the condition `Queued`.
    pub fn message(&self, runs_on: &RunsOn) -> String {
        let who = who(runs_on);
        match self {
            Self::AtCapacity { max: 1 } => format!("{who} runs one Task at a time and is busy"),
            Self::AtCapacity { max } => format!("{who} runs at most {max} Tasks at a time and is busy"),
            Self::QuotaExceeded { max, window, .. } => {
                let starts = if *max == 1 { "one Task".to_owned() } else { format!("{max} Tasks") };
                format!("{who} may start {starts} in {window:#} and has done so")
            }
            Self::BudgetExceeded(UsedUp { used, window, until }) => {
                let until = until.map(|until| format!("; there is room again at {until}")).unwrap_or_default();
                format!("the Tasks of {who} {used} in {window:#}{until}")
            }
            Self::BudgetReserved => format!(
                "the Tasks that run on {who} may use all that is left of its budget; this Task starts when one of them ends and leaves some, or set budget in each Task"
            ),
            Self::Suspended => format!("{who} is suspended; set spec.suspend to false to resume it"),
            Self::Waking => format!("{who} was idle and is waking up"),
            Self::Unusable { message, .. } => message.clone(),
            Self::ServerNotReady => format!("the server of {who} is not ready"),
            Self::ServerReplaced => format!("the server of {who} is being replaced, because the Agent changed"),
            Self::Missing { until } => format!("{who} does not exist; the Task fails at {until} if it is not created"),
            Self::Reference(Missing { message, until, .. }) | Self::Lacks(Missing { message, until, .. }) => {
                format!("{message}; the Task fails at {until} if that is still so")
            }
            Self::NoSuchTask { absent: Absent { task, until }, .. } => {
                format!(
                    "Task '{task}' must end first and does not exist; this Task fails at {until} if it is not created"
                )
            }
            Self::Dependencies { on } => match on.as_slice() {
                [one] => format!("Task '{one}' must end first"),
                [first, others @ ..] => format!("Task '{first}' and {} more must end first", others.len()),
                [] => "another Task must end first".to_owned(),
            },
        }
    }
}

/// Reason and message for a Task whose Agent or template did not appear in time.
pub(super) fn gone(runs_on: &RunsOn, grace: SignedDuration) -> (&'static str, String) {
    let reason = match runs_on {
        RunsOn::Agent(_) => reasons::AGENT_NOT_FOUND,
        RunsOn::Template(_) => reasons::TEMPLATE_NOT_FOUND,
    };
    (reason, format!("{} does not exist in this namespace and was not created within {grace:#}", who(runs_on)))
}

/// Message for a Task that depends on one that did not appear in time.
pub(super) fn no_such_task(task: &str) -> String {
    format!("Task '{task}', which this one depends on, does not exist; create it first, or remove it from dependsOn")
}

fn who(runs_on: &RunsOn) -> String {
    format!("{} '{}'", runs_on.kind(), runs_on.name())
}

/// A position as a status shows it: exact up to 20, then rounded up to one leading digit. So an admission moves the
/// shown position of about 20 Tasks and a few at round numbers, however long the queue is.
pub fn shown_position(position: usize) -> i32 {
    let mut step = 10;
    while step <= position / 10 {
        step *= 10;
    }
    let shown = if position <= 20 { position } else { position.div_ceil(step) * step };
    i32::try_from(shown).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_positions_are_rounded() {
        let shown =
            [(1, 1), (20, 20), (21, 30), (30, 30), (95, 100), (100, 100), (101, 200), (2345, 3000), (9999, 10_000)];
        for (position, expected) in shown {
            assert_eq!(shown_position(position), expected, "{position}");
        }
    }

    #[test]
    fn few_statuses_change_when_a_long_queue_moves() {
        let moved = (1..10_000).filter(|position| shown_position(*position) != shown_position(position + 1)).count();
        assert!(moved < 60, "{moved}");
    }
}
