//! The stage of a Task, by its status and annotations.

use api::{Task, TaskPhase, names::annotations};
use jiff::Timestamp;

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
