//! Bodies of our kinds: whole objects and short forms, made from the kinds' own definitions.

use api::names::{GROUP, VERSION};
use serde_json::{Map, Value, json};
use utoipa::ToSchema as _;

use crate::{
    routes::kind::{Served, Short},
    wire::ObjectResponse,
};

/// The schema of Pod settings has a hundred kilobytes, and the documentation of Kubernetes describes it.
const KUBERNETES_OWN: [&str; 1] = ["podSpec"];

/// Name of the schema of a kind's spec.
pub fn spec_name(kind: &str) -> String {
    format!("{kind}Spec")
}

/// Name of the request schema that creates an object of a kind.
pub fn new_name(kind: &str) -> String {
    format!("New{kind}")
}

/// Name of the request schema that replaces an object of a kind.
pub fn changed_name<K: Served>() -> String {
    if K::SHORT == Short::CronTask { format!("Changed{}", K::KIND) } else { K::KIND.to_owned() }
}

/// Name of the schema of a page of a list.
pub fn list_name(kind: &str) -> String {
    format!("{kind}List")
}

/// Name of the response schema of a kind.
pub fn response_name<K: Served>() -> String {
    let name = K::Response::name();
    if is_plain::<K>() { format!("{}Response", K::KIND) } else { name.into_owned() }
}

/// Whether a kind has the general response.
fn is_plain<K: Served>() -> bool {
    K::Response::name() == ObjectResponse::name()
}

/// A reference to a schema.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Adds the schemas of a kind. `crds` are the definitions of all kinds.
pub fn add<K: Served>(schemas: &mut Map<String, Value>, crds: &[Value]) {
    let spec = spec_of(crds, K::KIND);
    let fields = spec["properties"].as_object().cloned().unwrap_or_default();
    let (short, partial) = match K::SHORT {
        Short::Task => (refined(schemas.get("CreateTask"), &fields), None),
        Short::CronTask => {
            let task = properties(&spec_of(crds, "Task"), &crate::routes::kind::OF_THE_TASK);
            let optional = properties(&spec, &crate::routes::kind::CHANGED_ALONE);
            let description = task.get("description").cloned().unwrap_or_default();
            let change: Map<_, _> = optional.into_iter().chain([("description".to_owned(), description)]).collect();
            let new = fields.into_iter().chain(task).collect();
            (named(new, &["name", "schedule"]), Some(object(&change, &[])))
        }
        Short::Flat => {
            let named = named(Map::new(), &["name"]);
            (json!({ "allOf": [reference(&spec_name(K::KIND)), named] }), None)
        }
        Short::NameAndSpec => {
            let spec = Map::from_iter([("spec".to_owned(), reference(&spec_name(K::KIND)))]);
            (named(spec, &["name"]), None)
        }
    };
    let list = json!({
        "type": "object",
        "required": [K::LIST, "total", "pagination"],
        "properties": {
            K::LIST: { "type": "array", "items": reference(&response_name::<K>()) },
            "total": { "type": "integer", "minimum": 0 },
            "pagination": reference("Pagination"),
        },
    });
    if is_plain::<K>() {
        let closer = json!({ "type": "object", "properties": {
            "kind": { "const": K::KIND }, "spec": reference(&spec_name(K::KIND)) } });
        schemas.insert(response_name::<K>(), json!({ "allOf": [reference("ObjectResponse"), closer] }));
    }
    schemas.insert(spec_name(K::KIND), spec);
    schemas.insert(K::KIND.to_owned(), whole(K::KIND, &reference(&spec_name(K::KIND))));
    schemas.insert(new_name(K::KIND), json!({ "anyOf": [short, reference(K::KIND)] }));
    if let Some(partial) = partial {
        schemas.insert(changed_name::<K>(), json!({ "anyOf": [reference(K::KIND), partial] }));
    }
    schemas.insert(list_name(K::KIND), list);
}

/// The schema of a kind's spec, from its definition.
pub fn spec_of(crds: &[Value], kind: &str) -> Value {
    let crd = crds.iter().find(|crd| crd.pointer("/spec/names/kind").is_some_and(|name| name == kind));
    let spec = crd.and_then(|crd| crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec"));
    let mut spec = spec.cloned().unwrap_or_default();
    plain(&mut spec);
    spec
}

/// A whole object of a kind.
pub fn whole(kind: &str, spec: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["kind", "spec"],
        "properties": {
            "apiVersion": { "const": format!("{GROUP}/{VERSION}") },
            "kind": { "const": kind },
            "metadata": reference("ObjectMeta"),
            "spec": spec,
        },
    })
}

/// The metadata that users write.
pub fn object_meta() -> Value {
    let texts = || json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "generateName": { "type": "string", "description": "Prefix of a generated name." },
            "namespace": { "type": "string", "description": "As in the path." },
            "labels": texts(),
            "annotations": texts(),
            "resourceVersion": { "type": "string", "description": "Replace only this version." },
        },
    })
}

fn object(fields: &Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": fields });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// A schema with these fields beside name and labels.
fn named(mut fields: Map<String, Value>, required: &[&str]) -> Value {
    fields.insert("name".to_owned(), json!({ "type": "string", "minLength": 1 }));
    fields.insert("labels".to_owned(), json!({ "type": "object", "additionalProperties": { "type": "string" } }));
    object(&fields, required)
}

/// A short form with the field descriptions of the spec.
fn refined(short: Option<&Value>, spec: &Map<String, Value>) -> Value {
    let mut short = short.cloned().unwrap_or_default();
    if let Some(fields) = short.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in fields {
            if let Some(closer) = spec.get(name) {
                field.clone_from(closer);
            }
        }
    }
    short
}

fn properties(spec: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), spec["properties"].get(*name)?.clone()))).collect()
}

/// A definition without Kubernetes extensions.
pub fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let mixed = object.contains_key("x-kubernetes-int-or-string");
            object.retain(|key, _| !key.starts_with("x-kubernetes-"));
            if mixed {
                object.insert("type".to_owned(), json!(["integer", "string"]));
            }
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for name in KUBERNETES_OWN {
                    if let Some(field) = properties.get_mut(name) {
                        *field = json!({ "type": "object", "description": field["description"] });
                    }
                }
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        _ => {}
    }
}
