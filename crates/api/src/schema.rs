//! What turns derived schemas into CustomResourceDefinitions that a person can live with: small enough for a plain
//! `kubectl apply`, bounded everywhere, with rules whose messages say what to do.

use std::{borrow::Cow, time};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::core::{
    Rule,
    schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema, transform::AddNullable};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A longer description than this is cut after its first sentence. Ours are shorter; those of the Kubernetes types
/// that we embed are pages long, and the whole CRD must fit into an annotation of 262,144 bytes.
const LONG_DESCRIPTION: usize = 160;
/// Bounds for what states none itself. They keep hostile objects out and let the API server estimate the cost of rules.
const MAX_STRING: u64 = 65_536;
const MAX_ITEMS: u64 = 256;
const MAX_PROPERTIES: u64 = 256;
/// Any text without NUL, which no file, environment variable or process argument can hold.
pub(crate) const NO_NUL: &str = r"^[^\x00]*$";

/// A validation rule from a CEL expression and the sentence that a person reads when it does not hold.
pub(crate) trait IntoRule {
    /// Makes the rule.
    fn into_rule(self) -> Rule;
}

impl IntoRule for (&str, &str) {
    fn into_rule(self) -> Rule {
        Rule::new(self.0).message(self.1)
    }
}

/// A duration as Kubernetes writes it, never negative: `90s`, `5m`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(time::Duration);

impl Duration {
    /// The value unless it is zero, which tools write for "unset".
    pub fn nonzero(self) -> Option<time::Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }

    /// As the standard library's type.
    pub fn to_std(self) -> time::Duration {
        self.0
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `5400s` or `1.5s`: the largest unit of the standard library's form is the second.
        serializer.collect_str(&format_args!("{:?}", self.0))
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        units::duration::parse(&text)
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not a duration such as 90s, 5m or 1h30m"))
    }
}

impl From<time::Duration> for Duration {
    fn from(span: time::Duration) -> Self {
        Self(span)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 64,
            "pattern": r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$",
        })
    }
}

/// Any JSON value, kept as it is.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON object, kept as it is.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Finishes the definition that the derive macro made. Deterministic, and a second pass changes nothing.
pub(crate) fn finish(crd: &CustomResourceDefinition) -> Value {
    let mut value = serde_json::to_value(crd).unwrap_or_default();
    if let Some(versions) = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        for version in versions {
            if let Some(root) = version.pointer_mut("/schema/openAPIV3Schema").and_then(Value::as_object_mut) {
                tidy(root);
                fit(root);
                if let Some(spec) = root.get_mut("properties").and_then(|p| p.get_mut("spec")) {
                    bound(spec);
                }
            }
        }
    }
    value
}

/// The schema of a piece of a spec, exactly as the definitions of the kinds write it out wherever they have that piece.
pub fn piece<T: JsonSchema>() -> Value {
    // As the derive macro of kinds does it: another setting would give another schema.
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .into_generator();
    let schema = generator.into_root_schema_for::<T>().to_value();
    let typed: Option<JSONSchemaProps> = serde_json::from_value(schema).ok();
    let mut schema = serde_json::to_value(typed).unwrap_or_default();
    if let Value::Object(schema) = &mut schema {
        tidy(schema);
        fit(schema);
    }
    bound(&mut schema);
    schema
}

/// Drops what says nothing: `nullable` (without it the API server prunes a null, which is what "unset" should mean),
/// titles, and all but the first sentence of long descriptions.
fn tidy(schema: &mut Map<String, Value>) {
    schema.remove("nullable");
    schema.remove("title");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = shorten(text);
    }
    for key in ["minimum", "maximum"] {
        if let Some(limit) = schema.get_mut(key) {
            *limit = without_fraction(limit);
        }
    }
    each_child(schema, &mut |child| {
        if let Value::Object(child) = child {
            tidy(child);
        }
    });
}

/// `1.0` as `1`: the typed definition only knows floating point limits.
#[expect(clippy::cast_possible_truncation, reason = "the limits of our schemas are far below 2^53")]
fn without_fraction(limit: &Value) -> Value {
    match limit.as_f64() {
        Some(number) if number.fract() == 0.0 => Value::from(number as i64),
        _ => limit.clone(),
    }
}

/// States the range of every 32-bit number. The API server takes `format` for a remark; without bounds it would store
/// numbers that our types cannot read.
fn fit(schema: &mut Map<String, Value>) {
    if schema.get("format").and_then(Value::as_str) == Some("int32") {
        schema.entry("minimum").or_insert(i32::MIN.into());
        schema.entry("maximum").or_insert(i32::MAX.into());
    }
    each_child(schema, &mut |child| {
        if let Value::Object(child) = child {
            fit(child);
        }
    });
}

