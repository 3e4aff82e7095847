//! Interprets the events of `opencode run --format json`.

use std::time::{Duration, Instant};

use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use domain::opencode::message::{Failure, Info, Message, Part, Time};
use domain::run::judge::judge;
use serde::Deserialize;
use serde_json::Value;

use super::live;
use crate::budget::Meter;
use crate::run_log::{Log, Note};

/// As in attach: a run has stalled after this many empty answers in a row.
const EMPTY_STEPS: u32 = 50;

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "sessionID", default)]
    session: String,
    #[serde(default)]
    part: Value,
    #[serde(default)]
    error: Value,
}

/// The events so far.
#[derive(Debug)]
pub struct Transcript {
    session: Option<String>,
    answers: Vec<Message>,
    failure: Option<Failure>,
    rejected: Option<String>,
    progress: Instant,
    step_has_content: bool,
    empty_steps: u32,
    pub meter: Meter,
}

impl Transcript {
    pub fn new(now: Instant) -> Self {
        let (session, failure, rejected) = (None, None, None);
        let (answers, step_has_content, empty_steps, meter) = (Vec::new(), false, 0, Meter::default());
        Self { session, answers, failure, rejected, progress: now, step_has_content, empty_steps, meter }
    }

    /// Processes a line of standard output and logs it; a line that is not an event is logged unchanged.
    pub fn read(&mut self, line: &str, now: Instant, log: &mut Log<'_>) {
        let Ok(event) = serde_json::from_str::<Line>(line) else {
            if !line.trim().is_empty() {
                self.progress = now;
                log.note(&Note::Info(line.trim_end()));
            }
            return;
        };
        if self.session.is_none() && !event.session.is_empty() {
            log.note(&Note::Session { id: &event.session, server: "" });
            self.session = Some(event.session.clone());
        }
        if event.kind == "error" {
            let failure: Failure = serde_json::from_value(event.error.clone()).unwrap_or_default();
            log.note(&Note::Failure(&failure.text(), &event.error));
            self.failure.get_or_insert(failure);
            return;
        }
        let Ok(part) = serde_json::from_value::<Part>(event.part.clone()) else { return };
        match part.kind.as_str() {
            "text" | "reasoning" | "tool" => {
                self.progress = now;
                self.step_has_content = true;
            }
            "step-finish" => {
                self.empty_steps = if std::mem::take(&mut self.step_has_content) { 0 } else { self.empty_steps + 1 };
                self.meter.take(&part, true);
            }
            _ => {}
        }
        if event.kind == live::RUNNING {
            log.note(&Note::Running(&part, &event.part));
            return;
        }
        log.note(&Note::Part(&part, &event.part));
        self.keep(part);
    }

    /// Processes a line of standard error, where permission prompts are printed.
    pub fn read_error(&mut self, line: &str) {
        if line.contains("permission requested:") && line.contains("auto-rejecting") {
            let what = line.split("permission requested:").nth(1).and_then(|rest| rest.split(';').next());
            self.rejected = Some(what.unwrap_or("a tool").trim().to_owned());
        }
    }

    fn keep(&mut self, part: Part) {
        if self.answers.last().is_none_or(|answer| answer.info.id != part.message) {
            let info = Info { id: part.message.clone(), role: "assistant".to_owned(), ..Info::default() };
            self.answers.push(Message { info, parts: Vec::new() });
        }
        let Some(answer) = self.answers.last_mut() else { return };
        if part.kind == "step-finish" {
            answer.info.finish.clone_from(&part.reason);
            answer.info.time = Time { completed: Some(0.0), end: None };
            answer.info.cost += part.cost;
            answer.info.tokens = part.tokens.clone();
        }
        answer.parts.push(part);
    }

    /// Why the run has stalled; `None` while it makes progress.
    pub fn stalled(&self, now: Instant, limit: Duration) -> Option<String> {
        if self.empty_steps >= EMPTY_STEPS {
            return Some(format!(
                "the model answered {EMPTY_STEPS} times in a row without text or tool call; check the provider's baseURL"
            ));
        }
        (now.saturating_duration_since(self.progress) >= limit).then(|| format!("no event for {} s", limit.as_secs()))
    }

    /// The outcome after the command ended with this code.
    pub fn judge(&self, exit: u8, stderr_tail: &str) -> RunReport {
        let judged = judge(&self.answers);
        let verdict = match (&self.failure, &self.rejected) {
            (Some(failure), _) => RunReport::from_failure(failure),
            (None, Some(what)) if judged.reason != Reason::Succeeded => {
                let message = format!("{what} needed a permission that was rejected; allow it in the permissions");
                RunReport::new(Reason::PermissionRejected, message)
            }
            _ if exit != 0 => command_failed(exit, stderr_tail),
            // There is no server here: an incomplete answer counts as no answer.
            _ if judged.reason == Reason::ServerLost => {
                RunReport::new(Reason::NoAnswer, "OpenCode ended before its last answer was complete")
            }
            _ => RunReport::new(judged.reason, judged.message.clone()),
        };
        RunReport { session: self.session.clone(), usage: judged.usage, summary: judged.summary, ..verdict }
    }

