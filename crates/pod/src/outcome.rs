//! How a run ended: the record that the controller reads from the container's termination message, the exit code, and
//! the pure judgement over a session's messages.
//!
//! | exit | reason | |
//! |---|---|---|
//! | 0 | Succeeded | the last answer has no error, ended with `stop` and is complete |
//! | 1 | ModelError | the model refused: status and message |
//! | 2 | BadInvocation | arguments or environment are wrong; nothing was started |
//! | 3 | PermissionRejected | a permission or question needed a person |
//! | 4 | LengthLimit | the answer was cut at the output limit |
//! | 5 | ContentFiltered | the provider's filter stepped in |
//! | 6 | SessionAborted | somebody aborted the session |
//! | 7 | ServerLost | the server is gone, frozen, or restarted and lost the run |
//! | 8 | NoProgress | nothing happened for the stall timeout, or the model answers nothing usable |
//! | 9 | NoAnswer | the session ended without a final answer |
//! | 10 | SessionError | OpenCode itself failed (unknown model or agent, internal error) |
//! | 11 | ContextOverflow | the conversation no longer fits the model |
//! | 12 | SessionGone | the session does not exist or was deleted |
//! | 13 | Unauthorized | the server's password is wrong |
//! | 14 | ServerMisconfigured | the server's configuration is invalid |
//! | 15 | BudgetExceeded | the run used all that its budget allows, and was ended |
//! | own | CommandFailed | shim: the command's own exit code (128+n for a signal) |
//! | 126, 127 | CommandNotStarted | shim: the command cannot be run, or is not there |
//! | 143 | Stopped | asked to stop by SIGTERM or SIGINT; the session was aborted |

use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::opencode::changes::Changes;
use crate::opencode::message::{Failure, Message, Tokens};
use crate::redact::Redactor;

/// Kubernetes keeps at most 4096 bytes of a termination message, and 12 KiB over all containers of a Pod.
const LONGEST: usize = 4000;

/// Whether the run did what it was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It did.
    Succeeded,
    /// It did not.
    Failed,
}

/// Why a run ended; stable words that appear in a Task's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the table at the top of this module says what each of them means")]
pub enum Reason {
    Succeeded,
    ModelError,
    BadInvocation,
    PermissionRejected,
    LengthLimit,
    ContentFiltered,
    SessionAborted,
    ServerLost,
    NoProgress,
    NoAnswer,
    SessionError,
    ContextOverflow,
    SessionGone,
    Unauthorized,
    ServerMisconfigured,
    BudgetExceeded,
    CommandFailed,
    CommandNotStarted,
    Stopped,
}

impl Reason {
    /// The exit code of the class; [`Reason::CommandFailed`] is replaced by the command's own.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::ModelError | Self::CommandFailed => 1,
            Self::BadInvocation => 2,
            Self::PermissionRejected => 3,
            Self::LengthLimit => 4,
            Self::ContentFiltered => 5,
            Self::SessionAborted => 6,
            Self::ServerLost => 7,
            Self::NoProgress => 8,
            Self::NoAnswer => 9,
            Self::SessionError => 10,
            Self::ContextOverflow => 11,
            Self::SessionGone => 12,
            Self::Unauthorized => 13,
            Self::ServerMisconfigured => 14,
            Self::BudgetExceeded => 15,
            Self::CommandNotStarted => 127,
            Self::Stopped => crate::stop::STOPPED,
        }
    }
}

/// What a run used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens by kind.
    pub tokens: TokenUsage,
    /// Dollars.
    pub cost: f64,
    /// Answers of the model.
    pub messages: u64,
    /// Files that were changed.
    pub files_changed: u64,
    /// Lines added to them.
    pub additions: u64,
    /// Lines removed from them.
    pub deletions: u64,
}

/// Tokens by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
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

impl Usage {
    /// Adds tokens and their price.
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

/// The record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Whether it succeeded.
    pub outcome: Verdict,
    /// Why it ended.
    pub reason: Reason,
    /// One sentence for a person.
    pub message: String,
    /// The OpenCode session.
    #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// The agent's last words.
    #[serde(default)]
    pub summary: String,
}

impl Outcome {
    /// A success.
    pub fn succeeded() -> Self {
        Self::new(Reason::Succeeded, "the agent finished")
    }

