//! The HTTP API of `opencode serve`. Every request has a time limit: a request that arrives while the server starts
//! is never answered, and a frozen server answers nothing.

use std::error::Error as _;
use std::time::Duration;

use kubeopencode_core::approval::{Asked, Rule};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::message::{Message, Tokens};
use crate::trust::{Trust, TrustError};

/// Enough for a server under load, short enough to notice a dead one.
pub const REQUEST: Duration = Duration::from_secs(15);

/// A call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection could not be made; nothing was sent.
    #[error("the OpenCode server cannot be reached: {0}")]
    Refused(String),
    /// The request may have been received, but no answer came.
    #[error("the OpenCode server does not answer: {0}")]
    Silent(String),
    /// 401.
    #[error("the OpenCode server refuses the password; check OPENCODE_SERVER_PASSWORD")]
    Unauthorized,
    /// 404.
    #[error("not found: {0}")]
    NotFound(String),
    /// Another status.
    #[error("the OpenCode server answers HTTP {status}: {message}")]
    Status {
        /// The status.
        status: u16,
        /// The server's own words, one line.
        message: String,
    },
    /// The answer is not what OpenCode answers.
    #[error("what answers is not an OpenCode server: {0}")]
    NotOpenCode(String),
}

impl CallError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Silent(_) => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Unauthorized | Self::NotFound(_) | Self::NotOpenCode(_) => false,
        }
    }
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangedFile {
    /// Its path in the repository.
    #[serde(default)]
    pub file: Option<String>,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
}

/// A session, as far as we read it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Session {
    /// `ses_…`.
    pub id: String,
    /// Price of the whole session.
    pub cost: f64,
    /// Tokens of the whole session.
    pub tokens: Tokens,
    /// What changed, in a git repository.
    pub summary: Option<SessionSummary>,
}

/// What a session changed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SessionSummary {
    /// Number of files.
    pub files: f64,
}

/// An agent, as far as we read it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Agent {
    name: String,
    mode: String,
    permission: Vec<Rule>,
}

fn leading(all: &[Agent]) -> Option<&Agent> {
    let build = all.iter().find(|agent| agent.name == "build");
    build.or_else(|| all.iter().find(|agent| agent.mode != "subagent"))
}

/// Whether a session works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// It is not working.
    Idle,
    /// It is working.
    Busy,
    /// It waits before it asks the model again.
    Retry {
        /// How often.
        attempt: u64,
        /// Why.
        message: String,
    },
}

impl Activity {
    /// Reads a session's status object.
    pub fn read(status: &Value) -> Self {
        match status.get("type").and_then(Value::as_str) {
            Some("busy") => Self::Busy,
            Some("retry") => Self::Retry {
                attempt: status.get("attempt").and_then(Value::as_u64).unwrap_or_default(),
                message: status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            },
            _ => Self::Idle,
        }
    }
}

/// Where the server is and how to log in.
#[derive(Clone)]
pub struct Server {
    /// Its URL.
    pub url: Url,
    /// User.
    pub username: String,
    /// Password, if it has one.
    pub password: Option<String>,
    /// The directory on the server that the session works in; `None` = the server's own.
    pub directory: Option<String>,
}

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    server: Server,
}

impl Client {
    /// A client.
    pub fn new(server: Server, trust: &Trust) -> Result<Self, TrustError> {
        let http = trust.http_client()?.connect_timeout(Duration::from_secs(10)).build()?;
        Ok(Self { http, server })
    }

