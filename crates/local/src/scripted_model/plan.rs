//! The decision: given a chat request, what the model answers. Pure, so the whole behaviour is a table test.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::script::{Ending, Fault, Script, ToolCall};

/// The part of an OpenAI chat completion request that the scripted model looks at.
#[derive(Debug, Clone, Deserialize, Default)]
pub struct ChatRequest {
    /// The model's name; it is only echoed.
    #[serde(default)]
    pub model: String,
    /// The conversation.
    #[serde(default)]
    pub messages: Vec<ChatMessage>,
    /// Whether the answer is streamed.
    #[serde(default)]
    pub stream: bool,
    /// Tools on offer.
    #[serde(default)]
    pub tools: Vec<Value>,
}

/// One message of the conversation.
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
    /// The message's text; parts are joined by a line break.
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

    /// How many tool results came after the last user message: the turn the script is in.
    pub fn results(&self) -> usize {
        let after = self.last_user_message().map_or(0, |at| at + 1);
        self.messages[after..].iter().filter(|message| message.role == "tool").count()
    }

    /// OpenCode asks a second time for a session title; that request must not run the script.
    fn wants_a_title(&self) -> bool {
        self.tools.is_empty()
            && self.messages.iter().any(|message| {
                let text = message.text();
                message.role == "system" && (text.contains("title generator") || text.contains("Generate a title"))
            })
    }
}

/// What the model says in one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// One tool call.
    Call(ToolCall),
    /// Text, and why it ends.
    Text(String, Ending),
}

/// What the server does with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// A normal answer.
    Answer(Answer),
    /// An answer whose connection breaks half way.
    Cut(Answer),
    /// An HTTP error in OpenAI's error shape.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// What a person reads.
        message: String,
    },
    /// A page where JSON is expected.
    Html,
    /// Silence.
    Hang,
}

/// A plan, and how long to wait before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Wait before the first byte.
    pub delay: Duration,
    /// What follows.
    pub plan: Plan,
}

/// Decides the answer to `request`. `seen` counts earlier requests with the same conversation, that is retries.
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
    // Each fault counts down on its own, in order: `[[status 500]] [[cut]]` with times 2 and 1 is 500, 500, cut, answer.
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
        return format!(
            "I do not understand: {}. The grammar is documented in scripted_model.",
            script.unknown.join("; ")
        );
    }
    match &script.say {
        Some(text) => text.clone(),
        None if script == &Script::default() => {
            let subject: String = prompt.lines().next().unwrap_or_default().chars().take(80).collect();
            format!("I am a scripted model and have read: {subject}")
        }
        None => "Done.".to_owned(),
    }
}

/// A stable, made-up token count: about four characters a token, at least one.
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
        assert_eq!(plan, text("I am a scripted model and have read: Hello"));
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
