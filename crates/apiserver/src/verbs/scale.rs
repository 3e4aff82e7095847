//! The `scale` subresource.

use http::StatusCode;
use objects::patch::{json_patch, merge_patch};
use serde_json::{Value, json};

use super::update::RETRIES;
use super::{Request, metadata};
use crate::body;
use crate::http::{self as responses, ApiResponse};
use crate::kinds::ScalePaths;
use crate::status_error::{Cause, StatusError};

impl Request {
    pub(super) async fn scale(&self, verb: &str, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let paths = self.scale_paths();
        if verb == "get" {
            let object = self.resource.read(&self.stored()?.bytes)?;
            if self.resource.custom.is_some() && object.pointer(&paths.spec).is_none() {
                let path = paths.spec.replace('/', ".");
                return Err(StatusError::internal(format!("the spec replicas field {path:?} does not exist")));
            }
            return Ok(responses::json(StatusCode::OK, Self::scale_of(&object, &paths).to_string()));
        }
        for _ in 0..=RETRIES {
            let entry = self.stored()?;
            let old = self.resource.read(&entry.bytes)?;
            let before = Self::scale_of(&old, &paths);
            let (wanted, conditional) = self.wanted_scale(verb, bytes, &before)?;
            let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
            // Custom kinds validate the object itself, as after any other change.
            if replicas < 0 && self.resource.custom.is_none() {
                let cause = Cause {
                    reason: "FieldValueInvalid".to_owned(),
                    message: format!("Invalid value: {replicas}: must be greater than or equal to 0"),
                    field: "spec.replicas".to_owned(),
                };
                return Err(StatusError::invalid("Scale", "autoscaling", &self.name, &[cause]));
            }
            let mut new = old.clone();
            set(&mut new, &paths.spec, json!(replicas));
            if conditional {
                new["metadata"]["resourceVersion"] = wanted["metadata"]["resourceVersion"].clone();
            }
            let mut new = self.with_owners(Some(&old), new);
            // `scale` omits zero, and does not add an owner of a field that had none.
            if replicas == 0 || !is_owned(&old, &paths.spec) {
                self.remove_ownership(&mut new);
            }
            match self.store_change(&entry, &old, new, Vec::new()).await {
                Err(error) if error.is("Conflict") && !conditional => {}
                outcome => {
                    let scale = Self::scale_of(&outcome?.object, &paths);
                    return Ok(responses::json(StatusCode::OK, scale.to_string()));
                }
            }
        }
        Err(self.resource.stale(&self.name))
    }

    /// Removes the ownership that a write to `scale` would add.
    fn remove_ownership(&self, object: &mut Value) {
        let manager = self.manager();
        if let Some(owners) = object["metadata"]["managedFields"].as_array_mut() {
            owners.retain(|owner| owner["subresource"] != "scale" || owner["manager"] != manager.as_str());
        }
    }

    fn scale_paths(&self) -> ScalePaths {
        self.resource.scale.clone().unwrap_or_else(|| ScalePaths {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: None,
        })
    }

    fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        let mut kept = json!({});
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                kept[field] = value.clone();
            }
        }
        let mut spec = json!({});
        if number(&paths.spec) != 0 {
            spec["replicas"] = json!(number(&paths.spec));
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec,
            "status": {"replicas": number(&paths.status)},
        });
        let selector = match &paths.selector {
            Some(path) => object.pointer(path).and_then(Value::as_str).map(str::to_owned),
            None => Some(selector_of(object)),
        };
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            scale["status"]["selector"] = json!(selector);
        }
        scale
    }

    /// The requested scale, and whether it has a resourceVersion.
    fn wanted_scale(&self, verb: &str, bytes: &[u8], before: &Value) -> Result<(Value, bool), StatusError> {
        if verb == "update" {
            let scale = body::decode(self.content_type.as_deref(), bytes)?.value;
            let conditional = Self::is_conditional(&scale);
            return Ok((scale, conditional));
        }
        let patch = body::json(bytes)?.value;
        let content_type = self.content_type.as_deref().unwrap_or_default();
        let patched = if content_type.starts_with("application/json-patch+json") {
            json_patch(before, &patch)
        } else {
            merge_patch(before, &patch)
        };
        let scale = patched.map_err(|error| StatusError::bad_request(error.to_string()))?;
        let conditional = metadata::text(&scale, "resourceVersion") != metadata::text(before, "resourceVersion");
        Ok((scale, conditional))
    }
}

/// The matchLabels of a selector as text; matchExpressions are not included.
fn selector_of(object: &Value) -> String {
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let mut pairs: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    pairs.join(",")
}

/// Whether a manager owns the field at the end of a path.
fn is_owned(object: &Value, pointer: &str) -> bool {
    let fields = pointer.replace('/', "/f:");
    let owners = object["metadata"]["managedFields"].as_array();
    owners.into_iter().flatten().any(|owner| owner["fieldsV1"].pointer(&fields).is_some())
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for part in pointer.split('/').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}
