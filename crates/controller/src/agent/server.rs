//! Clients of the OpenCode servers of Agents. A server is reached by the address of its Pod, never through a proxy:
//! that needs no DNS and works wherever Pods can be reached.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use api::{
    Agent,
    conditions::reasons,
    names::{defaults, labels},
};
use domain::workload::agent::password_ref;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use observe::Key;
use opencode::{Client, Server};

use crate::shared::Shared;

/// Largest answer in bytes. Permission requests, sessions and directories take kilobytes.
const MAX_ANSWER: usize = 4 << 20;

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Kubernetes API did not return the password, or refused a status.
    #[error("the API server did not answer: {0}")]
    Api(#[from] kube::Error),
    /// The Secret has no password.
    #[error("Secret '{0}' does not hold the password of the Agent's server")]
    NoPassword(String),
    /// The Secret has no token.
    #[error("Secret '{0}' does not hold the token of the Agent's companion")]
    NoToken(String),
    /// A request to the companion failed.
    #[error("the Agent's companion cannot be used: {0}")]
    Companion(String),
    /// A request to the server failed.
    #[error("the Agent's server cannot be used: {0}")]
    Server(#[from] opencode::Error),
}

impl Error {
    /// Reason for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => reasons::APPLY_FAILED,
            Self::NoPassword(_) | Self::NoToken(_) => reasons::SECRET_MISSING,
            Self::Server(_) | Self::Companion(_) => reasons::AGENT_SERVER_NOT_READY,
        }
    }
}

/// Clients of the servers of Agents. A client that polls for approvals is cached with its password, so that the Secret
/// is not read each time.
///
/// The HTTP client is created with the first server: a platform without Agents does not need it.
#[derive(Default)]
pub struct Servers {
    http: OnceLock<reqwest::Client>,
    cache: Mutex<HashMap<Key, (SocketAddr, Client)>>,
}

impl Servers {
    pub(super) fn http(&self) -> Result<&reqwest::Client, Error> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let client = opencode::direct()?;
        Ok(self.http.get_or_init(|| client))
    }

    /// A client of an Agent's server; `None` if none of its Pods is ready.
    pub async fn of(&self, shared: &Shared, agent: &Agent) -> Result<Option<Client>, Error> {
        let Some(address) = address(shared, agent) else { return Ok(None) };
        self.at(shared, agent, address).await.map(Some)
    }

    /// The same, cached until [`Servers::forget`].
    pub async fn cached(&self, shared: &Shared, agent: &Agent) -> Result<Option<Client>, Error> {
        let key = Key::of(agent);
        let Some(address) = address(shared, agent) else { return Ok(None) };
        let cached = self.lock().get(&key).filter(|(of, _)| *of == address).map(|(_, client)| client.clone());
        if cached.is_some() {
            return Ok(cached);
        }
        let client = self.at(shared, agent, address).await?;
        self.lock().insert(key, (address, client.clone()));
        Ok(Some(client))
    }

    async fn at(&self, shared: &Shared, agent: &Agent, address: SocketAddr) -> Result<Client, Error> {
        let server = Server::at(&format!("http://{address}"), password(shared, agent).await?)?;
        Ok(Client::new(self.http()?.clone(), server).with_max_answer(MAX_ANSWER))
    }

    /// Removes a client from the cache: the Agent has no running Tasks, or its password changed.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (SocketAddr, Client)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The password of an Agent's server; `None` if it has none.
async fn password(shared: &Shared, agent: &Agent) -> Result<Option<String>, Error> {
    let Some(reference) = password_ref(&agent.name_any(), agent.spec.server.as_ref()) else { return Ok(None) };
    let secrets = shared.api::<Secret>(&agent.namespace().unwrap_or_default());
    let data = secrets.get_opt(&reference.name).await?.and_then(|secret| secret.data).unwrap_or_default();
    let value = data.get(&reference.key).and_then(|value| String::from_utf8(value.0.clone()).ok());
    value.map(Some).ok_or(Error::NoPassword(reference.name))
}

/// Address of an Agent's server: that of its newest ready Pod.
fn address(shared: &Shared, agent: &Agent) -> Option<SocketAddr> {
    address_of(shared, agent, agent.spec.port.unwrap_or(defaults::PORT))
}

/// The same with another port of the Pod.
pub(super) fn address_of(shared: &Shared, agent: &Agent, port: i32) -> Option<SocketAddr> {
    let port = u16::try_from(port).ok()?;
    let pods = pods(shared, agent);
    let ready = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
    let newest = ready.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))?;
    let address: IpAddr = newest.status.as_ref()?.pod_ip.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(address, port))
}

/// The Pods of an Agent's server.
pub fn pods(shared: &Shared, agent: &Agent) -> Vec<Arc<Pod>> {
    let name = agent.name_any();
    shared.cache.pods.in_namespace(&agent.namespace().unwrap_or_default(), |pod| agent_of(pod) == Some(&name))
}

/// The Agent to whose server a Pod belongs.
pub fn agent_of(pod: &Pod) -> Option<&String> {
    let labels = pod.labels();
    labels.get(labels::AGENT).filter(|_| labels.get(labels::APP_COMPONENT).is_some_and(|part| part == "server"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
