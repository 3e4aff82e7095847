//! JSON Patch (RFC 6902), with the extensions that Kubernetes clients rely on: negative indices count from the end,
//! `replace` of a missing field adds it, and a missing field equals null in `test`.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::{MAX_COPIED, MAX_DEPTH, MAX_OPERATIONS, MAX_STEPS, PatchError};
use crate::schema::go_name;

/// Applies all operations of `patch`, or none.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = read(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLong(operations.len()));
    }
    let mut object = object.clone();
    let mut spent = Spent::default();
    for operation in operations {
        perform(&mut object, &operation, &mut spent).map_err(|refused| match refused {
            Refused::TooDeep => PatchError::Malformed(format!("the patched object exceeds {MAX_DEPTH} levels")),
            Refused::Detail(detail) => PatchError::Inapplicable { detail },
        })?;
    }
    Ok(object)
}

enum Refused {
    TooDeep,
    /// For logs.
    Detail(String),
}

impl From<String> for Refused {
    fn from(detail: String) -> Self {
        Self::Detail(detail)
    }
}

/// What the operations so far have cost. A copy can double the object, so a small patch could ask for gigabytes.
#[derive(Default)]
struct Spent {
    /// Size of the copies, in bytes of JSON.
    copied: usize,
    /// List items and fields that were moved or visited.
    steps: usize,
}

impl Spent {
    /// Measures a copy before it is made.
    fn copy(&mut self, value: &Value) -> Result<(), String> {
        let mut size = Size { bytes: self.copied, limit: MAX_COPIED };
        serde_json::to_writer(&mut size, value)
            .map_err(|_| format!("the accumulated size increase of copy exceeds the limit {MAX_COPIED}"))?;
        self.copied = size.bytes;
        Ok(())
    }

    fn step(&mut self, count: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(count);
        if self.steps > MAX_STEPS {
            return Err(format!("the operations move or visit more than {MAX_STEPS} items"));
        }
        Ok(())
    }

    /// Checks the nesting of the object with `value` at `path`.
    fn nest(&mut self, path: &str, value: &Value) -> Result<(), Refused> {
        let above = path.matches('/').count();
        if above + self.depth(value)? > MAX_DEPTH {
            return Err(Refused::TooDeep);
        }
        Ok(())
    }

    /// Levels of a value; a scalar has none. The recursion is bounded because no value is deeper than [`MAX_DEPTH`].
    fn depth(&mut self, value: &Value) -> Result<usize, String> {
        let mut deepest = 0;
        match value {
            Value::Array(items) => {
                self.step(items.len())?;
                for item in items {
                    deepest = deepest.max(self.depth(item)?);
                }
            }
            Value::Object(fields) => {
                self.step(fields.len())?;
                for field in fields.values() {
                    deepest = deepest.max(self.depth(field)?);
                }
            }
            _ => return Ok(0),
        }
        Ok(deepest + 1)
    }
}

/// Counts the bytes that are written to it, up to a limit.
struct Size {
    bytes: usize,
    limit: usize,
}

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        if self.bytes > self.limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

