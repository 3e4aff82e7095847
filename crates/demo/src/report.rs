//! Progress and results of the demo's Tasks, as text.

use std::fmt::{self, Write as _};

use api::{Task, TaskPhase};
use kube::ResourceExt as _;

use crate::demo::{ENDS, SHOWS};

/// The results of the demo's Tasks. `Display` renders a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    rows: Vec<Row>,
    /// Number of expected Tasks that were never created.
    missing: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    task: String,
    shows: String,
    ended: Option<String>,
    expected: String,
    seconds: Option<i64>,
    tokens: Option<i64>,
    cost: Option<f64>,
    message: String,
}

impl Report {
    pub(super) fn new<'a>(tasks: impl Iterator<Item = &'a Task>, expected: usize) -> Self {
        let mut tasks: Vec<&Task> = tasks.collect();
        tasks.sort_by_key(|task| (task.metadata.creation_timestamp.clone(), task.name_any()));
        let rows: Vec<_> = tasks.into_iter().map(Row::new).collect();
        Self { missing: expected.saturating_sub(rows.len()), rows }
    }

    /// One sentence for each Task that did not finish as expected.
    pub fn mismatches(&self) -> Vec<String> {
        let mismatch = |row: &Row| match &row.ended {
            Some(ended) if *ended == row.expected => None,
            Some(ended) => {
                Some(format!("Task {} finished with {ended}, expected {}: {}", row.task, row.expected, row.message))
            }
            None => Some(format!("Task {} is not finished: {}", row.task, row.message)),
        };
        let mut mismatches: Vec<_> = self.rows.iter().filter_map(mismatch).collect();
        if self.missing > 0 {
            mismatches.push(format!("{} Tasks were not created", self.missing));
        }
        mismatches
    }
}

impl Row {
    fn new(task: &Task) -> Self {
        let status = task.status.clone().unwrap_or_default();
        let usage = status.usage.unwrap_or_default();
        let span = status.start_time.as_ref().zip(status.completion_time.as_ref());
        let annotation = |name: &str| task.annotations().get(name).cloned().unwrap_or_default();
        Self {
            task: task.name_any(),
            shows: annotation(SHOWS),
            ended: status.reason.clone().filter(|_| is_finished(task)),
            expected: annotation(ENDS),
            seconds: span.map(|(start, end)| end.0.duration_since(start.0).as_secs()),
            tokens: usage.tokens.map(|tokens| tokens.input + tokens.output + tokens.reasoning + tokens.cache),
            cost: usage.cost.and_then(|cost| cost.parse().ok()),
            message: status.message.unwrap_or_else(|| status.reason.unwrap_or_else(|| "not started".to_owned())),
        }
    }

    fn cells(&self) -> [String; 7] {
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let as_expected = self.ended.as_ref() == Some(&self.expected);
        [
            self.task.clone(),
            self.shows.clone(),
            or_nothing(self.ended.clone()),
            if as_expected { "yes" } else { "NO" }.to_owned(),
            or_nothing(self.seconds.map(|seconds| format!("{seconds} s"))),
            or_nothing(self.tokens.map(|tokens| tokens.to_string())),
            or_nothing(self.cost.map(|cost| format!("${cost:.4}"))),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["TASK", "SHOWS", "RESULT", "AS EXPECTED", "TIME", "TOKENS", "COST"].map(ToOwned::to_owned);
        let rows: Vec<_> = std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
                write!(line, "{cell:width$}   ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Whether a Task has reached a terminal phase.
pub(super) fn is_finished(task: &Task) -> bool {
    task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_finished)
}

/// A line if the phase of a Task changed.
pub(super) fn progress(before: Option<&Task>, now: &Task) -> Option<String> {
    let stage = |task: &Task| {
        let status = task.status.clone().unwrap_or_default();
        let started = status.start_time.is_some();
        (status.phase.unwrap_or_default(), status.reason.unwrap_or_default(), started)
    };
    let (phase, reason, started) = stage(now);
    if before.map(stage) == Some((phase, reason.clone(), started)) {
        return None;
    }
    let what = match phase {
        TaskPhase::Pending => "created".to_owned(),
        TaskPhase::Queued => format!("queued: {reason}"),
        TaskPhase::Running if started => "running".to_owned(),
        TaskPhase::Running => "preparing".to_owned(),
        TaskPhase::Completed | TaskPhase::Failed => {
            let message = now.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
            let line = message.lines().next().unwrap_or_default();
            format!("finished: {reason}{}{line}", if line.is_empty() { "" } else { ", " })
        }
    };
    Some(format!("{:<18} {what}", now.name_any()))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(name: &str, ends: &str, status: Value) -> Task {
        serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": {"name": name, "annotations": {SHOWS: "a thing", ENDS: ends}},
            "spec": {"templateRef": {"name": "t"}, "description": "x"},
            "status": status,
        }))
        .unwrap()
    }

    fn done() -> Value {
        json!({"phase": "Completed", "reason": "Succeeded", "message": "ok",
               "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:07Z",
               "usage": {"tokens": {"input": 1000, "output": 20}, "cost": "0.00104"}})
    }

    fn failed() -> Value {
        json!({"phase": "Failed", "reason": "ModelError", "message": "401"})
    }

    #[test]
    fn the_table_shows_the_result_of_each_task() {
        let tasks = [task("a", "Succeeded", done()), task("b", "ModelError", failed())];
        let report = Report::new(tasks.iter(), 2);
        assert_eq!(
            report.to_string(),
            "\
TASK   SHOWS     RESULT       AS EXPECTED   TIME   TOKENS   COST
a      a thing   Succeeded    yes           7 s    1020     $0.0010
b      a thing   ModelError   yes           -      -        -
"
        );
        assert_eq!(report.mismatches(), [""; 0]);
    }

    #[test]
    fn every_mismatch_is_reported() {
        let waiting = json!({"phase": "Queued", "reason": "AgentServerNotReady", "message": "not ready"});
        let tasks =
            [task("a", "ModelError", done()), task("b", "Succeeded", failed()), task("c", "Succeeded", waiting)];
        assert_eq!(
            Report::new(tasks.iter(), 4).mismatches(),
            [
                "Task a finished with Succeeded, expected ModelError: ok",
                "Task b finished with ModelError, expected Succeeded: 401",
                "Task c is not finished: not ready",
                "1 Tasks were not created",
            ]
        );
    }

    #[test]
    fn a_line_is_written_for_each_change_of_phase() {
        let at = |status: Value| task("a", "Succeeded", status);
        let stages = [
            (Value::Null, Some("created")),
            (json!({"phase": "Queued", "reason": "AgentAtCapacity"}), Some("queued: AgentAtCapacity")),
            (json!({"phase": "Queued", "reason": "AgentAtCapacity", "queuePosition": 1}), None),
            (json!({"phase": "Running"}), Some("preparing")),
            (json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}), Some("running")),
            (done(), Some("finished: Succeeded, ok")),
        ];
        let mut before: Option<Task> = None;
        for (status, expected) in stages {
            let now = at(status);
            let line = progress(before.as_ref(), &now);
            assert_eq!(line.as_deref().map(|line| line.trim_start_matches('a').trim_start()), expected);
            before = Some(now);
        }
    }
}
