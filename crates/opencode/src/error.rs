//! Errors of calls.

use std::error::Error as _;

use reqwest::Response;
use serde_json::Value;

/// Characters of a server's error message to quote.
const MAX_MESSAGE: usize = 500;
/// Size of an error response that is read, in bytes. The server belongs to the agent, which may send any amount.
const MAX_BODY: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The HTTP client could not be created.
    #[error("the HTTP client cannot be created: {0}")]
    Setup(String),
    /// The address is not a URL.
    #[error("`{0}` is not the URL of an OpenCode server")]
    Address(String),
    /// The connection failed; nothing was sent.
    #[error("the OpenCode server cannot be reached: {0}")]
    Unreachable(String),
    /// The request may have been received, but there was no answer.
    #[error("the OpenCode server does not answer: {0}")]
    NoAnswer(String),
    /// Status 401.
    #[error("the OpenCode server rejects the password")]
    Unauthorized,
    /// Status 404.
    #[error("not found: {0}")]
    NotFound(String),
    /// Another status.
    #[error("the OpenCode server answers HTTP {status}: {message}")]
    Status {
        status: u16,
        /// The server's error message, one line.
        message: String,
    },
    /// The answer is not from OpenCode.
    #[error("the address does not belong to an OpenCode server: {0}")]
    NotOpenCode(String),
}

impl Error {
    /// Whether a retry may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::NoAnswer(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Setup(_) | Self::Address(_) | Self::Unauthorized | Self::NotFound(_) | Self::NotOpenCode(_) => false,
        }
    }

    /// The error of a request that got no answer. Only the innermost cause: the others repeat the URL.
    pub(crate) fn of_request(error: &reqwest::Error) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text = inner.to_string();
            cause = inner.source();
        }
        if error.is_timeout() {
            "no answer within the time limit".clone_into(&mut text);
        }
        if error.is_connect() { Self::Unreachable(text) } else { Self::NoAnswer(text) }
    }

    /// The response if it is a success, its error otherwise.
    pub(crate) async fn check(response: Response) -> Result<Response, Self> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.as_u16() == 401 {
            return Err(Self::Unauthorized);
        }
        let message = describe(&start_of(response).await);
        match status.as_u16() {
            404 => Err(Self::NotFound(message)),
            status => Err(Self::Status { status, message }),
        }
    }
}

/// The first [`MAX_BODY`] bytes of a response, or as many as arrive.
async fn start_of(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_BODY
        && let Ok(Some(part)) = response.chunk().await
    {
        body.extend_from_slice(&part[..part.len().min(MAX_BODY - body.len())]);
    }
    body
}

/// OpenCode's errors are `{"name", "data": {"message"}}`; others are repeated as they are, shortened.
fn describe(body: &[u8]) -> String {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = json.pointer("/data/message").or_else(|| json.get("message")).and_then(Value::as_str);
    let text = match (json.get("name").and_then(Value::as_str), message) {
        (Some(name), Some(message)) => format!("{name}: {message}"),
        (Some(name), None) => match json.get("data") {
            Some(data) => format!("{name}: {data}"),
            None => name.to_owned(),
        },
        (None, Some(message)) => message.to_owned(),
        (None, None) => String::from_utf8_lossy(body).into_owned(),
    };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_body_becomes_one_line() {
        let check = |body: &str, expected: &str| assert_eq!(describe(body.as_bytes()), expected);
        check(r#"{"name":"ConfigJsonError","data":{"path":"x","message":"bad\n json"}}"#, "ConfigJsonError: bad json");
        check(r#"{"name":"ConfigInvalidError","data":{"issues":[]}}"#, r#"ConfigInvalidError: {"issues":[]}"#);
        check("<html>\nno</html>", "<html> no</html>");
        check("", "");
    }

    #[test]
    fn only_passing_errors_are_transient() {
        let status = |status| Error::Status { status, message: String::new() };
        for (error, transient) in [
            (Error::Unreachable(String::new()), true),
            (Error::NoAnswer(String::new()), true),
            (status(503), true),
            (status(400), false),
            (Error::Unauthorized, false),
            (Error::NotFound(String::new()), false),
            (Error::NotOpenCode(String::new()), false),
        ] {
            assert_eq!(error.is_transient(), transient, "{error}");
        }
    }
}
