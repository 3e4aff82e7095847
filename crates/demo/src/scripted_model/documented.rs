//! docs/scripted-model.md is true: its examples are played, and its table names every marker.

use std::time::Duration;

use serde_json::Value;

use super::plan::{Answer, ChatMessage, ChatRequest, Plan, reply};
use super::script::{Ending, Script};

const PAGE: &str = include_str!("../../../../docs/scripted-model.md");

fn message(role: &str, text: &str) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content: Value::String(text.to_owned()) }
}

/// The responses to a description, as a client gets them that retries and answers every tool call.
fn play(description: &str) -> String {
    let mut request = ChatRequest {
        messages: vec![message("user", description)],
        tools: vec![Value::Null],
        ..ChatRequest::default()
    };
    let mut lines = Vec::new();
    let mut seen = 0;
    let mut waited = false;
    loop {
        let answer = reply(&request, seen);
        if answer.delay > Duration::ZERO && !waited {
            lines.push(format!("wait {:?}", answer.delay));
            waited = true;
        }
        let line = match answer.plan {
            Plan::Answer(Answer::Call(call)) => {
                lines.push(format!("call {} {}", call.tool, call.arguments));
                request.messages.extend([message("assistant", ""), message("tool", "ok")]);
                seen = 0;
                continue;
            }
            Plan::Answer(Answer::Text(text, Ending::Stop)) => {
                lines.push(format!("text {text}"));
                break;
            }
            Plan::Answer(Answer::Text(text, ending)) => {
                lines.push(format!("text ({}) {text}", ending.as_str()));
                break;
            }
            Plan::Cut(_) => "cut".to_owned(),
            Plan::Refuse { status, .. } => format!("http {status}"),
            Plan::Html => "html".to_owned(),
            Plan::Hang => "hang".to_owned(),
        };
        lines.push(line);
        seen += 1;
        // A fault without end looks the same after any number of retries.
        if reply(&request, seen).plan == reply(&request, 1000).plan
            && reply(&request, 1000).plan == reply(&request, 0).plan
        {
            break;
        }
    }
    lines.join("\n")
}

/// The content of every block with this language.
fn blocks<'a>(language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence).skip(1).filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block)).collect()
}

#[test]
fn every_example_does_what_the_page_says() {
    let (descriptions, transcripts) = (blocks("text"), blocks("transcript"));
    assert!(descriptions.len() >= 9);
    assert_eq!(descriptions.len(), transcripts.len());
    for (description, transcript) in descriptions.iter().zip(transcripts) {
        assert_eq!(play(description), transcript, "{description}");
    }
}

#[test]
fn every_marker_is_in_the_table_and_has_an_example() {
    let rows: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("| `[[")).collect();
    let verbs: Vec<_> = rows.iter().filter_map(|row| row.split([' ', ']']).next()).collect();
    let known = ["say", "write", "bash", "tool", "delay", "status", "html", "cut", "hang", "length", "content-filter"];
    assert_eq!(verbs, known);
    for verb in known {
        assert!(blocks("text").iter().any(|text| text.contains(&format!("[[{verb}"))), "no example of {verb}");
    }
    // The commands of the page call it with markers that exist.
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        assert_eq!(Script::parse(line).unknown, Vec::<String>::new(), "{line}");
    }
}
