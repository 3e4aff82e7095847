//! JSON Patch (RFC 6902), with the extensions that Kubernetes clients rely on: negative indices count from the end,
//! `replace` of a missing field adds it, and a missing field equals null in `test`.

use serde_json::{Map, Value};

use super::{MAX_OPERATIONS, PatchError};
use crate::schema::go_name;

/// Applies all operations of `patch`, or none.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = read(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLong(operations.len()));
    }
    let mut object = object.clone();
    for operation in operations {
        perform(&mut object, &operation).map_err(|detail| PatchError::Inapplicable { detail })?;
    }
    Ok(object)
}

struct Operation<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: Option<&'a Value>,
}

fn read(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    let malformed = |found: &Value, expected: &str| {
        PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into {expected}",
            go_name(found)
        ))
    };
    let list = match patch {
        Value::Array(list) => list.as_slice(),
        Value::Null => &[],
        other => return Err(malformed(other, "Go value of type []handlers.jsonPatchOp")),
    };
    let mut operations = Vec::new();
    for operation in list {
        let Value::Object(fields) = operation else {
            return Err(malformed(operation, "Go value of type handlers.jsonPatchOp"));
        };
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(malformed(other, &format!("Go struct field jsonPatchOp.{name} of type string"))),
        };
        operations.push(Operation {
            op: text("op")?.unwrap_or("unknown"),
            path: text("path")?,
            from: text("from")?,
            value: fields.get("value"),
        });
    }
    Ok(operations)
}

