//! Error responses of every route: `{"error", "message", "code", "field"?}`.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use kube::core::response::StatusCause;

use crate::wire::{ErrorBody, ErrorReason, FieldError};

/// Why a request failed. The message is for the caller and never contains the value of a Secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Machine-readable reason.
    pub reason: ErrorReason,
    /// Message for people.
    pub message: String,
    /// Invalid fields.
    pub fields: Vec<FieldError>,
    /// Seconds after which to try again.
    pub retry_after: Option<u32>,
}

/// The result of a handler.
pub type Answer<T> = Result<T, ApiError>;

impl ApiError {
    fn new(status: StatusCode, reason: ErrorReason, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into(), fields: Vec::new(), retry_after: None }
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorReason::BadRequest, message)
    }

    /// 400: a parameter is invalid.
    pub fn bad_parameter(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let fields = vec![FieldError { field: name.to_owned(), message: message.clone() }];
        Self { fields, ..Self::bad_request(message) }
    }

    /// 401: the caller is not authenticated.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, ErrorReason::Unauthorized, message)
    }

    /// 403: the caller lacks a right.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, ErrorReason::Forbidden, message)
    }

    /// 404: no such object or path.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorReason::NotFound, message)
    }

    /// 404 of an object.
    pub fn no_such(kind: &str, namespace: &str, name: &str) -> Self {
        Self::not_found(format!("{kind} '{name}' does not exist in namespace '{namespace}'"))
    }

    /// 405: the path has other methods.
    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, ErrorReason::MethodNotAllowed, "method not allowed on this path")
    }

    /// 409: not possible in the current state of the object.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, ErrorReason::Conflict, message)
    }

    /// 413: the body is too large.
    pub fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorReason::TooLarge, "the body has more than 1 MiB")
    }

    /// 415: the content type of the body is not supported.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorReason::UnsupportedMediaType, message)
    }

    /// 422: a field is invalid.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let fields = vec![FieldError { field: field.to_owned(), message: message.clone() }];
        Self {
            fields,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorReason::Invalid, format!("{field}: {message}"))
        }
    }

    /// 422: a well-formed body of the wrong shape; `problem` is the error of serde.
    pub fn unreadable(problem: &str) -> Self {
        // serde quotes the field: unknown field `x`, missing field `x`.
        let field = problem.split('`').nth(1).filter(|_| problem.contains("field `"));
        let fields = field.map(|field| FieldError { field: field.to_owned(), message: problem.to_owned() });
        Self {
            fields: fields.into_iter().collect(),
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorReason::Invalid, problem.to_owned())
        }
    }

    /// 429: a rate limit is exceeded.
    pub fn too_many(seconds: u32) -> Self {
        let message = format!("too many requests; try again in {seconds} s");
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorReason::TooManyRequests, message)
        }
    }

    /// 500: the error is logged, not sent.
    pub fn internal(what: &str, error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "{what}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorReason::Internal, format!("{what}; see the server's log"))
    }

    /// 502: unexpected response of an Agent's server.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, ErrorReason::BadGateway, message)
    }

    /// 503: temporarily unavailable.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorReason::Unavailable, message)
    }

    /// The response body.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: self.reason,
            message: self.message.clone(),
            code: self.status.as_u16(),
            field: self.fields.first().map(|wrong| wrong.field.clone()),
            fields: (self.fields.len() > 1).then(|| self.fields.clone()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(&status),
            kube::Error::Auth(_) => Self::unavailable("this server cannot authenticate at the Kubernetes API"),
            error => {
                tracing::warn!(%error, "the Kubernetes API is unreachable");
                Self::unavailable("the Kubernetes API does not answer; try again")
            }
        }
    }
}

