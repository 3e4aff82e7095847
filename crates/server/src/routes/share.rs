//! Share links: the holder of a link may use the terminal of one Agent.
//!
//! A link is found through the Agent, never through the Secret: only the Secret of the right name, in the Agent's own
//! namespace and owned by that Agent, counts. A Secret cannot create a link for another Agent.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use api::Agent;
use axum::{Json, extract::State, response::Response};
use domain::{agent::share::ShareLink, workload::names};
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, core_resource},
    cluster::WriteOptions,
    edge::{
        address::Range,
        extract::{At, OptionalBody, Part},
        front::{Client, slow_down},
    },
    error::{Answer, ApiError},
    live::cache::now,
    routes::crud,
    state::Server,
    wire::{ShareInfo, ShareRequest, ShareResponse, duration, time},
};

/// How long the hash of a token is cached. A disabled link works for this long at most.
const HASH_TTL: Duration = Duration::from_secs(10);

/// Hashes of the tokens of shared Agents, by the Agent's UID.
#[derive(Debug, Default)]
pub struct Shares(Mutex<HashMap<String, Known>>);

/// The hash of a token, if there is one, and when it was read.
type Known = (Option<[u8; 32]>, Instant);

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(read, share, unshare))
}

/// The share link of an Agent; with the token for callers who may read the Secret.
#[utoipa::path(get, path = "/namespaces/{namespace}/agents/{name}/share", operation_id = "readShare", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = ShareResponse)))]
async fn read(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<ShareResponse>> {
    let agent: Agent = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    response(&server, &caller, &agent).await.map(Json)
}

/// Shares the terminal of an Agent by a link.
#[utoipa::path(post, path = "/namespaces/{namespace}/agents/{name}/share", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), request_body = ShareRequest,
    responses((status = 200, body = ShareResponse)))]
async fn share(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    OptionalBody(request): OptionalBody<ShareRequest>,
) -> Answer<Json<ShareResponse>> {
    let mut wanted = json!({ "enabled": request.enabled.unwrap_or(true), "expiresAt": null, "allowedIPs": null });
    if let Some(text) = request.expires_in.filter(|text| !text.is_empty()) {
        let life = duration::parse("expiresIn", &text)?;
        let until = now().checked_add(life).map_err(|_| ApiError::invalid("expiresIn", "the duration is too long"))?;
        let until = Timestamp::from_second(until.as_second()).unwrap_or(until);
        wanted["expiresAt"] = until.to_string().into();
    }
    if let Some(ranges) = request.allowed_ips.filter(|ranges| !ranges.is_empty()) {
        for (index, range) in ranges.iter().enumerate() {
            let check = range.parse::<Range>();
            check.map_err(|error| ApiError::invalid(&format!("allowedIPs[{index}]"), error.to_string()))?;
        }
        wanted["allowedIPs"] = json!(ranges);
    }
    let agent: Agent =
        crud::change(&server, &caller, &at, &json!({ "spec": { "share": wanted } }), WriteOptions::default()).await?;
    response(&server, &caller, &agent).await.map(Json)
}

