//! The runs of a Task: the current one by its status, those before it by their records.

use std::collections::BTreeMap;

use api::{Task, TaskPhase, TaskStatus};

/// Each run by its final or current status, the latest first. `records` are by epoch.
///
/// An unreadable record becomes a run with only that information.
pub fn runs(task: &Task, records: &BTreeMap<i64, Vec<u8>>) -> Vec<TaskStatus> {
    let mut all: BTreeMap<i64, TaskStatus> = records.iter().map(|(run, text)| (*run, recorded(*run, text))).collect();
    if let Some(status) = &task.status
        && let Some(run) = status.run_epoch
        // The status of a Task that waits to run again no longer describes the previous run.
        && status.phase.is_some_and(|phase| phase == TaskPhase::Running || phase.is_finished())
    {
        let mut status = status.clone();
        // The log of a finished run may expire, which only its record says.
        let expired = all.get(&run).and_then(|recorded| recorded.logs.as_ref()?.expired_at.clone());
        if let Some(expired) = expired {
            status.logs.get_or_insert_default().expired_at = Some(expired);
        }
        all.insert(run, status);
    }
    all.into_values().rev().collect()
}

fn recorded(run: i64, text: &[u8]) -> TaskStatus {
    let status = serde_json::from_slice(text).unwrap_or_else(|error| TaskStatus {
        message: Some(format!("its record cannot be read: {error}")),
        ..TaskStatus::default()
    });
    TaskStatus { run_epoch: Some(run), ..status }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(task: &serde_json::Value, records: &[(i64, &str)]) -> Vec<String> {
        let task: Task = serde_json::from_value(json!({ "metadata": {}, "spec": {}, "status": task })).unwrap();
        let records = records.iter().map(|(run, text)| (*run, text.as_bytes().to_vec())).collect();
        let shown = |status: TaskStatus| {
            let (phase, message) = (status.phase.map(|phase| format!("{phase:?}")), status.message.unwrap_or_default());
            format!("{} {} {message}", status.run_epoch.unwrap_or_default(), phase.unwrap_or_default())
        };
        runs(&task, &records).into_iter().map(shown).collect()
    }

    const FIRST: (i64, &str) = (1, r#"{"runEpoch": 1, "phase": "Failed", "message": "first"}"#);

    #[test]
    fn the_current_run_comes_first() {
        let running = json!({ "runEpoch": 2, "phase": "Running" });
        assert_eq!(shown(&running, &[FIRST]), ["2 Running ", "1 Failed first"]);
        assert!(shown(&json!({ "phase": "Queued" }), &[]).is_empty());
    }

    #[test]
    fn the_record_of_the_current_run_says_that_its_log_expired() {
        let task: Task = serde_json::from_value(json!({ "metadata": {}, "spec": {},
            "status": { "runEpoch": 1, "phase": "Completed", "message": "done" } }))
        .unwrap();
        let record = br#"{"runEpoch": 1, "phase": "Completed", "logs": {"expiredAt": "2026-01-01T00:00:00Z"}}"#;
        let found = runs(&task, &BTreeMap::from([(1, record.to_vec())])).remove(0);
        assert_eq!(found.message.as_deref(), Some("done"));
        assert!(found.logs.unwrap().expired_at.is_some());
    }

    #[test]
    fn one_that_waits_to_run_again_leaves_the_last_word_to_the_record() {
        assert_eq!(
            shown(&json!({ "runEpoch": 1, "phase": "Queued", "message": "waits" }), &[FIRST]),
            ["1 Failed first"]
        );
    }

    #[test]
    fn a_damaged_record_is_told_of() {
        let shown = shown(&json!({ "runEpoch": 2, "phase": "Completed" }), &[(1, "{")]);
        assert!(shown[1].starts_with("1  its record cannot be read"), "{shown:?}");
    }
}
