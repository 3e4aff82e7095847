//! The companions of Agents, as far as the controllers use them. One is reached by the address of its Pod, as the server is.

use std::{net::SocketAddr, time::Duration};

use api::Agent;
use domain::{
    contract::companion::{PORT, Tasks},
    workload::collect::companion_token,
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use reqwest::{Method, Response};

use super::server::{Error, address_of};
use crate::shared::Shared;

/// A companion that does not answer within this time is given up. It may remove many files meanwhile.
const ANSWER: Duration = Duration::from_mins(1);
/// Bytes of an answer: names of Tasks.
const MOST_ANSWER: usize = 16 << 20;

/// The companion of an Agent.
pub struct Companion {
    http: reqwest::Client,
    address: SocketAddr,
    token: String,
}

impl Companion {
    /// That of an Agent; `None` if none of its Pods is ready.
    pub async fn of(shared: &Shared, agent: &Agent) -> Result<Option<Self>, Error> {
        let Some(address) = address_of(shared, agent, PORT) else { return Ok(None) };
        let reference = companion_token(&agent.name_any());
        let secrets = shared.api::<Secret>(&agent.namespace().unwrap_or_default());
        let data = secrets.get_opt(&reference.name).await?.and_then(|secret| secret.data).unwrap_or_default();
        let token = data.get(&reference.key).and_then(|value| String::from_utf8(value.0.clone()).ok());
        let token = token.ok_or(Error::NoToken(reference.name))?;
        Ok(Some(Self { http: shared.agents.servers.http()?.clone(), address, token }))
    }

    /// Names of the directories of Tasks in the workspace.
    pub async fn tasks(&self) -> Result<Vec<String>, Error> {
        let mut response = self.answer(Method::GET, "v1/tasks").await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > MOST_ANSWER {
                return Err(Error::Companion("its answer is too long".to_owned()));
            }
        }
        let tasks: Tasks = serde_json::from_slice(&body).map_err(|error| Error::Companion(error.to_string()))?;
        Ok(tasks.tasks)
    }

    /// Removes the directory of a Task. The name must be that of a Task.
    pub async fn remove(&self, task: &str) -> Result<(), Error> {
        self.answer(Method::DELETE, &format!("v1/tasks/{task}")).await.map(drop)
    }

    async fn answer(&self, method: Method, path: &str) -> Result<Response, Error> {
        let request = self.http.request(method, format!("http://{}/{path}", self.address));
        let response = request.bearer_auth(&self.token).timeout(ANSWER).send().await.map_err(|error| lost(&error))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Error::Companion(format!("it answers {status}"))),
        }
    }
}

/// Without the address, which is of no use to a reader.
fn lost(error: &reqwest::Error) -> Error {
    let what = if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "no answer in time"
    } else {
        "the connection was lost"
    };
    Error::Companion(what.to_owned())
}
