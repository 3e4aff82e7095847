//! Why a request is refused.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use domain::contract::depot::{Refusal, RefusalReason};
use http::{HeaderValue, StatusCode, header};

/// Seconds after which a client tries again what cannot be done now.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// A refusal on its way to the Pod. The message never contains a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    reason: RefusalReason,
    message: String,
    /// Differs from that of the reason where HTTP knows better.
    status: Option<StatusCode>,
}

/// The result of a handler.
pub(crate) type Answer<T> = Result<T, Refused>;

impl Refused {
    fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), status: None }
    }

    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Unauthenticated, message)
    }

    pub(crate) fn not_allowed(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::NotAllowed, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::NotFound, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Conflict, message)
    }

    pub(crate) fn too_large(what: &str, most: u64) -> Self {
        Self::new(RefusalReason::TooLarge, format!("{what} has more than {most} bytes"))
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Malformed, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(RefusalReason::Unavailable, message)
    }

    /// The path exists, with other methods.
    pub(crate) fn wrong_method() -> Self {
        let status = Some(StatusCode::METHOD_NOT_ALLOWED);
        Self { status, ..Self::malformed("the path has other methods") }
    }

    /// The body arrives too slowly.
    pub(crate) fn too_slow() -> Self {
        Self { status: Some(StatusCode::REQUEST_TIMEOUT), ..Self::malformed("the body arrives too slowly") }
    }

    /// A range behind the end of the bytes.
    pub(crate) fn out_of_range(bytes: u64) -> Self {
        let status = Some(StatusCode::RANGE_NOT_SATISFIABLE);
        Self { status, ..Self::malformed(format!("the range is behind the end: there are {bytes} bytes")) }
    }

    pub(crate) fn too_many_files(most: u64) -> Self {
        Self::new(RefusalReason::TooLarge, format!("the file set has more than {most} entries"))
    }

    /// The store refused a publication, or failed.
    pub(crate) fn publication(error: &store::Error) -> Self {
        match error {
            store::Error::Name(..) => Self::malformed(error.to_string()),
            store::Error::TooLarge { .. } => Self::new(RefusalReason::TooLarge, error.to_string()),
            _ => Self::store(error),
        }
    }

    /// The store failed: the error is for the operator, and for the Pod only that there is one.
    pub(crate) fn store(error: &store::Error) -> Self {
        tracing::error!(%error, "the store cannot be used");
        Self::unavailable("the store cannot be used now; try again")
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> RefusalReason {
        self.reason
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self { reason, message, status } = self;
        let of_reason = || StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let status = status.unwrap_or_else(of_reason);
        tracing::debug!(%status, message, "request refused");
        let mut response = (status, Json(Refusal { reason, message })).into_response();
        let headers = response.headers_mut();
        if reason.is_temporary() {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
