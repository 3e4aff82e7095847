//! The `scale` subresource of custom objects.

use serde_json::Value;

use super::text::go_value;
use super::violation::Violation;

/// The paths of the replica counts of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Such as `.spec.replicas`.
    pub spec_replicas: String,
    /// Such as `.status.replicas`.
    pub status_replicas: String,
    /// The selector of their Pods, as a string.
    pub label_selector: Option<String>,
}

impl Scale {
    /// Parses `subresources.scale` of a version of a definition.
    pub fn from_json(scale: &Value) -> Option<Self> {
        let path = |keyword: &str| scale.get(keyword).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            label_selector: path("labelSelectorPath").filter(|path| !path.is_empty()),
        })
    }

    /// Validates the desired count.
    pub(super) fn validate_spec(&self, object: &Value) -> Option<Violation> {
        replicas(object, &self.spec_replicas)
    }

    /// Validates the current count and the selector.
    pub(super) fn validate_status(&self, object: &Value) -> Vec<Violation> {
        let selector = self.label_selector.as_deref().and_then(|path| {
            let sentence = match find(object, path) {
                Ok(None | Some(Value::String(_))) => return None,
                Ok(Some(other)) => accessor_error(path, other, "string"),
                Err(sentence) => sentence,
            };
            Some(Violation::invalid_text(path, "", &sentence))
        });
        replicas(object, &self.status_replicas).into_iter().chain(selector).collect()
    }
}

fn replicas(object: &Value, path: &str) -> Option<Violation> {
    let invalid = |count: i64, sentence: &str| Some(Violation::invalid(path, &count.into(), sentence));
    match find(object, path) {
        Ok(None) => None,
        Ok(Some(value)) => match value.as_i64() {
            None => invalid(0, &accessor_error(path, value, "int64")),
            Some(count) if count < 0 => invalid(count, "should be a non-negative integer"),
            Some(count) if count > i64::from(i32::MAX) => {
                invalid(count, &format!("should be less than or equal to {}", i32::MAX))
            }
            Some(_) => None,
        },
        Err(sentence) => invalid(0, &sentence),
    }
}

/// The value at a path like `.spec.replicas`; an error if a parent is not an object.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for name in path.trim_start_matches('.').split('.') {
        walked = format!("{walked}.{name}");
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(name) {
                Some(field) => value = field,
                None => return Ok(None),
            },
            other => return Err(accessor_error(&walked, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    format!("{path} accessor error: {} is of the type {}, expected {wanted}", go_value(value), go_type(value))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_of_copies_is_a_number() {
        let scale = json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector" });
        let scale = Scale::from_json(&scale).expect("paths");
        let check = |object: Value, expected: &[&str]| {
            let found = scale.validate_spec(&object).into_iter().chain(scale.validate_status(&object));
            assert_eq!(found.map(|violation| violation.to_string()).collect::<Vec<_>>(), expected, "{object}");
        };
        check(json!({ "spec": { "replicas": 1 }, "status": { "selector": "a=b" } }), &[]);
        check(json!({}), &[]);
        check(
            json!({ "spec": { "replicas": -1 } }),
            &[".spec.replicas: Invalid value: -1: should be a non-negative integer"],
        );
        check(
            json!({ "spec": [{}] }),
            &[
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: [map[]] is of the type []interface {}, expected map[string]interface{}",
            ],
        );
        check(
            json!({ "status": { "selector": {} } }),
            &[
                r#".status.selector: Invalid value: "": .status.selector accessor error: map[] is of the type map[string]interface {}, expected string"#,
            ],
        );
    }
}
