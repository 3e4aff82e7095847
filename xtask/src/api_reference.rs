//! `docs/reference/api.md`: every field of every kind, from the definitions that the API server gets.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Types of Kubernetes itself are named, not explained: their documentation is Kubernetes' own.
const FOREIGN: [(&str, &str); 14] = [
    ("affinity", "Affinity"),
    ("securityContext", "SecurityContext"),
    ("podSecurityContext", "PodSecurityContext"),
    ("resources", "ResourceRequirements"),
    ("lifecycle", "Lifecycle"),
    ("extraVolumes", "[]Volume"),
    ("extraVolumeMounts", "[]VolumeMount"),
    ("extraEnv", "[]EnvVar"),
    ("env", "[]EnvVar"),
    ("envFrom", "[]EnvFromSource"),
    ("tolerations", "[]Toleration"),
    ("startupProbe", "Probe"),
    ("conditions", "[]Condition"),
    ("selector", "LabelSelector"),
];

/// The whole page.
pub fn page(crds: &[Value]) -> String {
    let mut page = String::from(
        "# API reference: kubeopencode.io/v1alpha1\n\n\
         Made from the code by `make generate`. Nested fields are written with dots; `[]` marks a list, `{}` a map.\n\n",
    );
    for crd in crds {
        let kind = text(&crd["spec"]["names"]["kind"]);
        let _ = writeln!(page, "- [{kind}](#{})", kind.to_lowercase());
    }
    for crd in crds {
        write_kind(&mut page, crd);
    }
    page
}

fn write_kind(page: &mut String, crd: &Value) {
    let names = &crd["spec"]["names"];
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let _ = write!(
        page,
        "\n## {}\n\n{}\n\n`{}`, short `{}`, {}.\n",
        text(&names["kind"]),
        text(&schema["description"]),
        text(&names["plural"]),
        text(&names["shortNames"][0]),
        if crd["spec"]["scope"] == "Namespaced" { "in a namespace" } else { "for the whole cluster" },
    );
    let mut rules = Vec::new();
    collect_rules(schema, "", &mut rules);
    for part in ["spec", "status"] {
        let _ = write!(page, "\n### {part}\n\n| field | type | meaning |\n|---|---|---|\n");
        write_fields(page, &schema["properties"][part], "");
    }
    if !rules.is_empty() {
        page.push_str("\n### Rules\n\n");
        for (path, message) in rules {
            let _ =
                writeln!(page, "- {}{message}", if path.is_empty() { String::new() } else { format!("`{path}`: ") });
        }
    }
}

fn write_fields(page: &mut String, schema: &Value, prefix: &str) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in properties {
        let path = format!("{prefix}{name}");
        let foreign = foreign_type(name, field);
        let kind = foreign.map_or_else(|| type_name(field), str::to_owned);
        let _ = writeln!(
            page,
            "| `{path}` | {kind}{} | {}{} |",
            if required.contains(&name.as_str()) { ", required" } else { "" },
            text(&field["description"]).replace('|', "\\|"),
            limits(field),
        );
        if foreign.is_none() {
            let (inner, suffix) = element(field);
            write_fields(page, inner, &format!("{path}{suffix}."));
        }
    }
}

/// The name of a Kubernetes type, if the field has one. Our types of the same name differ in their properties.
fn foreign_type(name: &str, field: &Value) -> Option<&'static str> {
    let (inner, _) = element(field);
    inner["properties"].is_object().then_some(())?;
    FOREIGN.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// The item type of a list or map with its notation in the path; any other type unchanged.
fn element(field: &Value) -> (&Value, &'static str) {
    match field["type"].as_str() {
        Some("array") => (&field["items"], "[]"),
        Some("object") if field["additionalProperties"].is_object() => (&field["additionalProperties"], "{}"),
        _ => (field, ""),
    }
}

fn type_name(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".into();
    }
    match field["type"].as_str() {
        Some("array") => format!("[]{}", type_name(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map of {}", type_name(&field["additionalProperties"]))
        }
        Some("string") if field["format"] == "date-time" => "time".into(),
        Some(kind) => kind.into(),
        None => "any".into(),
    }
}

fn limits(field: &Value) -> String {
    let mut notes = Vec::new();
    if let Some(values) = field["enum"].as_array() {
        notes.push(format!("One of {}.", values.iter().map(text).collect::<Vec<_>>().join(", ")));
    }
    if !field["default"].is_null() {
        notes.push(format!("Default `{}`.", text(&field["default"])));
    }
    match (&field["minimum"], &field["maximum"]) {
        (Value::Null, Value::Null) => {}
        (low, Value::Null) => notes.push(format!("At least {low}.")),
        (Value::Null, high) => notes.push(format!("At most {high}.")),
        (low, high) => notes.push(format!("From {low} to {high}.")),
    }
    if notes.is_empty() { String::new() } else { format!(" {}", notes.join(" ")) }
}

fn collect_rules(schema: &Value, path: &str, rules: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        rules.push((path.to_owned(), text(&rule["message"])));
    }
    let dot = if path.is_empty() { "" } else { "." };
    for (name, field) in schema["properties"].as_object().unwrap_or(&Map::new()) {
        collect_rules(field, &format!("{path}{dot}{name}"), rules);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            collect_rules(&schema[key], &format!("{path}{suffix}"), rules);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_owned)
}
