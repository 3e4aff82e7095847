//! Exit codes of commands, which scripts can rely on.

use std::process::ExitCode;

use api::{
    Task, TaskPhase,
    conditions::{reasons, types},
};
use domain::status::holds;

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success; a Task that was waited for succeeded.
    Success,
    /// Failure; a Task that was waited for failed.
    Failed,
    /// Invalid arguments. The argument parser exits with the same code.
    Usage,
    /// The Task was stopped.
    Stopped,
    /// The Task reached its timeout.
    Timeout,
    /// A named object does not exist.
    NotFound,
    /// The caller lacks a right.
    Forbidden,
    /// No cluster is configured, or it cannot be reached.
    Unreachable,
    /// Ctrl-C, as shells report it.
    Interrupted,
}

/// The codes as `--help` lists them.
pub const HELP: &str = "\
Exit codes:
  0    done; a Task that was waited for succeeded
  1    failed; a Task that was waited for failed
  2    invalid arguments
  3    the Task was stopped
  4    the Task reached its timeout
  5    a named object does not exist
  6    forbidden by the cluster
  7    no cluster is configured, or it cannot be reached
  130  interrupted by Ctrl-C; a started Task continues";

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Stopped => 3,
            Self::Timeout => 4,
            Self::NotFound => 5,
            Self::Forbidden => 6,
            Self::Unreachable => 7,
            Self::Interrupted => 130,
        }
    }

    /// Exit code of a command that waited for this Task; `None` while it runs.
    pub fn of_task(task: &Task) -> Option<Self> {
        let status = task.status.as_ref()?;
        match status.phase? {
            TaskPhase::Pending | TaskPhase::Queued | TaskPhase::Running => None,
            TaskPhase::Failed => Some(Self::Failed),
            TaskPhase::Completed if !holds(status.conditions.as_deref(), types::STOPPED) => Some(Self::Success),
            TaskPhase::Completed if status.reason.as_deref() == Some(reasons::TIMEOUT) => Some(Self::Timeout),
            TaskPhase::Completed => Some(Self::Stopped),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: &Value, expected: Option<Exit>) {
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a"},
            "spec": {"agentRef": {"name": "dev"}}, "status": status,
        }))
        .unwrap();
        assert_eq!(Exit::of_task(&task), expected);
    }

    #[test]
    fn a_finished_task_tells_how_it_ended() {
        let stopped = |reason: &str| {
            let condition = json!({"type": "Stopped", "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"phase": "Completed", "reason": reason, "conditions": [condition]})
        };
        check(&json!({}), None);
        check(&json!({"phase": "Running"}), None);
        check(&json!({"phase": "Completed", "reason": "Succeeded"}), Some(Exit::Success));
        check(&json!({"phase": "Failed", "reason": "ModelError"}), Some(Exit::Failed));
        check(&stopped("UserStopped"), Some(Exit::Stopped));
        check(&stopped("Timeout"), Some(Exit::Timeout));
    }

    #[test]
    fn every_code_is_in_the_help() {
        use Exit::{Failed, Forbidden, Interrupted, NotFound, Stopped, Success, Timeout, Unreachable, Usage};
        for exit in [Success, Failed, Usage, Stopped, Timeout, NotFound, Forbidden, Unreachable, Interrupted] {
            assert!(HELP.lines().any(|line| line.trim().starts_with(&format!("{} ", exit.code()))), "{exit:?}");
        }
    }
}
