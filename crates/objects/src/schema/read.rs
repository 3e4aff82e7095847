//! Parses schemas of CustomResourceDefinitions and of OpenAPI v3 components.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::node::{ListType, MapType, PatchStrategy, Rule, Schema, Type};
use super::violation::Path;

/// Prefix of a reference to a component.
const REFERENCE: &str = "#/components/schemas/";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("{path} is not a schema: it must be an object")]
    NoSchema { path: String },
    /// A keyword has an invalid value.
    #[error("{path}.{keyword} cannot be {value}")]
    Keyword { path: String, keyword: String, value: String },
    /// The target of a reference does not exist.
    #[error("{path} refers to {reference}, which does not exist")]
    Reference { path: String, reference: String },
}

impl Schema {
    /// Parses the `openAPIV3Schema` of a CustomResourceDefinition.
    pub fn from_json(schema: &Value) -> Result<Self, SchemaError> {
        Reader { components: &Map::new(), read: HashMap::new(), reading: Vec::new(), typed: false }
            .node(schema, &Path::of("openAPIV3Schema"))
    }

    /// Parses the named components of an OpenAPI v3 document, with everything they refer to. A recursive type accepts
    /// any value from its first repetition on.
    pub fn from_components(
        components: &Map<String, Value>,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<BTreeMap<String, Arc<Self>>, SchemaError> {
        let mut reader = Reader { components, read: HashMap::new(), reading: Vec::new(), typed: true };
        let mut schemas = BTreeMap::new();
        for name in names {
            let name = name.as_ref();
            schemas.insert(name.to_owned(), reader.component(name, &Path::of(name))?);
        }
        Ok(schemas)
    }
}

struct Reader<'a> {
    components: &'a Map<String, Value>,
    /// Parsed components, to share them.
    read: HashMap<String, Arc<Schema>>,
    /// Components that are being parsed, to detect cycles.
    reading: Vec<String>,
    /// Whether the schemas describe Go types, where an object without fields accepts anything.
    typed: bool,
}

