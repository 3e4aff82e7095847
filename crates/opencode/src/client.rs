//! The HTTP API of `opencode serve`. Every request has a time limit: a request that arrives while the server starts
//! is never answered, and a frozen server answers nothing.

use std::{collections::BTreeMap, time::Duration};

use domain::{
    opencode::{message::Message, session::Session},
    run::approval::{Asked, Rule},
};
use reqwest::{Method, RequestBuilder, Response};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Error, Server};

/// Limit of a request: enough for a server under load, short enough to notice a dead one.
pub const REQUEST: Duration = Duration::from_secs(15);
/// Timeout of a request that sends a prompt.
const PROMPT: Duration = Duration::from_secs(30);
/// Limit of a request that returns a conversation or runs a command.
const LONG: Duration = Duration::from_mins(1);
/// Size of the largest answer that is read, in bytes, unless the caller sets another limit.
const MAX_ANSWER: usize = 256 << 20;
/// Levels of subagent sessions that are followed upwards.
const MAX_DEPTH: usize = 8;
/// Subagent sessions of one session that are read.
const MAX_DESCENDANTS: usize = 1000;
/// Permission requests of all sessions that are assigned to their sessions.
const MAX_REQUESTS: usize = 100;

/// An agent of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Agent {
    name: String,
    mode: String,
    permission: Vec<Rule>,
}

/// The agent for requests without an agent name: `build`, or the first that is not a subagent.
fn primary(all: &[Agent]) -> Option<&Agent> {
    let build = all.iter().find(|agent| agent.name == "build");
    build.or_else(|| all.iter().find(|agent| agent.mode != "subagent"))
}

/// State of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    Idle,
    Busy,
    /// It waits before it calls the model again.
    Retry {
        attempt: u64,
        /// Why the last attempt failed.
        message: String,
    },
}

impl Activity {
    /// Parses the status of a session. A status that is not known yet counts as busy: a session must not be left
    /// working because a newer server names its work differently.
    pub fn read(status: &Value) -> Self {
        match status.get("type").and_then(Value::as_str) {
            Some("idle") | None => Self::Idle,
            Some("retry") => Self::Retry {
                attempt: status.get("attempt").and_then(Value::as_u64).unwrap_or_default(),
                message: status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            },
            Some(_) => Self::Busy,
        }
    }
}

/// The answer to a permission request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Allow this call.
    Once,
    /// Allow this and similar calls for the rest of the session.
    Always,
    /// Refuse the call. With a message the agent continues in another way, without one it stops.
    Reject(Option<String>),
}

impl Reply {
    fn body(&self) -> Value {
        match self {
            Self::Once => json!({ "reply": "once" }),
            Self::Always => json!({ "reply": "always" }),
            Self::Reject(None) => json!({ "reply": "reject" }),
            Self::Reject(Some(message)) => json!({ "reply": "reject", "message": message }),
        }
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    server: Server,
    max_answer: usize,
}

impl Client {
    /// A client of `server` that connects with `http`; see [`crate::direct`].
    pub fn new(http: reqwest::Client, server: Server) -> Self {
        Self { http, server, max_answer: MAX_ANSWER }
    }

    /// Fails on answers of more than `bytes`.
    #[must_use]
    pub fn with_max_answer(self, bytes: usize) -> Self {
        Self { max_answer: bytes, ..self }
    }