/// Disables the share link of an Agent.
#[utoipa::path(delete, path = "/namespaces/{namespace}/agents/{name}/share", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 204)))]
async fn unshare(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<StatusCode> {
    let change = json!({ "spec": { "share": null } });
    let agent: Agent = crud::change(&server, &caller, &at, &change, WriteOptions::default()).await?;
    server.shares.forget(&agent);
    Ok(StatusCode::NO_CONTENT)
}

async fn response(server: &Server, caller: &Caller, agent: &Agent) -> Answer<ShareResponse> {
    let (namespace, name) = (agent.namespace().unwrap_or_default(), agent.name_any());
    let secret = names::agent_share(&name);
    let spec = agent.spec.share.clone().unwrap_or_default();
    let may_read =
        server.reviews.may(caller, &core_resource("get", "secrets", Some(&namespace), Some(&secret))).await?;
    let token = if spec.enabled && may_read { token_of(server, agent).await? } else { None };
    Ok(ShareResponse {
        enabled: spec.enabled,
        active: link_of(agent).is_active(),
        path: token.as_ref().map(|token| format!("/s/{token}")),
        token,
        expires_at: time(spec.expires_at.as_ref()),
        allowed_ips: spec.allowed_ips,
    })
}

/// The state of an Agent's link now.
fn link_of(agent: &Agent) -> ShareLink {
    let ready = agent.status.as_ref().and_then(|status| status.ready).unwrap_or_default();
    ShareLink::of(agent.spec.share.as_ref(), ready, now())
}

/// The token of an Agent's link, if the Secret exists and belongs to the Agent.
async fn token_of(server: &Server, agent: &Agent) -> Answer<Option<String>> {
    let secrets: Api<Secret> = Api::namespaced(server.cluster.own.clone(), &agent.namespace().unwrap_or_default());
    let Some(secret) = secrets.get_opt(&names::agent_share(&agent.name_any())).await? else { return Ok(None) };
    let owned = secret.owner_references().iter().any(|owner| {
        owner.kind == "Agent" && owner.controller == Some(true) && Some(&owner.uid) == agent.metadata.uid.as_ref()
    });
    let token = secret.data.and_then(|mut data| data.remove("token")).and_then(|bytes| String::from_utf8(bytes.0).ok());
    Ok(token.filter(|token| owned && token.len() >= 16))
}

impl Shares {
    fn forget(&self, agent: &Agent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&agent.uid().unwrap_or_default());
    }

    /// The hash of an Agent's token.
    async fn hash(&self, server: &Server, agent: &Agent) -> Answer<Option<[u8; 32]>> {
        let uid = agent.uid().unwrap_or_default();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).copied();
        if let Some((hash, _)) = known.filter(|(_, at)| at.elapsed() < HASH_TTL) {
            return Ok(hash);
        }
        let hash = token_of(server, agent).await?.map(|token| Sha256::digest(token).into());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, at)| at.elapsed() < HASH_TTL);
        known.insert(uid, (hash, Instant::now()));
        Ok(hash)
    }
}

/// The Agent of a link, if the link is active and open for the client. Otherwise 404 or 403, without details.
pub async fn open(server: &Server, token: &str, client: IpAddr) -> Answer<Arc<Agent>> {
    let nothing = || ApiError::not_found("there is no such link, or it has expired");
    let given: [u8; 32] = Sha256::digest(token).into();
    let shared = server.caches.agents.filter(|_, agent| link_of(agent).is_active());
    let mut found = None;
    for agent in shared {
        if let Some(hash) = server.shares.hash(server, &agent).await?
            && bool::from(subtle::ConstantTimeEq::ct_eq(&hash[..], &given[..]))
        {
            found = Some(agent);
        }
    }
    let agent = found.ok_or_else(nothing)?;
    let allowed = agent.spec.share.as_ref().and_then(|share| share.allowed_ips.clone()).unwrap_or_default();
    // An invalid range contains no address.
    let ranges: Vec<Option<Range>> = allowed.iter().map(|range| range.parse().ok()).collect();
    if !ranges.is_empty() && !ranges.iter().flatten().any(|range| range.holds(client)) {
        return Err(ApiError::forbidden("this link is not allowed from your address"));
    }
    Ok(agent)
}

/// `/s/{token}/info`: the Agent of a link.
pub async fn info(State(server): State<Arc<Server>>, client: Client, Part(token): Part) -> Answer<Json<ShareInfo>> {
    slow_down(&server, client)?;
    let agent = open(&server, &token, client.0).await?;
    Ok(Json(ShareInfo {
        agent_name: agent.name_any(),
        namespace: agent.namespace().unwrap_or_default(),
        profile: agent.spec.profile.clone(),
        expires_at: agent.spec.share.as_ref().and_then(|share| time(share.expires_at.as_ref())),
    }))
}

/// `/s/{token}/`: the page of a link.
pub async fn page() -> Response {
    crate::routes::page::index()
}
