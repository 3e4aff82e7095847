//! The stage and result of a Task in one line.

use std::collections::BTreeMap;

use api::{Task, TaskPhase, TaskStatus, conditions::types, kinds::task::PublishedStatus};
use domain::status::find;

use crate::commands::{money, screen::line, span};

/// The stage of a Task in one line. Commands in it get `flag`, which names the namespace.
pub fn stage(task: &Task, flag: &str) -> String {
    let name = task.metadata.name.as_deref().unwrap_or_default();
    let empty = TaskStatus::default();
    let status = task.status.as_ref().unwrap_or(&empty);
    let because = status.message.as_deref().or(status.reason.as_deref()).map(line).filter(|text| !text.is_empty());
    let because = because.map(|text| format!(": {text}")).unwrap_or_default();
    match status.phase.unwrap_or_default() {
        TaskPhase::Pending => format!("task {name} was accepted"),
        TaskPhase::Queued => {
            let place = status.queue_position.map(|place| format!(" at place {place}")).unwrap_or_default();
            format!("task {name} waits{place}{because}")
        }
        TaskPhase::Running => {
            let asked = status.conditions.as_deref().and_then(|all| find(all, types::AWAITING_APPROVAL));
            match asked.filter(|asked| asked.status == "True") {
                Some(asked) => format!(
                    "task {name} asks for permission: {}; answer with: kubeopencode approve {name}{flag}",
                    line(&asked.message)
                ),
                None if status.start_time.is_some() => format!("task {name} runs{}", run_number(status)),
                None => format!("task {name} is being prepared{}", run_number(status)),
            }
        }
        TaskPhase::Completed | TaskPhase::Failed => ending(task),
    }
}

fn run_number(status: &TaskStatus) -> String {
    status.run_epoch.filter(|run| *run > 1).map(|run| format!(" (run {run})")).unwrap_or_default()
}

/// The result of a Task in one line: outcome, duration, changes, cost.
pub fn ending(task: &Task) -> String {
    let name = task.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &task.status else { return format!("task {name} has no status") };
    let how = match crate::commands::exit::Exit::of_task(task) {
        Some(crate::commands::exit::Exit::Success) => "succeeded",
        Some(crate::commands::exit::Exit::Stopped) => "was stopped",
        Some(crate::commands::exit::Exit::Timeout) => "reached its timeout",
        Some(_) => "failed",
        None => "continues",
    };
    let after = span::between(status.start_time.as_ref(), status.completion_time.as_ref());
    let mut parts =
        vec![format!("task {name} {how}{}", after.map(|after| format!(" after {after}")).unwrap_or_default())];
    let summary = status.session.as_ref().and_then(|session| session.summary.as_ref());
    if let Some(summary) = summary
        && let Some(files) = summary.files_changed.filter(|files| *files > 0)
    {
        let lines = match (summary.additions.unwrap_or(0), summary.deletions.unwrap_or(0)) {
            (0, 0) => String::new(),
            (added, removed) => format!(" (+{added} -{removed})"),
        };
        parts.push(format!("{files} {} changed{lines}", if files == 1 { "file" } else { "files" }));
    }
    let commits = status.changes.as_ref().and_then(|changes| changes.commits);
    if let Some(commits) = commits.filter(|commits| *commits > 0) {
        parts.push(format!("{commits} {}", if commits == 1 { "commit" } else { "commits" }));
    }
    let artifacts = status.artifacts.as_ref().map_or(0, Vec::len);
    let outputs = status.result.as_ref().and_then(|result| result.outputs.as_ref()).map_or(0, BTreeMap::len);
    for (number, what) in [(artifacts, "artifact"), (outputs, "output")] {
        if number > 0 {
            parts.push(format!("{number} {what}{}", if number == 1 { "" } else { "s" }));
        }
    }
    if let Some(tokens) = status.usage.as_ref().and_then(|usage| usage.tokens) {
        parts.push(format!("{} tokens", thousands(tokens.input + tokens.output + tokens.reasoning + tokens.cache)));
    }
    if let Some(cost) = status.usage.as_ref().and_then(|usage| usage.cost.as_deref()) {
        parts.push(format!("cost {}", money::cost(cost)));
    }
    let mut text = parts.join(", ");
    if how != "succeeded"
        && let Some(reason) = &status.reason
    {
        let message = status.message.as_deref().map(|message| format!(": {}", line(message))).unwrap_or_default();
        text = format!("{text}\n{}{message}", line(reason));
    }
    if let Some(published) = status.published.as_ref().and_then(published) {
        text = format!("{text}\n{published}");
    }
    text
}

/// Where the changes were published, in one line.
pub fn published(published: &PublishedStatus) -> Option<String> {
    let PublishedStatus { branch, commit, url } = published;
    let branch = branch.as_deref()?;
    let commit = commit.as_deref().map(|commit| format!(" at {}", line(commit.get(..12).unwrap_or(commit))));
    let url = url.as_deref().map(|url| format!(": {}", line(url)));
    Some(format!("published branch {}{}{}", line(branch), commit.unwrap_or_default(), url.unwrap_or_default()))
}

/// A number with thousands separators.
pub fn thousands(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if number < 0 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn task(status: Value) -> Task {
        serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "fix"},
            "spec": {"agentRef": {"name": "dev"}}, "status": status,
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(status: Value, expected: &str) {
        assert_eq!(stage(&task(status), " -n team"), expected);
    }

    #[test]
    fn every_stage_has_its_line() {
        check(json!({}), "task fix was accepted");
        check(
            json!({"phase": "Queued", "reason": "AgentAtCapacity", "message": "Agent 'dev' is busy", "queuePosition": 3}),
            "task fix waits at place 3: Agent 'dev' is busy",
        );
        check(json!({"phase": "Running", "runEpoch": 1}), "task fix is being prepared");
        check(json!({"phase": "Running", "runEpoch": 2, "startTime": "2026-01-01T00:00:00Z"}), "task fix runs (run 2)");
        check(
            json!({"phase": "Running", "conditions": [{"type": "AwaitingApproval", "status": "True", "reason": "Asked",
                "message": "bash (git push)", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
            "task fix asks for permission: bash (git push); answer with: kubeopencode approve fix -n team",
        );
    }

    #[test]
    fn an_ending_tells_what_it_took() {
        check(
            json!({"phase": "Completed", "reason": "Succeeded", "startTime": "2026-01-01T00:00:00Z",
                "completionTime": "2026-01-01T00:01:05Z", "session": {"summary": {"filesChanged": 1, "additions": 3}},
                "changes": {"commits": 2}, "usage": {"tokens": {"input": 1200, "output": 34}, "cost": "0.0123"}}),
            "task fix succeeded after 65s, 1 file changed (+3 -0), 2 commits, 1,234 tokens, cost $0.0123",
        );
        check(
            json!({"phase": "Completed", "reason": "Succeeded", "artifacts": [{"name": "a"}, {"name": "b"}],
                "result": {"outputs": {"URL": "x"}}, "usage": {"cost": "0.0123"},
                "published": {"branch": "agents/fix", "commit": "0123456789abcdef", "url": "https://git.example/pulls/1"}}),
            "task fix succeeded, 2 artifacts, 1 output, cost $0.0123\n\
             published branch agents/fix at 0123456789ab: https://git.example/pulls/1",
        );
        check(
            json!({"phase": "Failed", "reason": "ModelError", "message": "HTTP 401"}),
            "task fix failed\nModelError: HTTP 401",
        );
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1000, 1_234_567, -1000].map(thousands), ["0", "999", "1,000", "1,234,567", "-1,000"]);
    }
}
