//! Middleware of every request: request ID, client address, limits and security headers.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use axum::{
    extract::{ConnectInfo, FromRequestParts, MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};

use crate::{
    auth::{Host, random},
    edge::{address, limits::Action},
    error::{Answer, ApiError},
    state::Server,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Inline scripts and style attributes are blocked, so the text of a description or a log stays text.
/// Chart and terminal libraries set styles through the object model, which this allows.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";

/// The address of the client.
#[derive(Clone, Copy, Debug)]
pub struct Client(pub IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        parts
            .extensions
            .get::<Self>()
            .copied()
            .ok_or_else(|| ApiError::bad_request("the client's address is not known"))
    }
}

/// Outermost middleware: request ID, metrics, CORS and security headers.
pub async fn door(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = random::text(9).unwrap_or_default();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let peer = peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    let client = address::client(peer, request.headers(), &server.options.trusted_proxies);
    request.extensions_mut().insert(Client(client));
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "page".to_owned());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let origin = request.headers().get(header::ORIGIN).cloned();

    let mut response = if Host::of(request.headers(), server.options.page_host.as_deref()) == Host::Other {
        ApiError::forbidden("the Host header names another server").into_response()
    } else if let Some(response) = cross_origin(&server, &request) {
        response
    } else {
        next.run(request).await
    };

    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(origin) = origin.filter(|origin| is_allowed(&server, origin)) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag, X-Request-Id"));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));

    let (code, took) = (response.status(), started.elapsed());
    server.metrics.answered(method.as_str(), &route, code.as_u16(), took);
    // The path of a share link contains its token.
    let path = if path.starts_with("/s/") { "/s/…" } else { path.as_str() };
    if code.is_server_error() {
        tracing::warn!(id, %client, %method, path, code = code.as_u16(), ?took, "request served");
    } else {
        tracing::debug!(id, %client, %method, path, code = code.as_u16(), ?took, "request served");
    }
    response
}

/// Limits the rate of a client and the number of concurrent requests.
pub async fn limit(
    State(server): State<Arc<Server>>,
    client: Client,
    request: Request,
    next: Next,
) -> Answer<Response> {
    server.limits.take(Action::Api, client.0).map_err(ApiError::too_many)?;
    let _permit = match &server.throttle {
        Some(throttle) => Some(throttle.try_acquire().map_err(|_| ApiError::too_many(1))?),
        None => None,
    };
    Ok(next.run(request).await)
}

/// Limits how often a client may try tokens, codes and links.
pub fn slow_down(server: &Server, client: Client) -> Answer<()> {
    server.limits.take(Action::Guess, client.0).map_err(ApiError::too_many)
}

/// Whether pages of this origin may use the API, with bearer tokens.
fn is_allowed(server: &Server, origin: &HeaderValue) -> bool {
    server.options.cors_allowed_origins.iter().any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes())
}

/// The response to a CORS preflight request.
fn cross_origin(server: &Server, request: &Request) -> Option<Response> {
    let origin = request.headers().get(header::ORIGIN)?;
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && is_allowed(server, origin);
    asks.then(|| {
        let headers = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, Content-Type, If-Match, Last-Event-ID"),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ];
        (StatusCode::NO_CONTENT, headers).into_response()
    })
}