impl ApiError {
    /// Translates an error response of the Kubernetes API.
    pub fn from_status(status: &kube::core::Status) -> Self {
        let message = status.message.clone();
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        match (status.code, status.reason.as_str()) {
            (400, _) if message.contains("strict decoding error") => Self::strict(&message),
            (400, _) => Self::bad_request(message),
            (401, _) => Self::unauthorized("the Kubernetes API does not accept the token; log in again"),
            (403, _) => Self::forbidden(message),
            (404 | 410, _) => Self::not_found(message),
            (409, "AlreadyExists") => Self::new(StatusCode::CONFLICT, ErrorReason::AlreadyExists, message),
            (409, _) => Self::conflict(message),
            (413, _) => Self::too_large(),
            (415, _) => Self::unsupported(message),
            (422, _) => {
                let fields = causes.iter().map(wrong_field).collect();
                Self {
                    fields,
                    ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorReason::Invalid, sentence(&message, causes))
                }
            }
            (429, _) => {
                let seconds = status.details.as_ref().map_or(1, |details| details.retry_after_seconds.max(1));
                Self::too_many(seconds)
            }
            (code, reason) => {
                tracing::warn!(code, reason, message, "the Kubernetes API refused");
                Self::unavailable(format!("error of the Kubernetes API: {message}"))
            }
        }
    }

    /// `strict decoding error: unknown field "spec.foo", duplicate field "spec.bar"`.
    fn strict(message: &str) -> Self {
        let fields: Vec<_> = message
            .split("field \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(|field| FieldError { field: field.to_owned(), message: "unknown or duplicate field".to_owned() })
            .collect();
        let listed: Vec<_> = fields.iter().map(|wrong| wrong.field.as_str()).collect();
        let message = format!("unknown or duplicate fields: {}", listed.join(", "));
        Self { fields, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorReason::Invalid, message) }
    }
}

fn wrong_field(cause: &StatusCause) -> FieldError {
    FieldError { field: cause.field.clone(), message: plain(&cause.message).to_owned() }
}

/// The causes as one sentence; the message of the API server if there are none.
fn sentence(message: &str, causes: &[StatusCause]) -> String {
    if causes.is_empty() {
        return message.to_owned();
    }
    let one = |cause: &StatusCause| match cause.field.as_str() {
        "" | "<nil>" => plain(&cause.message).to_owned(),
        field => format!("{field}: {}", plain(&cause.message)),
    };
    causes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A cause without the value that rules on whole objects repeat: `Invalid value: "object": …`.
fn plain(message: &str) -> &str {
    let rest = message.strip_prefix("Invalid value: ").unwrap_or(message);
    rest.strip_prefix("\"object\": ").or_else(|| rest.strip_prefix("\"array\": ")).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(status: serde_json::Value, code: u16, reason: ErrorReason, field: Option<&str>, message: &str) {
        let status = serde_json::from_value(status).unwrap();
        let body = ApiError::from_status(&status).body();
        assert_eq!((body.code, body.error, body.field.as_deref()), (code, reason, field));
        assert_eq!(body.message, message);
    }

    #[test]
    fn the_field_and_the_rule_of_an_invalid_object_are_reported() {
        check(
            json!({"code": 422, "reason": "Invalid", "message": "Task \"a\" is invalid", "details": {"causes": [
                {"reason": "FieldValueInvalid", "field": "spec", "message": "Invalid value: \"object\": either agentRef or templateRef must be specified"}]}}),
            422,
            ErrorReason::Invalid,
            Some("spec"),
            "spec: either agentRef or templateRef must be specified",
        );
    }

    #[test]
    fn unknown_fields_are_invalid_not_malformed() {
        check(
            json!({"code": 400, "reason": "BadRequest", "message": "Task in version \"v1alpha1\" cannot be handled as a Task: strict decoding error: unknown field \"spec.foo\""}),
            422,
            ErrorReason::Invalid,
            Some("spec.foo"),
            "unknown or duplicate fields: spec.foo",
        );
    }

    #[test]
    fn a_name_that_is_taken_and_a_stale_version_are_told_apart() {
        check(
            json!({"code": 409, "reason": "AlreadyExists", "message": "m"}),
            409,
            ErrorReason::AlreadyExists,
            None,
            "m",
        );
        check(json!({"code": 409, "reason": "Conflict", "message": "m"}), 409, ErrorReason::Conflict, None, "m");
    }
}
