//! How a run ended, judged by the messages of its session alone.
//!
//! Exit codes and events of OpenCode are not reliable: the messages are what a person would read.

use crate::{
    contract::{reason::Reason, report::RunReport},
    opencode::{
        changes::Changes,
        message::{Failure, Message, Part},
    },
};

/// Judges a run. A run succeeds if its last answer is complete, has no error and ended with `stop`.
pub fn judge(messages: &[Message]) -> RunReport {
    let mut report = verdict(messages);
    let answers = || messages.iter().filter(|message| message.info.role == "assistant");
    for message in answers() {
        report.usage.add(&message.info.tokens, message.info.cost);
        report.usage.messages += 1;
    }
    let Changes { files, additions, deletions } = Changes::of(answers());
    report.usage.files_changed = files.len() as u64;
    (report.usage.additions, report.usage.deletions) = (Some(additions), Some(deletions));
    report.summary = answers().next_back().map(text_of).unwrap_or_default();
    report
}

fn text_of(message: &Message) -> String {
    let texts = message.parts.iter().filter(|part| part.kind == "text" && !part.synthetic);
    let texts: Vec<&str> = texts.filter_map(|part| part.text.as_deref()).map(str::trim).collect();
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn verdict(messages: &[Message]) -> RunReport {
    let Some(last) = messages.iter().rfind(|message| message.info.role == "assistant") else {
        return RunReport::new(Reason::NoAnswer, "the session ended without any answer of the model");
    };
    if let Some(failure) = &last.info.error {
        return RunReport::from_failure(failure);
    }
    if last.info.time.completed.is_none() {
        let message = "the last answer was never completed: the OpenCode server stopped or lost the run";
        return RunReport::new(Reason::ServerLost, message);
    }
    match last.info.finish.as_deref() {
        Some("stop") => RunReport::succeeded(),
        Some("length") => RunReport::new(Reason::LengthLimit, "the answer was cut at the model's output limit"),
        Some("content-filter") => {
            RunReport::new(Reason::ContentFiltered, "the answer was blocked by the provider's content filter")
        }
        _ if last.parts.iter().any(Part::was_rejected) => {
            let tool = last.parts.iter().find(|part| part.was_rejected()).and_then(|part| part.tool.as_deref());
            let message = format!(
                "the tool {} needed a permission that was rejected; allow it in the Agent's permissions",
                tool.unwrap_or("call")
            );
            RunReport::new(Reason::PermissionRejected, message)
        }
        other => {
            let finish = other.unwrap_or("nothing");
            RunReport::new(Reason::NoAnswer, format!("the session ended with `{finish}` instead of a final answer"))
        }
    }
}

impl RunReport {
    /// The report of a run that ended with an error of OpenCode.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::report::{ReportedTokens, ReportedUsage};

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
        let report = judge(&messages(
            r#"[{"info":{"role":"assistant","time":{"completed":1},"finish":"tool-calls"},"parts":[{"type":"tool","tool":"bash",
               "state":{"status":"error","error":"The user rejected permission to use this specific tool call."}}]}]"#,
        ));
        assert_eq!(report.reason, Reason::PermissionRejected);
        assert!(report.message.contains("bash"), "{}", report.message);
    }

    #[test]
    fn no_answer_at_all_is_a_failure() {
        assert_eq!(judge(&[]).reason, Reason::NoAnswer);
        assert_eq!(judge(&messages(r#"[{"info":{"role":"user"}}]"#)).reason, Reason::NoAnswer);
    }

    #[test]
    fn usage_is_summed_over_the_answers() {
        let report = judge(&messages(
            r#"[{"info":{"role":"user","cost":9}},
               {"info":{"role":"assistant","cost":0.5,"tokens":{"input":10,"output":1,"cache":{"read":3,"write":4}}},
                "parts":[{"type":"tool","tool":"write","state":{"status":"completed","input":{"filePath":"a","content":"1\n2"}}},
                         {"type":"tool","tool":"edit","state":{"status":"completed","input":{"filePath":"a"}}},
                         {"type":"tool","tool":"write","state":{"status":"error","input":{"filePath":"b"}}}]},
               {"info":{"role":"assistant","cost":0.25,"tokens":{"input":20,"output":2},"time":{"completed":1},"finish":"stop"},
                "parts":[{"type":"text","text":" All done. "},{"type":"text","text":"x","synthetic":true}]}]"#,
        ));
        let tokens = ReportedTokens { input: 30, output: 3, reasoning: 0, cache_read: 3, cache_write: 4 };
        assert_eq!(
            report.usage,
            ReportedUsage { tokens, cost: 0.75, messages: 2, files_changed: 1, additions: Some(2), deletions: Some(0) }
        );
        assert_eq!(report.summary, "All done.");
    }
}