impl Reader<'_> {
    fn component(&mut self, name: &str, path: &Path) -> Result<Arc<Schema>, SchemaError> {
        if let Some(schema) = self.read.get(name) {
            return Ok(Arc::clone(schema));
        }
        if self.reading.iter().any(|reading| reading == name) {
            return Ok(Arc::new(Schema { preserve_unknown: true, ..Schema::default() }));
        }
        let Some(component) = self.components.get(name) else {
            return Err(SchemaError::Reference { path: path.as_str().to_owned(), reference: name.to_owned() });
        };
        self.reading.push(name.to_owned());
        let mut schema = self.node(component, &Path::of(name))?;
        self.reading.pop();
        schema.type_name = Some(type_name(name));
        let takes_anything = schema.properties.is_empty() && schema.additional.is_none();
        let untyped = schema.kind.is_none() && !schema.int_or_string && schema.one_of.is_empty();
        if takes_anything && (untyped || schema.kind == Some(Type::Object)) {
            schema.preserve_unknown = true;
        }
        let schema = Arc::new(schema);
        // A cycle was cut inside this component: its result depends on where parsing began, so it is not shared.
        if self.reading.is_empty() || !contains_cut(component, &self.reading) {
            self.read.insert(name.to_owned(), Arc::clone(&schema));
        }
        Ok(schema)
    }

    fn node(&mut self, schema: &Value, path: &Path) -> Result<Schema, SchemaError> {
        let Some(keywords) = schema.as_object() else {
            return Err(SchemaError::NoSchema { path: path.as_str().to_owned() });
        };
        let mut node = self.referred(keywords, path)?;
        for (keyword, value) in keywords {
            if !self.keyword(&mut node, keyword, value, path)? {
                return Err(SchemaError::Keyword {
                    path: path.as_str().to_owned(),
                    keyword: keyword.clone(),
                    value: value.to_string(),
                });
            }
        }
        finish_lists(&mut node, keywords);
        Ok(node)
    }

    /// The referenced schema: Kubernetes writes `$ref`, or `allOf` with one reference beside other keywords.
    fn referred(&mut self, keywords: &Map<String, Value>, path: &Path) -> Result<Schema, SchemaError> {
        let Some(reference) = reference(keywords) else { return Ok(Schema::default()) };
        let Some(name) = reference.strip_prefix(REFERENCE).filter(|_| self.typed) else {
            return Err(SchemaError::Reference { path: path.as_str().to_owned(), reference: reference.to_owned() });
        };
        Ok(Schema::clone(&*self.component(name, path)?))
    }

    /// Adds a keyword to `node`; returns false if its value is invalid.
    fn keyword(&mut self, node: &mut Schema, keyword: &str, value: &Value, path: &Path) -> Result<bool, SchemaError> {
        let below = path.child(keyword);
        match keyword {
            "allOf" if is_reference(value) => {}
            "type" => match value.as_str().map(kind) {
                Some(Some(kind)) => node.kind = Some(kind),
                Some(None) if value == "" => {}
                _ => return Ok(false),
            },
            "format" => {
                node.int_or_string |= value == "int-or-string";
                node.format = text(value);
            }
            "description" => node.description = text(value),
            "properties" => {
                let Some(fields) = value.as_object() else { return Ok(value.is_null()) };
                for (name, field) in fields {
                    node.properties.insert(name.clone(), Arc::new(self.node(field, &below.child(name))?));
                }
            }
            "additionalProperties" => match value {
                Value::Bool(true) => node.additional = Some(Arc::default()),
                Value::Object(_) => node.additional = Some(Arc::new(self.node(value, &below)?)),
                _ => return Ok(false),
            },
            "items" => node.items = Some(Arc::new(self.node(value, &below)?)),
            "required" => node.required = texts(value),
            "default" => node.default = Some(value.clone()),
            "enum" => node.choices = value.as_array().cloned().unwrap_or_default(),
            "nullable" => node.nullable = is_true(value),
            "allOf" => node.all_of = self.nodes(value, &below)?,
            "anyOf" => node.any_of = self.nodes(value, &below)?,
            "oneOf" => node.one_of = self.nodes(value, &below)?,
            "not" => node.not = Some(Arc::new(self.node(value, &below)?)),
            "x-kubernetes-int-or-string" => node.int_or_string = is_true(value),
            "x-kubernetes-preserve-unknown-fields" => node.preserve_unknown = is_true(value),
            "x-kubernetes-embedded-resource" => node.embedded_resource = is_true(value),
            "x-kubernetes-map-type" if value == "atomic" => node.map_type = MapType::Atomic,
            "x-kubernetes-map-type" => node.map_type = MapType::Granular,
            "x-kubernetes-validations" => node.rules = value.as_array().into_iter().flatten().map(rule).collect(),
            // Handled together: the reference before, the lists after the other keywords.
            "$ref"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-patch-strategy"
            | "x-kubernetes-patch-merge-key" => {}
            _ => {
                node.checks.insert(keyword.to_owned(), value.clone());
            }
        }
        Ok(true)
    }

    fn nodes(&mut self, list: &Value, path: &Path) -> Result<Vec<Arc<Schema>>, SchemaError> {
        let schemas = list.as_array().into_iter().flatten().enumerate();
        schemas.map(|(index, schema)| self.node(schema, &path.index(index)).map(Arc::new)).collect()
    }
}

fn reference(keywords: &Map<String, Value>) -> Option<&str> {
    let direct = keywords.get("$ref");
    let single = || keywords.get("allOf").filter(|all| is_reference(all)).map(|all| &all[0]["$ref"]);
    direct.or_else(single)?.as_str()
}

/// Whether an `allOf` only carries a reference.
fn is_reference(all_of: &Value) -> bool {
    all_of.as_array().is_some_and(|list| list.len() == 1 && list[0].get("$ref").is_some())
}

/// Whether a component refers, directly or not, to one that is being parsed; a text search is enough.
fn contains_cut(component: &Value, reading: &[String]) -> bool {
    match component {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            let target = value.as_str().filter(|_| name == "$ref").and_then(|text| text.strip_prefix(REFERENCE));
            target.is_some_and(|target| reading.iter().any(|reading| reading == target)) || contains_cut(value, reading)
        }),
        Value::Array(items) => items.iter().any(|item| contains_cut(item, reading)),
        _ => false,
    }
}

