//! Cases derived from the definitions: for every bound, enum, pattern, default, type and required field of a kind one
//! object that must be accepted and one that must be refused.
//!
//! A probe changes one value of a manifest that is valid otherwise. Where a value may stand only beside certain others
//! (a step's name and what depends on it), the probe is good if it is accepted in one of the places where it occurs.
//! A type that many kinds use is probed once: equal schemas have equal answers.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use serde_json::{Map, Value, json};

use crate::{
    Kind, cases,
    kind::is_kubernetes_type,
    sample::{self, BAD_TIMES, GOOD_TIMES},
};

/// The change that a probe makes.
#[derive(Clone, Debug)]
pub enum Change {
    /// Another value.
    Set(Value),
    /// No value.
    Remove,
    /// A field that no type has, inside this object.
    AddUnknownField,
}

/// The expected answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// Yes.
    Accepted,
    /// As if the field were not set: accepted, or refused by a rule that requires it.
    Unset,
    /// Accepted, with this default.
    Default(Value),
    /// No, because of this field; the message is worth a look by a person.
    Refused,
    /// No, because of this field; the message is the same for every field.
    RefusedAsUsual,
}

/// One derived case.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Path of the field in the schema.
    pub path: String,
    /// Description of the probe.
    pub what: String,
    /// The change of the manifest.
    pub change: Change,
    /// The expected answer.
    pub expect: Expect,
}

/// One step of the path to a value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field of a struct, or a key of a map.
    Field(String),
    /// An item of a list.
    Item(usize),
}

/// Where in the manifests of a kind a field occurs.
#[derive(Clone, Debug)]
pub struct Position {
    /// Which manifest.
    pub manifest: usize,
    /// The path of the field in the manifest.
    pub path: Vec<Step>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.path.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}

/// Where every field of a kind occurs in its manifests.
pub struct Places {
    manifests: Vec<Value>,
    positions: BTreeMap<String, Vec<Position>>,
}

impl Places {
    /// Where the fields of `kind` occur in the manifests that set all of them.
    pub fn of(kind: &Kind) -> anyhow::Result<Self> {
        Ok(Self::among(kind, cases::full(kind)?))
    }

    /// The same, with a manifest for each field of the spec before them: a server answers a small object sooner, and a
    /// field that may stand only beside others is found in the large ones.
    pub fn each_field_alone(kind: &Kind) -> anyhow::Result<Self> {
        let full = cases::full(kind)?;
        let small = full.iter().flat_map(|manifest| with_one_field(kind, manifest)).collect::<Vec<_>>();
        Ok(Self::among(kind, [small, full].concat()))
    }

    /// Where the fields of `kind` occur in these manifests.
    pub fn among(kind: &Kind, manifests: Vec<Value>) -> Self {
        let mut positions = BTreeMap::from([(String::new(), vec![Position { manifest: 0, path: Vec::new() }])]);
        for (manifest, object) in manifests.iter().enumerate() {
            for part in ["spec", "status"] {
                let here = Position { manifest, path: vec![Step::Field(part.to_owned())] };
                locate(&kind.schema["properties"][part], &object[part], part, here, &mut positions);
            }
        }
        Self { manifests, positions }
    }

    /// The manifests.
    pub fn manifests(&self) -> &[Value] {
        &self.manifests
    }

    /// Where the field with this path in the schema occurs.
    pub fn find(&self, path: &str) -> &[Position] {
        self.positions.get(path).map(Vec::as_slice).unwrap_or_default()
    }

    /// The manifest of `position`, changed there.
    pub fn changed(&self, position: &Position, change: &Change) -> Value {
        let mut object = self.manifests[position.manifest].clone();
        match change {
            Change::Set(value) => {
                if let Some(place) = at_mut(&mut object, &position.path) {
                    place.clone_from(value);
                }
            }
            Change::Remove => {
                if let Some((Step::Field(name), parent)) = position.path.split_last()
                    && let Some(Value::Object(fields)) = at_mut(&mut object, parent)
                {
                    fields.remove(name);
                }
            }
            Change::AddUnknownField => {
                if let Some(place) = at_mut(&mut object, &position.path) {
                    place["surprise"] = json!(1);
                }
            }
        }
        object
    }

    /// The current value.
    pub fn value(&self, position: &Position) -> Value {
        let mut object = self.manifests[position.manifest].clone();
        at_mut(&mut object, &position.path).map(Value::take).unwrap_or_default()
    }
}

/// The manifest once for each field of its spec, with nothing else that can be left out.
fn with_one_field(kind: &Kind, manifest: &Value) -> Vec<Value> {
    let spec = manifest["spec"].as_object().cloned().unwrap_or_default();
    let required = &kind.schema["properties"]["spec"]["required"];
    let is_required = |field: &str| required.as_array().is_some_and(|names| names.iter().any(|name| name == field));
    let with = |field: &str| {
        let mut small = spec.clone();
        small.retain(|name, _| name == field || is_required(name));
        json!({
            "apiVersion": manifest["apiVersion"], "kind": manifest["kind"],
            "metadata": { "name": manifest["metadata"]["name"] }, "spec": small,
        })
    };
    spec.keys().map(|field| with(field)).collect()
}

