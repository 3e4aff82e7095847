//! The routes of the API, one file per resource, and the router that joins them.

mod access;
mod agent;
mod approval;
pub(crate) mod artifact;
mod config;
mod cron_task;
pub(crate) mod crud;
mod explain;
mod graph;
pub(crate) mod kind;
mod login;
mod page;
mod proxy;
mod search;
mod secret;
mod server;
mod session;
mod setup;
pub(crate) mod share;
mod summary;
mod task;
mod terminal;
mod upcoming;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{any, get},
};
use http::header;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    auth::{self, oidc},
    edge::front,
    error::ApiError,
    live::{events, logs},
    openapi,
    state::Server,
};

/// Every route, and the OpenAPI description of those that carry one. Without a server, for the description alone, the
/// routes have no middleware.
pub(crate) fn router(server: Option<&Arc<Server>>) -> (Router<Arc<Server>>, OpenApi) {
    let described = OpenApiRouter::new()
        .merge(login::routes())
        .merge(access::routes())
        .merge(task::routes())
        .merge(agent::routes())
        .merge(cron_task::routes())
        .merge(session::routes())
        .merge(approval::routes())
        .merge(artifact::routes())
        .merge(logs::routes())
        .merge(explain::routes())
        .merge(share::routes())
        .merge(upcoming::routes())
        .merge(config::routes())
        .merge(events::routes())
        .merge(secret::routes())
        .merge(setup::routes())
        .merge(summary::routes())
        .merge(search::routes())
        .merge(graph::routes());
    let (known, mut api) = OpenApiRouter::new().nest("/api/v1", described).split_for_parts();
    let (open, open_api) =
        OpenApiRouter::new().nest("/api/v1", server::routes().merge(login::open_routes())).split_for_parts();
    api.merge(open_api);

    let agent = "/namespaces/{namespace}/agents/{name}";
    let kinds = crud::routes::<api::Task>()
        .merge(crud::routes::<api::CronTask>())
        .merge(crud::routes::<api::Agent>())
        .merge(crud::routes::<api::AgentTemplate>())
        .merge(crud::routes::<api::Registry>())
        .merge(crud::routes::<api::ModelProvider>())
        .merge(crud::routes::<api::Model>())
        .merge(crud::routes::<api::Instruction>())
        .merge(crud::routes::<api::RemoteMCPServer>())
        .merge(crud::routes::<api::MCPServer>())
        .merge(crud::routes::<api::AgentTool>())
        .merge(crud::routes::<api::AgentWorkflow>())
        .route(&format!("{agent}/terminal"), get(terminal::open))
        .route(&format!("{agent}/proxy/"), any(proxy::pass))
        .route(&format!("{agent}/proxy/{{*rest}}"), any(proxy::pass));
    let mut known = known.merge(Router::new().nest("/api/v1", kinds));
    let unfinished = api.clone();
    // Built for the first request: it takes longer than the rest of the start.
    let text = Arc::new(LazyLock::new(move || openapi::finish(unfinished).to_string()));
    let description = move || async move { ([(header::CONTENT_TYPE, "application/json")], text.as_str().to_owned()) };
    let mut all = open.route("/api/v1/openapi.json", get(description));
    if let Some(server) = server {
        known = known.route_layer(from_fn_with_state(Arc::clone(server), auth::authenticate));
    }
    all = all.merge(known);
    if let Some(server) = server {
        all = all.route_layer(from_fn_with_state(Arc::clone(server), front::limit));
    }
    all = all
        .route("/login", get(login::redeem))
        .route(oidc::PATH, get(oidc::begin))
        .route(oidc::CALLBACK, get(oidc::finish))
        .route("/s/{token}", get(share::page))
        .route("/s/{token}/", get(share::page))
        .route("/s/{token}/info", get(share::info))
        .route("/s/{token}/terminal", get(terminal::open_shared))
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .fallback(page::serve);
    if let Some(server) = server {
        all = all.layer(from_fn_with_state(Arc::clone(server), front::door));
    }
    (all, api)
}
