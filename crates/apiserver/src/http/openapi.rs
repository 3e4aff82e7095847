//! OpenAPI documents for `kubectl explain` and the client-side checks of `kubectl apply`.

use http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::response::{ApiResponse, json as json_answer, protobuf};
use crate::api::hex;
use crate::kinds::{Registry, Resource};
use objects::schema::builtin;

const KIND: &str = "x-kubernetes-group-version-kind";
const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// An empty OpenAPI v2 document in protobuf. kubectl requests it only for kinds that v3 does not have, and then reports
/// that the kind is unknown.
const NO_KINDS: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.34.4";

/// The response to a path below `/openapi`, if it exists.
pub(crate) fn documents(registry: &Registry, path: &str, accept: Option<&str>) -> Option<ApiResponse> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let document = match segments.as_slice() {
        ["openapi", "v2"] => {
            if accept.is_some_and(|accept| accept.contains("protobuf") && !accept.contains("json")) {
                return Some(protobuf(StatusCode::OK, NO_KINDS));
            }
            second_version(registry)
        }
        ["openapi", "v3"] => index(registry),
        ["openapi", "v3", "api", version] => third_version(registry, "", version)?,
        ["openapi", "v3", "apis", group, version] => third_version(registry, group, version)?,
        _ => return None,
    };
    Some(json_answer(StatusCode::OK, document.to_string()))
}

fn versions(registry: &Registry) -> impl Iterator<Item = (&str, &str)> {
    let groups = registry.groups().iter();
    groups.flat_map(|group| group.versions.iter().map(|version| (group.name.as_str(), version.as_str())))
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Clients cache a document until its hash changes.
fn index(registry: &Registry) -> Value {
    let paths: Map<String, Value> = versions(registry)
        .filter_map(|(group, version)| {
            let document = third_version(registry, group, version)?;
            let hash = hex(&Sha256::digest(document.to_string())).to_uppercase();
            let root = root(group, version);
            let url = format!("/openapi/v3/{root}?hash={hash}");
            Some((root, json!({"serverRelativeURL": url})))
        })
        .collect();
    json!({"paths": paths})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.34.4"})
}

fn third_version(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut found = false;
    for resource in registry.of_version(group, version) {
        found = true;
        describe_paths(resource, &mut paths);
        let (name, schema) = schema_of(resource, "#/components/schemas/");
        collect(&schema, &mut schemas);
        schemas.insert(name, schema);
    }
    found.then(|| json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

fn second_version(registry: &Registry) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for (group, version) in versions(registry) {
        for resource in registry.of_version(group, version) {
            describe_paths(resource, &mut paths);
            let (name, schema) = schema_of(resource, "#/components/schemas/");
            collect(&schema, &mut definitions);
            definitions.insert(name, schema);
        }
    }
    let text = Value::Object(definitions).to_string().replace("#/components/schemas/", "#/definitions/");
    let definitions: Value = serde_json::from_str(&text).unwrap_or_default();
    json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions})
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// `io.kubeopencode.v1.Task`: the reversed group, as Kubernetes names types.
fn component_name(resource: &Resource) -> String {
    let api_version = resource.api_version();
    let known = builtin::kinds().find(|(version, kind, _)| *version == api_version && *kind == resource.kind);
    match known {
        Some((_, _, name)) if resource.custom.is_none() => name.to_owned(),
        _ => {
            let mut parts: Vec<&str> = resource.group.split('.').filter(|part| !part.is_empty()).collect();
            parts.reverse();
            parts.extend([resource.version.as_str(), resource.kind.as_str()]);
            parts.join(".")
        }
    }
}

fn schema_of(resource: &Resource, prefix: &str) -> (String, Value) {
    let name = component_name(resource);
    let mut schema = match &resource.custom {
        Some(version) => version.published.clone(),
        None => builtin::components()
            .and_then(|components| components.get(&name))
            .cloned()
            .unwrap_or_else(|| json!({"type": "object"})),
    };
    if resource.custom.is_some() {
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        let text = |description: &str| json!({"type": "string", "description": description});
        schema["properties"]["apiVersion"] = text("The version of the schema of this object.");
        schema["properties"]["kind"] = text("What this object is.");
        schema["properties"]["metadata"] = json!({
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": format!("{prefix}{METADATA}")}],
        });
    }
    schema[KIND] = json!([kind_of(resource)]);
    (name, schema)
}

/// Adds the schemas that `schema` refers to.
fn collect(schema: &Value, schemas: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            if let Some(name) = reference.and_then(|reference| reference.strip_prefix("#/components/schemas/"))
                && !schemas.contains_key(name)
                && let Some(component) = builtin::components().and_then(|components| components.get(name))
            {
                schemas.insert(name.to_owned(), component.clone());
                collect(component, schemas);
            }
            fields.values().for_each(|inner| collect(inner, schemas));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, schemas)),
        _ => {}
    }
}

fn describe_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let root = root(&resource.group, &resource.version);
    let place = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{root}{place}/{}", resource.plural);
    let kind = kind_of(resource);
    let operation =
        |action: &str| json!({"x-kubernetes-action": action, KIND: kind, "responses": {"200": {"description": "OK"}}});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let writing = |action: &str| {
        let mut operation = operation(action);
        // kubectl checks for the last one before it uses server-side field validation.
        operation["parameters"] = json!([parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")]);
        operation
    };
    let mut on_all = json!({});
    let mut on_one = json!({});
    for verb in resource.verbs {
        match *verb {
            "list" => on_all["get"] = operation("list"),
            "create" => on_all["post"] = writing("post"),
            "deletecollection" => on_all["delete"] = operation("deletecollection"),
            "get" => on_one["get"] = operation("get"),
            "update" => on_one["put"] = writing("put"),
            "patch" => on_one["patch"] = writing("patch"),
            "delete" => on_one["delete"] = operation("delete"),
            _ => {}
        }
    }
    paths.insert(collection.clone(), on_all);
    if on_one.as_object().is_some_and(|operations| !operations.is_empty()) {
        paths.insert(format!("{collection}/{{name}}"), on_one);
    }
}
