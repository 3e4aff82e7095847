//! The parts of OpenCode's messages that we read.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// `null` and absent are the same.
pub(super) fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// One message of a session with its parts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Message {
    pub info: Info,
    /// Text, tool calls, steps.
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// Metadata of a message.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Info {
    /// `msg_…`.
    pub id: String,
    /// `user` or `assistant`.
    pub role: String,
    #[serde(deserialize_with = "lenient")]
    pub time: Time,
    /// `None` unless the message failed.
    pub error: Option<Failure>,
    /// In dollars.
    #[serde(deserialize_with = "lenient")]
    pub cost: f64,
    #[serde(deserialize_with = "lenient")]
    pub tokens: Tokens,
    /// `stop`, `tool-calls`, `length`, `content-filter`, `unknown`.
    pub finish: Option<String>,
}

/// Times in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Time {
    /// `None` while the message is incomplete.
    pub completed: Option<f64>,
    /// End of a part.
    pub end: Option<f64>,
}

/// Tokens of a message or a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    #[serde(deserialize_with = "lenient")]
    pub input: f64,
    #[serde(deserialize_with = "lenient")]
    pub output: f64,
    #[serde(deserialize_with = "lenient")]
    pub reasoning: f64,
    #[serde(deserialize_with = "lenient")]
    pub cache: CacheTokens,
}

/// Tokens of the provider's cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheTokens {
    #[serde(deserialize_with = "lenient")]
    pub read: f64,
    #[serde(deserialize_with = "lenient")]
    pub write: f64,
}

/// An error of a message or a session.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// `APIError`, `UnknownError`, `MessageAbortedError`, …
    pub name: String,
    /// A system error code, if there is no name.
    pub code: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub data: FailureData,
}

/// Details of an error. Response body and headers are left out on purpose: they may repeat secrets of the request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FailureData {
    /// For people.
    pub message: Option<String>,
    /// HTTP status of the provider.
    #[serde(rename = "statusCode")]
    pub status: Option<u16>,
}

impl Failure {
    /// Text for people: the first line, without the stack trace that some errors contain.
    pub fn text(&self) -> String {
        let message = self.data.message.as_deref().unwrap_or_default();
        let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let line: String = line.chars().take(600).collect();
        match (line.is_empty(), self.data.status) {
            (false, Some(status)) => format!("the model answered HTTP {status}: {line}"),
            (false, None) => line,
            (true, Some(status)) => format!("the model answered HTTP {status}"),
            (true, None) => self.code.clone().unwrap_or_else(|| self.name.clone()),
        }
    }
}

/// One part of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// `prt_…`.
    pub id: String,
    /// ID of its message.
    #[serde(rename = "messageID")]
    pub message: String,
    /// `text`, `reasoning`, `tool`, `step-start`, `step-finish`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Of `text` and `reasoning`.
    pub text: Option<String>,
    /// Created by OpenCode, not by the model or the user.
    #[serde(deserialize_with = "lenient")]
    pub synthetic: bool,
    /// Of `tool`: name of the tool.
    pub tool: Option<String>,
    /// Of `tool`: state of the call.
    pub state: Option<ToolState>,
    /// Of `step-finish`: as [`Info::finish`].
    pub reason: Option<String>,
    /// Of `step-finish`.
    #[serde(deserialize_with = "lenient")]
    pub cost: f64,
    /// Of `step-finish`.
    #[serde(deserialize_with = "lenient")]
    pub tokens: Tokens,
    /// Of `text`.
    #[serde(deserialize_with = "lenient")]
    pub time: Time,
}

/// State of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolState {
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// Arguments of the call.
    pub input: Value,
    /// A short description.
    pub title: Option<String>,
    /// Error message, if the call failed.
    pub error: Option<String>,
    /// Depends on the tool; bash sets `exit`.
    pub metadata: Value,
}

impl Part {
    /// Tool and state of a finished call; `None` for any other part.
    pub fn ended_tool(&self) -> Option<(&str, &ToolState)> {
        let state = self.state.as_ref().filter(|state| matches!(state.status.as_str(), "completed" | "error"))?;
        Some((self.tool.as_deref().unwrap_or("tool"), state))
    }

    /// Whether this tool call was refused by a person or a policy, which ends OpenCode's loop.
    pub fn was_rejected(&self) -> bool {
        self.state
            .as_ref()
            .and_then(|state| state.error.as_deref())
            .is_some_and(|error| error.contains("rejected permission") || error.contains("dismissed this question"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_message_is_read() {
        let message: Message = serde_json::from_str(
            r#"{"info":{"id":"msg_1","sessionID":"ses_1","role":"assistant","time":{"created":1,"completed":2},
              "cost":0.002417,"tokens":{"total":2408,"input":2399,"output":9,"reasoning":0,"cache":{"read":0,"write":0}},
              "finish":"tool-calls","path":{"cwd":"/w","root":"/"}},
              "parts":[{"id":"prt_1","messageID":"msg_1","type":"tool","callID":"c","tool":"write","state":{"status":"completed",
              "input":{"filePath":"hello.txt","content":"hi"},"output":"Wrote file successfully.","title":"hello.txt",
              "metadata":{"filepath":"/w/hello.txt"},"time":{"start":1,"end":2}}}]}"#,
        )
        .unwrap();
        assert_eq!(message.info.finish.as_deref(), Some("tool-calls"));
        assert!(message.parts[0].ended_tool().is_some_and(|(tool, _)| tool == "write"));
    }

    #[test]
    fn nulls_and_missing_fields_are_fine() {
        let message: Message =
            serde_json::from_str(r#"{"info":{"role":"assistant","error":null,"tokens":null,"cost":null}}"#).unwrap();
        assert_eq!(message.info.error, None);
    }

    #[test]
    fn an_error_is_one_line_with_its_status() {
        let check = |json: &str, expected: &str| {
            assert_eq!(serde_json::from_str::<Failure>(json).unwrap().text(), expected);
        };
        check(
            r#"{"name":"APIError","data":{"message":"no credit\n  at x","statusCode":402,"responseBody":"secret"}}"#,
            "the model answered HTTP 402: no credit",
        );
        check(r#"{"name":"UnknownError","data":{"message":"\nModel not found: a/b\n at"}}"#, "Model not found: a/b");
        check(r#"{"code":"ECONNRESET"}"#, "ECONNRESET");
        check(r#"{"name":"MessageOutputLengthError","data":{}}"#, "MessageOutputLengthError");
    }
}
