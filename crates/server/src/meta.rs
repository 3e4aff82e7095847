//! About the server, logging in and out, namespaces and rights.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use http::{StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Attributes, Caller, Holder, LIFE, Token, User, Via, by_token, is_same_origin, oidc},
    error::{Answer, ApiError},
    extract::{Body, Params},
    front::{Client, slow_down},
    span,
    state::Server,
    wire::{
        Allowed, AuthenticationInfo, Checks, Health, Info, LoginRequest, Namespaces, ProviderInfo, Readiness, Ready,
        Recognised, WhoAmI,
    },
};

/// Most questions about rights in one request.
const MOST_CHECKS: usize = 100;

/// Routes that everybody may use.
pub fn open_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready)).routes(routes!(info)).routes(routes!(login))
}

/// Routes for callers that are known.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(logout))
        .routes(routes!(whoami))
        .routes(routes!(namespaces))
        .routes(routes!(rights))
}

/// The server lives.
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
async fn health(State(server): State<Arc<Server>>) -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime: span::text(server.started.elapsed()),
    })
}

/// The server knows the cluster and can answer.
#[utoipa::path(get, path = "/ready", tag = "server",
    responses((status = 200, body = Readiness, description = "ready"), (status = 503, body = Readiness, description = "not ready")))]
async fn ready(State(server): State<Arc<Server>>) -> Response {
    if server.world.is_complete() && !*server.ending.borrow() {
        return Json(Readiness { status: Ready::Yes }).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, Json(Readiness { status: Ready::No })).into_response()
}

/// About this server, and how to log in.
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

/// Logs in with a token: the answer sets a cookie.
#[utoipa::path(post, path = "/login", tag = "server", request_body = LoginRequest, responses((status = 200, body = WhoAmI)))]
async fn login(
    State(server): State<Arc<Server>>,
    client: Client,
    headers: http::HeaderMap,
    Body(request): Body<LoginRequest>,
) -> Answer<Response> {
    slow_down(&server, client)?;
    if !is_same_origin(&headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("the request comes from another page"));
    }
    let text = request.token.trim();
    let (user, standing) = by_token(&server, Token::new(text)).await?;
    let (session, cookie) = server
        .sessions
        .start(Holder::Token(text.to_owned()), LIFE, Timestamp::now())
        .map_err(|error| ApiError::invalid("token", error.to_string()))?;
    let via = Via::Session { csrf: session.csrf, expires: session.expires };
    let caller = Caller { user, standing, via };
    Ok(([(header::SET_COOKIE, cookie)], Json(who(&caller))).into_response())
}

/// Logs out: the answer takes the cookie away.
#[utoipa::path(post, path = "/logout", tag = "server", responses((status = 204)))]
async fn logout(State(server): State<Arc<Server>>) -> Response {
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, server.sessions.end())]).into_response()
}

/// Who the caller is.
#[utoipa::path(get, path = "/whoami", tag = "server", responses((status = 200, body = WhoAmI)))]
async fn whoami(caller: Caller) -> Json<WhoAmI> {
    Json(who(&caller))
}

fn who(caller: &Caller) -> WhoAmI {
    let User { name, groups, .. } = &*caller.user;
    let (via, csrf_token, expires_at) = match &caller.via {
        Via::Bearer => (Recognised::Bearer, None, None),
        Via::Session { csrf, expires } => (Recognised::Session, Some(csrf.clone()), Some(*expires)),
        Via::Anonymous => (Recognised::Anonymous, None, None),
    };
    WhoAmI {
        user: name.clone(),
        groups: groups.clone(),
        anonymous: caller.via == Via::Anonymous,
        read_only: caller.is_read_only(),
        via,
        csrf_token,
        expires_at,
    }
}

/// The namespaces that the caller may look into.
#[utoipa::path(get, path = "/namespaces", tag = "server", responses((status = 200, body = Namespaces)))]
async fn namespaces(State(server): State<Arc<Server>>, caller: Caller) -> Answer<Json<Namespaces>> {
    server.namespaces_of(&caller).await.map(|namespaces| Json(Namespaces { namespaces }))
}

/// What the caller may do.
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

/// A one-time code.
#[derive(Debug, Deserialize)]
pub struct CodeQuery {
    code: Option<String>,
}

/// `/login?code=…`: logs in the owner of the machine, once a code. Without a code it is the page's own login.
pub async fn redeem(
    State(server): State<Arc<Server>>,
    client: Client,
    Params(query): Params<CodeQuery>,
) -> Answer<Response> {
    let Some(code) = query.code else { return Ok(crate::page::index()) };
    slow_down(&server, client)?;
    if !server.codes.redeem(&code) {
        return Err(ApiError::unauthorized("the code was used already, or is wrong; ask for a new one"));
    }
    let (_, cookie) = server
        .sessions
        .start(Holder::Owner, LIFE, Timestamp::now())
        .map_err(|error| ApiError::internal("no session can be made", &error))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}