    /// The server's address, for messages.
    pub fn url(&self) -> &str {
        self.server.url.as_str().trim_end_matches('/')
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.server.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        url.set_path(&format!("{base}{path}"));
        url.set_query((!query.is_empty()).then_some(query));
        let mut request = self.http.request(method, url);
        if let Some(directory) = &self.server.directory {
            request = request.query(&[("directory", directory)]);
        }
        match &self.server.password {
            Some(password) => request.basic_auth(&self.server.username, Some(password)),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Response, CallError> {
        let response = request.timeout(limit).send().await.map_err(|error| unreachable(&error))?;
        check(response).await
    }

    async fn read<T: DeserializeOwned>(response: Response) -> Result<T, CallError> {
        let bytes = response.bytes().await.map_err(|error| unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| {
            // Unknown paths answer 200 with a page: a proxy or another program is behind this address.
            CallError::NotOpenCode(format!("unexpected answer at column {}", error.column()))
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, CallError> {
        Self::read(self.send(self.request(Method::GET, path), limit).await?).await
    }

    async fn post(&self, path: &str, body: &Value, limit: Duration) -> Result<Response, CallError> {
        self.send(self.request(Method::POST, path).json(body), limit).await
    }

    /// Whether the server has a usable configuration. `/global/health` says yes even with a broken one.
    pub async fn ready(&self, limit: Duration) -> Result<(), CallError> {
        // The answer holds API keys; it is read and dropped.
        self.get::<serde::de::IgnoredAny>("/config", limit).await.map(|_| ())
    }

    /// Makes a session.
    pub async fn create(&self, body: &Value) -> Result<Session, CallError> {
        Self::read(self.post("/session", body, REQUEST).await?).await
    }

    /// Reads a session.
    pub async fn session(&self, id: &str) -> Result<Session, CallError> {
        self.get(&format!("/session/{}", plain(id)), REQUEST).await
    }

    /// The sessions of its subagents.
    pub async fn children(&self, id: &str) -> Result<Vec<Session>, CallError> {
        self.get(&format!("/session/{}/children", plain(id)), REQUEST).await
    }

    /// Its messages, oldest first.
    pub async fn messages(&self, id: &str) -> Result<Vec<Message>, CallError> {
        self.get(&format!("/session/{}/message", plain(id)), REQUEST * 4).await
    }

    /// What changed since a message, file by file; nothing outside of git repositories.
    pub async fn changes(&self, id: &str, message: &str) -> Result<Vec<ChangedFile>, CallError> {
        self.get(&format!("/session/{}/diff?messageID={}", plain(id), plain(message)), REQUEST).await
    }

    /// Hands the prompt over; the work goes on in the server.
    pub async fn prompt(&self, id: &str, body: &Value) -> Result<(), CallError> {
        self.post(&format!("/session/{}/prompt_async", plain(id)), body, REQUEST * 2).await.map(|_| ())
    }

    /// Deletes a session with its messages.
    pub async fn delete(&self, id: &str) -> Result<(), CallError> {
        let path = format!("/session/{}", plain(id));
        self.send(self.request(Method::DELETE, &path), REQUEST).await.map(|_| ())
    }

    /// The agent that a request goes to if it names none.
    pub async fn default_agent(&self) -> Result<String, CallError> {
        let all: Vec<Agent> = self.get("/agent", REQUEST).await?;
        let found = leading(&all).map(|agent| agent.name.clone());
        found.ok_or_else(|| CallError::NotFound("an agent that takes commands".to_owned()))
    }

    /// What an agent may do; the one that leads if it has no name.
    pub async fn rules(&self, agent: Option<&str>) -> Result<Vec<Rule>, CallError> {
        let all: Vec<Agent> = self.get("/agent", REQUEST).await?;
        let found = match agent {
            Some(name) => all.iter().find(|agent| agent.name == name),
            None => leading(&all),
        };
        Ok(found.map(|agent| agent.permission.clone()).unwrap_or_default())
    }

    /// Runs a command on the server, in the session's directory, and answers what it printed.
    pub async fn shell(&self, id: &str, agent: &str, command: &str) -> Result<String, CallError> {
        let body = json!({ "agent": agent, "command": command });
        let answer: Value =
            Self::read(self.post(&format!("/session/{}/shell", plain(id)), &body, REQUEST * 4).await?).await?;
        let parts = answer.get("parts").and_then(Value::as_array).into_iter().flatten();
        let printed = parts.filter_map(|part| part.pointer("/state/output").and_then(Value::as_str));
        Ok(printed.collect::<Vec<_>>().join("\n"))
    }

    /// Whether a session works.
    pub async fn activity(&self, id: &str) -> Result<Activity, CallError> {
        let all: serde_json::Map<String, Value> = self.get("/session/status", REQUEST).await?;
        Ok(all.get(id).map_or(Activity::Idle, Activity::read))
    }

    /// Stops the work of a session, with the tools it runs.
    pub async fn abort(&self, id: &str, limit: Duration) -> Result<(), CallError> {
        self.post(&format!("/session/{}/abort", plain(id)), &json!({}), limit).await.map(|_| ())
    }

    /// Requests that wait for an answer, permissions and questions.
    pub async fn asked(&self) -> Result<Vec<Asked>, CallError> {
        let mut all: Vec<Asked> = self.get("/permission", REQUEST).await?;
        all.extend(self.get::<Vec<Asked>>("/question", REQUEST).await?);
        Ok(all)
    }

    /// Answers a request. A question cannot be approved without a person's words, so it is always rejected here.
    pub async fn answer(&self, asked: &Asked, approve: bool) -> Result<(), CallError> {
        let id = plain(&asked.id);
        let (path, body) = if asked.permission.is_empty() {
            (format!("/question/{id}/reject"), json!({}))
        } else {
            let reply = if approve { "once" } else { "reject" };
            (format!("/permission/{id}/reply"), json!({ "reply": reply }))
        };
        self.post(&path, &body, REQUEST).await.map(|_| ())
    }

    /// Opens the event stream. The limit is for the answer's beginning only.
    pub async fn events(&self) -> Result<Response, CallError> {
        let opening = self.request(Method::GET, "/event").send();
        let response = tokio::time::timeout(REQUEST, opening)
            .await
            .map_err(|_| CallError::Silent("the event stream was not opened in time".to_owned()))?
            .map_err(|error| unreachable(&error))?;
        check(response).await
    }
}

/// Ids come from the server or the command line; only their plain characters may enter a path.
fn plain(id: &str) -> String {
    id.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect()
}

async fn check(response: Response) -> Result<Response, CallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status.as_u16() == 401 {
        return Err(CallError::Unauthorized);
    }
    let body = response.bytes().await.unwrap_or_default();
    let message = describe(&body);
    match status.as_u16() {
        404 => Err(CallError::NotFound(message)),
        status => Err(CallError::Status { status, message }),
    }
}

/// OpenCode's errors are `{"name", "data": {"message"}}`; others are shown as they come, shortened.
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
    line.chars().take(500).collect()
}

fn unreachable(error: &reqwest::Error) -> CallError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    if error.is_timeout() {
        "no answer within the time limit".clone_into(&mut text);
    }
    if error.is_connect() { CallError::Refused(text) } else { CallError::Silent(text) }
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
    fn hostile_ids_stay_in_their_place() {
        assert_eq!(plain("ses_1/../../config?x=1#"), "ses_1configx1");
    }

    #[test]
    fn only_troubles_that_pass_are_tried_again() {
        let status = |status| CallError::Status { status, message: String::new() };
        for (error, transient) in [
            (CallError::Refused(String::new()), true),
            (CallError::Silent(String::new()), true),
            (status(503), true),
            (status(400), false),
            (CallError::Unauthorized, false),
            (CallError::NotFound(String::new()), false),
            (CallError::NotOpenCode(String::new()), false),
        ] {
            assert_eq!(error.is_transient(), transient, "{error}");
        }
    }
}
