//! Review kinds (TokenReview, SubjectAccessReview …): evaluated, never stored.

use http::StatusCode;
use serde_json::{Value, json};

use super::Request;
use super::tokens::{asked_audiences, token_user};
use crate::auth::{AccessCheck, Attributes, MASTERS, User, review as printed_rules};
use crate::http::{self as responses, ApiResponse};
use crate::status_error::{Cause, StatusError};

impl Request {
    pub(super) async fn review(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        if self.resource.is("", "bindings") {
            return self.bind(bytes).await;
        }
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut review = decoded.value;
        self.shape(&mut review, &decoded.duplicates).map_err(|invalid| self.not_handled(&invalid))?;
        let mut review = self.with_owners(None, review);
        if review["spec"].is_null() {
            review["spec"] = json!({});
        }
        if self.resource.kind == "SelfSubjectReview" {
            review["metadata"]["creationTimestamp"] = json!(self.now);
        }
        let status = match &*self.resource.kind {
            "TokenReview" => self.review_token(&review["spec"])?,
            "SelfSubjectReview" => json!({"userInfo": user_info(&self.user)}),
            "SelfSubjectRulesReview" => self.review_rules(&review["spec"])?,
            "SelfSubjectAccessReview" => self.review_access(&self.user, &review["spec"])?,
            _ => {
                let spec = &review["spec"];
                if self.resource.kind == "LocalSubjectAccessReview"
                    && spec["resourceAttributes"]["namespace"].as_str() != Some(&self.namespace)
                {
                    let message = format!("spec.resourceAttributes.namespace must match namespace: {}", self.namespace);
                    return Err(StatusError::bad_request(message));
                }
                self.review_access(&asked_user(spec), spec)?
            }
        };
        if self.resource.kind == "SelfSubjectReview"
            && let Some(fields) = review.as_object_mut()
        {
            fields.shift_remove("spec");
        }
        if !self.namespace.is_empty() {
            review["metadata"]["namespace"] = json!(self.namespace);
        }
        review["status"] = status;
        Ok(responses::json(StatusCode::CREATED, review.to_string()))
    }

    fn review_token(&self, spec: &Value) -> Result<Value, StatusError> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(StatusError::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match token_user(&self.api, token, &asked_audiences(spec)) {
            Some((user, audiences)) => {
                json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
            }
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }

    fn review_access(&self, user: &User, spec: &Value) -> Result<Value, StatusError> {
        let invalid = |field: &str, detail: &str| {
            let message = format!("Invalid value: null: {detail}");
            let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() };
            StatusError::invalid("", &self.resource.group, "", &[cause])
        };
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let check = match (resource.is_object(), path.is_object()) {
            (true, true) => {
                return Err(invalid(
                    "spec.nonResourceAttributes",
                    "cannot be specified in combination with resourceAttributes",
                ));
            }
            (false, false) => {
                return Err(invalid(
                    "spec.resourceAttributes",
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ));
            }
            (true, false) => AccessCheck {
                verb: text(resource, "verb"),
                attributes: Attributes::Resource {
                    group: text(resource, "group"),
                    resource: text(resource, "resource"),
                    subresource: text(resource, "subresource"),
                    namespace: text(resource, "namespace"),
                    name: text(resource, "name"),
                },
            },
            (false, true) => AccessCheck { verb: text(path, "verb"), attributes: Attributes::Path(text(path, "path")) },
        };
        let allowed = self.api.allows(user, &check);
        Ok(if allowed { json!({"allowed": true}) } else { json!({"allowed": false}) })
    }

    fn review_rules(&self, spec: &Value) -> Result<Value, StatusError> {
        let namespace = spec["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(StatusError::bad_request("no namespace on request"));
        }
        let access = self.api.access();
        let rules: Vec<_> = access.rules(&self.user, namespace).collect();
        let (mut resources, mut paths) = printed_rules(&rules);
        if self.user.is_in(MASTERS) && resources.is_empty() {
            resources = vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})];
            paths = vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})];
        }
        Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
    }
}

/// The user that a review is about.
fn asked_user(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
