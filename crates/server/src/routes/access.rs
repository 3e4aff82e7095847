//! What the caller may see and do: namespaces and rights.

use std::sync::Arc;

use axum::{Json, extract::State};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Attributes, Caller},
    edge::extract::Body,
    error::{Answer, ApiError},
    state::Server,
    wire::{Allowed, Checks, Namespaces},
};

/// Most checks of one request.
const MOST_CHECKS: usize = 100;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(namespaces)).routes(routes!(rights))
}

/// Lists the namespaces that the caller may see.
#[utoipa::path(get, path = "/namespaces", tag = "server", responses((status = 200, body = Namespaces)))]
async fn namespaces(State(server): State<Arc<Server>>, caller: Caller) -> Answer<Json<Namespaces>> {
    server.namespaces_of(&caller).await.map(|namespaces| Json(Namespaces { namespaces }))
}

/// Checks rights of the caller.
#[utoipa::path(post, path = "/rights", tag = "server", request_body = Checks, responses((status = 200, body = Allowed)))]
async fn rights(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Body(Checks { checks }): Body<Checks>,
) -> Answer<Json<Allowed>> {
    if checks.len() > MOST_CHECKS {
        return Err(ApiError::invalid("checks", format!("at most {MOST_CHECKS} at once")));
    }
    let mut allowed = Vec::with_capacity(checks.len());
    for check in checks {
        let what = Attributes {
            verb: check.verb,
            group: check.group.unwrap_or_else(|| api::names::GROUP.to_owned()),
            resource: check.resource,
            subresource: check.subresource,
            namespace: check.namespace,
            name: check.name,
        };
        allowed.push(server.reviews.may(&caller, &what).await?);
    }
    Ok(Json(Allowed { allowed }))
}
