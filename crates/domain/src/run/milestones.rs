//! Conditions for the milestones of a run: workspace, preparation, archived log, result.
//!
//! They are derived from the rest of the status and written with it, so they cost no additional write.

use api::{
    TaskPhase, TaskStatus,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status;

/// The condition types of this module. A new run starts without them.
pub const TYPES: [&str; 4] = [types::WORKSPACE_READY, types::PREPARED, types::LOGS_CAPTURED, types::RESULT_RECORDED];

/// Sets the conditions that follow from the rest of `status`. A milestone that is not reached has no condition.
pub fn note(status: &mut TaskStatus, generation: Option<i64>, now: Timestamp) {
    let mut conditions = status.conditions.take().unwrap_or_default();
    preparation(&mut conditions, status, generation, now);
    if let Some(logs) = &status.logs {
        let whole = logs.complete == Some(true) && logs.gaps.unwrap_or(0) == 0;
        let lines = logs.lines.unwrap_or(0);
        let (reason, message) = if whole {
            (reasons::CAPTURED, format!("the complete log is archived, {}", count(lines)))
        } else {
            (reasons::LOG_INCOMPLETE, format!("a part of the log was lost, {} archived", count(lines)))
        };
        status::set(&mut conditions, types::LOGS_CAPTURED, whole, reason, message, generation, now);
    }
    if let Some(result) = status.result.as_ref().filter(|_| status.phase.is_some_and(TaskPhase::is_finished)) {
        let message = match result.reference {
            Some(_) => "the run record is archived and survives later runs",
            None => "the result is in the status",
        };
        status::set(&mut conditions, types::RESULT_RECORDED, true, reasons::RECORDED, message, generation, now);
    }
    status.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
}

fn preparation(conditions: &mut Vec<Condition>, status: &TaskStatus, generation: Option<i64>, now: Timestamp) {
    let prepared_at = status.timings.as_ref().and_then(|timings| timings.prepared_at.as_ref());
    if let Some(at) = prepared_at {
        for (kind, message) in
            [(types::WORKSPACE_READY, "the workspace exists"), (types::PREPARED, "contexts and files are in place")]
        {
            status::set(conditions, kind, true, reasons::IN_PLACE, message, generation, at.0);
        }
    } else if status.reason.as_deref() == Some(reasons::PREPARATION_FAILED) {
        let message = status.message.clone().unwrap_or_default();
        status::set(conditions, types::PREPARED, false, reasons::PREPARATION_FAILED, message, generation, now);
    }
}

fn count(lines: i64) -> String {
    if lines == 1 { "1 line".into() } else { format!("{lines} lines") }
}

#[cfg(test)]
mod tests {
    use api::kinds::task::{LogStatus, TaskResult, TaskTimings};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn conditions_of(mut status: TaskStatus) -> Vec<String> {
        note(&mut status, Some(1), NOW);
        let line = |one: &Condition| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message);
        status.conditions.iter().flatten().map(line).collect()
    }

    #[test]
    fn a_run_without_milestones_has_no_conditions() {
        assert!(conditions_of(TaskStatus::default()).is_empty());
        // A result counts only when the run is over.
        let result = Some(TaskResult::default());
        assert!(
            conditions_of(TaskStatus { phase: Some(TaskPhase::Running), result, ..TaskStatus::default() }).is_empty()
        );
    }

    #[test]
    fn each_milestone_has_the_time_at_which_it_was_reached() {
        let timings = Some(TaskTimings { prepared_at: Some(Time(NOW)), ..TaskTimings::default() });
        let mut status = TaskStatus { phase: Some(TaskPhase::Running), timings, ..TaskStatus::default() };
        let prepared = [
            "WorkspaceReady=True InPlace: the workspace exists",
            "Prepared=True InPlace: contexts and files are in place",
        ];
        assert_eq!(conditions_of(status.clone()), prepared);
        status.phase = Some(TaskPhase::Completed);
        status.result = Some(TaskResult::default());
        let logs = LogStatus { lines: Some(1), complete: Some(true), ..LogStatus::default() };
        status.logs = Some(logs.clone());
        let end = [
            "LogsCaptured=True Captured: the complete log is archived, 1 line",
            "ResultRecorded=True Recorded: the result is in the status",
        ];
        assert_eq!(conditions_of(status.clone()), [prepared, end].concat());
        let reference = Some("default/u/k8s-1.run.json".to_owned());
        status.result = Some(TaskResult { reference, ..TaskResult::default() });
        let kept = "ResultRecorded=True Recorded: the run record is archived and survives later runs";
        assert_eq!(conditions_of(status.clone())[3], kept);
        status.logs = Some(LogStatus { lines: Some(7), gaps: Some(2), ..logs });
        let lost = "LogsCaptured=False LogIncomplete: a part of the log was lost, 7 lines archived";
        assert_eq!(conditions_of(status)[2], lost);
    }

    #[test]
    fn a_failed_preparation_has_its_cause_as_message() {
        let status = TaskStatus {
            phase: Some(TaskPhase::Failed),
            reason: Some(reasons::PREPARATION_FAILED.into()),
            message: Some("container git-init-0 cannot be started".into()),
            ..TaskStatus::default()
        };
        assert_eq!(conditions_of(status), ["Prepared=False PreparationFailed: container git-init-0 cannot be started"]);
    }
}
