//! Kinds that are questions: they are answered and not stored.

use http::StatusCode;
use serde_json::{Value, json};

use super::Request;
use super::tokens::{asked_audiences, token_user};
use crate::auth::{Attributes, MASTERS, Question, User, review as printed_rules};
use crate::http::{self as answers, Answer};
use crate::refusal::{Cause, Refusal};

impl Request {
    pub(super) async fn review(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
        if self.resource.is("", "bindings") {
            return self.bind(bytes).await;
        }
        self.check_write_options()?;
        let decoded = self.decode(bytes)?;
        let mut review = decoded.value;
        self.shape(&mut review, &decoded.duplicates).map_err(|unfit| self.not_handled(&unfit))?;
        let mut review = self.with_owners(None, review);
        if review["spec"].is_null() {
            review["spec"] = json!({});
        }
        if self.resource.kind == "SelfSubjectReview" {
            review["metadata"]["creationTimestamp"] = json!(self.now);
        }
        let status = match &*self.resource.kind {
            "TokenReview" => self.whose_token(&review["spec"])?,
            "SelfSubjectReview" => json!({"userInfo": user_info(&self.user)}),
            "SelfSubjectRulesReview" => self.own_rules(&review["spec"])?,
            "SelfSubjectAccessReview" => self.may(&self.user, &review["spec"])?,
            _ => {
                let spec = &review["spec"];
                if self.resource.kind == "LocalSubjectAccessReview"
                    && spec["resourceAttributes"]["namespace"].as_str() != Some(&self.namespace)
                {
                    let message = format!("spec.resourceAttributes.namespace must match namespace: {}", self.namespace);
                    return Err(Refusal::bad_request(message));
                }
                self.may(&asked_user(spec), spec)?
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
        Ok(answers::json(StatusCode::CREATED, review.to_string()))
    }

    fn whose_token(&self, spec: &Value) -> Result<Value, Refusal> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Refusal::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match token_user(&self.api, token, &asked_audiences(spec)) {
            Some((user, audiences)) => {
                json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
            }
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }

    fn may(&self, user: &User, spec: &Value) -> Result<Value, Refusal> {
        let invalid = |field: &str, detail: &str| {
            let message = format!("Invalid value: null: {detail}");
            let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() };
            Refusal::invalid("", &self.resource.group, "", &[cause])
        };
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let question = match (resource.is_object(), path.is_object()) {
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
            (true, false) => Question {
                verb: text(resource, "verb"),
                attributes: Attributes::Resource {
                    group: text(resource, "group"),
                    resource: text(resource, "resource"),
                    subresource: text(resource, "subresource"),
                    namespace: text(resource, "namespace"),
                    name: text(resource, "name"),
                },
            },
            (false, true) => Question { verb: text(path, "verb"), attributes: Attributes::Path(text(path, "path")) },
        };
        let allowed = self.api.allows(user, &question);
        Ok(if allowed { json!({"allowed": true}) } else { json!({"allowed": false}) })
    }

    fn own_rules(&self, spec: &Value) -> Result<Value, Refusal> {
        let namespace = spec["namespace"].as_str().unwrap_or_default();
        if namespace.is_empty() {
            return Err(Refusal::bad_request("no namespace on request"));
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

/// The user that a review asks about.
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
