//! Defaults of schemas.

use serde_json::Value;

use super::node::Schema;

impl Schema {
    /// Prepares an object of a custom kind as apiextensions does: nulls that are not values are removed, and missing
    /// fields get their default.
    pub fn fill_defaults(&self, object: &mut Value) {
        self.drop_nulls(object);
        self.fill_missing(object);
    }

    /// Removes null fields that are neither nullable nor have a default. List items are kept.
    fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.retain(|name, field| match self.field(name) {
                Some(schema) if field.is_null() => schema.nullable || schema.default.is_some(),
                Some(schema) => {
                    schema.drop_nulls(field);
                    true
                }
                None => true,
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.drop_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }

    /// Sets defaults only. Applied objects are prepared this way: their nulls are kept for validation.
    pub fn fill_missing(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        let missing = fields.get(name).is_none_or(|field| schema.is_unwanted_null(field));
                        if missing {
                            fields.insert(name.clone(), default.clone());
                        }
                    }
                }
                for (name, field) in fields {
                    if let Some(schema) = self.properties.get(name) {
                        schema.fill_missing(field);
                    } else if let Some(schema) = &self.additional {
                        schema.replace_null(field);
                        schema.fill_missing(field);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.replace_null(item);
                        schema.fill_missing(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_unwanted_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }

    fn replace_null(&self, value: &mut Value) {
        if self.is_unwanted_null(value) {
            *value = self.default.clone().unwrap_or_default();
        }
    }

    /// The schema of the field with this name.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional.as_ref()).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, before: Value, after: &Value) {
        let mut object = before;
        Schema::from_json(schema).expect("a schema").fill_defaults(&mut object);
        assert_eq!(&object, after);
    }

    #[test]
    fn a_default_replaces_a_missing_or_null_value() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "integer", "default": 1 },
            "b": { "type": "object", "default": {}, "properties": { "c": { "type": "string", "default": "x" } } },
            "d": { "type": "object", "properties": { "e": { "type": "string", "default": "y" } } },
        } });
        check(&schema, json!({}), &json!({ "a": 1, "b": { "c": "x" } }));
        check(
            &schema,
            json!({ "a": null, "b": { "c": null }, "d": {} }),
            &json!({ "a": 1, "b": { "c": "x" }, "d": { "e": "y" } }),
        );
        check(&schema, json!({ "a": 2, "b": { "c": "z" } }), &json!({ "a": 2, "b": { "c": "z" } }));
    }

    #[test]
    fn a_null_without_a_default_goes_away_unless_it_is_a_value() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "integer" },
            "b": { "type": "integer", "nullable": true, "default": 1 },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "defaulted": { "type": "object", "additionalProperties": { "type": "string", "default": "x" } },
            "list": { "type": "array", "items": { "type": "string", "default": "x" } },
        } });
        check(
            &schema,
            json!({ "a": null, "b": null, "map": { "k": null }, "defaulted": { "k": null }, "list": [null], "other": null }),
            &json!({ "b": null, "map": {}, "defaulted": { "k": "x" }, "list": ["x"], "other": null }),
        );
        let mut applied = json!({ "a": null });
        Schema::from_json(&schema).expect("a schema").fill_missing(&mut applied);
        assert_eq!(applied, json!({ "a": null, "b": 1 }), "what is applied keeps it");
    }
}
