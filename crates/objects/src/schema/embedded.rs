//! Embedded objects (`x-kubernetes-embedded-resource`).

use serde_json::Value;

use super::names;
use super::node::Schema;
use super::violation::{Path, Violation};

/// Validates apiVersion, kind and metadata of embedded objects.
pub fn validate(schema: &Schema, value: &Value, path: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: &Schema, value: &Value, path: &Path, found: &mut Vec<Violation>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded_resource {
                object(value, path, found);
            }
            for (name, field) in fields.iter().filter(|(_, field)| field.is_object() || field.is_array()) {
                if let Some(schema) = schema.properties.get(name) {
                    walk(schema, field, &path.child(name), found);
                } else if let Some(schema) = &schema.additional {
                    walk(schema, field, &path.key(name), found);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter().enumerate().for_each(|(index, item)| walk(schema, item, &path.index(index), found));
            }
        }
        _ => {}
    }
}

fn object(object: &Value, path: &Path, found: &mut Vec<Violation>) {
    for name in ["apiVersion", "kind"] {
        let field = path.child(name);
        match object.get(name) {
            None => found.push(Violation::required(field.as_str(), "")),
            Some(Value::String(text)) if text.is_empty() => {
                found.push(Violation::invalid_text(field.as_str(), text, "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                let sentence = format!("unexpected GroupVersion string: {text}");
                found.push(Violation::invalid_text(field.as_str(), text, &sentence));
            }
            Some(Value::String(text)) if name == "kind" => {
                let expected = names::dns_1035_label(&text.to_lowercase());
                if !expected.is_empty() {
                    let sentence = format!("may have mixed case, but should otherwise match: {}", expected.join(","));
                    found.push(Violation::invalid_text(field.as_str(), text, &sentence));
                }
            }
            Some(Value::String(_)) => {}
            Some(other) => found.push(Violation::invalid(field.as_str(), other, "must be a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_inside_must_say_what_it_is() {
        let schema = Schema::from_json(&json!({ "type": "object", "properties": { "o": {
            "type": "object", "x-kubernetes-embedded-resource": true } } }));
        let schema = schema.expect("a schema");
        let check = |object: Value, expected: &[&str]| {
            let found = validate(&schema, &json!({ "o": object }), &Path::root());
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({ "apiVersion": "v1", "kind": "Pod" }), &[]);
        check(json!({}), &["o.apiVersion: Required value", "o.kind: Required value"]);
        check(
            json!({ "apiVersion": "", "kind": 1 }),
            &[r#"o.apiVersion: Invalid value: "": must not be empty"#, "o.kind: Invalid value: 1: must be a string"],
        );
    }
}
