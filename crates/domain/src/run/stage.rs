//! The stage of a Task, by its status and annotations.

use api::{Task, TaskPhase, conditions::types, names::annotations};
use jiff::Timestamp;

use super::outcome::is_stopped;

/// The word for a Task that completed because it was stopped.
pub const STOPPED: &str = types::STOPPED;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The Task waits for this run.
    Waiting { epoch: i64 },
    /// This run was admitted.
    Running { epoch: i64, admitted_at: Option<Timestamp> },
    /// This run ended.
    Finished { epoch: i64 },
}

impl Stage {
    pub fn of(task: &Task) -> Self {
        let status = task.status.as_ref();
        let epoch = status.and_then(|status| status.run_epoch).unwrap_or(0);
        match status.and_then(|status| status.phase) {
            None | Some(TaskPhase::Pending | TaskPhase::Queued) => Self::Waiting { epoch: epoch + 1 },
            Some(TaskPhase::Running) => {
                let timings = status.and_then(|status| status.timings.as_ref());
                Self::Running { epoch, admitted_at: timings.and_then(|t| t.admitted_at.as_ref()).map(|at| at.0) }
            }
            Some(TaskPhase::Completed | TaskPhase::Failed) => Self::Finished { epoch },
        }
    }
}

/// The phase as people see it. A Task that was ended before its own end is Completed, with the condition Stopped; tables
/// and filters call it Stopped, and Completed means success.
pub fn shown_phase(task: &Task) -> &'static str {
    let status = task.status.as_ref();
    let phase = status.and_then(|status| status.phase).unwrap_or_default();
    if status.is_some_and(is_stopped) { STOPPED } else { phase.as_str() }
}

/// Whether a user requested to stop the Task.
pub fn stop_requested(task: &Task) -> bool {
    let annotations = task.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(annotations::STOP)).is_some_and(|value| value == "true")
}

/// When a Task that is retried joins its queue; `None` if it may join now.
pub fn joins_later(task: &Task, now: Timestamp) -> Option<Timestamp> {
    let timings = task.status.as_ref().and_then(|status| status.timings.as_ref());
    timings.and_then(|timings| timings.queued_at.as_ref()).map(|time| time.0).filter(|at| *at > now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample::from_json;

    #[test]
    fn a_stopped_task_is_shown_as_stopped_and_completed_means_success() {
        let shown = |phase: &str, reason: &str| {
            let status = json!({"phase": phase, "reason": reason});
            let task: Task = from_json(json!({"metadata": {"name": "t"}, "spec": {}, "status": status}));
            shown_phase(&task)
        };
        assert_eq!(shown("Completed", "UserStopped"), "Stopped");
        assert_eq!(shown("Completed", "Succeeded"), "Completed");
        // A run that reached its budget failed.
        assert_eq!(shown("Failed", "BudgetExceeded"), "Failed");
    }
}