    /// An outcome without usage.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let outcome = if reason == Reason::Succeeded { Verdict::Succeeded } else { Verdict::Failed };
        let (session, usage, summary) = (None, Usage::default(), String::new());
        Self { outcome, reason, message: message.into(), session, usage, summary }
    }

    /// An outcome for an error that OpenCode reported.
    pub fn from_failure(failure: &Failure) -> Self {
        let reason = match failure.name.as_str() {
            "MessageAbortedError" => Reason::SessionAborted,
            "MessageOutputLengthError" => Reason::LengthLimit,
            "ContentFilterError" => Reason::ContentFiltered,
            "ContextOverflowError" => Reason::ContextOverflow,
            "APIError" | "ProviderAuthError" | "StructuredOutputError" => Reason::ModelError,
            _ if failure.data.status.is_some() => Reason::ModelError,
            _ if failure.code.is_some() => Reason::ServerLost,
            _ => Reason::SessionError,
        };
        let text = failure.text();
        let message = match reason {
            Reason::SessionAborted => "the session was aborted on the server".to_owned(),
            Reason::LengthLimit => "the answer was cut at the model's output limit".to_owned(),
            Reason::ContextOverflow => format!("the conversation no longer fits the model's context: {text}"),
            Reason::ServerLost => format!("the connection to the OpenCode server broke: {text}"),
            _ => text,
        };
        Self::new(reason, message)
    }

    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        self.reason.exit_code()
    }

    /// The record as JSON that fits a termination message: the summary gives way first, then the message.
    pub fn to_json(&self, redactor: &Redactor) -> String {
        let mut record = self.clone();
        record.message = redactor.clean(&record.message);
        record.summary = redactor.clean(&record.summary);
        loop {
            let json = serde_json::to_string(&record).unwrap_or_default();
            if json.len() <= LONGEST {
                return json;
            }
            let longer = if record.summary.is_empty() { &mut record.message } else { &mut record.summary };
            if longer.is_empty() {
                record.session = None;
                continue;
            }
            shorten(longer, json.len() - LONGEST);
        }
    }

    /// The record that is there.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes the record. `/dev/termination-log` exists only inside of a Pod; elsewhere it is not created.
    pub fn write(&self, path: &Path, redactor: &Redactor) -> std::io::Result<()> {
        let in_dev = path.starts_with("/dev");
        if in_dev && !path.exists() {
            return Ok(());
        }
        let mut file = std::fs::OpenOptions::new().write(true).create(!in_dev).truncate(true).open(path)?;
        file.write_all(self.to_json(redactor).as_bytes())
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

/// Judges a run by its messages alone: the rule of the product, whatever exit codes and events said.
pub fn judge(messages: &[Message]) -> Outcome {
    let mut outcome = verdict(messages);
    let answers = || messages.iter().filter(|message| message.info.role == "assistant");
    for message in answers() {
        outcome.usage.add(&message.info.tokens, message.info.cost);
        outcome.usage.messages += 1;
    }
    let Changes { files, additions, deletions } = Changes::of(answers());
    outcome.usage.files_changed = files.len() as u64;
    (outcome.usage.additions, outcome.usage.deletions) = (additions, deletions);
    outcome.summary = answers().next_back().map(text_of).unwrap_or_default();
    outcome
}

fn text_of(message: &Message) -> String {
    let texts = message.parts.iter().filter(|part| part.kind == "text" && !part.synthetic);
    let texts: Vec<&str> = texts.filter_map(|part| part.text.as_deref()).map(str::trim).collect();
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn verdict(messages: &[Message]) -> Outcome {
    let Some(last) = messages.iter().rfind(|message| message.info.role == "assistant") else {
        return Outcome::new(Reason::NoAnswer, "the session ended without any answer of the model");
    };
    if let Some(failure) = &last.info.error {
        return Outcome::from_failure(failure);
    }
    if last.info.time.completed.is_none() {
        let message = "the last answer was never completed: the OpenCode server stopped or lost the run";
        return Outcome::new(Reason::ServerLost, message);
    }
    match last.info.finish.as_deref() {
        Some("stop") => Outcome::succeeded(),
        Some("length") => Outcome::new(Reason::LengthLimit, "the answer was cut at the model's output limit"),
        Some("content-filter") => {
            Outcome::new(Reason::ContentFiltered, "the answer was blocked by the provider's content filter")
        }
        _ if last.parts.iter().any(super::opencode::message::Part::was_rejected) => {
            let tool = last.parts.iter().find(|part| part.was_rejected()).and_then(|part| part.tool.as_deref());
            let message = format!(
                "the tool {} needed a permission that was rejected; allow it in the Agent's permissions",
                tool.unwrap_or("call")
            );
            Outcome::new(Reason::PermissionRejected, message)
        }
        other => {
            let finish = other.unwrap_or("nothing");
            Outcome::new(Reason::NoAnswer, format!("the session ended with `{finish}` instead of a final answer"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(json: &str) -> Vec<Message> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_ending_has_its_reason() {
        let check = |last: &str, expected: Reason| {
            let json = format!(r#"[{{"info":{{"role":"user"}}}},{{"info":{{"role":"assistant",{last}}}}}]"#);
            assert_eq!(judge(&messages(&json)).reason, expected, "{last}");
        };
        let done = r#""time":{"completed":2}"#;
        check(&format!(r#"{done},"finish":"stop""#), Reason::Succeeded);
        check(&format!(r#"{done},"finish":"stop","error":null"#), Reason::Succeeded);
        check(r#""finish":"stop""#, Reason::ServerLost);
        check(r#""time":{"created":1}"#, Reason::ServerLost);
        check(&format!(r#"{done},"finish":"length""#), Reason::LengthLimit);
        check(&format!(r#"{done},"finish":"content-filter""#), Reason::ContentFiltered);
        check(&format!(r#"{done},"finish":"tool-calls""#), Reason::NoAnswer);
        check(&format!(r#"{done},"finish":"unknown""#), Reason::NoAnswer);
        check(done, Reason::NoAnswer);
        let error =
            |name: &str| format!(r#"{done},"finish":"stop","error":{{"name":"{name}","data":{{"message":"m"}}}}"#);
        check(&error("APIError"), Reason::ModelError);
        check(&error("ProviderAuthError"), Reason::ModelError);
        check(&error("MessageAbortedError"), Reason::SessionAborted);
        check(&error("MessageOutputLengthError"), Reason::LengthLimit);
        check(&error("ContentFilterError"), Reason::ContentFiltered);
        check(&error("ContextOverflowError"), Reason::ContextOverflow);
        check(&error("UnknownError"), Reason::SessionError);
    }

    #[test]
    fn a_rejected_permission_is_seen_in_the_tool_call() {
        let outcome = judge(&messages(
            r#"[{"info":{"role":"assistant","time":{"completed":1},"finish":"tool-calls"},"parts":[{"type":"tool","tool":"bash",
               "state":{"status":"error","error":"The user rejected permission to use this specific tool call."}}]}]"#,
        ));
        assert_eq!(outcome.reason, Reason::PermissionRejected);
        assert!(outcome.message.contains("bash"), "{}", outcome.message);
    }

    #[test]
    fn no_answer_at_all_is_a_failure() {
        assert_eq!(judge(&[]).reason, Reason::NoAnswer);
        assert_eq!(judge(&messages(r#"[{"info":{"role":"user"}}]"#)).reason, Reason::NoAnswer);
    }

    #[test]
    fn usage_is_summed_over_the_answers() {
        let outcome = judge(&messages(
            r#"[{"info":{"role":"user","cost":9}},
               {"info":{"role":"assistant","cost":0.5,"tokens":{"input":10,"output":1,"cache":{"read":3,"write":4}}},
                "parts":[{"type":"tool","tool":"write","state":{"status":"completed","input":{"filePath":"a","content":"1\n2"}}},
                         {"type":"tool","tool":"edit","state":{"status":"completed","input":{"filePath":"a"}}},
                         {"type":"tool","tool":"write","state":{"status":"error","input":{"filePath":"b"}}}]},
               {"info":{"role":"assistant","cost":0.25,"tokens":{"input":20,"output":2},"time":{"completed":1},"finish":"stop"},
                "parts":[{"type":"text","text":" All done. "},{"type":"text","text":"x","synthetic":true}]}]"#,
        ));
        let tokens = TokenUsage { input: 30, output: 3, reasoning: 0, cache_read: 3, cache_write: 4 };
        assert_eq!(
            outcome.usage,
            Usage { tokens, cost: 0.75, messages: 2, files_changed: 1, additions: 2, deletions: 0 }
        );
        assert_eq!(outcome.summary, "All done.");
    }

    #[test]
    fn the_record_fits_and_holds_no_secret() {
        let mut outcome = Outcome::new(Reason::ModelError, "key sk-secret-1 refused \"\n".repeat(400));
        outcome.summary = "é\u{1}".repeat(5000);
        outcome.session = Some("ses_1".to_owned());
        let json = outcome.to_json(&Redactor::new(["sk-secret-1".to_owned()]));
        assert!(json.len() <= LONGEST, "{}", json.len());
        assert!(!json.contains("sk-secret-1"));
        let read: Outcome = serde_json::from_str(&json).unwrap();
        assert_eq!((read.reason, read.outcome), (Reason::ModelError, Verdict::Failed));
        assert_eq!(read.session.as_deref(), Some("ses_1"));
    }

    #[test]
    fn the_record_has_the_documented_shape() {
        let json = Outcome::succeeded().to_json(&Redactor::default());
        assert_eq!(
            json,
            r#"{"outcome":"Succeeded","reason":"Succeeded","message":"the agent finished","usage":{"tokens":{"input":0,"output":0,"reasoning":0,"cacheRead":0,"cacheWrite":0},"cost":0.0,"messages":0,"filesChanged":0,"additions":0,"deletions":0},"summary":""}"#
        );
    }

    #[test]
    fn exit_codes_are_distinct() {
        use Reason::*;
        let all = [
            Succeeded,
            ModelError,
            BadInvocation,
            PermissionRejected,
            LengthLimit,
            ContentFiltered,
            SessionAborted,
            ServerLost,
            NoProgress,
            NoAnswer,
            SessionError,
            ContextOverflow,
            SessionGone,
            Unauthorized,
            ServerMisconfigured,
            CommandNotStarted,
            Stopped,
        ];
        let codes: std::collections::BTreeSet<u8> = all.iter().map(|reason| reason.exit_code()).collect();
        assert_eq!(codes.len(), all.len());
    }

    #[test]
    fn the_record_is_written_and_dev_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "x".repeat(5000)).unwrap();
        Outcome::succeeded().write(&path, &Redactor::default()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(r#"{"outcome":"Succeeded""#));
        let nowhere = Path::new("/dev/kubeopencode-no-such-log");
        Outcome::succeeded().write(nowhere, &Redactor::default()).unwrap();
        assert!(!nowhere.exists());
    }
}
