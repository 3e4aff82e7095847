//! The report that a helper leaves in the termination message of the task container.
//!
//! The helper runs next to the agent, which can write to the same file. So a report is a claim: it decides nothing
//! that the cluster knows better, and an unknown [`Reason`] has no effect.

use api::kinds::task::{Session, SessionSummary, TaskChanges, TokenUsage, Usage};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::{
    contract::reason::Reason,
    opencode::message::Tokens,
    run::{changes::Changes, progress::task_ended},
};

/// Characters of the note about the changes.
const MAX_NOTE: usize = 500;

/// What a run reports about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    pub outcome: Verdict,
    #[serde(default)]
    pub reason: Reason,
    /// One sentence for a person.
    #[serde(default)]
    pub message: String,
    /// ID of the OpenCode session, if one was created.
    #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Tokens, cost and changes.
    #[serde(default)]
    pub usage: ReportedUsage,
    /// The changes in the workspace; `None` if it was not compared. Then `usage` has the changes of the tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<TaskChanges>,
    /// The agent's final answer.
    #[serde(default)]
    pub summary: String,
}

/// Whether a run did what it was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verdict {
    Succeeded,
    Failed,
}

/// What a run used, by its own count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedUsage {
    pub tokens: ReportedTokens,
    /// Cost in the currency of the models' prices.
    pub cost: f64,
    /// Number of answers of the model.
    pub messages: u64,
    /// Number of files that were changed.
    pub files_changed: u64,
    /// Lines added; `None` in reports of older helpers.
    pub additions: Option<u64>,
    /// Lines removed; `None` in reports of older helpers.
    pub deletions: Option<u64>,
}

/// Tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedTokens {
    /// Tokens of the prompt, without those from the cache.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens of the reasoning.
    pub reasoning: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

impl ReportedUsage {
    /// Adds tokens and their cost.
    pub fn add(&mut self, tokens: &Tokens, cost: f64) {
        // Token counts are whole and far below 2^53.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to be positive")]
        let whole = |value: f64| value.max(0.0) as u64;
        self.tokens.input += whole(tokens.input);
        self.tokens.output += whole(tokens.output);
        self.tokens.reasoning += whole(tokens.reasoning);
        self.tokens.cache_read += whole(tokens.cache.read);
        self.tokens.cache_write += whole(tokens.cache.write);
        self.cost += cost;
    }
}

impl RunReport {
    /// A report of a run that used and changed nothing.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let outcome = if reason == Reason::Succeeded { Verdict::Succeeded } else { Verdict::Failed };
        let usage = ReportedUsage { additions: Some(0), deletions: Some(0), ..ReportedUsage::default() };
        let (session, changes, summary) = (None, None, String::new());
        Self { outcome, reason, message: message.into(), session, usage, changes, summary }
    }

    /// The report with the changes in the workspace instead of those of the tool calls.
    #[must_use]
    pub fn with_changes(mut self, changes: &Changes) -> Self {
        self.changes = changes.numbers();
        if self.changes.is_some() {
            self.usage.files_changed = changes.file_count;
            (self.usage.additions, self.usage.deletions) = (Some(changes.insertions), Some(changes.deletions));
        }
        self
    }

    /// The report of a success.
    pub fn succeeded() -> Self {
        Self::new(Reason::Succeeded, "the agent finished")
    }

    /// The exit code of the helper that writes this report.
    pub fn exit_code(&self) -> u8 {
        self.reason.exit_code()
    }

    /// The report of the task container of a Pod, if the container has ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        task_ended(pod).and_then(|state| state.message.as_deref()).and_then(Self::read)
    }

    /// Parses a termination message; `None` if it is something else, such as the last output of a custom command.
    pub fn read(message: &str) -> Option<Self> {
        serde_json::from_str(message.trim()).ok()
    }

    /// The report as JSON of at most so many bytes: the summary is cut first, then the message. In a Pod of very many
    /// containers only the outcome and its reason have room.
    #[must_use]
    pub fn into_termination_message(mut self, most_bytes: usize) -> String {
        loop {
            let json = serde_json::to_string(&self).unwrap_or_default();
            if json.len() <= most_bytes {
                return json;
            }
            let longer = if self.summary.is_empty() { &mut self.message } else { &mut self.summary };
            if !longer.is_empty() {
                shorten(longer, json.len() - most_bytes);
            } else if self.session.is_none() && self.changes.is_none() {
                return serde_json::json!({ "outcome": self.outcome, "reason": self.reason }).to_string();
            } else {
                (self.session, self.changes) = (None, None);
            }
        }
    }

    /// The reason for a Task's status; `None` for an unknown one.
    pub fn known_reason(&self) -> Option<&'static str> {
        self.reason.status()
    }

    /// Tokens and cost, for `status.usage`.
    pub fn usage(&self) -> Usage {
        Usage { tokens: Some(self.tokens()), cost: Some(self.cost()) }
    }

    /// The session, for `status.session`; the controller adds the title.
    pub fn session(&self) -> Session {
        let count = |count: u64| i32::try_from(count).unwrap_or(i32::MAX);
        let ReportedUsage { tokens: _, cost: _, messages, files_changed, additions, deletions } = &self.usage;
        let summary = SessionSummary {
            message_count: Some(count(*messages)),
            token_usage: Some(self.tokens()),
            cost: Some(self.cost()),
            files_changed: Some(count(*files_changed)),
            additions: additions.map(count),
            deletions: deletions.map(count),
        };
        Session { id: self.session.clone(), title: None, summary: Some(summary) }
    }

    /// The changes, for `status.changes`.
    pub fn changes(&self) -> Option<TaskChanges> {
        let count = |number: Option<i64>| number.map(|number| number.max(0));
        self.changes.as_ref().map(|TaskChanges { files, insertions, deletions, commits, note }| TaskChanges {
            files: count(*files),
            insertions: count(*insertions),
            deletions: count(*deletions),
            commits: count(*commits),
            note: note.as_ref().map(|note| note.chars().take(MAX_NOTE).collect()),
        })
    }

    fn tokens(&self) -> TokenUsage {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let ReportedTokens { input, output, reasoning, cache_read, cache_write } = self.usage.tokens;
        TokenUsage {
            input: count(input),
            output: count(output),
            reasoning: count(reasoning),
            cache: count(cache_read.saturating_add(cache_write)),
        }
    }

    /// Six decimals: a single small answer costs a fraction of a cent.
    fn cost(&self) -> String {
        format!("{:.6}", if self.usage.cost.is_finite() { self.usage.cost.max(0.0) } else { 0.0 })
    }
}