fn perform(object: &mut Value, operation: &Operation<'_>) -> Result<(), String> {
    let path = || operation.path.ok_or_else(|| format!("{} operation failed to decode path", operation.op));
    let from = || operation.from.ok_or_else(|| format!("{} operation failed to decode from", operation.op));
    let value = || operation.value.cloned().unwrap_or(Value::Null);
    match operation.op {
        "add" => add(object, path()?, value()),
        "remove" => remove(object, path()?).map(drop),
        "replace" => replace(object, path()?, value()),
        "move" => {
            let moved = remove(object, from()?)?;
            add(object, path()?, moved)
        }
        "copy" => {
            let copied = get(object, from()?)?.cloned().unwrap_or(Value::Null);
            add(object, path()?, copied)
        }
        "test" => {
            let path = path()?;
            let found = if path.is_empty() { Some(&*object) } else { get(object, path)? };
            match (found, operation.value) {
                (None | Some(Value::Null), Some(Value::Null)) => Ok(()),
                (Some(found), Some(expected)) if found == expected => Ok(()),
                _ => Err(format!("testing value {path} failed")),
            }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

enum Place<'a> {
    Field(&'a mut Map<String, Value>, String),
    Item(&'a mut Vec<Value>, String),
}

/// The container of the last path component.
fn place<'a>(object: &'a mut Value, path: &str) -> Result<Place<'a>, String> {
    let missing = || format!("doc is missing path: {path:?}");
    let (_, rest) = path.split_once('/').ok_or_else(missing)?;
    let mut parts: Vec<String> = rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let last = parts.pop().unwrap_or_default();
    let mut container = object;
    for part in parts {
        container = match container {
            Value::Object(fields) => fields.get_mut(&part).ok_or_else(missing)?,
            Value::Array(items) => {
                let index = index(&part, items.len())?;
                &mut items[index]
            }
            _ => return Err(missing()),
        };
    }
    match container {
        Value::Object(fields) => Ok(Place::Field(fields, last)),
        Value::Array(items) => Ok(Place::Item(items, last)),
        _ => Err(missing()),
    }
}

/// An index below `length`; negative ones count from the end.
fn index(text: &str, length: usize) -> Result<usize, String> {
    let invalid = || format!("Unable to access invalid index: {text}");
    let number: i64 = text.parse().map_err(|_| invalid())?;
    let from_start = if number < 0 { number.checked_add_unsigned(length as u64) } else { Some(number) };
    from_start.and_then(|index| usize::try_from(index).ok()).filter(|index| *index < length).ok_or_else(invalid)
}

fn get<'a>(object: &'a mut Value, path: &str) -> Result<Option<&'a Value>, String> {
    match place(object, path)? {
        Place::Field(fields, key) => Ok(fields.get(&key)),
        Place::Item(items, key) => {
            let index = index(&key, items.len())?;
            Ok(items.get(index))
        }
    }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match place(object, path)? {
        Place::Field(fields, key) => {
            fields.insert(key, value);
        }
        Place::Item(items, key) if key == "-" => items.push(value),
        Place::Item(items, key) => {
            let index = index(&key, items.len() + 1)?;
            items.insert(index, value);
        }
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    match place(object, path)? {
        Place::Field(fields, key) => {
            fields.shift_remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}"))
        }
        Place::Item(items, key) => {
            let index = index(&key, items.len())?;
            Ok(items.remove(index))
        }
    }
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *object = value;
        return Ok(());
    }
    match place(object, path)? {
        Place::Field(fields, key) => {
            fields.insert(key, value);
        }
        Place::Item(items, key) => {
            let index = index(&key, items.len())?;
            items[index] = value;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: Value, patch: Value, expected: Result<Value, u16>) {
        assert_eq!(json_patch(&object, &patch).map_err(|error| error.code()), expected);
    }

    #[test]
    fn each_operation_does_what_its_name_says() {
        let object = json!({"a": {"b": 1}, "list": [1, 2, 3]});
        let add = json!([{"op": "add", "path": "/a/c", "value": 2}, {"op": "add", "path": "/list/1", "value": 9}]);
        check(object.clone(), add, Ok(json!({"a": {"b": 1, "c": 2}, "list": [1, 9, 2, 3]})));
        let append = json!([{"op": "add", "path": "/list/-", "value": 4}]);
        check(object.clone(), append, Ok(json!({"a": {"b": 1}, "list": [1, 2, 3, 4]})));
        let remove = json!([{"op": "remove", "path": "/a/b"}, {"op": "remove", "path": "/list/-1"}]);
        check(object.clone(), remove, Ok(json!({"a": {}, "list": [1, 2]})));
        let replace = json!([{"op": "replace", "path": "/list/0", "value": null}]);
        check(object.clone(), replace, Ok(json!({"a": {"b": 1}, "list": [null, 2, 3]})));
        let moved = json!([{"op": "move", "from": "/a/b", "path": "/b"}]);
        check(object.clone(), moved, Ok(json!({"a": {}, "list": [1, 2, 3], "b": 1})));
        let copy = json!([{"op": "copy", "from": "/list", "path": "/a/list"}]);
        check(object, copy, Ok(json!({"a": {"b": 1, "list": [1, 2, 3]}, "list": [1, 2, 3]})));
    }

    #[test]
    fn escapes_in_paths_are_slashes_and_tildes() {
        let patch = json!([{"op": "replace", "path": "/metadata/annotations/a.io~1b~0c", "value": "y"}]);
        let object = json!({"metadata": {"annotations": {"a.io/b~c": "x"}}});
        check(object, patch, Ok(json!({"metadata": {"annotations": {"a.io/b~c": "y"}}})));
    }

    #[test]
    fn a_failed_test_and_a_missing_path_are_unprocessable_without_detail() {
        check(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 2}]), Err(422));
        check(json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), Ok(json!({"a": 1})));
        check(json!({}), json!([{"op": "add", "path": "/x/y", "value": 1}]), Err(422));
        check(json!({}), json!([{"op": "remove", "path": "/x"}]), Err(422));
        check(json!({"l": []}), json!([{"op": "add", "path": "/l/1", "value": 1}]), Err(422));
        check(json!({"l": []}), json!([{"op": "remove", "path": "/l/-1"}]), Err(422));
        check(json!({}), json!([{"op": "nonsense", "path": "/x"}]), Err(422));
        check(json!({}), json!([{"op": "add", "value": 1}]), Err(422));
        let error = json_patch(&json!({}), &json!([{"op": "test", "path": "/a", "value": 2}])).unwrap_err();
        assert_eq!(error.to_string(), "the server rejected our request due to an error in our request");
    }

    #[test]
    fn an_invalid_patch_is_a_bad_request() {
        let message = |patch: Value| json_patch(&json!({}), &patch).unwrap_err().to_string();
        let prefix = "error decoding patch: json: cannot unmarshal";
        assert_eq!(message(json!({})), format!("{prefix} object into Go value of type []handlers.jsonPatchOp"));
        assert_eq!(message(json!(["x"])), format!("{prefix} string into Go value of type handlers.jsonPatchOp"));
        assert_eq!(
            message(json!([{"op": "add", "path": 1}])),
            format!("{prefix} number into Go struct field jsonPatchOp.path of type string")
        );
        check(json!({}), json!({}), Err(400));
    }

    #[test]
    fn ten_thousand_and_one_operations_are_too_many() {
        let operation = json!({"op": "test", "path": "/a", "value": null});
        check(json!({}), Value::Array(vec![operation.clone(); 10_000]), Ok(json!({})));
        check(json!({}), Value::Array(vec![operation; 10_001]), Err(413));
    }
}
