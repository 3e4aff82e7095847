//! Decides the response to a chat request. Pure, so a table test covers the whole behaviour.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::script::{Ending, Fault, Script, ToolCall};

/// The fields of an OpenAI chat completion request that the scripted model reads.
#[derive(Debug, Clone, Deserialize, Default)]
pub struct ChatRequest {
    /// Echoed in the response.
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub messages: Vec<ChatMessage>,
    #[serde(default)]
    pub stream: bool,
    /// Tools that the client offers.
    #[serde(default)]
    pub tools: Vec<Value>,
}

#[derive(Debug, Clone, Deserialize, Default)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant` or `tool`.
    #[serde(default)]
    pub role: String,
    /// Text, or a list of parts.
    #[serde(default)]
    pub content: Value,
}

impl ChatMessage {
    /// The text of the message; parts are joined by a line break.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                texts.join("\n")
            }
            _ => String::new(),
        }
    }
}

impl ChatRequest {
    fn last_user_message(&self) -> Option<usize> {
        self.messages.iter().rposition(|message| message.role == "user")
    }

    /// The text of the last user message.
    pub fn prompt(&self) -> String {
        self.last_user_message().map(|at| self.messages[at].text()).unwrap_or_default()
    }

    /// Number of tool results after the last user message: the current turn of the script.
    pub fn results(&self) -> usize {
        let after = self.last_user_message().map_or(0, |at| at + 1);
        self.messages[after..].iter().filter(|message| message.role == "tool").count()
    }

    /// OpenCode sends a second request for a session title; that request must not run the script.
    fn wants_a_title(&self) -> bool {
        self.tools.is_empty()
            && self.messages.iter().any(|message| {
                let text = message.text();
                message.role == "system" && (text.contains("title generator") || text.contains("Generate a title"))
            })
    }
}

/// The content of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Call(ToolCall),
    /// Final text and finish reason.
    Text(String, Ending),
}

/// The response to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    Answer(Answer),
    /// A response whose connection breaks in the middle.
    Cut(Answer),
    /// An HTTP error in OpenAI's error format.
    Refuse {
        status: u16,
        message: String,
    },
    /// An HTML page instead of JSON.
    Html,
    /// No response.
    Hang,
}

/// A plan and the delay before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Delay before the first byte.
    pub delay: Duration,
    pub plan: Plan,
}

/// Decides the response to `request`. `seen` is the number of earlier requests with the same conversation, that is
/// retries.
pub fn reply(request: &ChatRequest, seen: u32) -> Reply {
    if request.wants_a_title() {
        let answer = Answer::Text("Scripted session".to_owned(), Ending::Stop);
        return Reply { delay: Duration::ZERO, plan: Plan::Answer(answer) };
    }
    let prompt = request.prompt();
    let script = Script::parse(&prompt);
    let done = request.results();
    let answer = match script.calls.get(done) {
        Some(call) => Answer::Call(call.clone()),
        None => Answer::Text(final_text(&script, &prompt), script.ending),
    };
    // Each fault counts down separately, in order: `[[status 500]] [[cut]]` with times 2 and 1 gives 500, 500, cut,
    // response.
    let mut left = seen;
    for (fault, times) in &script.faults {
        if times.applies_after(left) {
            return Reply { delay: script.delay, plan: faulty(*fault, answer) };
        }
        if let super::script::Times::Count(count) = times {
            left -= count;
        }
    }
    Reply { delay: script.delay, plan: Plan::Answer(answer) }
}

fn faulty(fault: Fault, answer: Answer) -> Plan {
    match fault {
        Fault::Status(status) => Plan::Refuse { status, message: format!("scripted refusal with status {status}") },
        Fault::Html => Plan::Html,
        Fault::Cut => Plan::Cut(answer),
        Fault::Hang => Plan::Hang,
    }
}

fn final_text(script: &Script, prompt: &str) -> String {
    if !script.unknown.is_empty() {
        return format!("Unknown markers: {}. docs/scripted-model.md lists them.", script.unknown.join("; "));
    }
    match &script.say {
        Some(text) => text.clone(),
        None if script == &Script::default() => {
            let subject: String = prompt.lines().next().unwrap_or_default().chars().take(80).collect();
            format!(
                "I am a scripted model and have read: {subject}\n\
                 Markers such as [[say Hello]] or [[bash cmd=\"ls -l\"]] in the description make me act; \
                 `kubeopencode setup` connects a real model."
            )
        }
        None => "Done.".to_owned(),
    }
}

/// A stable, invented token count: about four characters per token, at least one.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64 / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(messages: &[(&str, &str)]) -> ChatRequest {
        ChatRequest {
            messages: messages
                .iter()
                .map(|(role, text)| ChatMessage {
                    role: (*role).to_owned(),
                    content: Value::String((*text).to_owned()),
                })
                .collect(),
            tools: vec![Value::Null],
            ..ChatRequest::default()
        }
    }

    fn text(text: &str) -> Plan {
        Plan::Answer(Answer::Text(text.to_owned(), Ending::Stop))
    }

    #[test]
    fn a_tool_call_comes_first_and_the_text_after_its_result() {
        let prompt = "[[write path=hello.txt text=hi]] [[say Wrote it]]";
        let Plan::Answer(Answer::Call(call)) = reply(&request(&[("user", prompt)]), 0).plan else {
            panic!("expected a tool call")
        };
        assert_eq!(call.tool, "write");
        let after = request(&[("user", prompt), ("assistant", ""), ("tool", "ok")]);
        assert_eq!(reply(&after, 0).plan, text("Wrote it"));
    }

    #[test]
    fn results_of_an_earlier_prompt_do_not_count() {
        let conversation = request(&[
            ("user", "[[bash cmd=ls]]"),
            ("assistant", ""),
            ("tool", "ok"),
            ("assistant", "Done."),
            ("user", "[[bash cmd=pwd]]"),
        ]);
        let Plan::Answer(Answer::Call(call)) = reply(&conversation, 0).plan else { panic!("expected a tool call") };
        assert_eq!(call.arguments["command"], "pwd");
    }

    #[test]
    fn faults_count_down_in_order_and_then_the_script_goes_on() {
        let request = request(&[("user", "[[status 500 times=2]] [[cut]] [[say ok]]")]);
        let plans: Vec<Plan> = (0..4).map(|seen| reply(&request, seen).plan).collect();
        let refused = Plan::Refuse { status: 500, message: "scripted refusal with status 500".to_owned() };
        let cut = Plan::Cut(Answer::Text("ok".to_owned(), Ending::Stop));
        assert_eq!(plans, [refused.clone(), refused, cut, text("ok")]);
    }

    #[test]
    fn a_request_for_a_title_does_not_run_the_script() {
        let mut request = request(&[("system", "You are a title generator."), ("user", "[[hang]]")]);
        request.tools.clear();
        assert_eq!(reply(&request, 0).plan, text("Scripted session"));
    }

    #[test]
    fn a_plain_prompt_gets_a_plain_answer() {
        let plan = reply(&request(&[("user", "Hello\nthere")]), 0).plan;
        let Plan::Answer(Answer::Text(answer, Ending::Stop)) = plan else { panic!("expected a text") };
        assert!(answer.starts_with("I am a scripted model and have read: Hello\n"), "{answer}");
        // It says how to go on: with a script, and with a real model.
        assert!(answer.contains("[[say Hello]]") && answer.contains("`kubeopencode setup`"), "{answer}");
    }

    #[test]
    fn parts_are_read_like_text() {
        let message = ChatMessage {
            role: "user".to_owned(),
            content: serde_json::json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        };
        assert_eq!(message.text(), "a\nb");
    }
}
