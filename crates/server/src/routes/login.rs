//! Login with a token or a one-time code, logout, and the authenticated user.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Redirect, Response},
};
use http::{StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, Holder, Host, LIFE, Token, User, Via, by_token, is_same_origin},
    edge::{
        extract::{Body, Params},
        front::{Client, slow_down},
    },
    error::{Answer, ApiError},
    routes::page,
    state::Server,
    wire::{AuthenticatedBy, LoginRequest, WhoAmI},
};

/// Routes that need no authentication.
pub fn open_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(login))
}

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(logout)).routes(routes!(whoami))
}

/// Logs in with a token. The response sets a session cookie.
#[utoipa::path(post, path = "/login", tag = "server", request_body = LoginRequest, responses((status = 200, body = WhoAmI)))]
async fn login(
    State(server): State<Arc<Server>>,
    client: Client,
    headers: http::HeaderMap,
    Body(request): Body<LoginRequest>,
) -> Answer<Response> {
    slow_down(&server, client)?;
    if !is_same_origin(&headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("cross-site requests are refused"));
    }
    if Host::of(&headers, server.options.page_host.as_deref()) != Host::Page {
        return Err(ApiError::forbidden(
            "sessions start only at the address of the page, which `kubeopencode login` prints; programs send the token \
             with each request",
        ));
    }
    let text = request.token.trim();
    let (user, credential) = by_token(&server, Token::new(text)).await?;
    let (session, cookie) = server
        .sessions
        .start(Holder::Token(text.to_owned()), LIFE, Timestamp::now())
        .map_err(|error| ApiError::invalid("token", error.to_string()))?;
    let via = Via::Session { csrf: session.csrf, expires: session.expires };
    let caller = Caller { user, credential, via };
    Ok(([(header::SET_COOKIE, cookie)], Json(who(&caller))).into_response())
}

/// Logs out. The response removes the session cookie.
#[utoipa::path(post, path = "/logout", tag = "server", responses((status = 204)))]
async fn logout(State(server): State<Arc<Server>>) -> Response {
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, server.sessions.end())]).into_response()
}

/// The authenticated user.
#[utoipa::path(get, path = "/whoami", tag = "server", responses((status = 200, body = WhoAmI)))]
async fn whoami(caller: Caller) -> Json<WhoAmI> {
    Json(who(&caller))
}

fn who(caller: &Caller) -> WhoAmI {
    let User { name, groups, .. } = &*caller.user;
    let (via, csrf_token, expires_at) = match &caller.via {
        Via::Bearer => (AuthenticatedBy::Bearer, None, None),
        Via::Session { csrf, expires } => (AuthenticatedBy::Session, Some(csrf.clone()), Some(*expires)),
        Via::Anonymous => (AuthenticatedBy::Anonymous, None, None),
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

/// A one-time code.
#[derive(Debug, Deserialize)]
pub struct CodeQuery {
    code: Option<String>,
}

/// `/login?code=…`: logs in the owner of the machine with a one-time code. Without a code, the login page; with one that
/// is not valid any more, the same page, which explains how to get another.
pub async fn redeem(
    State(server): State<Arc<Server>>,
    client: Client,
    headers: http::HeaderMap,
    Params(query): Params<CodeQuery>,
) -> Answer<Response> {
    let Some(code) = query.code else { return Ok(page::view(&server, &headers)) };
    slow_down(&server, client)?;
    if Host::of(&headers, server.options.page_host.as_deref()) != Host::Page || !server.codes.redeem(&code) {
        return Ok((StatusCode::UNAUTHORIZED, page::view(&server, &headers)).into_response());
    }
    let (_, cookie) = server
        .sessions
        .start(Holder::Owner, LIFE, Timestamp::now())
        .map_err(|error| ApiError::internal("a session cannot be created", &error))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}
