//! The web page, embedded into the binary.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{Html, IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, Uri, header};
use rust_embed::RustEmbed;
use sha2::{Digest as _, Sha256};

use crate::{auth::Host, error::ApiError, state::Server};

/// Output of `npm run build` in `ui/dist`. If the directory is missing, a page explains how to build it.
#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
#[allow_missing = true]
struct Files;

const MISSING: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>KubeOpenCode</title></head>\
    <body><h1>KubeOpenCode</h1><p>The API is at <code>/api/v1</code>. This binary was built without the web page: run \
    <code>npm ci &amp;&amp; npm run build</code> in <code>ui/</code>, then build the binary again.</p></body></html>";

/// Shown at another host than that of the page. It does not contain the host: every program on this machine can read it.
const ELSEWHERE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>KubeOpenCode</title></head>\
    <body><h1>KubeOpenCode runs here</h1><p>The page has an address of its own, so that other programs on this machine do \
    not receive its session. Open the link that <code>kubeopencode up</code> printed, or get a new one:</p>\
    <pre>kubeopencode login --open</pre><p>If the browser cannot find that address, add its name to \
    <code>/etc/hosts</code> with the address 127.0.0.1. Programs use the API here, at <code>/api/v1</code>, with a \
    token.</p></body></html>";

/// Serves the page. Every path without a file is a view of the page.
pub async fn serve(State(server): State<Arc<Server>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    file(path, &method, &headers).unwrap_or_else(|| view(&server, &headers))
}

/// A view of the page, or how to reach it.
pub fn view(server: &Server, headers: &HeaderMap) -> Response {
    match Host::of(headers, server.options.page_host.as_deref()) {
        Host::Page => index(),
        Host::Machine | Host::Other => Html(ELSEWHERE).into_response(),
    }
}

/// The answer for a path that is not a view of the page.
fn file(path: &str, method: &Method, headers: &HeaderMap) -> Option<Response> {
    if path.starts_with("api/") {
        return Some(ApiError::not_found("there is no such path; /api/v1/openapi.json lists them").into_response());
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(ApiError::method_not_allowed().into_response());
    }
    match Files::get(path).filter(|_| path != "index.html") {
        Some(file) => Some(asset(path, &file, headers)),
        // The page must not be served for a missing script.
        None if path.starts_with("assets/") => Some(ApiError::not_found("there is no such file").into_response()),
        None => None,
    }
}

/// The page itself.
pub fn index() -> Response {
    let headers = [(header::CACHE_CONTROL, "no-cache")];
    match Files::get("index.html") {
        Some(file) => (headers, Html(file.data.into_owned())).into_response(),
        None => (headers, Html(MISSING)).into_response(),
    }
}

fn asset(path: &str, file: &rust_embed::EmbeddedFile, headers: &HeaderMap) -> Response {
    let tag = format!("\"{:x}\"", Sha256::digest(file.metadata.sha256_hash()));
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    // Names of built files contain a hash of their content.
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [(header::CACHE_CONTROL, cache.to_owned()), (header::ETAG, tag)];
    if known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(header::CONTENT_TYPE, kind_of(path))], file.data.clone().into_owned()).into_response()
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_the_page_and_api_paths_are_not() {
        let status = |method, path| file(path, &method, &HeaderMap::new()).map(|response| response.status());
        assert_eq!(status(Method::GET, "tasks/default/a"), None);
        assert_eq!(status(Method::GET, "api/v2/x"), Some(StatusCode::NOT_FOUND));
        assert_eq!(status(Method::GET, "assets/none.js"), Some(StatusCode::NOT_FOUND));
        assert_eq!(status(Method::POST, "tasks"), Some(StatusCode::METHOD_NOT_ALLOWED));
    }
}