/// The value at the end of `path`.
pub fn at_mut<'a>(object: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => value.get_mut(name.as_str()),
        Step::Item(index) => value.get_mut(*index),
    })
}

fn locate(schema: &Value, value: &Value, path: &str, here: Position, found: &mut BTreeMap<String, Vec<Position>>) {
    if value.is_null() {
        return;
    }
    let below = |step: Step| {
        let path = here.path.iter().cloned().chain([step]).collect();
        Position { manifest: here.manifest, path }
    };
    let field = path.rsplit('.').next().unwrap_or_default();
    if !is_kubernetes_type(field, schema) {
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            locate(child, &value[name.as_str()], &format!("{path}.{name}"), below(Step::Field(name.clone())), found);
        }
        if schema["items"].is_object() {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                locate(&schema["items"], item, &format!("{path}[]"), below(Step::Item(index)), found);
            }
        }
        if schema["additionalProperties"].is_object() {
            for (key, item) in value.as_object().into_iter().flatten() {
                let step = below(Step::Field(key.clone()));
                locate(&schema["additionalProperties"], item, &format!("{path}{{}}"), step, found);
            }
        }
    }
    found.entry(path.to_owned()).or_default().push(here);
}

/// Types and string patterns that were probed already.
#[derive(Debug, Default)]
pub struct Seen(HashSet<String>);

impl Seen {
    /// Whether this is the first time.
    fn is_first(&mut self, what: String) -> bool {
        self.0.insert(what)
    }
}

/// Every derived case of `kind`, without those of types that were probed before.
pub fn probes(kind: &Kind, places: &Places, seen: &mut Seen) -> anyhow::Result<Vec<Probe>> {
    let mut probes = Vec::new();
    // Everything below these paths was probed before.
    let mut known = Vec::<String>::new();
    for (path, schema) in kind.nodes() {
        if path.is_empty() {
            continue;
        }
        let Some(first) = places.find(&path).first() else {
            anyhow::bail!("no manifest of tests/cases/full sets {} {path}: add it to one", kind.name);
        };
        if known.iter().any(|above| path.starts_with(above)) {
            continue;
        }
        if schema["properties"].is_object() && !seen.is_first(type_of(schema)) {
            known.push(format!("{path}."));
        }
        let mut list = List { path: &path, probes: &mut probes };
        let current = places.value(first);
        types(&mut list, schema);
        if schema["type"] == "string" && schema["enum"].is_null() {
            texts(&mut list, schema, seen)?;
        }
        if schema["type"] == "integer" || schema["type"] == "number" {
            numbers(&mut list, schema);
        }
        if schema["type"] == "array" {
            lists(&mut list, schema, &current);
        }
        if schema["type"] == "object" && !known.contains(&format!("{path}.")) {
            objects(&mut list, &path, schema, &current);
        }
        for value in schema["enum"].as_array().into_iter().flatten() {
            list.accepted(format!("{value}"), value.clone());
        }
        if schema["enum"].is_array() {
            list.refused("a word that is not in the list".to_owned(), json!("Nonsense"));
        }
    }
    Ok(probes)
}

/// A schema as text, without what is specific to this place.
fn type_of(schema: &Value) -> String {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("description");
    }
    schema.to_string()
}

struct List<'a> {
    path: &'a str,
    probes: &'a mut Vec<Probe>,
}

impl List<'_> {
    fn accepted(&mut self, what: String, value: Value) {
        self.push(what, Change::Set(value), Expect::Accepted);
    }

    fn refused(&mut self, what: String, value: Value) {
        self.push(what, Change::Set(value), Expect::Refused);
    }

    fn push(&mut self, what: String, change: Change, expect: Expect) {
        self.probes.push(Probe { path: self.path.to_owned(), what, change, expect });
    }

    /// A probe of a field of this object.
    fn push_field(&mut self, name: &str, what: &str, change: Change, expect: Expect) {
        let path = format!("{}.{name}", self.path);
        self.probes.push(Probe { path, what: what.to_owned(), change, expect });
    }
}

fn types(list: &mut List<'_>, schema: &Value) {
    let wrong = match schema["type"].as_str() {
        Some("string") => json!(7),
        Some("boolean" | "integer" | "number" | "object" | "array") => json!("seven"),
        _ => return,
    };
    list.push("a value of another type".to_owned(), Change::Set(wrong), Expect::RefusedAsUsual);
}

