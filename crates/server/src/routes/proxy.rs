//! A proxy to the OpenCode server of an Agent, for callers who may run commands in its Pod.

use std::sync::Arc;

use api::Agent;
use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;

use crate::{
    agent_server,
    auth::{Attributes, CSRF_HEADER, Caller, Via, core_resource, is_same_origin, ours, revoked},
    edge::extract::At,
    error::{Answer, ApiError},
    routes::crud,
    state::Server,
};

/// Headers of one connection, and headers that only concern this server.
const NOT_FORWARDED: [&str; 15] = [
    "authorization",
    "cookie",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "origin",
    "referer",
    "x-forwarded-for",
    CSRF_HEADER,
];

/// An agent can serve any content: browsers must not treat it as a page of this server.
const INERT: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Forwards a request to the Agent's server and returns its response, including streams and WebSockets.
pub async fn pass(State(server): State<Arc<Server>>, caller: Caller, at: At, mut request: Request) -> Answer<Response> {
    // The API of the server runs commands, so the caller needs the right to run commands.
    let agent: Agent = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    server.reviews.require(&caller, &core_resource("create", "pods/exec", Some(&at.namespace), None)).await?;
    let upgrade = request.headers().get(header::UPGRADE).cloned();
    if upgrade.is_some()
        && caller.via != Via::Bearer
        && !is_same_origin(request.headers(), server.options.base_url.as_deref())
    {
        return Err(ApiError::forbidden("cross-site requests are refused"));
    }

    let rights = [
        ours("get", "agents", Some(&at.namespace), Some(&at.name)),
        core_resource("create", "pods/exec", Some(&at.namespace), None),
    ];
    let onwards = onwards(request.uri())?;
    let upgraded = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let mut sent = Request::new(body);
    *sent.method_mut() = parts.method;
    *sent.uri_mut() = onwards;
    copy(&parts.headers, sent.headers_mut());
    if let Some(upgrade) = upgrade {
        sent.headers_mut().insert(header::UPGRADE, upgrade);
        sent.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    }

    let mut answer = agent_server::send(&server, &agent, sent).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(ours) = upgraded else {
            return Err(ApiError::bad_gateway("the Agent's server wants another protocol"));
        };
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(async move {
            if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
                let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
                tokio::select! {
                    // Either side may close the connection at any time.
                    _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs) => {}
                    error = revoked(&server, &caller, &rights) => {
                        tracing::info!(error = error.message, "a connection to an Agent's server was closed");
                    }
                }
            }
        });
        let mut switched = (StatusCode::SWITCHING_PROTOCOLS, Body::empty()).into_response();
        for (name, value) in answer.headers() {
            switched.headers_mut().append(name, value.clone());
        }
        return Ok(switched);
    }
    let (parts, body) = answer.into_parts();
    // An answer without a length may be a stream that never ends.
    let is_stream = !parts.headers.contains_key(header::CONTENT_LENGTH);
    let body = Body::new(body);
    let mut response = Response::new(if is_stream { while_allowed(server, caller, rights, body) } else { body });
    *response.status_mut() = parts.status;
    copy(&parts.headers, response.headers_mut());
    let headers = response.headers_mut();
    headers.remove(header::SET_COOKIE);
    headers.insert(header::CONTENT_SECURITY_POLICY, INERT);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// The body until the caller loses one of `rights`: then the connection is aborted.
fn while_allowed(server: Arc<Server>, caller: Caller, rights: [Attributes; 2], body: Body) -> Body {
    Body::from_stream(async_stream::stream! {
        let mut body = body.into_data_stream();
        let revoked = revoked(&server, &caller, &rights);
        tokio::pin!(revoked);
        loop {
            tokio::select! {
                part = body.next() => match part {
                    Some(part) => yield part,
                    None => break,
                },
                error = &mut revoked => {
                    yield Err(axum::Error::new(error));
                    break;
                }
            }
        }
    })
}

/// The path after `/proxy`, unchanged.
fn onwards(uri: &Uri) -> Answer<Uri> {
    let wrong = || ApiError::bad_request("the path cannot be passed on");
    let whole = uri.path_and_query().ok_or_else(wrong)?.as_str();
    // `NAMESPACE/agents/NAME/proxy…`; namespace and name may begin with `proxy` themselves.
    let routed = whole.split_once("/namespaces/").and_then(|(_, routed)| routed.splitn(4, '/').nth(3));
    let rest = routed.and_then(|last| last.strip_prefix("proxy")).ok_or_else(wrong)?;
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    rest.parse().map_err(|_| wrong())
}

fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in from {
        if !NOT_FORWARDED.contains(&name.as_str()) {
            to.append(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_path_is_passed_on_as_it_was_sent() {
        for (path, expected) in [
            ("/namespaces/n/agents/a/proxy/session?limit=1", "/session?limit=1"),
            ("/namespaces/n/agents/a/proxy/a%2fb/proxy/c", "/a%2fb/proxy/c"),
            ("/namespaces/n/agents/a/proxy/", "/"),
            ("/api/v1/namespaces/proxy-team/agents/proxy/proxy/config", "/config"),
        ] {
            assert_eq!(onwards(&path.parse().unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn credentials_are_not_passed_on() {
        let from = HeaderMap::from_iter([
            (header::AUTHORIZATION, HeaderValue::from_static("Bearer a")),
            (header::COOKIE, HeaderValue::from_static("a=b")),
            (header::ACCEPT, HeaderValue::from_static("*/*")),
        ]);
        let mut to = HeaderMap::new();
        copy(&from, &mut to);
        assert_eq!(to.keys().collect::<Vec<_>>(), [&header::ACCEPT]);
    }
}