    /// The server's URL without a trailing slash, for messages.
    pub fn url(&self) -> &str {
        self.server.url.as_str().trim_end_matches('/')
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut url = self.server.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{path}"));
        url.set_query(None);
        let mut request = self.http.request(method, url);
        if let Some(directory) = &self.server.directory {
            request = request.query(&[("directory", directory)]);
        }
        match &self.server.credentials {
            Some(credentials) => request.basic_auth(&credentials.username, Some(&credentials.password)),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Response, Error> {
        let response = request.timeout(limit).send().await.map_err(|error| Error::of_request(&error))?;
        Error::check(response).await
    }

    async fn read<T: DeserializeOwned>(&self, mut response: Response) -> Result<T, Error> {
        let mut bytes = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| Error::of_request(&error))? {
            if bytes.len() + part.len() > self.max_answer {
                return Err(Error::NotOpenCode(format!("the answer exceeds {} bytes", self.max_answer)));
            }
            bytes.extend_from_slice(&part);
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            // Unknown paths answer 200 with a page: a proxy or another program is behind this address.
            Error::NotOpenCode(format!("unexpected answer at column {}", error.column()))
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, Error> {
        self.read(self.send(self.request(Method::GET, path), limit).await?).await
    }

    async fn query<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T, Error> {
        self.read(self.send(self.request(Method::GET, path).query(query), REQUEST).await?).await
    }

    async fn post(&self, path: &str, body: &Value, limit: Duration) -> Result<Response, Error> {
        self.send(self.request(Method::POST, path).json(body), limit).await
    }

    /// Succeeds if the server has a usable configuration. `/global/health` succeeds even with a broken one.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        // The answer contains API keys; it is parsed and dropped.
        self.get::<serde::de::IgnoredAny>("/config", limit).await.map(|_| ())
    }

    /// Creates a session.
    pub async fn create(&self, body: &Value) -> Result<Session, Error> {
        let session: Session = self.read(self.post("/session", body, REQUEST).await?).await?;
        // Without an id, later requests would have another path.
        if session.id.is_empty() {
            return Err(Error::NotOpenCode("a new session has no id".to_owned()));
        }
        Ok(session)
    }

    /// Returns the sessions whose title contains `search`, or all.
    pub async fn sessions(&self, search: Option<&str>) -> Result<Vec<Session>, Error> {
        let query: Vec<(&str, &str)> = search.map(|search| ("search", search)).into_iter().collect();
        self.query("/session", &query).await
    }

    /// Returns a session.
    pub async fn session(&self, id: &str) -> Result<Session, Error> {
        self.get(&path_of(id, ""), REQUEST).await
    }

    /// Returns a session as the server sends it, for callers that pass it on.
    pub async fn raw_session(&self, id: &str) -> Result<Value, Error> {
        self.get(&path_of(id, ""), REQUEST).await
    }

    /// Returns a session and its ancestors, nearest first, up to the first that does not exist.
    pub async fn lineage(&self, id: &str) -> Result<Vec<Session>, Error> {
        let mut line: Vec<Session> = Vec::new();
        let mut next = id.to_owned();
        while line.len() < MAX_DEPTH {
            let session = match self.session(&next).await {
                Err(Error::NotFound(_)) => break,
                session => session?,
            };
            let parent = session.parent.clone();
            line.push(session);
            let Some(parent) = parent else { break };
            next = parent;
        }
        Ok(line)
    }

    /// Returns the sessions that the agent of a session started as subagents, those that they started, and so on.
    pub async fn descendants(&self, id: &str) -> Result<Vec<Session>, Error> {
        let mut found: Vec<Session> = Vec::new();
        let mut parents = vec![id.to_owned()];
        while let Some(parent) = parents.pop() {
            for child in self.get::<Vec<Session>>(&path_of(&parent, "/children"), REQUEST).await? {
                if found.len() == MAX_DESCENDANTS {
                    return Ok(found);
                }
                if child.id != id && found.iter().all(|known| known.id != child.id) {
                    parents.push(child.id.clone());
                    found.push(child);
                }
            }
        }
        Ok(found)
    }

    /// Returns the messages of a session, oldest first.
    pub async fn messages(&self, id: &str) -> Result<Vec<Message>, Error> {
        self.get(&path_of(id, "/message"), LONG).await
    }

    /// Returns the messages as the server sends them, for callers that pass them on.
    pub async fn raw_messages(&self, id: &str) -> Result<Value, Error> {
        self.get(&path_of(id, "/message"), LONG).await
    }

    /// Sends a prompt; the work continues on the server.
    pub async fn prompt(&self, id: &str, body: &Value) -> Result<(), Error> {
        self.post(&path_of(id, "/prompt_async"), body, PROMPT).await.map(|_| ())
    }

    /// Deletes a session with its messages.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.send(self.request(Method::DELETE, &path_of(id, "")), REQUEST).await.map(|_| ())
    }

    async fn agents(&self) -> Result<Vec<Agent>, Error> {
        self.get("/agent", REQUEST).await
    }

    /// Returns the agent for requests without an agent name.
    pub async fn default_agent(&self) -> Result<String, Error> {
        let found = primary(&self.agents().await?).map(|agent| agent.name.clone());
        found.ok_or_else(|| Error::NotFound("an agent that takes commands".to_owned()))
    }

    /// Returns the permission rules of an agent; `None` is the default agent.
    pub async fn rules(&self, agent: Option<&str>) -> Result<Vec<Rule>, Error> {
        let all = self.agents().await?;
        let found = match agent {
            Some(name) => all.iter().find(|agent| agent.name == name),
            None => primary(&all),
        };
        Ok(found.map(|agent| agent.permission.clone()).unwrap_or_default())
    }

    /// Runs a command on the server, in the session's directory, and returns its output.
    pub async fn shell(&self, id: &str, agent: &str, command: &str) -> Result<String, Error> {
        let body = json!({ "agent": agent, "command": command });
        let answer: Value = self.read(self.post(&path_of(id, "/shell"), &body, LONG).await?).await?;
        Ok(output(&answer))
    }

    /// Returns the state of all sessions that are not idle.
    pub async fn activities(&self) -> Result<BTreeMap<String, Activity>, Error> {
        let all: BTreeMap<String, Value> = self.get("/session/status", REQUEST).await?;
        let all = all.into_iter().map(|(id, status)| (id, Activity::read(&status)));
        Ok(all.filter(|(_, activity)| *activity != Activity::Idle).collect())
    }

    /// Returns the state of a session.
    pub async fn activity(&self, id: &str) -> Result<Activity, Error> {
        Ok(self.activities().await?.remove(id).unwrap_or(Activity::Idle))
    }

    /// Aborts the work of a session and its running tools.
    pub async fn abort(&self, id: &str, limit: Duration) -> Result<(), Error> {
        self.post(&path_of(id, "/abort"), &json!({}), limit).await.map(|_| ())
    }

    /// Returns the permission requests of all sessions that wait for an answer.
    pub async fn permissions(&self) -> Result<Vec<Asked>, Error> {
        self.get("/permission", REQUEST).await
    }

    /// Returns the permission requests of a session and its subagents that wait for an answer.
    pub async fn permissions_of(&self, session: &str) -> Result<Vec<Asked>, Error> {
        let mut all = self.permissions().await?;
        all.truncate(MAX_REQUESTS);
        let mut asked = Vec::new();
        for request in all {
            // Upwards from the few sessions that ask: there may be many subagents, and more start at any time.
            if request.session == session
                || self.lineage(&request.session).await?.iter().any(|ancestor| ancestor.id == session)
            {
                asked.push(request);
            }
        }
        Ok(asked)
    }

    /// Returns the permission requests and questions of all sessions that wait for an answer.
    pub async fn asked(&self) -> Result<Vec<Asked>, Error> {
        let mut all = self.permissions().await?;
        all.extend(self.get::<Vec<Asked>>("/question", REQUEST).await?);
        Ok(all)
    }

    /// Answers a permission request.
    pub async fn reply(&self, request: &str, reply: &Reply) -> Result<(), Error> {
        self.post(&format!("/permission/{}/reply", plain(request)), &reply.body(), REQUEST).await.map(|_| ())
    }

    /// Rejects a question.
    pub async fn reject_question(&self, request: &str) -> Result<(), Error> {
        self.post(&format!("/question/{}/reject", plain(request)), &json!({}), REQUEST).await.map(|_| ())
    }

    /// Opens the event stream. The limit applies to the head of the response, or to an error as a whole.
    pub async fn events(&self) -> Result<Response, Error> {
        let opening = async {
            let response = self.request(Method::GET, "/event").send().await;
            Error::check(response.map_err(|error| Error::of_request(&error))?).await
        };
        tokio::time::timeout(REQUEST, opening)
            .await
            .map_err(|_| Error::NoAnswer("the event stream was not opened in time".to_owned()))?
    }
}

/// The path of a session, or of something below it.
fn path_of(session: &str, below: &str) -> String {
    format!("/session/{}{below}", plain(session))
}

/// Ids come from the server or the command line; only their plain characters may enter a path.
fn plain(id: &str) -> String {
    id.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect()
}

/// The output of a command.
fn output(answer: &Value) -> String {
    let parts = answer.get("parts").and_then(Value::as_array).into_iter().flatten();
    let printed = parts.filter_map(|part| part.pointer("/state/output").and_then(Value::as_str));
    printed.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