    /// Adds usage and session to an outcome that was decided elsewhere.
    pub fn complete(&self, outcome: RunReport) -> RunReport {
        let judged = judge(&self.answers);
        RunReport { session: self.session.clone(), usage: judged.usage, summary: judged.summary, ..outcome }
    }
}

/// The outcome of a command that failed by its own exit code.
pub fn command_failed(exit: u8, stderr_tail: &str) -> RunReport {
    let cause = match exit {
        137 => "the command was killed (SIGKILL), most likely because it used too much memory".to_owned(),
        128..=u8::MAX => format!("the command was ended by signal {}", exit - 128),
        _ => format!("the command ended with exit code {exit}"),
    };
    let detail = stderr_tail.trim();
    let message = if detail.is_empty() { cause } else { format!("{cause}: {detail}") };
    RunReport::new(Reason::CommandFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_log::Format;
    use egress::Redactor;

    fn transcript(lines: &[&str]) -> (Transcript, String) {
        let now = Instant::now();
        let mut transcript = Transcript::new(now);
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
        for line in lines {
            transcript.read(line, now, &mut log);
        }
        (transcript, String::from_utf8(out).unwrap())
    }

    const TOOL: &str = r#"{"type":"tool_use","sessionID":"ses_1","part":{"id":"p1","messageID":"m1","type":"tool","tool":"write","state":{"status":"completed","input":{"filePath":"a"}}}}"#;
    const CALLED: &str = r#"{"type":"step_finish","sessionID":"ses_1","part":{"messageID":"m1","type":"step-finish","reason":"tool-calls","cost":0.5,"tokens":{"input":10,"output":1}}}"#;
    const TEXT: &str = r#"{"type":"text","sessionID":"ses_1","part":{"messageID":"m2","type":"text","text":"Done."}}"#;
    const STOP: &str = r#"{"type":"step_finish","sessionID":"ses_1","part":{"messageID":"m2","type":"step-finish","reason":"stop","cost":0.5,"tokens":{"input":20,"output":2}}}"#;

    #[test]
    fn a_whole_run_succeeds_with_its_usage() {
        let (transcript, log) = transcript(&[TOOL, CALLED, TEXT, STOP]);
        let outcome = transcript.judge(0, "");
        assert_eq!((outcome.reason, outcome.summary.as_str()), (Reason::Succeeded, "Done."));
        assert_eq!((outcome.usage.tokens.input, outcome.usage.messages, outcome.usage.files_changed), (30, 2, 1));
        assert_eq!(outcome.session.as_deref(), Some("ses_1"));
        assert_eq!(log, "[session] ses_1\n[tool] write a\nDone.\n");
    }

    #[test]
    fn the_end_decides_whatever_the_exit_code_says() {
        let error = r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}"#;
        let length = STOP.replace("\"stop\"", "\"length\"");
        let check = |lines: &[&str], exit: u8, expected: Reason| {
            assert_eq!(transcript(lines).0.judge(exit, "").reason, expected, "{lines:?} {exit}");
        };
        check(&[TEXT, STOP, error], 0, Reason::ModelError);
        check(&[error], 1, Reason::ModelError);
        check(&[TOOL, CALLED], 0, Reason::NoAnswer);
        check(&[TEXT], 0, Reason::NoAnswer);
        check(&[], 0, Reason::NoAnswer);
        check(&[&length], 0, Reason::LengthLimit);
        check(&[TEXT, STOP], 1, Reason::CommandFailed);
        check(&[], 137, Reason::CommandFailed);
    }

    #[test]
    fn a_rejected_permission_is_read_from_standard_error() {
        let (mut transcript, _) = transcript(&[TOOL, CALLED]);
        transcript.read_error("\u{1b}[93m! \u{1b}[0mpermission requested: bash (ls); auto-rejecting");
        let outcome = transcript.judge(0, "");
        assert_eq!(outcome.reason, Reason::PermissionRejected);
        assert!(outcome.message.starts_with("bash (ls) needed"), "{}", outcome.message);
    }

    #[test]
    fn other_output_is_shown_as_it_is() {
        let (_, log) = transcript(&["plain text", "{not json"]);
        assert_eq!(log, "[info] plain text\n[info] {not json\n");
    }

    #[test]
    fn empty_answers_and_silence_are_stalls() {
        let empty = r#"{"type":"step_finish","part":{"messageID":"m","type":"step-finish","reason":"unknown"}}"#;
        let (short, _) = transcript(&[empty; 49]);
        let (long, _) = transcript(&[empty; 50]);
        let now = Instant::now();
        assert_eq!(short.stalled(now, Duration::from_mins(1)), None);
        assert!(long.stalled(now, Duration::from_mins(1)).is_some());
        assert!(short.stalled(now + Duration::from_secs(61), Duration::from_mins(1)).is_some());
    }
}
