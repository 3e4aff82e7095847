//! Removes and reports fields that a schema does not declare.

use serde_json::Value;

use super::builtin;
use super::node::Schema;

/// Fields of every object: they are pruned by the type of the metadata, not by the schema.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes unknown fields from an object of a custom kind. Returns their paths in the order in which kube-apiserver
    /// reports them.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune_metadata(object, "", &mut dropped);
        let mut others = Pruning::default();
        others.object(object, self, true, "");
        others.dropped.sort();
        dropped.extend(others.dropped);
        others.embedded.sort();
        dropped.extend(others.embedded);
        dropped
    }

    /// The same for a built-in kind: the paths are in the order of the body.
    pub fn prune_typed(&self, object: &mut Value) -> Vec<String> {
        let mut pruning = Pruning { typed: true, ..Pruning::default() };
        pruning.value(object, self, "");
        pruning.dropped
    }
}

/// The error of `fieldValidation=Strict`.
pub fn strict_error(duplicates: &[String], unknown: &[String]) -> String {
    format!("strict decoding error: {}", field_warnings(duplicates, unknown).join(", "))
}

/// The warnings of `fieldValidation=Warn`.
pub fn field_warnings(duplicates: &[String], unknown: &[String]) -> Vec<String> {
    let duplicates = duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    duplicates.chain(unknown.iter().map(|path| format!("unknown field \"{path}\""))).collect()
}

#[derive(Default)]
struct Pruning {
    dropped: Vec<String>,
    /// Fields removed from the metadata of embedded objects.
    embedded: Vec<String>,
    /// For Go types: items of a list of any type keep all fields.
    typed: bool,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, schema: &Schema, path: &str) {
        match value {
            Value::Object(_) => self.object(value, schema, schema.embedded_resource, path),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    match &schema.items {
                        Some(schema) => self.value(item, schema, &path),
                        None if schema.preserve_unknown => {}
                        None => self.everything(item, &path),
                    }
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, object: &mut Value, schema: &Schema, embedded: bool, path: &str) {
        if embedded && !path.is_empty() {
            prune_metadata(object, path, &mut self.embedded);
        }
        let Some(fields) = object.as_object_mut() else { return };
        fields.retain(|name, field| {
            if embedded && OBJECT_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let below = || if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if let Some(schema) = schema.properties.get(name).or(schema.additional.as_ref()) {
                // A scalar has no fields: most paths are never formatted.
                if field.is_object() || field.is_array() {
                    self.value(field, schema, &below());
                }
                return true;
            }
            if schema.preserve_unknown {
                return true;
            }
            if self.typed || !path.is_empty() || !OBJECT_FIELDS.contains(&name.as_str()) {
                self.dropped.push(below());
            }
            false
        });
    }

    /// Removes every field of every object in a list whose items have no schema.
    fn everything(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Object(_) => self.object(value, &Schema::default(), false, path),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.everything(item, &format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
    }
}

/// Removes unknown fields of an object's metadata.
fn prune_metadata(object: &mut Value, path: &str, dropped: &mut Vec<String>) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    let Some(schema) = builtin::metadata() else { return };
    let path = if path.is_empty() { "metadata".to_owned() } else { format!("{path}.metadata") };
    let mut pruning = Pruning { typed: true, ..Pruning::default() };
    pruning.value(metadata, schema, &path);
    pruning.dropped.sort();
    dropped.extend(pruning.dropped);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, before: &Value, after: &Value, dropped: &[&str]) {
        let schema = Schema::from_json(schema).expect("a schema");
        let mut object = before.clone();
        assert_eq!(schema.prune(&mut object), dropped);
        assert_eq!(&object, after);
    }

    #[test]
    fn unknown_fields_are_dropped_and_named_in_order() {
        let schema = json!({ "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } },
                "map": { "type": "object", "additionalProperties": {
                    "type": "object", "properties": { "a": { "type": "string" } } } },
                "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": { "known": { "type": "object", "properties": { "a": {} } } } },
            } },
        } });
        check(
            &schema,
            &json!({
                "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "wrong": 1 }, "zzz": 1,
                "spec": { "surprise": 1, "list": [{ "a": "x", "b": 1 }], "map": { "k": { "b": 1 } },
                    "free": { "x": { "y": 1 }, "known": { "a": { "b": 1 }, "c": 1 } } },
            }),
            &json!({
                "apiVersion": "v1", "kind": "K", "metadata": { "name": "n" },
                "spec": { "list": [{ "a": "x" }], "map": { "k": {} }, "free": { "x": { "y": 1 }, "known": { "a": {} } } },
            }),
            &[
                "metadata.wrong",
                "spec.free.known.a.b",
                "spec.free.known.c",
                "spec.list[0].b",
                "spec.map.k.b",
                "spec.surprise",
                "zzz",
            ],
        );
    }

    #[test]
    fn objects_inside_keep_what_every_object_has() {
        let schema = json!({ "type": "object", "properties": { "template": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": { "spec": { "type": "object" } } } } });
        check(
            &schema,
            &json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "x": 1 }, "spec": { "y": 1 } } }),
            &json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {} } }),
            &["template.spec.y", "template.metadata.x"],
        );
    }

    #[test]
    fn the_strict_error_names_duplicates_before_unknown_fields() {
        let error = strict_error(&["spec.a".to_owned()], &["spec.b".to_owned()]);
        assert_eq!(error, r#"strict decoding error: duplicate field "spec.a", unknown field "spec.b""#);
    }
}
