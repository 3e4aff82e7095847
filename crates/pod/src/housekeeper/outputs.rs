//! Outputs: values that the run wrote under names that its Task declares.

use std::collections::BTreeMap;
use std::time::Instant;

use domain::contract::collect::{CollectFailure, MOST_OUTPUT_BYTES, MOST_OUTPUTS};
use domain::contract::companion::MOST_OUTPUTS_BYTES;
use domain::contract::paths;
use serde_json::Value;

use super::collection::{Collection, OUTPUTS};
use super::results;
use crate::companion::client::CompanionError;
use crate::depot::Depot;
use crate::{env, text};

/// Problems that a message quotes.
const MOST_PROBLEMS: usize = 3;

impl Collection<'_> {
    pub(super) async fn outputs(&mut self, depot: &Depot) {
        let settings = self.settings;
        let declared = &settings.keep.outputs;
        if declared.is_empty() {
            return;
        }
        let begin = Instant::now();
        let (read, file) = match &self.remote {
            None => {
                let read = results::read(&settings.result(paths::OUTPUTS), MOST_OUTPUTS_BYTES);
                let file = format!("that ${} names", env::OUTPUTS_FILE);
                (read.map(Option::unwrap_or_default).map_err(|error| error.to_string()), file)
            }
            Some(remote) => match remote.outputs(self.deadline).await {
                Ok(read) => (Ok(read), remote.outputs_file()),
                Err(CompanionError::Refused { message, .. }) => (Err(message), remote.outputs_file()),
                Err(error) => {
                    return self.fail(CollectFailure::CollectFailed, format!("the outputs cannot be read: {error}"));
                }
            },
        };
        let written = read.map_or_else(Written::problem, |bytes| parse(&bytes));
        let Written { mut values, problems } = written;
        values.retain(|key, _| declared.contains(key));
        let absent: Vec<&str> = declared.iter().map(String::as_str).filter(|key| !values.contains_key(*key)).collect();
        let problems = problems.join("; ");
        if self.succeeded() && !absent.is_empty() {
            let because = if problems.is_empty() { String::new() } else { format!(" ({problems})") };
            let message = format!(
                "the run did not write {} {}{because}; it must write KEY=value to the file {file}",
                if absent.len() == 1 { "the output" } else { "the outputs" },
                absent.join(", ")
            );
            self.fail(CollectFailure::OutputMissing, message);
        } else if !problems.is_empty() {
            self.note(format!("outputs: {problems}"));
        }
        let number = values.len();
        let body = serde_json::to_vec(&values).unwrap_or_default();
        if number == 0 {
            self.settled(OUTPUTS);
        } else if number > MOST_OUTPUTS || body.len() > MOST_OUTPUT_BYTES {
            self.settled(OUTPUTS);
            let message = format!(
                "the {number} outputs have {} bytes; at most {MOST_OUTPUTS} with {MOST_OUTPUT_BYTES} bytes are kept: keep files as artifacts",
                body.len()
            );
            self.fail(CollectFailure::OutputMissing, message);
        } else {
            match self.patiently(OUTPUTS, async || depot.put_outputs(body.clone()).await).await {
                Ok(_) => {
                    tracing::info!("stored {number} outputs, in {}", text::seconds(begin.elapsed()));
                    self.stored(OUTPUTS);
                }
                Err(error) => {
                    self.fail(CollectFailure::CollectFailed, format!("the outputs cannot be stored: {error}"));
                }
            }
        }
    }
}

/// The content of the file of outputs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    values: BTreeMap<String, String>,
    /// What could not be read, for a person.
    problems: Vec<String>,
}

impl Written {
    fn problem(problem: impl Into<String>) -> Self {
        Self { problems: vec![problem.into()], ..Self::default() }
    }

