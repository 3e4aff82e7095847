//! The grammar of scripts: what a prompt can make the scripted model do.
//!
//! A script is the list of markers in the last user message, in order. A marker is `[[verb arguments]]`. An argument is
//! `name=value`; a value is one word or a `"quoted string"` with `\"`, `\\`, `\n` and `\t`. The text
//! after `say` up to `]]` is used verbatim. Text outside of markers is ignored.
//!
//! | marker | effect |
//! |---|---|
//! | `[[say TEXT]]` | finishes with this text (default: `Done.`) |
//! | `[[write path=P text=T]]` | calls the tool `write` |
//! | `[[bash cmd=C]]` | calls the tool `bash` |
//! | `[[tool name=N args=JSON]]` | calls any tool |
//! | `[[status CODE times=N]]` | responds with this HTTP status, N times (default: always), then continues |
//! | `[[delay 3s]]` | waits before every response (`250ms`, `3s`, `2m`) |
//! | `[[hang]]` | never sends the response headers |
//! | `[[html times=N]]` | responds 200 with an HTML page, as a misconfigured proxy does |
//! | `[[cut times=N]]` | breaks the connection in the middle of the text (default: once) |
//! | `[[length]]` | finishes with reason `length` |
//! | `[[content-filter]]` | finishes with reason `content_filter` |
//!
//! One tool call per turn, in order; the final text follows when every call has a result.

use std::time::Duration;

use units::duration::parse_or_seconds;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The name under which the client offers the tool.
    pub tool: String,
    pub arguments: serde_json::Value,
}

/// How often a fault is repeated before the script continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Count(u32),
    Always,
}

impl Times {
    /// Whether the fault still applies after `seen` requests of the same turn.
    pub fn applies_after(self, seen: u32) -> bool {
        match self {
            Times::Count(count) => seen < count,
            Times::Always => true,
        }
    }
}

/// A simulated failure of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An HTTP error with this status.
    Status(u16),
    /// An HTML page instead of a response.
    Html,
    /// The connection breaks in the middle.
    Cut,
    /// No response.
    Hang,
}

/// The finish reason of the final text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    #[default]
    Stop,
    /// The output limit was reached.
    Length,
    /// The provider's content filter was triggered.
    ContentFilter,
}

impl Ending {
    /// The value of `finish_reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Stop => "stop",
            Ending::Length => "length",
            Ending::ContentFilter => "content_filter",
        }
    }
}

/// The script of one prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Tool calls, one per turn.
    pub calls: Vec<ToolCall>,
    /// The final text, if the prompt contains one.
    pub say: Option<String>,
    /// Faults, in order; the first that still applies is used.
    pub faults: Vec<(Fault, Times)>,
    /// Delay before every response.
    pub delay: Duration,
    /// Finish reason of the final text.
    pub ending: Ending,
    /// Markers that were not recognized; the final text names them, so that a typo is visible.
    pub unknown: Vec<String>,
}

impl Script {
    /// Parses the markers of a prompt. Never fails: unrecognized markers are collected in `unknown`.
    pub fn parse(prompt: &str) -> Self {
        let mut script = Self::default();
        let mut rest = prompt;
        while let Some(start) = rest.find("[[") {
            let body = &rest[start + 2..];
            let Some(end) = end_of_marker(body) else { break };
            script.add(body[..end].trim());
            rest = &body[end + 2..];
        }
        script
    }

    fn add(&mut self, marker: &str) {
        let (verb, rest) = marker.split_once(char::is_whitespace).unwrap_or((marker, ""));
        let arguments = Arguments::parse(rest);
        let understood = match verb {
            "say" => {
                self.say = Some(unquote(rest.trim()));
                true
            }
            "write" => self.call("write", || {
                let (path, text) = (arguments.get("path")?, arguments.get("text").unwrap_or_default());
                Some(serde_json::json!({ "filePath": path, "content": text }))
            }),
            "bash" => self.call("bash", || {
                let command = arguments.get("cmd")?;
                Some(serde_json::json!({ "command": command, "description": "Runs the scripted command" }))
            }),
            "tool" => match arguments.get("name") {
                Some(name) => self.call(&name, || {
                    let json = arguments.get("args").unwrap_or_else(|| "{}".to_owned());
                    serde_json::from_str(&json).ok()
                }),
                None => false,
            },
            "status" => match arguments.word(0).and_then(|word| word.parse::<u16>().ok()) {
                Some(status @ 100..=599) => self.fault(Fault::Status(status), arguments.times(Times::Always)),
                _ => false,
            },
            "html" => self.fault(Fault::Html, arguments.times(Times::Always)),
            "cut" => self.fault(Fault::Cut, arguments.times(Times::Count(1))),
            "hang" => self.fault(Fault::Hang, arguments.times(Times::Always)),
            "delay" => match arguments.word(0).and_then(|word| parse_or_seconds(&word)) {
                Some(delay) => {
                    self.delay = delay;
                    true
                }
                None => false,
            },
            "length" => {
                self.ending = Ending::Length;
                true
            }
            "content-filter" => {
                self.ending = Ending::ContentFilter;
                true
            }
            _ => false,
        };
        if !understood {
            self.unknown.push(marker.to_owned());
        }
    }

