//! A tunnel to the OpenCode server of an Agent: a local port forwarded through the API server to its Pod.

use std::{collections::BTreeMap, net::SocketAddr};

use api::{Agent, names::defaults, refs::SecretKeyRef};
use domain::{
    platform::Platform,
    run::{resolve, resolved::ResolvedTarget},
};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{Api, ResourceExt, api::ListParams};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{
    connect::Cluster,
    kinds::Kind,
    missing::missing,
    output::note,
    problem::{Answer, Problem},
};

/// An open tunnel. Dropping it closes it.
pub struct Tunnel {
    /// The local address.
    pub address: SocketAddr,
    work: JoinHandle<()>,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Tunnel {
    /// Opens a tunnel to `port` of a Pod, at `local` or at any free port.
    pub async fn open(pods: Api<Pod>, pod: String, port: u16, local: Option<u16>) -> Answer<Self> {
        let wanted = local.unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", wanted)).await.map_err(|error| {
            Problem::new(format!("port {wanted} of this machine cannot be used: {error}"))
                .next("choose another with --local-port, or leave it out for any free one")
        })?;
        let address = listener.local_addr()?;
        // Try the first connection at once, so that an error is reported here and not by another program.
        pods.portforward(&pod, &[port])
            .await
            .map_err(|error| Problem::from(error).while_doing(&format!("cannot open a way to Pod '{pod}'")))?;
        let work = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (pods, pod) = (pods.clone(), pod.clone());
                tokio::spawn(async move {
                    if let Err(problem) = carry(&pods, &pod, port, connection).await {
                        note(&format!("the connection to Pod '{pod}' was lost: {problem}"));
                    }
                });
            }
        });
        Ok(Self { address, work })
    }
}

async fn carry(pods: &Api<Pod>, pod: &str, port: u16, mut connection: TcpStream) -> Answer<()> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    let Some(mut stream) = forwarder.take_stream(port) else {
        return Err(Problem::new(format!("the API server opened no stream to port {port}")));
    };
    // Either side may close the connection: that is how HTTP connections end.
    let _ = copy_bidirectional(&mut connection, &mut stream).await;
    drop(stream);
    forwarder.abort();
    Ok(())
}

/// Fetches an Agent.
pub async fn find(cluster: &Cluster, name: &str) -> Answer<Agent> {
    match cluster.api::<Agent>().get_opt(name).await? {
        Some(agent) => Ok(agent),
        None => Err(missing(cluster, &Kind::of_type::<Agent>()?, name).await),
    }
}

/// The port of an Agent's server. The schema admits only valid port numbers.
pub fn port(agent: &Agent) -> u16 {
    let port = agent.spec.port.unwrap_or(defaults::PORT);
    u16::try_from(port).unwrap_or_default()
}

/// The name of a Pod of an Agent, preferably a ready one.
pub async fn pod(cluster: &Cluster, agent: &Agent) -> Answer<String> {
    let name = agent.name_any();
    let services: Api<Service> = cluster.api();
    let service = agent.status.as_ref().and_then(|status| status.service_name.clone()).unwrap_or_else(|| name.clone());
    let selector = services.get_opt(&service).await?.and_then(|service| service.spec?.selector);
    let pods: Api<Pod> = cluster.api();
    let found = match selector {
        Some(selector) => pods.list(&ListParams::default().labels(&text(&selector))).await?.items,
        None => Vec::new(),
    };
    let ready = found.iter().find(|pod| is_ready(pod)).or(found.first());
    ready.map(ResourceExt::name_any).ok_or_else(|| {
        let resume = cluster.hint(format!("kubeopencode agent resume {name}"));
        let explain = cluster.hint(format!("kubeopencode explain agent/{name}"));
        Problem::new(format!("Agent '{name}' has no Pod"))
            .next(format!("resume it with: {resume}, or see why: {explain}"))
    })
}

fn text(selector: &BTreeMap<String, String>) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The password of an Agent's server, if it has one.
pub async fn password(cluster: &Cluster, agent: &Agent) -> Answer<Option<String>> {
    let Some(SecretKeyRef { name, key }) = password_secret(agent) else { return Ok(None) };
    let secrets: Api<Secret> = cluster.api();
    let secret = secrets.get(&name).await.map_err(|error| {
        Problem::from(error).while_doing(&format!("the password of Agent '{}' cannot be read", agent.name_any()))
    })?;
    let value = secret.data.as_ref().and_then(|data| data.get(&key));
    let value = value.and_then(|value| String::from_utf8(value.0.clone()).ok());
    value.map(Some).ok_or_else(|| Problem::new(format!("Secret '{name}' has no text under '{key}'")))
}

/// A command that prints the password of an Agent's server, if it has one.
pub fn password_command(cluster: &Cluster, agent: &Agent) -> Option<String> {
    let SecretKeyRef { name, key } = password_secret(agent)?;
    let namespace = &cluster.namespace;
    Some(format!(
        "kubectl get secret -n {namespace} {name} -o go-template='{{{{index .data \"{key}\" | base64decode}}}}'"
    ))
}

/// The Secret with the password, as the controllers resolve it.
fn password_secret(agent: &Agent) -> Option<SecretKeyRef> {
    let mut alone = agent.clone();
    // The template does not affect the password, and is not fetched here.
    alone.spec.template_ref = None;
    alone.spec.settings = api::settings::AgentSettings::default();
    let task = api::Task::new("", api::TaskSpec::default());
    let sources = resolve::Sources::Agent { agent: &alone, template: None, url: "" };
    match resolve::resolve_task(&task, sources, &Platform::default()).ok()?.0.target {
        ResolvedTarget::Agent { password_secret, .. } => password_secret,
        ResolvedTarget::Template { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_password_is_where_the_controllers_put_it() {
        let agent = |server: serde_json::Value| -> Agent {
            serde_json::from_value(json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": {"name": "dev"},
                "spec": {"server": server, "templateRef": {"name": "gone"}, "workspaceDir": "/dev"},
            }))
            .unwrap()
        };
        let check = |server, expected: Option<(&str, &str)>| {
            let found = password_secret(&agent(server));
            assert_eq!(found.as_ref().map(|secret| (secret.name.as_str(), secret.key.as_str())), expected);
        };
        check(json!({}), Some(("dev-server-auth", "password")));
        check(json!({"passwordSecretRef": {"name": "mine", "key": "p"}}), Some(("mine", "p")));
        check(json!({"auth": "None"}), None);
    }
}
