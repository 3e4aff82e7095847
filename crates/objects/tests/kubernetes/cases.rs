//! The definitions, manifests that set all their fields, and changes of them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// One of our kinds, as its definition in `deploy/crds` describes it.
pub struct Definition {
    pub kind: String,
    pub crd: Value,
    pub schema: Value,
    plural: String,
    namespaced: bool,
}

impl Definition {
    pub fn path(&self, namespace: &str) -> String {
        let group = "/apis/kubeopencode.io/v1alpha1";
        if self.namespaced {
            format!("{group}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{group}/{}", self.plural)
        }
    }

    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Manifests that set many of its fields.
    pub fn manifests(&self) -> anyhow::Result<Vec<Value>> {
        let objects = read::<Value>(&repository(&format!("tests/cases/full/{}.yaml", self.plural)))?;
        Ok(objects.into_iter().filter(|object| object["kind"] == self.kind.as_str()).collect())
    }
}

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read<T: DeserializeOwned>(file: &Path) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_multiple_with_options(&text, options).with_context(|| file.display().to_string())
}

/// All our kinds.
pub fn definitions() -> anyhow::Result<Vec<Definition>> {
    let mut definitions = Vec::new();
    for entry in fs::read_dir(repository("deploy/crds"))? {
        for crd in read::<Value>(&entry?.path())? {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            definitions.push(Definition {
                kind: text(&crd["spec"]["names"]["kind"]),
                plural: text(&crd["spec"]["names"]["plural"]),
                namespaced: crd["spec"]["scope"] == "Namespaced",
                schema: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone(),
                crd,
            });
        }
    }
    definitions.sort_by(|one, other| one.kind.cmp(&other.kind));
    Ok(definitions)
}

/// Values for one validation rule, by description.
#[derive(Deserialize)]
pub struct RuleCases {
    /// The rule's message.
    pub rule: String,
    pub before: Option<Value>,
    #[serde(default)]
    accepted: BTreeMap<String, Value>,
    #[serde(default)]
    refused: BTreeMap<String, Value>,
}

impl RuleCases {
    pub fn values(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.accepted.iter().chain(&self.refused)
    }
}

pub fn rules() -> anyhow::Result<Vec<RuleCases>> {
    let mut documents = read::<Vec<RuleCases>>(&repository("tests/cases/rules.yaml"))?;
    documents.pop().context("rules.yaml is empty")
}

/// A place in an object: a JSON pointer, and the schema there.
pub struct Place<'a> {
    pub pointer: String,
    pub schema: &'a Value,
}

/// Every place of `object` that the schema describes, below one of its fields.
pub fn places<'a>(schema: &'a Value, object: &Value, part: &str) -> Vec<Place<'a>> {
    let mut found = Vec::new();
    walk(&schema["properties"][part], &object[part], format!("/{part}"), &mut found);
    found
}

fn walk<'a>(schema: &'a Value, value: &Value, pointer: String, found: &mut Vec<Place<'a>>) {
    if value.is_null() || schema.is_null() {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let known = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                let escaped = name.replace('~', "~0").replace('/', "~1");
                walk(known, field, format!("{pointer}/{escaped}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], item, format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(Place { pointer, schema });
}

/// A bound that is a whole number.
fn whole(schema: &Value, keyword: &str) -> Option<i64> {
    let bound = &schema[keyword];
    #[expect(clippy::cast_possible_truncation, reason = "bounds of our definitions are small or whole")]
    bound.as_i64().or_else(|| bound.as_f64().map(|bound| bound as i64))
}

fn size(schema: &Value, keyword: &str) -> Option<usize> {
    // A megabyte a try would only measure the network.
    whole(schema, keyword).and_then(|bound| usize::try_from(bound).ok()).filter(|bound| *bound < 100_000)
}

/// Values at and beyond the bounds of a schema, for the place of `current`.
pub fn bounds(schema: &Value, current: &Value) -> Vec<Value> {
    let mut values = vec![json!(null)];
    values.push(if schema["type"] == "string" { json!(7) } else { json!("seven") });
    for bound in [whole(schema, "minimum"), whole(schema, "maximum")].into_iter().flatten() {
        values.extend([bound.saturating_sub(1), bound, bound.saturating_add(1)].map(Value::from));
        values.push(json!(bound.to_string().parse::<f64>().map(|bound| bound + 0.5).unwrap_or_default()));
    }
    for length in [size(schema, "minLength"), size(schema, "maxLength")].into_iter().flatten() {
        values.extend([length.saturating_sub(1), length, length + 1].map(|length| json!("x".repeat(length))));
    }
    if schema["type"] == "string" {
        values.extend([
            json!(""),
            json!("a\0b"),
            json!("Nonsense"),
            json!("2026-01-01T00:00:00Z"),
            json!("é".repeat(20)),
        ]);
    }
    if let Value::Array(items) = current {
        let item = items.first().cloned().unwrap_or_default();
        for count in [size(schema, "minItems"), size(schema, "maxItems")].into_iter().flatten() {
            for count in [count.saturating_sub(1), count, count + 1] {
                values.push(Value::Array(vec![item.clone(); count.min(300)]));
            }
        }
        values.extend([json!([]), json!([item, item]), json!([null])]);
    }
    if let Value::Object(fields) = current {
        for name in fields.keys() {
            let mut without = fields.clone();
            without.remove(name);
            values.push(Value::Object(without));
        }
        let mut more = fields.clone();
        more.insert("surprise".to_owned(), json!({ "inside": 1 }));
        values.push(Value::Object(more));
        if let Some(most) = size(schema, "maxProperties").filter(|most| *most <= 300) {
            let item = fields.values().next().cloned().unwrap_or_default();
            let many = (0..=most).map(|index| (format!("k{index}"), item.clone()));
            values.push(Value::Object(many.collect::<Map<_, _>>()));
        }
    }
    values
}

/// Random replacements of a value.
pub fn oddities() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(0.5),
        json!(1e30),
        json!(4_294_967_296_i64),
        json!(""),
        json!("x"),
        json!("a\u{0}b"),
        json!("https://example.com"),
        json!("2026-01-01T00:00:00Z"),
        json!("x".repeat(300)),
        json!([]),
        json!([null]),
        json!(["x", "x"]),
        json!([{}]),
        json!([{ "name": "x" }, { "name": "x" }]),
        json!({}),
        json!({ "name": "x" }),
        json!({ "surprise": { "inside": 1 } }),
        json!({ "a": null, "b": "x", "c": 1, "d": [1] }),
    ]
}

/// Chance that is the same every time: a failure can be repeated.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }
}