    fn call(&mut self, tool: &str, arguments: impl FnOnce() -> Option<serde_json::Value>) -> bool {
        match arguments() {
            Some(arguments) => {
                self.calls.push(ToolCall { tool: tool.to_owned(), arguments });
                true
            }
            None => false,
        }
    }

    fn fault(&mut self, fault: Fault, times: Times) -> bool {
        self.faults.push((fault, times));
        true
    }
}

/// Where `]]` closes the marker, ignoring quoted text.
fn end_of_marker(body: &str) -> Option<usize> {
    let bytes = body.as_bytes();
    let (mut quoted, mut at) = (false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b']' if !quoted && bytes.get(at + 1) == Some(&b']') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    // An unbalanced quotation mark in plain text (`[[say it's 5"]]`) must not swallow the rest of the prompt.
    body.find("]]")
}

fn unquote(text: &str) -> String {
    if text.len() >= 2 && text.starts_with('"') && text.ends_with('"') {
        let mut chars = text[1..text.len() - 1].chars();
        read_quoted(&mut chars)
    } else {
        text.to_owned()
    }
}

fn read_quoted(chars: &mut std::str::Chars<'_>) -> String {
    let mut value = String::new();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(other) => value.push(other),
                None => break,
            },
            other => value.push(other),
        }
    }
    value
}

#[derive(Default)]
struct Arguments {
    named: Vec<(String, String)>,
    words: Vec<String>,
}

impl Arguments {
    fn parse(text: &str) -> Self {
        let mut arguments = Self::default();
        let mut chars = text.chars();
        loop {
            let rest = chars.as_str().trim_start();
            if rest.is_empty() {
                return arguments;
            }
            chars = rest.chars();
            let mut word = String::new();
            let mut name = None;
            loop {
                match chars.clone().next() {
                    None => break,
                    Some(char) if char.is_whitespace() => break,
                    Some('"') => {
                        chars.next();
                        word.push_str(&read_quoted(&mut chars));
                    }
                    Some('=') if name.is_none() => {
                        chars.next();
                        name = Some(std::mem::take(&mut word));
                    }
                    Some(char) => {
                        chars.next();
                        word.push(char);
                    }
                }
            }
            match name {
                Some(name) => arguments.named.push((name, word)),
                None => arguments.words.push(word),
            }
        }
    }

    fn get(&self, name: &str) -> Option<String> {
        self.named.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    fn word(&self, index: usize) -> Option<String> {
        self.words.get(index).cloned()
    }

    fn times(&self, default: Times) -> Times {
        match self.get("times").as_deref() {
            Some("always") => Times::Always,
            Some(count) => count.parse().map_or(default, Times::Count),
            None => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, arguments: serde_json::Value) -> ToolCall {
        ToolCall { tool: tool.to_owned(), arguments }
    }

    #[test]
    fn a_prompt_without_markers_has_an_empty_script() {
        assert_eq!(Script::parse("Please fix the bug in a[[0]"), Script::default());
    }

    #[test]
    fn tool_calls_keep_their_order_and_their_quoting() {
        let script = Script::parse(
            r#"Do it [[write path=a.txt text="two words, \"quoted\" ]] \n"]] then [[bash cmd="echo hi"]] [[say All is done]]"#,
        );
        assert_eq!(
            script.calls,
            [
                call("write", serde_json::json!({"filePath": "a.txt", "content": "two words, \"quoted\" ]] \n"})),
                call("bash", serde_json::json!({"command": "echo hi", "description": "Runs the scripted command"})),
            ]
        );
        assert_eq!(script.say.as_deref(), Some("All is done"));
        assert_eq!(script.unknown, Vec::<String>::new());
    }

    #[test]
    fn faults_know_how_often_they_apply() {
        let script = Script::parse("[[status 500 times=2]] [[html]] [[cut]] [[hang]] [[delay 250ms]]");
        assert_eq!(
            script.faults,
            [
                (Fault::Status(500), Times::Count(2)),
                (Fault::Html, Times::Always),
                (Fault::Cut, Times::Count(1)),
                (Fault::Hang, Times::Always),
            ]
        );
        assert_eq!(script.delay, Duration::from_millis(250));
    }

    #[test]
    fn a_typing_error_is_reported_not_ignored() {
        let script =
            Script::parse("[[wirte path=x]] [[status abc]] [[write text=x]] [[delay soon]] [[tool name=x args={]]");
        assert_eq!(script.unknown, ["wirte path=x", "status abc", "write text=x", "delay soon", "tool name=x args={"]);
    }

    #[test]
    fn an_odd_quotation_mark_does_not_swallow_the_next_marker() {
        let script = Script::parse(r#"[[say it is 5" wide]] [[length]]"#);
        assert_eq!(script.say.as_deref(), Some(r#"it is 5" wide"#));
        assert_eq!(script.ending, Ending::Length);
    }

    #[test]
    fn any_tool_can_be_called_with_json() {
        let script = Script::parse(r#"[[tool name=demo_add args="{\"a\":1}"]]"#);
        assert_eq!(script.calls, [call("demo_add", serde_json::json!({"a": 1}))]);
    }
}