/// Gives a bound to every string, list and map that states none.
fn bound(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if !schema.contains_key("enum") => {
            schema.entry("maxLength").or_insert(MAX_STRING.into());
            if !schema.contains_key("format") {
                schema.entry("pattern").or_insert(NO_NUL.into());
            }
        }
        Some("array") => {
            schema.entry("maxItems").or_insert(MAX_ITEMS.into());
        }
        Some("object") if schema.contains_key("additionalProperties") => {
            schema.entry("maxProperties").or_insert(MAX_PROPERTIES.into());
        }
        _ => {}
    }
    each_child(schema, &mut bound);
}

/// Visits the schemas directly below `schema`. A property that happens to be called "items" is no list.
fn each_child(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(&mut *visit);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key).filter(|c| c.is_object()) {
            visit(child);
        }
    }
}

/// The first sentence of a long text, on one line; a short text as it is.
fn shorten(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= LONG_DESCRIPTION {
        return text;
    }
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_keeps_its_first_sentence() {
        let long = format!("Short start. {}", "word ".repeat(60));
        assert_eq!(shorten(&long), "Short start.");
        assert_eq!(shorten("One. Two."), "One. Two.");
    }

    #[test]
    fn durations_are_written_as_people_write_them() {
        let parsed: Duration = serde_json::from_str("\"1h30m\"").unwrap();
        assert_eq!(parsed.to_std(), time::Duration::from_mins(90));
    }

    /// Every node of every definition, with its path.
    fn nodes() -> Vec<(String, Value)> {
        fn walk(path: &str, schema: &Value, nodes: &mut Vec<(String, Value)>) {
            nodes.push((path.to_owned(), schema.clone()));
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                walk(&format!("{path}.{name}"), child, nodes);
            }
            for key in ["items", "additionalProperties"] {
                if schema[key].is_object() {
                    walk(&format!("{path}[]"), &schema[key], nodes);
                }
            }
        }
        let mut nodes = Vec::new();
        for crd in crate::crds() {
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            walk(&kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut nodes);
        }
        nodes
    }

    #[test]
    fn a_definition_fits_into_the_annotation_of_a_client_side_apply() {
        for crd in crate::crds() {
            let (name, bytes) = (&crd["metadata"]["name"], crd.to_string().len());
            assert!(bytes < 250_000, "{name} has {bytes} bytes; the annotation holds 262,144");
        }
    }

    #[test]
    fn a_definition_uses_nothing_that_kubernetes_1_29_does_not_know() {
        for crd in crate::crds() {
            let text = crd.to_string();
            for newer in ["selectableFields", "optionalOldSelf"] {
                assert!(!text.contains(newer), "{} uses {newer}", crd["metadata"]["name"]);
            }
        }
    }

    #[test]
    fn every_text_list_and_map_of_a_spec_is_bounded() {
        for (path, node) in nodes() {
            let of_a_spec = path.split('.').nth(1) == Some("spec");
            let bound = match node["type"].as_str() {
                Some("string") if node["enum"].is_null() => "maxLength",
                Some("array") => "maxItems",
                Some("object") if node["additionalProperties"].is_object() => "maxProperties",
                _ => continue,
            };
            assert!(!of_a_spec || node[bound].is_u64(), "{path} has no {bound}");
        }
    }

    #[test]
    fn every_number_is_one_that_our_types_can_hold() {
        for (path, node) in nodes() {
            match node["format"].as_str() {
                None | Some("int64" | "double" | "date-time") => {}
                Some("int32") => {
                    assert!(node["minimum"].as_f64().is_some_and(|least| least >= f64::from(i32::MIN)), "{path}");
                    assert!(node["maximum"].as_f64().is_some_and(|most| most <= f64::from(i32::MAX)), "{path}");
                }
                Some(format) => panic!("{path} has the format {format}, which the API server does not know"),
            }
        }
    }

    #[test]
    fn nothing_free_form_is_required() {
        for (path, node) in nodes() {
            for name in node["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let free = &node["properties"][name]["x-kubernetes-preserve-unknown-fields"];
                assert!(free.is_null(), "{path}.{name} is required: it needs #[serde(default)]");
            }
        }
    }

    #[test]
    fn a_piece_is_described_as_in_the_definitions_that_have_it() {
        let piece = piece::<crate::context::GitContext>();
        let crds = crate::crds();
        let task = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/contexts/items/properties/git";
        for part in ["type", "required", "properties"] {
            assert_eq!(piece[part], crds[0].pointer(task).unwrap()[part], "{part}");
        }
    }

    #[test]
    fn finishing_again_changes_nothing() {
        let again = |crd: &Value| finish(&serde_json::from_value(crd.clone()).unwrap());
        for crd in crate::crds() {
            let once = again(&crd);
            assert!(again(&once) == once, "{}", crd["metadata"]["name"]);
        }
    }
}
