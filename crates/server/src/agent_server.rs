//! Requests to the OpenCode server of an Agent: [`client`] for our own calls, [`send`] for forwarded requests.
//!
//! This server reads the password from the Agent's Secret after the caller's rights were checked, and never includes it
//! in a response. The address must be that of the Agent's own Service, so that a forged status cannot direct requests
//! elsewhere.

use std::{net::IpAddr, time::Duration};

use api::Agent;
use axum::body::Body;
use domain::workload::agent::password_ref;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use opencode::{Client, Credentials};
use tokio::net::TcpStream;

use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// Time limit until the response head of a forwarded request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a transcript, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Sends a request to the server of `agent`. The URI of `request` is a path.
///
/// The response body is streamed, and the connection can be upgraded to another protocol.
pub async fn send(server: &Server, agent: &Agent, mut request: Request<Body>) -> Answer<Response<Incoming>> {
    let authority = authority(agent, server.options.agents_on_loopback)?;
    if let Some(password) = password(server, agent).await? {
        let mut value = HeaderValue::from_str(&Credentials::of_default_user(password).authorization())
            .map_err(|error| ApiError::internal("an Agent's password cannot be sent", &error))?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
    }
    let host = HeaderValue::from_str(&authority).map_err(|_| no_address(agent))?;
    request.headers_mut().insert(header::HOST, host);

    let silent = || ApiError::bad_gateway(format!("the server of Agent '{}' does not answer", agent.name_any()));
    let stream = tokio::time::timeout(opencode::server::CONNECT, TcpStream::connect(&authority)).await;
    let stream = stream.map_err(|_| silent())?.map_err(|_| silent())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| silent())?;
    tokio::spawn(connection.with_upgrades());
    tokio::time::timeout(PATIENCE, sender.send_request(request)).await.map_err(|_| silent())?.map_err(|_| silent())
}

/// A client of the server of `agent`.
pub async fn client(server: &Server, agent: &Agent) -> Answer<Client> {
    let authority = authority(agent, server.options.agents_on_loopback)?;
    let address = opencode::Server::at(&format!("http://{authority}"), password(server, agent).await?);
    let address = address.map_err(|_| no_address(agent))?;
    let http = opencode::direct().map_err(|error| ApiError::internal("an Agent's server cannot be reached", &error))?;
    Ok(Client::new(http, address).with_max_answer(MAX_ANSWER))
}

/// Translates the error of a call to the server of `agent` for our caller.
pub fn failed(agent: &Agent, error: &opencode::Error) -> ApiError {
    use opencode::Error;
    let what = match error {
        Error::NotFound(_) => {
            return ApiError::not_found(format!("the server of Agent '{}' does not know it", agent.name_any()));
        }
        Error::Setup(_) | Error::Address(_) | Error::Unreachable(_) | Error::NoAnswer(_) => {
            "does not answer".to_owned()
        }
        Error::Unauthorized => "rejects the password of its Secret".to_owned(),
        Error::Status { status, .. } => format!("answered with status {status}"),
        Error::NotOpenCode(_) => "is not an OpenCode server, or answered too much".to_owned(),
    };
    ApiError::bad_gateway(format!("the server of Agent '{}' {what}", agent.name_any()))
}

/// Host and port of an Agent's server.
fn authority(agent: &Agent, loopback: bool) -> Answer<String> {
    let status = agent.status.clone().unwrap_or_default();
    if status.ready != Some(true) {
        let why = if agent.spec.suspend { "is suspended" } else { "is not ready" };
        return Err(ApiError::conflict(format!("Agent '{}' {why}", agent.name_any())));
    }
    let url: Uri = status.url.unwrap_or_default().parse().map_err(|_| no_address(agent))?;
    let (Some("http"), Some(authority)) = (url.scheme_str(), url.authority()) else { return Err(no_address(agent)) };
    let service = format!("{}.{}.svc", agent.name_any(), agent.namespace().unwrap_or_default());
    let host = authority.host();
    let is_service = host == service || host.strip_prefix(&service).is_some_and(|rest| rest.starts_with('.'));
    let is_loopback = || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if authority.as_str().contains('@') || !(is_service || loopback && is_loopback()) {
        return Err(no_address(agent));
    }
    Ok(if authority.port().is_some() { authority.to_string() } else { format!("{authority}:80") })
}

fn no_address(agent: &Agent) -> ApiError {
    ApiError::bad_gateway(format!("the address of Agent '{}' is not that of its Service", agent.name_any()))
}

async fn password(server: &Server, agent: &Agent) -> Answer<Option<String>> {
    let name = agent.name_any();
    let Some(reference) = password_ref(&name, agent.spec.server.as_ref()) else { return Ok(None) };
    let secrets: Api<Secret> = Api::namespaced(server.cluster.own.clone(), &agent.namespace().unwrap_or_default());
    let secret = secrets.get_opt(&reference.name).await?;
    let value = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(&reference.key));
    let value = value.and_then(|bytes| String::from_utf8(bytes.0).ok());
    value.map(Some).ok_or_else(|| {
        ApiError::bad_gateway(format!("the password of Agent '{name}' is not in Secret '{}'", reference.name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(url: &str, loopback: bool, expected: Option<&str>) {
        let agent: Agent = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
            "metadata": {"name": "dev", "namespace": "team"}, "spec": {}, "status": {"ready": true, "url": url},
        }))
        .unwrap();
        assert_eq!(authority(&agent, loopback).ok().as_deref(), expected, "{url}");
    }

    #[test]
    fn an_agent_is_only_reached_at_its_own_service() {
        check("http://dev.team.svc.cluster.local:4096", false, Some("dev.team.svc.cluster.local:4096"));
        check("http://dev.team.svc", false, Some("dev.team.svc:80"));
        for url in [
            "http://dev.other.svc.cluster.local:4096",
            "http://dev.team.svcevil.example",
            "http://169.254.169.254/",
            "https://dev.team.svc",
            "http://user@dev.team.svc",
            "http://127.0.0.1:4096",
            "",
        ] {
            check(url, false, None);
        }
        check("http://127.0.0.1:4096", true, Some("127.0.0.1:4096"));
        check("http://10.0.0.1:4096", true, None);
    }
}
