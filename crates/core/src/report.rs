//! The report that our helper leaves in the termination message of the task container.
//!
//! The helper runs next to the agent, which can write to the same file. So a report is a claim: it decides nothing
//! that the cluster knows better, and its words are read from a list.

use api::{
    conditions::reasons,
    kinds::task::{Session, SessionSummary, TokenUsage, Usage},
};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::pod_progress::task_ended;

/// What a run said about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// Whether it did what it was asked to do.
    pub outcome: Verdict,
    /// Why it ended, in one word; see [`RunReport::known_reason`].
    #[serde(default)]
    pub reason: String,
    /// One sentence for a person.
    #[serde(default)]
    pub message: String,
    /// The OpenCode session.
    #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it used.
    #[serde(default)]
    pub usage: ReportedUsage,
    /// The agent's last words.
    #[serde(default)]
    pub summary: String,
}

/// Whether a run did what it was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It did.
    Succeeded,
    /// It did not.
    Failed,
}

/// What a run used, by its own count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedUsage {
    /// Tokens by kind.
    pub tokens: ReportedTokens,
    /// Cost in the currency of the models' prices.
    pub cost: f64,
    /// Answers of the model.
    pub messages: u64,
    /// Files that were changed.
    pub files_changed: u64,
    /// Lines added.
    pub additions: Option<u64>,
    /// Lines removed.
    pub deletions: Option<u64>,
}

/// Tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedTokens {
    /// Read by the model.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Thought by the model.
    pub reasoning: u64,
    /// Taken from the provider's cache.
    pub cache_read: u64,
    /// Put into the provider's cache.
    pub cache_write: u64,
}

/// Words that a report may use. Some mean the same to the user of a Task.
const WORDS: [(&str, &str); 20] = [
    ("Succeeded", reasons::SUCCEEDED),
    ("ModelError", reasons::MODEL_ERROR),
    ("PermissionRejected", reasons::PERMISSION_REJECTED),
    ("LengthLimit", reasons::LENGTH_LIMIT),
    ("ContentFiltered", reasons::CONTENT_FILTERED),
    ("SessionAborted", reasons::SESSION_ABORTED),
    ("ServerLost", reasons::SERVER_LOST),
    ("NoProgress", reasons::NO_PROGRESS),
    ("BudgetExceeded", reasons::BUDGET_EXCEEDED),
    ("PreparationFailed", reasons::PREPARATION_FAILED),
    ("NoAnswer", reasons::RESULT_MISSING),
    ("SessionGone", reasons::SESSION_ABORTED),
    ("Stopped", reasons::SESSION_ABORTED),
    ("CommandFailed", reasons::NON_ZERO_EXIT),
    ("CommandNotStarted", reasons::NON_ZERO_EXIT),
    ("BadInvocation", reasons::NON_ZERO_EXIT),
    ("SessionError", "SessionError"),
    ("ContextOverflow", "ContextOverflow"),
    ("Unauthorized", "Unauthorized"),
    ("ServerMisconfigured", "ServerMisconfigured"),
];

impl RunReport {
    /// What the task container of a Pod left, if it has ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        task_ended(pod).and_then(|state| state.message.as_deref()).and_then(Self::read)
    }

    /// Reads a termination message; `None` if it is something else, such as the last words of a custom command.
    pub fn read(message: &str) -> Option<Self> {
        serde_json::from_str(message.trim()).ok()
    }

    /// The reason as a Task's status knows it; `None` for a word that is not ours.
    pub fn known_reason(&self) -> Option<&'static str> {
        WORDS.iter().find(|(word, _)| *word == self.reason).map(|(_, reason)| *reason)
    }

    /// Tokens and cost, for `status.usage`.
    pub fn usage(&self) -> Usage {
        Usage { tokens: Some(self.tokens()), cost: Some(self.cost()) }
    }

    /// The session, for `status.session`; the title is the controller's.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `kubeopencode-pod` writes, byte for byte.
    const WRITTEN: &str = r#"{"outcome":"Failed","reason":"ModelError","message":"429","sessionID":"ses_1","usage":{"tokens":{"input":1,"output":2,"reasoning":3,"cacheRead":4,"cacheWrite":5},"cost":0.75,"messages":2,"filesChanged":1},"summary":"bye"}"#;

    #[test]
    fn the_report_of_our_helper_is_understood() {
        let report = RunReport::read(WRITTEN).unwrap();
        assert_eq!(report.known_reason(), Some(reasons::MODEL_ERROR));
        let tokens = TokenUsage { input: 1, output: 2, reasoning: 3, cache: 9 };
        assert_eq!(report.usage(), Usage { tokens: Some(tokens), cost: Some("0.750000".into()) });
        let session = report.session();
        assert_eq!(session.id.as_deref(), Some("ses_1"));
        assert_eq!(session.summary.and_then(|summary| summary.message_count), Some(2));
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
