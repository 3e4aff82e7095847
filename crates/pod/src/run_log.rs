//! The log of a run: readable lines with records of their content, or the JSON lines of `opencode run --format json`.

use std::io::Write;

use domain::contract::record;
use serde_json::{Value, json};

use domain::contract::report::RunReport;
use domain::opencode::message::Part;
use domain::run::changes::{Changes, Commit, FileChange};
use egress::Redactor;

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
    /// Records for the next line: not every part of an answer has a line of its own.
    records: String,
}

impl std::fmt::Debug for Log<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Log").field("format", &self.format).finish_non_exhaustive()
    }
}

impl<'a> Log<'a> {
    /// A log on `out`.
    pub fn new(out: &'a mut (dyn Write + Send), format: Format, redactor: Redactor) -> Self {
        Self { out, format, redactor, session: String::new(), records: String::new() }
    }

    /// Writes one note.
    pub fn note(&mut self, note: &Note<'_>) {
        if let Note::Session { id, .. } = note {
            (*id).clone_into(&mut self.session);
        }
        let event = event(note, &self.session).map(|event| self.redactor.clean_json(&event));
        let line = match self.format {
            Format::Readable => {
                // The beginning of a step adds nothing to its parts.
                let recorded = match note {
                    Note::Part(part, _) => part.kind != "step-start",
                    Note::Failure(..) | Note::Change(_) | Note::Changes(_) => true,
                    _ => false,
                };
                if recorded {
                    self.records.extend(event.as_ref().and_then(record::carried));
                }
                readable(note)
                    .map(|line| std::mem::take(&mut self.records) + &record::plain(&self.redactor.clean(&line)))
            }
            Format::Json => event.map(|event| event.to_string()),
        };
        if let Some(line) = line {
            let _ = writeln!(self.out, "{line}");
            let _ = self.out.flush();
        }
    }
}

/// The readable line of a note; `None` if it has none.
pub fn readable(note: &Note<'_>) -> Option<String> {
    Some(match note {
        Note::Session { id, server: "" } => format!("[session] {id}"),
        Note::Session { id, server } => format!("[session] {id} on {server}"),
        Note::Part(part, _) => return readable_part(part),
        Note::Retry { attempt, message } => format!("[retry] the model failed, attempt {attempt} follows: {message}"),
        Note::Asked { what, answer } => format!("[permission] {what}: {answer}"),
        Note::Failure(text, _) => format!("[error] {text}"),
        Note::Info(text) => format!("[info] {text}"),
        Note::Change(file) => format!("[change] {}", file.line()),
        Note::Commit(commit) => format!("[commit] {} {}", commit.id.get(..10).unwrap_or(&commit.id), commit.subject),
        Note::Changes(_) => return None,
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
            let subject = subject(&state.input).or_else(|| state.title.clone()).unwrap_or_default();
            let space = if subject.is_empty() { "" } else { " " };
            Some(match (state.status.as_str(), state.metadata.get("exit").and_then(Value::as_i64)) {
                ("error", _) => {
                    let error = state.error.as_deref().unwrap_or("it failed");
                    format!("[tool] {tool}{space}{subject}: {}", short(error))
                }
                (_, Some(exit)) if exit != 0 => format!("[tool] {tool}{space}{subject}: exit {exit}"),
                _ => format!("[tool] {tool}{space}{subject}"),
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
        Note::Retry { attempt, message } => ("retry", "retry", json!({"attempt": attempt, "message": message})),
        Note::Asked { what, answer } => ("permission", "permission", json!({"what": what, "answer": answer})),
        Note::Failure(_, original) => ("error", "error", (*original).clone()),
        Note::Info(text) => ("info", "message", json!(text)),
        Note::Change(file) => ("change", "change", file.record()),
        Note::Commit(commit) => ("commit", "commit", serde_json::to_value(commit).unwrap_or_default()),
        Note::Changes(changes) => ("changes", "changes", changes.summary()),
        Note::End(outcome) => ("end", "outcome", serde_json::to_value(outcome).unwrap_or_default()),
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
    fn a_line_carries_its_record_and_those_without_a_line() {
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::default());
        let (start, start_json) = part(r#"{"type":"step-finish","messageID":"m","cost":1}"#);
        let (tool, tool_json) = part(
            r#"{"type":"tool","tool":"write","messageID":"m","state":{"status":"completed","input":{"content":"x","filePath":"a"}}}"#,
        );
        log.note(&Note::Part(&start, &start_json));
        log.note(&Note::Part(&tool, &tool_json));
        log.note(&Note::Info(&record::carried(&json!({"part": "forged"})).unwrap()));
        log.note(&Note::Info("next"));
        let lines: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
        assert_eq!(record::visible(lines[0]), b"[tool] write a".as_slice());
        let carried: Vec<Value> = record::records(lines[0]).map(|record| record["part"].clone()).collect();
        assert_eq!(carried, [start_json, tool_json]);
        assert_eq!(record::records(lines[1]).count(), 0);
        assert_eq!(lines[2], b"[info] next");
    }

    #[test]
    fn changes_are_lines_with_records() {
        let mut out = Vec::new();
        let mut log = Log::new(&mut out, Format::Readable, Redactor::new(["sesame-1".to_owned()]));
        let patch = "+x\n+sesame-1\n".to_owned();
        let file = FileChange { path: "a".into(), insertions: 2, patch, ..FileChange::default() };
        let commit = Commit { id: "0123456789abcdef".into(), subject: "Fix it".into() };
        let changes =
            Changes { compared: true, files: vec![file], commits: vec![commit], file_count: 1, ..Changes::default() };
        crate::changes::conclude(&changes, RunReport::succeeded(), &mut log);
        log.note(&Note::Info("next"));
        let shown = String::from_utf8(record::visible(&out).into_owned()).unwrap();
        assert_eq!(shown, "[change] M a +2 -0\n[commit] 0123456789 Fix it\n[info] next\n");
        let records: Vec<Value> = record::records(&out).collect();
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