fn texts(list: &mut List<'_>, schema: &Value, seen: &mut Seen) -> anyhow::Result<()> {
    let pattern = schema["pattern"].as_str();
    let (mut good, mut bad) = match (schema["format"].as_str(), pattern) {
        (Some("date-time"), _) => (GOOD_TIMES, BAD_TIMES),
        (_, Some(pattern)) => (sample::good(pattern)?, sample::bad(pattern)?),
        _ => (&[][..], &[][..]),
    };
    // All that people write is tried once; after that one of each kind shows that the pattern is there.
    if !seen.is_first(format!("{good:?}{bad:?}")) {
        (good, bad) = (&good[..good.len().min(1)], &bad[..bad.len().min(1)]);
    }
    for text in good {
        list.accepted(format!("{text:?}"), json!(text));
    }
    for text in bad {
        list.refused(format!("{text:?}"), json!(text));
    }
    if schema["format"] == "date-time" {
        return Ok(());
    }
    if let Some(least) = schema["minLength"].as_u64().and_then(|least| usize::try_from(least).ok()) {
        if let Some(text) = sample::of_length(pattern, least)? {
            list.accepted(format!("{least} characters"), json!(text));
        }
        list.refused(format!("{} characters", least - 1), json!("x".repeat(least - 1)));
    }
    if let Some(most) = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()) {
        if let Some(text) = sample::of_length(pattern, most)? {
            list.accepted(format!("{most} characters"), json!(text));
        }
        list.refused(format!("more than {most} characters"), json!(sample::longer_than(pattern, most)?));
    }
    Ok(())
}

fn numbers(list: &mut List<'_>, schema: &Value) {
    let (least, most) = match schema["format"].as_str() {
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
        _ => (Value::Null, Value::Null),
    };
    let bound = |name: &str, other: Value| schema.get(name).cloned().unwrap_or(other);
    for (bound, whole, half) in [(bound("minimum", least), -1, -0.5), (bound("maximum", most), 1, 0.5)] {
        let Some(number) = bound.as_f64() else { continue };
        let (at, beyond) = match integer(&bound) {
            Some(exact) if schema["type"] == "integer" => (text_number(exact), text_number(exact + whole)),
            _ => (bound, json!(number + half)),
        };
        list.accepted(format!("{at}"), at);
        list.refused(format!("{beyond}"), beyond);
    }
}

/// The whole number that a bound is; schemas write `1` and `1.0` for the same.
#[expect(clippy::cast_possible_truncation, reason = "bounds are small or come as integers")]
fn integer(value: &Value) -> Option<i128> {
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    whole.or_else(|| value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i128))
}

/// A number as a client would write it: beyond 64 bits serde_json keeps only a float.
#[expect(clippy::cast_precision_loss, reason = "a client that writes such a number loses it too")]
fn text_number(number: i128) -> Value {
    let small = i64::try_from(number).map(Value::from).ok();
    small.or_else(|| u64::try_from(number).map(Value::from).ok()).unwrap_or_else(|| json!(number as f64))
}

fn lists(list: &mut List<'_>, schema: &Value, current: &Value) {
    let item = &current[0];
    let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
    let unique = schema["x-kubernetes-list-type"] == "set";
    let numbered = |index: u64| {
        let mut item = item.clone();
        for key in keys.iter().filter_map(Value::as_str) {
            item[key] = format!("x{index}").into();
        }
        if unique { format!("x{index}").into() } else { item }
    };
    let of = |length: u64| Value::Array((0..length).map(numbered).collect());
    if let Some(least) = schema["minItems"].as_u64() {
        list.accepted(format!("{least} items"), of(least));
        list.refused(format!("{} items", least - 1), of(least - 1));
    } else {
        list.accepted("an empty list".to_owned(), of(0));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        list.accepted(format!("{most} items"), of(most));
        list.refused(format!("{} items", most + 1), of(most + 1));
    }
    if unique || !keys.is_empty() {
        list.refused("the same item twice".to_owned(), json!([item, item]));
    }
}

fn objects(list: &mut List<'_>, path: &str, schema: &Value, current: &Value) {
    if let Some(most) = schema["maxProperties"].as_u64() {
        let item = current.as_object().and_then(|entries| entries.values().next()).cloned().unwrap_or_default();
        let of = |length: u64| (0..length).map(|index| (format!("k{index}"), item.clone())).collect::<Map<_, _>>();
        list.accepted(format!("{most} entries"), of(most).into());
        list.refused(format!("{} entries", most + 1), of(most + 1).into());
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        list.push("any field".to_owned(), Change::AddUnknownField, Expect::Accepted);
    } else if schema["additionalProperties"].is_null() {
        list.push("a field that does not exist".to_owned(), Change::AddUnknownField, Expect::RefusedAsUsual);
    }
    let field = path.rsplit('.').next().unwrap_or_default();
    if is_kubernetes_type(field, schema) {
        return;
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in required.iter().filter_map(Value::as_str) {
        list.push_field(name, "nothing", Change::Remove, Expect::Refused);
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = child.get("default") {
            list.push_field(name, "nothing", Change::Remove, Expect::Default(default.clone()));
            list.push_field(name, "null", Change::Set(Value::Null), Expect::Default(default.clone()));
        } else if !required.iter().any(|field| field == name) {
            list.push_field(name, "null", Change::Set(Value::Null), Expect::Unset);
        }
    }
}
