//! Uniqueness of list items: `x-kubernetes-list-type` set and map.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::node::{ListType, Schema};
use super::text::json;
use super::violation::{Path, Violation};

/// Finds duplicate items of sets, and items with equal keys in maps.
pub fn validate(schema: &Schema, value: &Value, path: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: &Schema, value: &Value, path: &Path, found: &mut Vec<Violation>) {
    match value {
        Value::Array(items) => {
            match &schema.list_type {
                ListType::Atomic => {}
                ListType::Set => repeated(items.iter().map(json)).for_each(|index| {
                    found.push(Violation::duplicate(path.index(index).as_str(), &items[index]));
                }),
                ListType::Map(keys) => map(keys, items, path, found),
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    if item.is_object() || item.is_array() {
                        walk(schema, item, &path.index(index), found);
                    }
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(_, field)| field.is_object() || field.is_array()) {
                if let Some(schema) = schema.properties.get(name) {
                    walk(schema, field, &path.child(name), found);
                } else if let Some(schema) = &schema.additional {
                    walk(schema, field, &path.key(name), found);
                }
            }
        }
        _ => {}
    }
}

fn map(keys: &[String], items: &[Value], path: &Path, found: &mut Vec<Violation>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let sentence = "must be an object for an array of list-type map";
        found.push(Violation::invalid(path.index(index).as_str(), &items[index], sentence));
        return;
    }
    let key = |item: &Value| {
        let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    let keys = items.iter().map(key).collect::<Vec<_>>();
    for index in repeated(keys.iter().map(json)) {
        found.push(Violation::duplicate(path.index(index).as_str(), &keys[index]));
    }
}

/// The indices of first repetitions. Further repetitions are not reported.
fn repeated(items: impl Iterator<Item = String>) -> impl Iterator<Item = usize> {
    let mut times = HashMap::<String, usize>::new();
    let mut second = Vec::new();
    for (index, item) in items.enumerate() {
        let times = times.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second.into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_that_repeat_are_named_once() {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": {
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "one": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": { "type": "object" } },
            "two": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": { "type": "object" } },
        } }));
        let schema = schema.expect("a schema");
        let check = |value: Value, expected: &[&str]| {
            let found = validate(&schema, &value, &Path::of("spec"));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({ "set": ["a", "b", "a", "a"] }), &[r#"spec.set[2]: Duplicate value: "a""#]);
        check(json!({ "one": [{ "a": 1 }, { "a": 1, "c": 2 }] }), &[r#"spec.one[1]: Duplicate value: {"a":1}"#]);
        check(json!({ "one": [{}, { "c": 2 }] }), &["spec.one[1]: Duplicate value: {}"]);
        check(json!({ "two": [{ "a": 1, "b": 2 }, { "a": 1, "b": 3 }] }), &[]);
        check(
            json!({ "two": [{ "b": 2, "a": 1 }, { "a": 1, "b": 2 }] }),
            &[r#"spec.two[1]: Duplicate value: {"a":1,"b":2}"#],
        );
        check(
            json!({ "two": [1] }),
            &["spec.two[0]: Invalid value: 1: must be an object for an array of list-type map"],
        );
    }
}
