//! Why a request is refused.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::contract::depot::{Refusal, RefusalReason};

/// A refusal on its way to the caller. The message never contains a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    reason: RefusalReason,
    message: String,
}

/// The result of a handler.
pub type Answer<T> = Result<T, Refused>;

impl Refused {
    fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    pub fn unauthenticated() -> Self {
        Self::new(RefusalReason::Unauthenticated, "send the token of the Agent's companion as bearer token")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::NotFound, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Conflict, message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::TooLarge, message)
    }

    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Malformed, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Unavailable, message)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { reason, message } = self;
        let status = StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::BAD_REQUEST);
        tracing::debug!(%status, message, "request refused");
        let mut response = (status, Json(Refusal { reason, message })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