/// Cuts at least `excess` bytes off, on a character boundary, and marks the cut.
fn shorten(text: &mut String, excess: usize) {
    // A character may be escaped to six bytes in JSON, so this takes a few rounds at worst and always ends.
    let mut keep = text.len().saturating_sub(excess.max(8) + 3);
    while !text.is_char_boundary(keep) {
        keep -= 1;
    }
    text.truncate(keep);
    if !text.is_empty() {
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use api::conditions::reasons;

    use super::*;
    use crate::contract::termination::{MOST_BYTES, kept};

    /// A report of an older helper that did not count lines.
    const WRITTEN: &str = r#"{"outcome":"Failed","reason":"ModelError","message":"429","sessionID":"ses_1","usage":{"tokens":{"input":1,"output":2,"reasoning":3,"cacheRead":4,"cacheWrite":5},"cost":0.75,"messages":2,"filesChanged":1},"summary":"bye"}"#;

    #[test]
    fn an_older_report_is_understood() {
        let report = RunReport::read(WRITTEN).unwrap();
        assert_eq!(report.known_reason(), Some(reasons::MODEL_ERROR));
        let tokens = TokenUsage { input: 1, output: 2, reasoning: 3, cache: 9 };
        assert_eq!(report.usage(), Usage { tokens: Some(tokens), cost: Some("0.750000".into()) });
        let session = report.session();
        assert_eq!(session.id.as_deref(), Some("ses_1"));
        assert_eq!(session.summary.and_then(|summary| summary.message_count), Some(2));
    }

    #[test]
    fn a_report_has_the_documented_shape() {
        let json = RunReport::succeeded().into_termination_message(MOST_BYTES);
        assert_eq!(
            json,
            r#"{"outcome":"Succeeded","reason":"Succeeded","message":"the agent finished","usage":{"tokens":{"input":0,"output":0,"reasoning":0,"cacheRead":0,"cacheWrite":0},"cost":0.0,"messages":0,"filesChanged":0,"additions":0,"deletions":0},"summary":""}"#
        );
        assert_eq!(RunReport::read(&json), Some(RunReport::succeeded()));
    }

    #[test]
    fn the_workspace_counts_more_than_the_tool_calls() {
        let mut report = RunReport::succeeded();
        report.usage.files_changed = 1;
        let unknown = report.clone().with_changes(&Changes::unknown("The image has no git."));
        assert_eq!((unknown.usage.files_changed, unknown.changes), (1, None));
        let changes = Changes { compared: true, file_count: 2, insertions: 3, commit_count: 1, ..Changes::default() };
        let report = report.with_changes(&changes);
        let read = RunReport::read(&report.into_termination_message(MOST_BYTES)).unwrap();
        assert_eq!((read.usage.files_changed, read.usage.additions), (2, Some(3)));
        assert_eq!(read.changes.and_then(|changes| changes.commits), Some(1));
    }

    #[test]
    fn a_long_report_is_cut_to_fit() {
        let mut report = RunReport::new(Reason::ModelError, "the key was refused \"\n".repeat(400));
        report.summary = "é\u{1}".repeat(5000);
        report.session = Some("ses_1".to_owned());
        let json = report.clone().into_termination_message(MOST_BYTES);
        assert!(json.len() <= MOST_BYTES, "{}", json.len());
        let read = RunReport::read(&json).unwrap();
        assert_eq!((read.reason, read.outcome), (Reason::ModelError, Verdict::Failed));
        assert_eq!(read.session.as_deref(), Some("ses_1"));
        for containers in [1, 6, 24, 100] {
            let most = kept(containers);
            let json = report.clone().into_termination_message(most);
            assert!(json.len() <= most, "{containers} containers: {}", json.len());
            let read = RunReport::read(&json).unwrap();
            assert_eq!((read.reason, read.outcome), (Reason::ModelError, Verdict::Failed), "{containers} containers");
        }
    }

    #[test]
    fn anything_else_is_no_report() {
        for text in ["", "exit 1", "{}", "{\"outcome\":\"Maybe\"}", "[1]", &WRITTEN[..50]] {
            assert_eq!(RunReport::read(text), None, "{text}");
        }
        assert!(RunReport::read(r#"{"outcome":"Succeeded","later":1}"#).is_some(), "a newer helper may say more");
    }

    #[test]
    fn a_hostile_report_does_no_harm() {
        let report = RunReport::read(r#"{"outcome":"Failed","reason":"UserStopped","usage":{"cost":-1e300}}"#).unwrap();
        assert_eq!((report.known_reason(), report.usage().cost.as_deref()), (None, Some("0.000000")));
    }
}
