//! JSON merge patch (RFC 7396); as in kube-apiserver, nulls are also dropped from objects inside new lists.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::PatchError;
use crate::schema::go_name;

/// Merges `patch` into the object: fields are replaced, null removes.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(PatchError::Malformed("Invalid JSON Patch".to_owned())),
        other => {
            return Err(PatchError::Malformed(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go_name(other)
            )));
        }
    };
    let mut merged = object.as_object().cloned().unwrap_or_default();
    merge(&mut merged, patch);
    Ok(Value::Object(merged))
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (object.get_mut(name), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(inside)), Value::Object(patch)) => merge(inside, patch),
            (Some(current @ Value::Object(_)), other) => current.clone_from(other),
            (_, value) => {
                let mut value = value.clone();
                drop_nulls(&mut value);
                object.insert(name.clone(), value);
            }
        }
    }
    // In one pass: removing one field from the middle of an object moves all that follow.
    let removed: HashSet<&String> = patch.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name).collect();
    if !removed.is_empty() {
        object.retain(|name, _| !removed.contains(name));
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: Value, patch: Value, expected: Value) {
        assert_eq!(merge_patch(&object, &patch), Ok(expected));
    }

    #[test]
    fn objects_are_merged_lists_replaced_and_nulls_remove() {
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
        check(json!({"a": {"b": 1}}), json!({"a": [1]}), json!({"a": [1]}));
    }

    #[test]
    fn nulls_inside_the_objects_of_a_new_list_are_dropped_too() {
        check(json!({"a": [1]}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]}));
    }

    #[test]
    fn only_an_object_is_a_merge_patch() {
        let message = |patch: Value| merge_patch(&json!({}), &patch).unwrap_err().to_string();
        assert_eq!(message(json!(null)), "Invalid JSON Patch");
        assert_eq!(
            message(json!([])),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn removing_all_fields_of_a_large_object_takes_one_pass() {
        // With one move of the rest per field this takes minutes.
        let fields = |value: Value| -> Value {
            Value::Object((0..100_000).map(|n| (format!("{n:06}"), value.clone())).collect())
        };
        check(fields(json!(1)), fields(Value::Null), json!({}));
    }
}
