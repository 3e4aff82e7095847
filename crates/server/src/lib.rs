//! # The REST API and the web page
//!
//! [`Listening`] serves `/api/v1`, share links and the page until shutdown; [`openapi`] is the description of the API.
//!
//! One watch per kind fills the caches (`live`), so a list costs no request to the Kubernetes API. Single objects are
//! read from the Kubernetes API, and all changes are made there, with the caller's own credential.
//!
//! Invariants, each with a test:
//! - a caller sees and does only what the Kubernetes API allows (`auth`);
//! - the value of a Secret is never sent, except the token of a share link, to callers who may read that Secret;
//! - a name from a request path is validated before it becomes part of another path (`edge::names`);
//! - a stream of changes or logs resumes where it broke off, or reports that it cannot (`live`);
//! - every error response has the same shape (`error`).

mod agent_server;
mod auth;
mod cluster;
mod edge;
mod error;
mod listening;
mod live;
mod metrics;
mod openapi;
mod options;
mod provider_test;
mod routes;
mod state;
mod wire;

pub use auth::oidc::Oidc;
pub use cluster::Access;
pub use edge::address::{NoRange, Range};
pub use listening::{Error, Listening, LoginLinks};
pub use options::{Options, REVIEW_TTL};
pub use provider_test::test_provider;

/// The OpenAPI 3.1 description of the API as indented JSON.
pub fn openapi() -> String {
    let (_, api) = routes::router(None);
    let mut text = serde_json::to_string_pretty(&openapi::finish(api)).unwrap_or_default();
    text.push('\n');
    text
}
