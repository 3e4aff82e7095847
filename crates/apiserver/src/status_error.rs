//! Errors of requests, as Kubernetes reports them: a `Status` object.

use http::StatusCode;
use objects::schema::quoted;
use serde_json::{Value, json};

/// The qualified name of a resource in messages: `pods`, `tasks.kubeopencode.io`.
pub(crate) fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// One invalid field, as in `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Such as `FieldValueInvalid`.
    pub(crate) reason: String,
    /// The message without the field.
    pub(crate) message: String,
    /// The path of the field; may be empty.
    pub(crate) field: String,
}

impl Cause {
    fn text(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// An error response.
#[derive(Clone, Debug)]
pub(crate) struct StatusError {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    continue_token: Option<String>,
    warnings: Vec<String>,
}

impl StatusError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None, warnings: Vec::new() }
    }

    fn about(mut self, name: &str, group: &str, kind: &str) -> Self {
        self.details = Some(details(name, group, kind));
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let mut error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        error.details = Some(json!({"causes": [{"message": message.to_string()}]}));
        error
    }

    pub(crate) fn not_found(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} {} not found", qualified(resource, group), quoted(name));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(name, group, resource)
    }

    /// The error for a path that is not served.
    pub(crate) fn no_such_path() -> Self {
        let mut error =
            Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource");
        error.details = Some(json!({}));
        error
    }

    /// The name is taken, perhaps by an object that is being deleted; with a generated name the client can retry.
    pub(crate) fn already_exists(resource: &str, group: &str, name: &str, leaving: bool, generated: bool) -> Self {
        let begin = if leaving { "object is being deleted: " } else { "" };
        let end = if generated { ", the server was not able to generate a unique name for the object" } else { "" };
        let message = format!("{begin}{} {} already exists{end}", qualified(resource, group), quoted(name));
        let mut error = Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(name, group, resource);
        if let Some(details) = error.details.as_mut().filter(|_| generated) {
            details["retryAfterSeconds"] = json!(1);
        }
        error
    }

    pub(crate) fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let what = format!("{} {}", qualified(resource, group), quoted(name));
        let message = format!("Operation cannot be fulfilled on {what}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(name, group, resource)
    }

    /// A concurrent write was first.
    pub(crate) fn stale(resource: &str, group: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, group, name, why)
    }

    pub(crate) fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let what = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {} is forbidden: {why}", quoted(name))
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(name, group, resource)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn invalid(kind: &str, group: &str, name: &str, causes: &[Cause]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for cause in causes {
            let text = cause.text();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {} is invalid: {list}", qualified(kind, group), quoted(name));
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(name, group, kind);
        if let Some(details) = error.details.as_mut() {
            details["causes"] = causes
                .iter()
                .map(|cause| {
                    let mut entry = json!({"reason": cause.reason, "message": cause.message});
                    if !cause.field.is_empty() {
                        entry["field"] = json!(cause.field);
                    }
                    entry
                })
                .collect();
        }
        error
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The history before this revision is compacted.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The client names a revision that this server has not reached.
    pub(crate) fn future_revision(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}"));
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        error.details = Some(json!({"retryAfterSeconds": seconds}));
        error
    }

    /// Adds a token with which a list can continue inconsistently.
    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.continue_token = Some(token);
        self
    }

    /// Adds warnings, which are sent with errors too.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Replaces the causes, keeping name and kind.
    pub(crate) fn with_causes(mut self, causes: &[Cause]) -> Self {
        let list: Vec<Value> = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        let details = self.details.get_or_insert_with(|| json!({}));
        details["causes"] = Value::Array(list);
        self
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.code
    }

    pub(crate) fn is(&self, reason: &str) -> bool {
        self.reason == reason
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The `Status` object of the response.
    pub(crate) fn to_status(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = json!(token);
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure", "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status["code"] = json!(self.code.as_u16());
        status
    }
}

fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut details = json!({});
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details[key] = json!(value);
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_findings_are_listed_once_each_in_brackets() {
        let cause = |field: &str| Cause {
            reason: "FieldValueRequired".to_owned(),
            message: "Required value".to_owned(),
            field: field.to_owned(),
        };
        let error =
            StatusError::invalid("Task", "kubeopencode.io", "a", &[cause("spec.x"), cause("spec.x"), cause("y")]);
        assert_eq!(
            error.message(),
            r#"Task.kubeopencode.io "a" is invalid: [spec.x: Required value, y: Required value]"#
        );
        assert_eq!(error.to_status()["code"], 422);
        assert_eq!(error.to_status()["details"]["kind"], "Task");
    }

    #[test]
    fn names_of_the_core_group_stand_alone() {
        let error = StatusError::not_found("pods", "", "a");
        assert_eq!(error.message(), r#"pods "a" not found"#);
        assert_eq!(error.to_status()["details"], json!({"name": "a", "kind": "pods"}));
    }
}
