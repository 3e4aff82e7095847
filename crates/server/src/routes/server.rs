//! Health, readiness and features of the server.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::oidc,
    state::Server,
    wire::{AuthenticationInfo, Health, Info, ProviderInfo, Readiness, Ready, duration},
};

/// Routes that need no authentication.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready)).routes(routes!(info))
}

/// Liveness of the server.
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
async fn health(State(server): State<Arc<Server>>) -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime: duration::text(server.started.elapsed()),
    })
}

/// Readiness: whether the caches are complete.
#[utoipa::path(get, path = "/ready", tag = "server",
    responses((status = 200, body = Readiness, description = "ready"), (status = 503, body = Readiness, description = "not ready")))]
async fn ready(State(server): State<Arc<Server>>) -> Response {
    if server.caches.is_complete() && !*server.ending.borrow() {
        return Json(Readiness { status: Ready::Yes }).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, Json(Readiness { status: Ready::No })).into_response()
}

/// Version, features and ways to log in.
#[utoipa::path(get, path = "/info", tag = "server", responses((status = 200, body = Info)))]
async fn info(State(server): State<Arc<Server>>) -> Json<Info> {
    Json(Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        authentication: AuthenticationInfo {
            anonymous: server.options.anonymous,
            anonymous_write: server.options.anonymous && server.options.anonymous_write,
            oidc: server
                .oidc
                .as_ref()
                .map(|provider| ProviderInfo { name: provider.settings.name.clone(), path: oidc::PATH.to_owned() }),
        },
        features: ["events", "explain", "graph", "permissions", "summary"].map(str::to_owned).to_vec(),
    })
}