fn perform(object: &mut Value, operation: &Operation<'_>, spent: &mut Spent) -> Result<(), Refused> {
    let path = || operation.path.ok_or_else(|| format!("{} operation failed to decode path", operation.op));
    let from = || operation.from.ok_or_else(|| format!("{} operation failed to decode from", operation.op));
    let value = || operation.value.cloned().unwrap_or(Value::Null);
    match operation.op {
        "add" => add(object, path()?, value(), spent),
        "remove" => Ok(remove(object, path()?, spent).map(drop)?),
        "replace" => replace(object, path()?, value(), spent),
        "move" => {
            let moved = remove(object, from()?, spent)?;
            add(object, path()?, moved, spent)
        }
        "copy" => {
            let found = get(object, from()?)?.unwrap_or(&Value::Null);
            spent.copy(found)?;
            let copied = found.clone();
            add(object, path()?, copied, spent)
        }
        "test" => {
            let path = path()?;
            let found = if path.is_empty() { Some(&*object) } else { get(object, path)? };
            match (found, operation.value) {
                (None | Some(Value::Null), Some(Value::Null)) => Ok(()),
                (Some(found), Some(expected)) if found == expected => Ok(()),
                _ => Err(format!("testing value {path} failed").into()),
            }
        }
        other => Err(format!("Unexpected kind: {other}").into()),
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

fn add(object: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), Refused> {
    spent.nest(path, &value)?;
    match place(object, path)? {
        Place::Field(fields, key) => {
            fields.insert(key, value);
        }
        Place::Item(items, key) if key == "-" => items.push(value),
        Place::Item(items, key) => {
            let index = index(&key, items.len() + 1)?;
            spent.step(items.len() - index)?;
            items.insert(index, value);
        }
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str, spent: &mut Spent) -> Result<Value, String> {
    match place(object, path)? {
        Place::Field(fields, key) => {
            spent.step(fields.len())?;
            fields.shift_remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}"))
        }
        Place::Item(items, key) => {
            let index = index(&key, items.len())?;
            spent.step(items.len() - index)?;
            Ok(items.remove(index))
        }
    }
}

fn replace(object: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), Refused> {
    spent.nest(path, &value)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned().into());
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

    /// `times` copies of `/data` into itself: each doubles the object.
    fn doubling(times: usize) -> Value {
        let copy = |n: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/c{n}")});
        (0..times).map(copy).collect()
    }

    #[test]
    fn copies_of_more_than_three_mebibytes_are_refused_before_they_are_made() {
        let object = json!({"data": {"k": "v".repeat(1000)}});
        assert!(json_patch(&object, &doubling(10)).is_ok());
        check(object.clone(), doubling(17), Err(422));
        check(object, doubling(60), Err(422));
        // A text has two quotes in JSON.
        let text = |length: usize| json!({"a": "x".repeat(length - 2)});
        let copy = json!([{"op": "copy", "from": "/a", "path": "/b"}]);
        assert!(json_patch(&text(MAX_COPIED), &copy).is_ok());
        check(text(MAX_COPIED + 1), copy, Err(422));
        // The copies are added up, also those that are removed again.
        let pair = [json!({"op": "copy", "from": "/a", "path": "/b"}), json!({"op": "remove", "path": "/b"})];
        check(text(MAX_COPIED / 2 + 1), pair.iter().cycle().take(4).cloned().collect(), Err(422));
    }

    #[test]
    fn no_operation_nests_the_object_deeper_than_a_body_may_be() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
        let path = |levels: usize| "/a".repeat(levels);
        let add = |levels: usize| json!([{"op": "add", "path": path(levels), "value": {"a": {}}}]);
        assert!(json_patch(&nested(MAX_DEPTH - 2), &add(MAX_DEPTH - 2)).is_ok());
        check(nested(MAX_DEPTH - 1), add(MAX_DEPTH - 1), Err(400));
        // Each copy into the innermost object doubles the depth.
        let copy = |levels: usize| json!([{"op": "copy", "from": "/a", "path": path(levels)}]);
        check(nested(300), copy(300), Err(400));
        let moved = json!([{"op": "add", "path": "/b", "value": {}}, {"op": "move", "from": "/a", "path": "/b/c"}]);
        assert!(json_patch(&nested(MAX_DEPTH - 1), &moved).is_ok());
        check(nested(MAX_DEPTH), moved, Err(400));
        check(json!({}), json!([{"op": "replace", "path": "", "value": nested(MAX_DEPTH + 1)}]), Err(400));
    }

    #[test]
    fn operations_that_shift_a_long_list_again_and_again_are_refused() {
        let object = json!({"list": vec![0; 100_000]});
        let insert = json!({"op": "add", "path": "/list/0", "value": 1});
        assert!(json_patch(&object, &Value::Array(vec![insert.clone(); 10])).is_ok());
        check(object, Value::Array(vec![insert; 2_000]), Err(422));
    }
}
