//! The OpenCode server of an Agent, as far as the controllers talk to it: what its sessions ask, which of them outlived
//! their runs, and what Tasks left in its workspace.
//!
//! It is reached at the address of its own Pod, never through a proxy: that needs no DNS and works wherever Pods can be
//! reached. Every call is bounded in time and size, and no text holds the password.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use api::{
    Agent,
    conditions::reasons,
    names::{defaults, labels},
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kubeopencode_core::{agent_workload::password_ref, approval::Asked};
use observe::Key;
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;

/// A Pod is near, or not reachable at all.
const CONNECT: Duration = Duration::from_secs(3);
/// A server under load needs seconds; a request that arrives while it starts is never answered.
const LIMIT: Duration = Duration::from_secs(15);
/// A command on the server may take longer than an answer.
const COMMAND: Duration = Duration::from_mins(1);
/// Requests that wait, and directories of Tasks, take kilobytes.
const MOST_BYTES: usize = 4 << 20;
/// The user that OpenCode expects with a password.
const USER: &str = "opencode";

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not give its password, or did not take what it said.
    #[error("the API server did not answer: {0}")]
    Api(#[from] kube::Error),
    /// There is no password where it should be.
    #[error("Secret '{0}' does not hold the password of the Agent's server")]
    NoPassword(String),
    /// There is nothing to reach it with.
    #[error("the Agent's server cannot be asked: {0}")]
    NoClient(#[from] reqwest::Error),
    /// Nobody answers.
    #[error("the Agent's server {0}")]
    Silent(&'static str),
    /// It answers no.
    #[error("the Agent's server answered {0}")]
    Refused(StatusCode),
    /// It answers something else.
    #[error("what answers at the Agent's address is no OpenCode server")]
    NotOpenCode,
}

impl Error {
    /// Stable word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => reasons::APPLY_FAILED,
            Self::NoPassword(_) => reasons::SECRET_MISSING,
            Self::NoClient(_) | Self::Silent(_) | Self::Refused(_) | Self::NotOpenCode => {
                reasons::AGENT_SERVER_NOT_READY
            }
        }
    }
}

/// A server that can be reached.
#[derive(Clone)]
pub struct Server {
    http: reqwest::Client,
    address: SocketAddr,
    password: Option<String>,
}

/// Reaches servers, and keeps those with their passwords that are asked every other second: a Secret is not read each
/// time.
///
/// The client is made when there is a server: a platform without Agents need not know how to speak to one.
#[derive(Default)]
pub struct Servers {
    http: OnceLock<reqwest::Client>,
    kept: Mutex<HashMap<Key, Server>>,
}

impl Servers {
    fn client(&self) -> Result<&reqwest::Client, Error> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT).user_agent("kubeopencode");
        // Inside the cluster they speak plain HTTP: the certificates of all the world can stay on the disk.
        let made = builder.tls_certs_only([]).build()?;
        Ok(self.http.get_or_init(|| made))
    }

    /// The server of an Agent; nothing if no Pod of it is ready.
    pub async fn of(&self, ctx: &Context, agent: &Agent) -> Result<Option<Server>, Error> {
        let Some(address) = address(ctx, agent) else { return Ok(None) };
        let password = password(ctx, agent).await?;
        Ok(Some(Server { http: self.client()?.clone(), address, password }))
    }

    /// The same, kept until it is forgotten.
    pub async fn keep(&self, ctx: &Context, agent: &Agent) -> Result<Option<Server>, Error> {
        let key = Key::of(agent);
        let address = address(ctx, agent);
        let kept = self.lock().get(&key).filter(|kept| Some(kept.address) == address).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        let found = self.of(ctx, agent).await?;
        if let Some(server) = &found {
            self.lock().insert(key, server.clone());
        }
        Ok(found)
    }

    /// Nobody asks it any more, or its password is another one.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Server>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The password of an Agent's server, if it has one.
async fn password(ctx: &Context, agent: &Agent) -> Result<Option<String>, Error> {
    let Some(reference) = password_ref(&agent.name_any(), agent.spec.server.as_ref()) else { return Ok(None) };
    let secrets = ctx.api::<Secret>(&agent.namespace().unwrap_or_default());
    let data = secrets.get_opt(&reference.name).await?.and_then(|secret| secret.data).unwrap_or_default();
    let value = data.get(&reference.key).and_then(|value| String::from_utf8(value.0.clone()).ok());
    value.map(Some).ok_or(Error::NoPassword(reference.name))
}

impl Server {
    /// What waits for a person's answer, in all sessions.
    pub async fn asked(&self) -> Result<Vec<Asked>, Error> {
        let mut asked: Vec<Asked> = self.get("/permission").await?;
        asked.extend(self.get::<Vec<Asked>>("/question").await?);
        Ok(asked)
    }

