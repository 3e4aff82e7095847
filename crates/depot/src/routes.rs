//! The paths of the protocol.

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, RawPathParams},
    routing::{get, post, put},
};
use http::request::Parts;

use crate::{
    caches, inputs, publication,
    refused::{Answer, Refused},
    state::Shared,
    upload,
};

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/v1/blobs", put(upload::put))
        .route("/v1/artifacts/{name}", post(publication::artifact))
        .route("/v1/caches/{name}", post(caches::save).get(caches::find))
        .route("/v1/caches/{name}/content", get(caches::content_of))
        .route("/v1/changes", post(publication::changes))
        .route("/v1/outputs", put(publication::outputs))
        .route("/v1/inputs/{task}/{artifact}", get(inputs::find))
        .route("/v1/inputs/{task}/{artifact}/content", get(inputs::content_of))
        .method_not_allowed_fallback(async || Refused::wrong_method())
        .fallback(async || Refused::not_found("there is no such path"))
        .with_state(shared)
}

/// The variable segments of a path.
pub(crate) struct Segments<const N: usize>(pub(crate) [String; N]);

impl<const N: usize, S: Send + Sync> FromRequestParts<S> for Segments<N> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let unreadable = || Refused::malformed("the path cannot be read");
        let found = RawPathParams::from_request_parts(parts, state).await.map_err(|_| unreadable())?;
        let segments: Vec<String> = found.iter().map(|(_, value)| value.to_owned()).collect();
        segments.try_into().map(Self).map_err(|_| unreadable())
    }
}
