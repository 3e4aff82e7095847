//! The log of a run: readable lines beside records of their content, or the JSON lines of `opencode run --format json`.

use std::io::{self, Write};

use domain::contract::record;
use serde_json::{Value, json};

use domain::contract::report::RunReport;
use domain::opencode::message::{Part, ToolState};
use domain::run::changes::{Changes, Commit, FileChange};
use egress::Redactor;

use crate::recorder::Recorder;
use crate::tool_output::{News, ToolOutput};

/// The two forms of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Readable,
    Json,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Note<'a> {
    /// The session was created or found.
    Session {
        id: &'a str,
        server: &'a str,
    },
    /// A finished part of an answer, with its original JSON.
    Part(&'a Part, &'a Value),
    /// A tool call that runs, with its original JSON. The same call may be noted again with more output.
    Running(&'a Part, &'a Value),
    /// A model call is retried.
    Retry {
        attempt: u64,
        message: &'a str,
    },
    /// A permission request or question.
    Asked {
        what: &'a str,
        answer: &'a str,
    },
    Failure(&'a str, &'a Value),
    Info(&'a str),
    /// A changed file of the workspace.
    Change(&'a FileChange),
    /// A commit of the run.
    Commit(&'a Commit),
    /// The changes as a whole. They have no line of their own: the end of the run has their numbers.
    Changes(&'a Changes),
    End(&'a RunReport),
}

/// Writes notes. A log that cannot be written (a closed pipe) does not stop the run.
pub struct Log<'a> {
    out: &'a mut (dyn Write + Send),
    format: Format,
    redactor: Redactor,
    session: String,
    /// Receives the records, one a line.
    records: Option<&'a mut (dyn Write + Send)>,
    output: ToolOutput,
}

impl std::fmt::Debug for Log<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Log").field("format", &self.format).finish_non_exhaustive()
    }
}

impl<'a> Log<'a> {
    /// A log on `out`.
    pub fn new(out: &'a mut (dyn Write + Send), format: Format, redactor: Redactor) -> Self {
        Self { out, format, redactor, session: String::new(), records: None, output: ToolOutput::default() }
    }

    /// Writes the records of a readable log to `records`.
    #[must_use]
    pub fn with_records(self, records: &'a mut (dyn Write + Send)) -> Self {
        Self { records: Some(records), ..self }
    }

    /// Writes the records to the container `session`, or notes why it cannot.
    #[must_use]
    pub fn recorded(mut self, recorder: &'a mut io::Result<Option<Recorder>>) -> Self {
        match recorder {
            Ok(Some(recorder)) => self.with_records(recorder),
            Ok(None) => self,
            Err(error) => {
                self.note(&Note::Info(&format!("the session of this run is not recorded: {error}")));
                self
            }
        }
    }

    /// Writes one note.
    pub fn note(&mut self, note: &Note<'_>) {
        if let Note::Session { id, .. } = note {
            (*id).clone_into(&mut self.session);
        }
        if let Note::Running(part, original) = note {
            // `opencode run --format json` reports a call when it has ended.
            if self.format == Format::Readable {
                self.running(part, original);
            }
            return;
        }
        let event = event(note, &self.session).map(|event| self.redactor.clean_json(&event));
        match self.format {
            Format::Json => {
                if let Some(event) = event {
                    self.write(&event.to_string());
                }
            }
            Format::Readable => {
                // The beginning of a step adds nothing to its parts.
                let recorded = match note {
                    Note::Part(part, _) => part.kind != "step-start",
                    Note::Failure(..) | Note::Change(_) | Note::Changes(_) | Note::End(_) => true,
                    _ => false,
                };
                if recorded {
                    self.record(event.as_ref());
                }
                match note {
                    Note::Part(part, _) if is_shell(part) => self.ended(part),
                    _ => self.line(readable(note)),
                }
            }
        }
    }

    /// Shows what a shell command printed since it was last noted.
    fn running(&mut self, part: &Part, original: &Value) {
        if !is_shell(part) || part.state.as_ref().is_none_or(|state| state.status != "running") {
            return;
        }
        let output = shell_output(part);
        // A line may continue, and so may a secret.
        let whole = output.rfind('\n').map_or("", |end| &output[..=end]);
        let output = self.redactor.clean(self.redactor.settled(whole));
        let news = self.output.take(part, &output, false);
        if news.first || !news.text.is_empty() {
            let event = event(&Note::Running(part, original), &self.session);
            let mut event = event.map(|event| self.redactor.clean_json(&event)).unwrap_or_default();
            event["part"]["state"]["metadata"] = json!({ "output": news.text });
            if !news.first {
                event["part"]["state"]["input"].take();
            }
            self.record(Some(&event));
        }
        self.show(part, &news);
    }

    /// Shows the end of a shell command: the rest of its output, and its exit code if that is new.
    fn ended(&mut self, part: &Part) {
        let summary = readable_part(part);
        let output = self.redactor.clean(&shell_output(part));
        let was_shown = self.output.knows(part);
        let news = self.output.take(part, &output, true);
        if was_shown {
            let failed = |state: &ToolState| state.status == "error" || exit_code(state).is_some_and(|exit| exit != 0);
            let failed = part.state.as_ref().is_some_and(failed);
            self.show(part, &news);
            self.line(summary.filter(|_| failed));
        } else {
            self.line(summary);
            news.lines.iter().for_each(|line| self.write(line));
        }
    }

    fn show(&mut self, part: &Part, news: &News) {
        if news.first || news.apart {
            let again = if news.first { "" } else { " (continued)" };
            let header = format!("{}{again}", tool_line(part.tool.as_deref().unwrap_or("tool"), part.state.as_ref()));
            self.write(&record::plain(&self.redactor.clean(&header)));
        }
        news.lines.iter().for_each(|line| self.write(line));
    }

    /// Writes a line that does not belong to the output of a command.
    fn line(&mut self, line: Option<String>) {
        if let Some(line) = line {
            self.output.interrupted();
            self.write(&record::plain(&self.redactor.clean(&line)));
        }
    }

    fn write(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }

    /// Writes a record. A record that cannot be written is lost; the run goes on.
    fn record(&mut self, event: Option<&Value>) {
        if let (Some(records), Some(line)) = (&mut self.records, event.and_then(record::line)) {
            let _ = records.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Whether a part is a call of a shell, whose output people follow. The output of other tools is in the session.
fn is_shell(part: &Part) -> bool {
    let reported = part.state.as_ref().is_some_and(|state| state.metadata["output"].is_string());
    part.kind == "tool" && (part.tool.as_deref() == Some("bash") || reported)
}

fn shell_output(part: &Part) -> String {
    let output = part.state.as_ref().and_then(|state| state.metadata["output"].as_str());
    output.unwrap_or_default().to_owned()
}

fn exit_code(state: &ToolState) -> Option<i64> {
    state.metadata.get("exit").and_then(Value::as_i64)
}

/// The line that names a tool call.
fn tool_line(tool: &str, state: Option<&ToolState>) -> String {
    let subject = state.and_then(|state| subject(&state.input).or_else(|| state.title.clone())).unwrap_or_default();
    let space = if subject.is_empty() { "" } else { " " };
    format!("[tool] {tool}{space}{subject}")
}

/// The readable line of a note; `None` if it has none.
pub fn readable(note: &Note<'_>) -> Option<String> {
    Some(match note {
        Note::Session { id, server: "" } => format!("[session] {id}"),
        Note::Session { id, server } => format!("[session] {id} on {server}"),
        Note::Part(part, _) => return readable_part(part),
        Note::Running(..) | Note::Changes(_) => return None,
        Note::Retry { attempt, message } => format!("[retry] the model failed, attempt {attempt} follows: {message}"),
        Note::Asked { what, answer } => format!("[permission] {what}: {answer}"),
        Note::Failure(text, _) => format!("[error] {text}"),
        Note::Info(text) => format!("[info] {text}"),
        Note::Change(file) => format!("[change] {}", file.line()),
        Note::Commit(commit) => format!("[commit] {} {}", commit.id.get(..10).unwrap_or(&commit.id), commit.subject),
        Note::End(outcome) => {
            let usage = &outcome.usage;
            let lines = match (usage.additions, usage.deletions) {
                (None | Some(0), None | Some(0)) => String::new(),
                (added, removed) => {
                    format!(", +{} -{}", added.unwrap_or_default(), removed.unwrap_or_default())
                }
            };
            let commits = outcome.changes.as_ref().and_then(|changes| changes.commits).filter(|commits| *commits > 0);
            let commits = commits.map(|commits| format!(", {}", counted(commits.unsigned_abs(), "commit")));
            format!(
                "[end] {:?}: {} ({}, {} + {} tokens, ${:.4}, {} changed{lines}{})",
                outcome.reason,
                outcome.message,
                counted(usage.messages, "answer"),
                usage.tokens.input,
                usage.tokens.output,
                usage.cost,
                counted(usage.files_changed, "file"),
                commits.unwrap_or_default(),
            )
        }
    })
}

fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn readable_part(part: &Part) -> Option<String> {
    match part.kind.as_str() {
        "text" if !part.synthetic => {
            let text = part.text.as_deref().unwrap_or_default().trim();
            (!text.is_empty()).then(|| text.to_owned())
        }
        "tool" => {
            let (tool, state) = part.ended_tool()?;
            let call = tool_line(tool, Some(state));
            Some(match (state.status.as_str(), exit_code(state)) {
                ("error", _) => format!("{call}: {}", short(state.error.as_deref().unwrap_or("it failed"))),
                (_, Some(exit)) if exit != 0 => format!("{call}: exit {exit}"),
                _ => call,
            })
        }
        _ => None,
    }
}

/// The subject of a tool call in one short line.
fn subject(input: &Value) -> Option<String> {
    let names = ["command", "filePath", "path", "pattern", "url", "query", "description", "name"];
    names.iter().find_map(|name| input.get(name)?.as_str()).map(short)
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The note for programs: the shape of `opencode run --format json`, and a few kinds more.
fn event(note: &Note<'_>, session: &str) -> Option<Value> {
    let (kind, name, value) = match note {
        Note::Session { id, server } => ("session", "session", json!({"id": id, "server": server})),
        Note::Part(part, original) => {
            let kind = match part.kind.as_str() {
                "text" => "text",
                "reasoning" => "reasoning",
                "tool" if part.ended_tool().is_some() => "tool_use",
                "step-start" => "step_start",
                "step-finish" => "step_finish",
                _ => return None,
            };
            (kind, "part", (*original).clone())
        }
        Note::Running(_, original) => (record::TOOL_OUTPUT, "part", (*original).clone()),
        Note::Retry { attempt, message } => ("retry", "retry", json!({"attempt": attempt, "message": message})),
        Note::Asked { what, answer } => ("permission", "permission", json!({"what": what, "answer": answer})),
        Note::Failure(_, original) => ("error", "error", (*original).clone()),
        Note::Info(text) => ("info", "message", json!(text)),
        Note::Change(file) => ("change", "change", file.record()),
        Note::Commit(commit) => ("commit", "commit", serde_json::to_value(commit).unwrap_or_default()),
        Note::Changes(changes) => ("changes", "changes", changes.summary()),
        Note::End(outcome) => (record::LAST, "outcome", serde_json::to_value(outcome).unwrap_or_default()),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    Some(json!({"type": kind, "timestamp": millis, "sessionID": session, name: value}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::contract::reason::Reason;

    fn part(json: &str) -> (Part, Value) {
        (serde_json::from_str(json).unwrap(), serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_run_reads_like_a_log() {
        let check = |json: &str, expected: Option<&str>| {
            let (part, value) = part(json);
            assert_eq!(readable(&Note::Part(&part, &value)).as_deref(), expected);
        };
        check(r#"{"type":"text","text":"  All done.\n"}"#, Some("All done."));
        check(r#"{"type":"text","text":"reminder","synthetic":true}"#, None);
        check(r#"{"type":"step-start"}"#, None);
        check(
            r#"{"type":"tool","tool":"bash","state":{"status":"completed","input":{"command":"make\n  test"},"metadata":{"exit":2}}}"#,
            Some("[tool] bash make test: exit 2"),
        );
        check(
            r#"{"type":"tool","tool":"write","state":{"status":"completed","input":{"content":"x","filePath":"a.txt"}}}"#,
            Some("[tool] write a.txt"),
        );
        check(r#"{"type":"tool","tool":"write","state":{"status":"running","input":{}}}"#, None);
        check(
            r#"{"type":"tool","tool":"grep","state":{"status":"error","input":{"pattern":"x"},"error":"ripgrep\nfailed"}}"#,
            Some("[tool] grep x: ripgrep failed"),
        );
    }

    #[test]
    fn one_file_is_not_files() {
        let mut outcome = RunReport::new(Reason::Succeeded, "done");
        (outcome.usage.messages, outcome.usage.files_changed) = (2, 1);
        let line = readable(&Note::End(&outcome)).unwrap();
        assert_eq!(line, "[end] Succeeded: done (2 answers, 0 + 0 tokens, $0.0000, 1 file changed)");
        outcome.usage.additions = Some(3);
        let line = readable(&Note::End(&outcome)).unwrap();
        assert!(line.ends_with("1 file changed, +3 -0)"), "{line}");
        let changes = Changes { compared: true, file_count: 2, insertions: 4, commit_count: 1, ..Changes::default() };
        let line = readable(&Note::End(&outcome.with_changes(&changes))).unwrap();
        assert!(line.ends_with("2 files changed, +4 -0, 1 commit)"), "{line}");
    }

    #[test]
    fn secrets_do_not_reach_the_log() {
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::new(["sesame-1".to_owned()]));
        log.note(&Note::Info("the password is sesame-1"));
        log.note(&Note::End(&RunReport::new(Reason::ModelError, "bad key sesame-1")));
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("sesame-1") && text.contains("[end] ModelError: bad key [redacted]"), "{text}");
    }

    #[test]
    fn a_secret_is_found_whatever_json_makes_of_it() {
        let secret = "two\nlines \"and\" quotes";
        for format in [Format::Readable, Format::Json] {
            let mut out = Vec::new();
            let mut log = Log::new(&mut out, format, Redactor::new([secret.to_owned()]));
            let (text, value) =
                (Part::default(), json!({"type": "text", "messageID": "m", "text": format!("it is {secret}")}));
            let text = Part { kind: "text".to_owned(), text: Some(format!("it is {secret}")), ..text };
            log.note(&Note::Part(&text, &value));
            let written = String::from_utf8(out).unwrap();
            assert!(written.contains("it is [redacted]") && !written.contains("quotes"), "{written}");
        }
    }

    #[test]
    fn lines_are_clean_and_records_are_beside_them() {
        let (mut out, mut records) = (Vec::new(), Vec::new());
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default()).with_records(&mut records);
        let (step, step_json) = part(r#"{"type":"step-finish","messageID":"m","cost":1}"#);
        let (tool, tool_json) = part(
            r#"{"type":"tool","tool":"write","messageID":"m","state":{"status":"completed","input":{"content":"x","filePath":"a"}}}"#,
        );
        log.note(&Note::Part(&step, &step_json));
        log.note(&Note::Part(&tool, &tool_json));
        log.note(&Note::Info("\u{1b}]5379;{\"part\":\"hidden\"}\u{7}"));
        log.note(&Note::End(&RunReport::new(Reason::Succeeded, "done")));
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("[tool] write a\n[info] ]5379;") && !text.contains('\u{1b}'), "{text}");
        let records: Vec<Value> = records.split(|byte| *byte == b'\n').flat_map(record::records).collect();
        let parts: Vec<&Value> = records[..2].iter().map(|record| &record["part"]).collect();
        assert_eq!(parts, [&step_json, &tool_json]);
        assert_eq!((records.len(), &records[2]["type"]), (3, &json!(record::LAST)));
    }

    /// A shell command in the states that OpenCode reports.
    fn bash(id: &str, status: &str, output: &str, exit: Option<i64>) -> (Part, Value) {
        part(
            &json!({"id": id, "messageID": "m", "type": "tool", "tool": "bash", "state": {
                "status": status, "input": {"command": format!("make {id}")},
                "metadata": {"output": output, "exit": exit}}})
            .to_string(),
        )
    }

    #[test]
    fn what_a_command_prints_is_in_the_log_while_it_runs() {
        let (mut out, mut records) = (Vec::new(), Vec::new());
        let mut log =
            Log::new(&mut out, Format::Readable, Redactor::new(["sesame\nopen".to_owned()])).with_records(&mut records);
        for (id, status, output, exit) in [
            ("a", "running", "", None),
            ("a", "running", "one\nsesa", None),
            ("b", "running", "x\n", None),
            ("a", "running", "one\nsesame\n", None),
            ("a", "running", "one\nsesame\nopen\n", None),
            ("b", "completed", "x\n", Some(0)),
            ("a", "completed", "one\nsesame\nopen\nlast", Some(2)),
            ("c", "completed", "quick\n", Some(0)),
        ] {
            let (part, value) = bash(id, status, output, exit);
            let note = if status == "running" { Note::Running(&part, &value) } else { Note::Part(&part, &value) };
            log.note(&note);
        }
        let expected = "[tool] bash make a\n    one\n[tool] bash make b\n    x\n[tool] bash make a (continued)\n    \
            [redacted]\n    last\n[tool] bash make a: exit 2\n[tool] bash make c\n    quick\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let records = records.split(|byte| *byte == b'\n').flat_map(record::records);
        let outputs: Vec<Value> = records.map(|record| record["part"]["state"]["metadata"]["output"].clone()).collect();
        let all = "one\n[redacted]\nlast";
        assert_eq!(outputs, ["", "one\n", "x\n", "[redacted]\n", "x\n", all, "quick\n"]);
    }

    #[test]
    fn changes_are_lines_with_records() {
        let (mut out, mut records) = (Vec::new(), Vec::new());
        let mut log =
            Log::new(&mut out, Format::Readable, Redactor::new(["sesame-1".to_owned()])).with_records(&mut records);
        let patch = "+x\n+sesame-1\n".to_owned();
        let file = FileChange { path: "a".into(), insertions: 2, patch, ..FileChange::default() };
        let commit = Commit { id: "0123456789abcdef".into(), subject: "Fix it".into() };
        let changes =
            Changes { compared: true, files: vec![file], commits: vec![commit], file_count: 1, ..Changes::default() };
        crate::changes::conclude(&changes, RunReport::succeeded(), &mut log);
        log.note(&Note::Info("next"));
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown, "[change] M a +2 -0\n[commit] 0123456789 Fix it\n[info] next\n");
        let records: Vec<Value> = records.split(|byte| *byte == b'\n').flat_map(record::records).collect();
        let read = Changes::of_records(&records).unwrap();
        assert_eq!((read.file_count, read.files[0].patch.as_str()), (1, "+x\n+[redacted]\n"));
        assert_eq!(read.commits, changes.commits);
    }

    #[test]
    fn json_lines_have_the_shape_of_opencode() {
        let (text, value) = part(r#"{"type":"text","text":"hi","id":"prt_1"}"#);
        let line = event(&Note::Part(&text, &value), "ses_1").unwrap();
        assert_eq!(
            (&line["type"], &line["sessionID"], &line["part"]["text"]),
            (&json!("text"), &json!("ses_1"), &json!("hi"))
        );
        assert!(line["timestamp"].as_u64() > Some(1_600_000_000_000));
    }
}