    fn add_problem(&mut self, problem: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

/// Reads lines `KEY=value`, values of several lines between `KEY<<END` and `END`, or one JSON object. The last value of a
/// key counts. Other lines are problems, and no more: a model that adds a sentence has still written its outputs.
fn parse(bytes: &[u8]) -> Written {
    let text = match std::str::from_utf8(bytes) {
        // Postgres stores no NUL.
        Ok(text) if !text.contains('\0') => text.trim_start_matches('\u{feff}'),
        _ => return Written::problem("the file is not UTF-8 text"),
    };
    if text.trim_start().starts_with('{') { parse_json(text) } else { parse_lines(text) }
}

fn parse_json(text: &str) -> Written {
    let object: serde_json::Map<String, Value> = match serde_json::from_str(text) {
        Ok(object) => object,
        // The error of serde_json quotes no value.
        Err(error) => return Written::problem(format!("the file is not one JSON object: {error}")),
    };
    let mut written = Written::default();
    for (key, value) in object {
        let value = match value {
            Value::String(text) if text.contains('\0') => Err("contains NUL"),
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(value) => Ok(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => Err("is neither text nor a number, true or false"),
        };
        match value {
            Ok(value) => drop(written.values.insert(key, value)),
            Err(problem) => written.add_problem(format!("{} {problem}", short(&key))),
        }
    }
    written
}

fn parse_lines(text: &str) -> Written {
    let mut written = Written::default();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let (plain, long) = (line.find('='), line.find("<<"));
        match (plain, long) {
            (plain, Some(at)) if plain.is_none_or(|plain| at < plain) => {
                let (key, end) = (line[..at].trim(), line[at + 2..].trim());
                let mut value = Vec::new();
                let mut closed = false;
                for (_, line) in lines.by_ref() {
                    closed = line == end;
                    if closed {
                        break;
                    }
                    value.push(line);
                }
                if closed && !key.is_empty() {
                    written.values.insert(key.to_owned(), value.join("\n"));
                } else {
                    written.add_problem(format!(
                        "the value from line {} on has no last line {:?}",
                        number + 1,
                        short(end)
                    ));
                }
            }
            (Some(at), _) if !line[..at].trim().is_empty() => {
                written.values.insert(line[..at].trim().to_owned(), line[at + 1..].to_owned());
            }
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            _ => written.add_problem(format!("line {} is not KEY=value", number + 1)),
        }
    }
    written
}

fn short(text: &str) -> String {
    text.chars().take(63).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, values: &[(&str, &str)], problems: &[&str]) {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
        assert_eq!(parse(text.as_bytes()), Written { values, problems }, "{text:?}");
    }

    #[test]
    fn lines_are_keys_and_values() {
        check("", &[], &[]);
        check(
            "a=1\nb = x y\r\n\n# comment\nurl=http://h/?q=1\na=2",
            &[("a", "2"), ("b", " x y"), ("url", "http://h/?q=1")],
            &[],
        );
        check("empty=", &[("empty", "")], &[]);
        check("\u{feff}a=1", &[("a", "1")], &[]);
        check("a=x<<y", &[("a", "x<<y")], &[]);
    }

    #[test]
    fn a_value_may_have_several_lines() {
        check("notes<<END\none=1\n\n  two\nEND\nb=2", &[("notes", "one=1\n\n  two"), ("b", "2")], &[]);
        check("notes<<END\nEND", &[("notes", "")], &[]);
        check("notes<<END\none\nEND ", &[], &["the value from line 1 on has no last line \"END\""]);
        check("a=1\n<<END\nx\nEND", &[("a", "1")], &["the value from line 2 on has no last line \"END\""]);
    }

    #[test]
    fn a_json_object_is_read_too() {
        check(r#" {"a":"1","b":2.50,"c":true}"#, &[("a", "1"), ("b", "2.5"), ("c", "true")], &[]);
        check(r#"{"a":"1","b":[1]}"#, &[("a", "1")], &["b is neither text nor a number, true or false"]);
        check(r#"{"a":"1","b":"x\u0000"}"#, &[("a", "1")], &["b contains NUL"]);
        let broken = parse(br#"{"a":"hunter2"} trailing"#);
        assert!(broken.values.is_empty() && !broken.problems[0].contains("hunter2"), "{broken:?}");
        assert_eq!(parse("{\"a\":".repeat(10_000).as_bytes()).values.len(), 0);
    }

    #[test]
    fn what_is_no_output_is_a_problem_and_no_more() {
        check("Here they are:\nversion=1", &[("version", "1")], &["line 1 is not KEY=value"]);
        check("=x", &[], &["line 1 is not KEY=value"]);
        assert_eq!(parse("x\n".repeat(100).as_bytes()).problems.len(), MOST_PROBLEMS);
        for binary in [&b"a=\xff\xfe"[..], b"a=1\0", b"\x7fELF\x02\0"] {
            assert_eq!(parse(binary), Written::problem("the file is not UTF-8 text"));
        }
    }
}
