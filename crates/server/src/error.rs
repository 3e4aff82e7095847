//! Errors as every route answers them: `{"error", "message", "code", "field"?}`.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use kube::core::response::StatusCause;

use crate::wire::{ErrorBody, FieldError, Word};

/// Why a request was not done. Its message is for the caller: it never holds the value of a Secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Stable word.
    pub word: Word,
    /// The same as a sentence.
    pub message: String,
    /// Fields that are wrong.
    pub fields: Vec<FieldError>,
    /// Try again after this many seconds.
    pub retry_after: Option<u32>,
}

/// What handlers answer.
pub type Answer<T> = Result<T, ApiError>;

impl ApiError {
    fn new(status: StatusCode, word: Word, message: impl Into<String>) -> Self {
        Self { status, word, message: message.into(), fields: Vec::new(), retry_after: None }
    }

    /// 400: it cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Word::BadRequest, message)
    }

    /// 400, by one parameter.
    pub fn bad_parameter(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let fields = vec![FieldError { field: name.to_owned(), message: message.clone() }];
        Self { fields, ..Self::bad_request(message) }
    }

    /// 401: nobody knows who asks.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Word::Unauthorized, message)
    }

    /// 403: who asks may not.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Word::Forbidden, message)
    }

    /// 404: it is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Word::NotFound, message)
    }

    /// 404 of an object.
    pub fn no_such(kind: &str, namespace: &str, name: &str) -> Self {
        Self::not_found(format!("{kind} '{name}' does not exist in namespace '{namespace}'"))
    }

    /// 405: the path knows other methods.
    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Word::MethodNotAllowed, "this path does not know that method")
    }

    /// 409: not in the state that it is in.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Word::Conflict, message)
    }

    /// 413: the body is too large.
    pub fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Word::TooLarge, "the body has more than 1 MiB")
    }

    /// 415: the body is of a kind that the route does not read.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Word::UnsupportedMediaType, message)
    }

    /// 422: a field is wrong.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let fields = vec![FieldError { field: field.to_owned(), message: message.clone() }];
        Self { fields, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, Word::Invalid, format!("{field}: {message}")) }
    }

    /// 422: a body that is well-formed but not what the route reads, by what the reader said.
    pub fn unreadable(problem: &str) -> Self {
        // serde quotes the field: unknown field `x`, missing field `x`.
        let field = problem.split('`').nth(1).filter(|_| problem.contains("field `"));
        let fields = field.map(|field| FieldError { field: field.to_owned(), message: problem.to_owned() });
        Self {
            fields: fields.into_iter().collect(),
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, Word::Invalid, problem.to_owned())
        }
    }

    /// 429: too often.
    pub fn too_many(seconds: u32) -> Self {
        let message = format!("too many requests; try again in {seconds} s");
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, Word::TooManyRequests, message) }
    }

    /// 500: our fault. What happened is in the log, not in the answer.
    pub fn internal(what: &str, error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "{what}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Word::Internal, format!("{what}; the server's log says more"))
    }

    /// 502: an Agent's server does not answer as it should.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, Word::BadGateway, message)
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Word::Unavailable, message)
    }

    /// The body of the answer.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: self.word,
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
            kube::Error::Auth(_) => Self::unavailable("this server cannot log in to the Kubernetes API"),
            error => {
                tracing::warn!(%error, "the Kubernetes API was not reached");
                Self::unavailable("the Kubernetes API does not answer; try again")
            }
        }
    }
}

impl ApiError {
    /// What the Kubernetes API answered, in our words.
    pub fn from_status(status: &kube::core::Status) -> Self {
        let message = status.message.clone();
        let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        match (status.code, status.reason.as_str()) {
            (400, _) if message.contains("strict decoding error") => Self::strict(&message),
            (400, _) => Self::bad_request(message),
            (401, _) => Self::unauthorized("the Kubernetes API does not accept the token; log in again"),
            (403, _) => Self::forbidden(message),
            (404 | 410, _) => Self::not_found(message),
            (409, "AlreadyExists") => Self::new(StatusCode::CONFLICT, Word::AlreadyExists, message),
            (409, _) => Self::conflict(message),
            (413, _) => Self::too_large(),
            (415, _) => Self::unsupported(message),
            (422, _) => {
                let fields = causes.iter().map(wrong_field).collect();
                Self {
                    fields,
                    ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, Word::Invalid, sentence(&message, causes))
                }
            }
            (429, _) => {
                let seconds = status.details.as_ref().map_or(1, |details| details.retry_after_seconds.max(1));
                Self::too_many(seconds)
            }
            (code, reason) => {
                tracing::warn!(code, reason, message, "the Kubernetes API refused");
                Self::unavailable(format!("the Kubernetes API answered: {message}"))
            }
        }
    }

    /// `strict decoding error: unknown field "spec.foo", duplicate field "spec.bar"`.
    fn strict(message: &str) -> Self {
        let fields: Vec<_> = message
            .split("field \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(|field| FieldError {
                field: field.to_owned(),
                message: "there is no such field, or it is there twice".to_owned(),
            })
            .collect();
        let listed: Vec<_> = fields.iter().map(|wrong| wrong.field.as_str()).collect();
        let message = format!("no such field, or there twice: {}", listed.join(", "));
        Self { fields, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, Word::Invalid, message) }
    }
}

fn wrong_field(cause: &StatusCause) -> FieldError {
    FieldError { field: cause.field.clone(), message: plain(&cause.message).to_owned() }
}

/// The causes as one sentence; what the API server says when it names none.
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
    fn check(status: serde_json::Value, code: u16, word: Word, field: Option<&str>, message: &str) {
        let status = serde_json::from_value(status).unwrap();
        let body = ApiError::from_status(&status).body();
        assert_eq!((body.code, body.error, body.field.as_deref()), (code, word, field));
        assert_eq!(body.message, message);
    }

    #[test]
    fn the_field_and_the_rule_of_an_invalid_object_are_told() {
        check(
            json!({"code": 422, "reason": "Invalid", "message": "Task \"a\" is invalid", "details": {"causes": [
                {"reason": "FieldValueInvalid", "field": "spec", "message": "Invalid value: \"object\": either agentRef or templateRef must be specified"}]}}),
            422,
            Word::Invalid,
            Some("spec"),
            "spec: either agentRef or templateRef must be specified",
        );
    }

    #[test]
    fn unknown_fields_are_invalid_not_malformed() {
        check(
            json!({"code": 400, "reason": "BadRequest", "message": "Task in version \"v1alpha1\" cannot be handled as a Task: strict decoding error: unknown field \"spec.foo\""}),
            422,
            Word::Invalid,
            Some("spec.foo"),
            "no such field, or there twice: spec.foo",
        );
    }

    #[test]
    fn a_name_that_is_taken_and_a_stale_version_are_told_apart() {
        check(json!({"code": 409, "reason": "AlreadyExists", "message": "m"}), 409, Word::AlreadyExists, None, "m");
        check(json!({"code": 409, "reason": "Conflict", "message": "m"}), 409, Word::Conflict, None, "m");
    }
}