/// `io.k8s.api.core.v1.PodSpec` is `v1.PodSpec` in Go.
fn type_name(component: &str) -> String {
    let mut parts = component.rsplit('.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{name}")
}

/// Combines the keywords about a list.
fn finish_lists(node: &mut Schema, keywords: &Map<String, Value>) {
    let word = |keyword: &str| keywords.get(keyword).and_then(Value::as_str);
    match word("x-kubernetes-list-type") {
        Some("set") => node.list_type = ListType::Set,
        Some("map") => {
            let keys = keywords.get("x-kubernetes-list-map-keys").map(texts).unwrap_or_default();
            node.list_type = ListType::Map(keys);
        }
        Some("atomic") => node.list_type = ListType::Atomic,
        _ => {}
    }
    if let Some(strategy) = word("x-kubernetes-patch-strategy") {
        let has = |name: &str| strategy.split(',').any(|part| part == name);
        node.patch = PatchStrategy {
            merge: has("merge"),
            retain_keys: has("retainKeys"),
            merge_key: word("x-kubernetes-patch-merge-key").map(str::to_owned),
        };
    }
}

fn kind(name: &str) -> Option<Type> {
    Some(match name {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => return None,
    })
}

fn rule(rule: &Value) -> Rule {
    let word = |keyword: &str| text(&rule[keyword]);
    Rule {
        rule: word("rule").unwrap_or_default(),
        message: word("message"),
        message_expression: word("messageExpression"),
        reason: word("reason"),
        field_path: word("fieldPath"),
        optional_old_self: is_true(&rule["optionalOldSelf"]),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_true(value: &Value) -> bool {
    value == &Value::Bool(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_keyword_of_a_definition_finds_its_place() {
        let schema = Schema::from_json(&json!({
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": { "type": "string", "default": "x", "enum": ["x", "y"], "nullable": true, "maxLength": 3 },
                "b": { "x-kubernetes-int-or-string": true },
                "c": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": { "type": "object", "properties": { "name": { "type": "string" } } }
                },
                "d": { "type": "object", "additionalProperties": { "type": "integer", "format": "int32" } },
                "e": { "type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true },
            },
            "x-kubernetes-validations": [{ "rule": "has(self.a)", "message": "a!", "reason": "FieldValueRequired" }],
        }));
        let schema = schema.expect("it can be read");
        let field = |name: &str| &schema.properties[name];
        assert_eq!(schema.required, ["a"]);
        assert_eq!((&field("a").default, field("a").nullable), (&Some(json!("x")), true));
        assert_eq!(field("a").checks["maxLength"], 3);
        assert!(field("b").int_or_string && field("b").kind.is_none());
        assert_eq!(field("c").list_type, ListType::Map(vec!["name".to_owned()]));
        assert_eq!(field("d").additional.as_ref().and_then(|node| node.kind), Some(Type::Integer));
        assert!(field("e").preserve_unknown && field("e").map_type == MapType::Atomic);
        assert_eq!(schema.rules[0].reason.as_deref(), Some("FieldValueRequired"));
    }

    #[test]
    fn an_invalid_schema_is_rejected_with_its_path() {
        let check = |schema: Value, message: &str| {
            let error = Schema::from_json(&schema).expect_err("it cannot be read");
            assert_eq!(error.to_string(), message);
        };
        check(json!([]), "openAPIV3Schema is not a schema: it must be an object");
        check(json!({"properties": {"a": {"type": "text"}}}), r#"openAPIV3Schema.properties.a.type cannot be "text""#);
        check(json!({"$ref": "#/x"}), "openAPIV3Schema refers to #/x, which does not exist");
    }

    #[test]
    fn references_are_followed_and_circles_end() {
        let components = json!({
            "io.x.v1.Tree": { "type": "object", "properties": {
                "leaf": { "allOf": [{ "$ref": "#/components/schemas/io.x.v1.Leaf" }], "default": {}, "description": "d" },
                "children": { "type": "array", "items": { "$ref": "#/components/schemas/io.x.v1.Tree" } },
            } },
            "io.x.v1.Leaf": { "type": "object", "properties": { "color": { "type": "string" } } },
        });
        let components = components.as_object().expect("an object");
        let read = Schema::from_components(components, ["io.x.v1.Tree"]).expect("it can be read");
        let tree = &read["io.x.v1.Tree"];
        let leaf = &tree.properties["leaf"];
        assert_eq!((leaf.description.as_deref(), &leaf.default), (Some("d"), &Some(json!({}))));
        assert_eq!(leaf.type_name.as_deref(), Some("v1.Leaf"));
        assert!(leaf.properties.contains_key("color"));
        assert!(tree.properties["children"].items.as_ref().is_some_and(|items| items.preserve_unknown));
    }
}
