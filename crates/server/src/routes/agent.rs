//! Actions on Agents: suspend and resume.

use std::sync::Arc;

use api::{Agent, names::annotations};
use axum::{Json, extract::State};
use domain::run::target::Target;
use observe::Key;
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    cluster::WriteOptions,
    edge::extract::At,
    error::{Answer, ApiError},
    routes::{crud, kind::Served as _},
    state::Server,
    wire::AgentResponse,
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(suspend_agent)).routes(routes!(resume_agent))
}

/// Suspends an Agent: its server stops, persistent sessions stay.
#[utoipa::path(post, path = "/namespaces/{namespace}/agents/{name}/suspend", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = AgentResponse), (status = 409, description = "Tasks are running on the Agent")))]
async fn suspend_agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentResponse>> {
    let load = server.caches.load(&Target::agent(Key::new(&at.namespace, &at.name)));
    if load.running > 0 {
        return Err(ApiError::conflict(format!(
            "{} Tasks run on Agent '{}'; stop them or wait for them",
            load.running, at.name
        )));
    }
    suspended(&server, &caller, &at, true).await
}

/// Resumes an Agent.
#[utoipa::path(post, path = "/namespaces/{namespace}/agents/{name}/resume", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = AgentResponse)))]
async fn resume_agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentResponse>> {
    suspended(&server, &caller, &at, false).await
}

async fn suspended(server: &Server, caller: &Caller, at: &At, suspend: bool) -> Answer<Json<AgentResponse>> {
    // An explicit suspension takes precedence over standby.
    let change = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: null } },
        "spec": { "suspend": suspend },
    });
    let agent: Agent = crud::change(server, caller, at, &change, WriteOptions::default()).await?;
    Ok(Json(agent.detail(&server.caches)))
}