    /// A session, if it exists.
    pub async fn session(&self, id: &str) -> Result<Option<Value>, Error> {
        match self.get(&format!("/session/{}", plain(id))).await {
            Err(Error::Refused(StatusCode::NOT_FOUND)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Sessions that the server works for now.
    pub async fn busy(&self) -> Result<Vec<String>, Error> {
        let all: serde_json::Map<String, Value> = self.get("/session/status").await?;
        Ok(all.into_iter().filter(|(_, state)| state["type"] != "idle").map(|(id, _)| id).collect())
    }

    /// Ends what the server does for a session.
    pub async fn abort(&self, session: &str) -> Result<(), Error> {
        let path = format!("/session/{}/abort", plain(session));
        self.send::<Value>(Method::POST, &path, Some(&json!({})), LIMIT).await.map(drop)
    }

    /// Names of the directories in a directory of the workspace; none if it does not exist.
    pub async fn directories(&self, path: &str) -> Result<Vec<String>, Error> {
        // Of what does not exist it only says that something went wrong, so we look on the way there.
        let mut here = ".".to_owned();
        for part in path.split('/') {
            if !self.directories_in(&here).await?.iter().any(|name| name == part) {
                return Ok(Vec::new());
            }
            here = format!("{here}/{part}");
        }
        self.directories_in(&here).await
    }

    async fn directories_in(&self, path: &str) -> Result<Vec<String>, Error> {
        let found: Vec<Value> = self.get(&format!("/file?path={path}")).await?;
        let directories = found.iter().filter(|entry| entry["type"] == "directory");
        Ok(directories.filter_map(|entry| entry["name"].as_str()).map(str::to_owned).collect())
    }

    /// Runs commands beside the server, and answers what each printed. They run in a session of their own, which goes
    /// away: no model reads it.
    pub async fn run(&self, title: &str, commands: &[String]) -> Result<Vec<String>, Error> {
        let agents: Vec<Value> = self.get("/agent").await?;
        let agent = shell_agent(&agents).ok_or(Error::NotOpenCode)?;
        let session: Value = self.send(Method::POST, "/session", Some(&json!({ "title": title })), LIMIT).await?;
        let session = plain(session["id"].as_str().ok_or(Error::NotOpenCode)?);
        let mut printed = Vec::new();
        let mut outcome = Ok(());
        for command in commands {
            let body = json!({ "agent": agent, "command": command });
            match self.send(Method::POST, &format!("/session/{session}/shell"), Some(&body), COMMAND).await {
                Ok(answer) => printed.push(output(&answer)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // A session that stays behind is untidy and nothing else.
        let _ = self.send::<Value>(Method::DELETE, &format!("/session/{session}"), None, LIMIT).await;
        outcome.map(|()| printed)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.send(Method::GET, path, None, LIMIT).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<T, Error> {
        let mut request = self.http.request(method, format!("http://{}{path}", self.address)).timeout(limit);
        if let Some(password) = &self.password {
            request = request.basic_auth(USER, Some(password));
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut answer = request.send().await.map_err(|error| silent(&error))?;
        if !answer.status().is_success() {
            return Err(Error::Refused(answer.status()));
        }
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| silent(&error))? {
            bytes.extend_from_slice(&part);
            if bytes.len() > MOST_BYTES {
                return Err(Error::NotOpenCode);
            }
        }
        // Unknown paths answer 200 with a page.
        serde_json::from_slice(&bytes).map_err(|_| Error::NotOpenCode)
    }
}

/// Where the server of an Agent listens: its newest Pod that is ready.
fn address(ctx: &Context, agent: &Agent) -> Option<SocketAddr> {
    let port = u16::try_from(agent.spec.port.unwrap_or(defaults::PORT)).ok()?;
    let pods = pods(ctx, agent);
    let ready = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
    let newest = ready.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))?;
    let address: IpAddr = newest.status.as_ref()?.pod_ip.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(address, port))
}

/// The Pods of an Agent's server.
pub fn pods(ctx: &Context, agent: &Agent) -> Vec<Arc<Pod>> {
    let name = agent.name_any();
    ctx.seen.pods.in_namespace(&agent.namespace().unwrap_or_default(), |pod| agent_of(pod) == Some(&name))
}

/// The Agent whose server a Pod is.
pub fn agent_of(pod: &Pod) -> Option<&String> {
    let labels = pod.labels();
    labels.get(labels::AGENT).filter(|_| labels.get(labels::APP_COMPONENT).is_some_and(|part| part == "server"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The agent that takes commands: the usual one, or the first that leads.
fn shell_agent(all: &[Value]) -> Option<&str> {
    let build = all.iter().find(|agent| agent["name"] == "build");
    let leads = || all.iter().find(|agent| agent["mode"] != "subagent");
    build.or_else(leads).and_then(|agent| agent["name"].as_str())
}

/// What a command printed.
fn output(answer: &Value) -> String {
    let parts = answer["parts"].as_array().into_iter().flatten();
    let printed = parts.filter_map(|part| part.pointer("/state/output").and_then(Value::as_str));
    printed.collect::<Vec<_>>().join("\n")
}

/// Ids come from the server; only their plain characters may enter a path.
fn plain(id: &str) -> String {
    id.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect()
}

/// Without the URL, for the same words every time.
fn silent(error: &reqwest::Error) -> Error {
    Error::Silent(if error.is_timeout() {
        "takes too long to answer"
    } else if error.is_connect() {
        "cannot be reached from here"
    } else {
        "broke off"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_to_an_agent_that_leads() {
        let agents = |names: &[(&str, &str)]| -> Vec<Value> {
            names.iter().map(|(name, mode)| json!({"name": name, "mode": mode})).collect()
        };
        assert_eq!(shell_agent(&agents(&[("plan", "primary"), ("build", "primary")])), Some("build"));
        assert_eq!(shell_agent(&agents(&[("explore", "subagent"), ("plan", "primary")])), Some("plan"));
        assert_eq!(shell_agent(&agents(&[("explore", "subagent")])), None);
    }

    #[test]
    fn hostile_ids_stay_in_their_place() {
        assert_eq!(plain("ses_1/../../config?x=1#"), "ses_1configx1");
    }

    #[test]
    fn what_a_command_printed_is_in_its_parts() {
        let answer =
            json!({"parts": [{"state": {"output": "removed"}}, {"text": "x"}, {"state": {"output": "again"}}]});
        assert_eq!(output(&answer), "removed\nagain");
    }
}
