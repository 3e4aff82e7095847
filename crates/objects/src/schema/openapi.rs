//! Serializes schemas for OpenAPI documents.

use serde_json::{Map, Value, json};

use super::node::{ListType, MapType, Rule, Schema, Type};

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

impl Schema {
    /// The schema as OpenAPI v3, with all of its keywords.
    pub fn to_openapi(&self) -> Value {
        let mut out = self.checks.clone();
        self.write_generic(&mut out);
        self.write_structure(&mut out);
        self.write_extensions(&mut out);
        Value::Object(out)
    }

    fn write_generic(&self, out: &mut Map<String, Value>) {
        let texts = [("format", &self.format), ("description", &self.description)];
        for (keyword, text) in texts {
            if let Some(text) = text {
                out.insert(keyword.to_owned(), text.as_str().into());
            }
        }
        if let Some(kind) = self.kind {
            out.insert("type".to_owned(), kind.name().into());
        }
        if let Some(default) = &self.default {
            out.insert("default".to_owned(), default.clone());
        }
        if !self.required.is_empty() {
            out.insert("required".to_owned(), json!(self.required));
        }
        if !self.choices.is_empty() {
            out.insert("enum".to_owned(), self.choices.clone().into());
        }
        if self.nullable {
            out.insert("nullable".to_owned(), true.into());
        }
    }

    fn write_structure(&self, out: &mut Map<String, Value>) {
        if !self.properties.is_empty() {
            let fields = self.properties.iter().map(|(name, field)| (name.clone(), field.to_openapi()));
            out.insert("properties".to_owned(), Value::Object(fields.collect()));
        }
        for (keyword, node) in [("additionalProperties", &self.additional), ("items", &self.items), ("not", &self.not)]
        {
            if let Some(node) = node {
                out.insert(keyword.to_owned(), node.to_openapi());
            }
        }
        for (keyword, nodes) in [("allOf", &self.all_of), ("anyOf", &self.any_of), ("oneOf", &self.one_of)] {
            if !nodes.is_empty() {
                out.insert(keyword.to_owned(), nodes.iter().map(|node| node.to_openapi()).collect());
            }
        }
    }

    fn write_extensions(&self, out: &mut Map<String, Value>) {
        // Built-in types express it by their format.
        if self.int_or_string && self.format.as_deref() != Some("int-or-string") {
            out.insert("x-kubernetes-int-or-string".to_owned(), true.into());
        }
        // For built-in types it follows from their having no fields.
        if self.preserve_unknown && self.type_name.is_none() {
            out.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        if self.embedded_resource {
            out.insert("x-kubernetes-embedded-resource".to_owned(), true.into());
        }
        match &self.list_type {
            ListType::Atomic => {}
            ListType::Set => {
                out.insert("x-kubernetes-list-type".to_owned(), "set".into());
            }
            ListType::Map(keys) => {
                out.insert("x-kubernetes-list-type".to_owned(), "map".into());
                out.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
            }
        }
        if self.map_type == MapType::Atomic {
            out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        let strategies = [("merge", self.patch.merge), ("retainKeys", self.patch.retain_keys)];
        let strategies = strategies.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect::<Vec<_>>();
        if !strategies.is_empty() {
            out.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
        }
        if let Some(key) = &self.patch.merge_key {
            out.insert("x-kubernetes-patch-merge-key".to_owned(), key.as_str().into());
        }
        if !self.rules.is_empty() {
            out.insert("x-kubernetes-validations".to_owned(), self.rules.iter().map(write_rule).collect());
        }
    }
}

fn write_rule(rule: &Rule) -> Value {
    let mut out = Map::new();
    out.insert("rule".to_owned(), rule.rule.as_str().into());
    for (keyword, text) in [
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ] {
        if let Some(text) = text {
            out.insert(keyword.to_owned(), text.as_str().into());
        }
    }
    if rule.optional_old_self {
        out.insert("optionalOldSelf".to_owned(), true.into());
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_written_as_it_was_read() {
        let schema = json!({
            "type": "object",
            "description": "d",
            "required": ["a"],
            "minProperties": 1,
            "properties": {
                "a": { "type": "string", "default": "x", "enum": ["x"], "nullable": true, "pattern": "^x", "format": "uri" },
                "b": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                "c": {
                    "type": "array", "items": { "type": "object" }, "maxItems": 3,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name",
                },
                "d": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
                "e": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "x-kubernetes-embedded-resource": true, "x-kubernetes-map-type": "atomic",
                    "not": { "required": ["x"] },
                },
            },
            "x-kubernetes-validations": [{
                "rule": "r", "message": "m", "messageExpression": "e", "reason": "FieldValueForbidden",
                "fieldPath": ".a", "optionalOldSelf": true,
            }],
        });
        assert_eq!(Schema::from_json(&schema).expect("it can be read").to_openapi(), schema);
    }
}
