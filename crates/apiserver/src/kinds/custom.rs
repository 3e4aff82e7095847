//! CustomResourceDefinitions: parsing, validation and status.

use std::sync::Arc;

use objects::schema::{Scale, Schema, Validator};
use serde_json::{Value, json};

use super::{Resource, ScalePaths, Subresource};
use crate::status_error::{Cause, qualified};

/// In the order in which kube-apiserver lists them for custom kinds.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const PART: &[&str] = &["get", "patch", "update"];

/// Finalizer that keeps a definition until its instances are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One version of a custom kind.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) validator: Validator,
    /// The schema as given, for OpenAPI documents.
    pub(crate) published: Value,
    /// `additionalPrinterColumns`.
    pub(crate) columns: Value,
    /// JSON paths of selectable fields, without the leading dot.
    pub(crate) selectable: Vec<String>,
}

/// A parsed definition.
#[derive(Debug)]
pub(crate) struct Definition {
    group: String,
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    namespaced: bool,
    versions: Vec<ServedVersion>,
}

#[derive(Debug)]
struct ServedVersion {
    name: String,
    status: bool,
    scale: Option<ScalePaths>,
    version: Arc<Version>,
}

pub(crate) fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|entry| entry["type"] == "Established" && entry["status"] == "True")
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn cause(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message, field: field.to_owned() }
}

fn required(field: &str) -> Cause {
    cause("FieldValueRequired", field, "Required value".to_owned())
}

/// Where a definition comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// From a client: everything is validated.
    Client,
    /// From the store, validated before. Compiling all rules again would slow down the start.
    Store,
}

impl Definition {
    /// Parses and validates a definition from a client.
    pub(crate) fn given(object: &Value) -> Result<Self, Vec<Cause>> {
        Self::read(object, Origin::Client)
    }

    /// Parses a stored definition.
    pub(crate) fn stored(object: &Value) -> Result<Self, Vec<Cause>> {
        Self::read(object, Origin::Store)
    }

    fn read(object: &Value, origin: Origin) -> Result<Self, Vec<Cause>> {
        let mut causes = Vec::new();
        let spec = &object["spec"];
        let group = text(spec, "/group");
        let names = &spec["names"];
        let (plural, kind) = (text(names, "/plural"), text(names, "/kind"));
        for (value, field) in [
            (group, "spec.group"),
            (plural, "spec.names.plural"),
            (kind, "spec.names.kind"),
            (text(spec, "/scope"), "spec.scope"),
        ] {
            if value.is_empty() {
                causes.push(required(field));
            }
        }
        let name = text(object, "/metadata/name");
        if name != qualified(plural, group) {
            causes.push(cause(
                "FieldValueInvalid",
                "metadata.name",
                format!("Invalid value: {name:?}: must be spec.names.plural+\".\"+spec.group"),
            ));
        }
        let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored = versions.iter().filter(|version| version["storage"] == true).count();
        if stored != 1 {
            causes.push(cause(
                "FieldValueInvalid",
                "spec.versions",
                format!("Invalid value: {}: must have exactly one version marked as storage version", spec["versions"]),
            ));
        }
        let mut served = Vec::new();
        for (index, version) in versions.iter().enumerate() {
            // With one version, kube-apiserver reports the schema path without the version.
            let place = if versions.len() == 1 {
                "spec.validation".to_owned()
            } else {
                format!("spec.versions[{index}].schema")
            };
            match ServedVersion::read(version, &place, origin) {
                Ok(read) if version["served"] == true => served.push(read),
                Ok(_) => {}
                Err(cause) => causes.push(cause),
            }
        }
        if !causes.is_empty() {
            return Err(causes);
        }
        let or = |value: &str, default: String| if value.is_empty() { default } else { value.to_owned() };
        Ok(Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            singular: or(text(names, "/singular"), kind.to_lowercase()),
            kind: kind.to_owned(),
            list_kind: or(text(names, "/listKind"), format!("{kind}List")),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            namespaced: text(spec, "/scope") == "Namespaced",
            versions: served,
        })
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = Arc<Resource>> {
        self.versions.iter().map(|served| {
            let mut subresources = Vec::new();
            if served.status {
                let kind = self.kind.clone();
                subresources.push(Subresource { name: "status", group: "", version: "", kind, verbs: PART });
            }
            if served.scale.is_some() {
                subresources.push(Subresource {
                    name: "scale",
                    group: "autoscaling",
                    version: "v1",
                    kind: "Scale".to_owned(),
                    verbs: PART,
                });
            }
            Arc::new(Resource {
                group: self.group.clone(),
                version: served.name.clone(),
                kind: self.kind.clone(),
                list_kind: self.list_kind.clone(),
                plural: self.plural.clone(),
                singular: self.singular.clone(),
                short_names: self.short_names.clone(),
                categories: self.categories.clone(),
                namespaced: self.namespaced,
                storage_key: Arc::from(qualified(&self.plural, &self.group)),
                verbs: VERBS,
                subresources,
                scale: served.scale.clone(),
                custom: Some(Arc::clone(&served.version)),
            })
        })
    }
}

impl ServedVersion {
    fn read(version: &Value, place: &str, origin: Origin) -> Result<Self, Cause> {
        let field = format!("{place}.openAPIV3Schema");
        let published = &version["schema"]["openAPIV3Schema"];
        if !published.is_object() {
            return Err(cause("FieldValueRequired", &field, "Required value: schemas are required".to_owned()));
        }
        if origin == Origin::Client {
            untyped(published, &field)?;
        }
        let schema = Schema::from_json(published)
            .map_err(|error| cause("FieldValueInvalid", &field, format!("Invalid value: \"schema\": {error}")))?;
        let validator =
            Validator::new(Arc::new(schema)).with_scale(Scale::from_json(&version["subresources"]["scale"]));
        if origin == Origin::Client
            && let Some((path, problem)) = validator.rule_errors().into_iter().next()
        {
            let field = format!("{field}{path}");
            return Err(cause("FieldValueInvalid", &field, format!("Invalid value: {problem}")));
        }
        let parts = &version["subresources"];
        let scale = parts["scale"].is_object().then(|| ScalePaths {
            spec: pointer(text(&parts["scale"], "/specReplicasPath")),
            status: pointer(text(&parts["scale"], "/statusReplicasPath")),
            selector: parts["scale"]["labelSelectorPath"].as_str().map(pointer),
        });
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        Ok(Self {
            name: text(version, "/name").to_owned(),
            status: parts["status"].is_object(),
            scale,
            version: Arc::new(Version {
                validator,
                published: published.clone(),
                columns: version["additionalPrinterColumns"].clone(),
                selectable: selectable
                    .map(|entry| text(entry, "/jsonPath").trim_start_matches('.').to_owned())
                    .collect(),
            }),
        })
    }
}

/// Rejects fields without a type: they could not be pruned or merged.
fn untyped(schema: &Value, path: &str) -> Result<(), Cause> {
    let open = schema["x-kubernetes-int-or-string"] == true || schema["x-kubernetes-preserve-unknown-fields"] == true;
    if text(schema, "/type").is_empty() && !open {
        let message = "Required value: must not be empty for specified object fields".to_owned();
        return Err(cause("FieldValueRequired", &format!("{path}.type"), message));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        untyped(field, &format!("{path}.properties[{name}]"))?;
    }
    if schema["items"].is_object() {
        untyped(&schema["items"], &format!("{path}.items"))?;
    }
    if schema["additionalProperties"].is_object() {
        untyped(&schema["additionalProperties"], &format!("{path}.additionalProperties"))?;
    }
    Ok(())
}

/// Changes of immutable names.
pub(crate) fn changed_names(definition: &Value, old: &Value) -> Vec<Cause> {
    ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"]
        .into_iter()
        .filter(|pointer| text(definition, pointer) != text(old, pointer))
        .map(|pointer| {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let message = format!("Invalid value: {:?}: field is immutable", text(definition, pointer));
            cause("FieldValueInvalid", &field, message)
        })
        .collect()
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

/// Sets the names and the status that kube-apiserver's controllers would set.
///
/// The decision is immediate here: a kind is served as soon as its definition is stored.
pub(crate) fn establish(definition: &mut Value, taken: Option<String>, now: &str) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let names = &mut definition["spec"]["names"];
    if text(names, "/singular").is_empty() {
        names["singular"] = json!(kind.to_lowercase());
    }
    if text(names, "/listKind").is_empty() {
        names["listKind"] = json!(format!("{kind}List"));
    }
    if definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let storage = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .map_or(Value::Null, |version| version["name"].clone());
    let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    let (accepted, established) = match taken {
        None => (
            ("True", "NoConflicts", "no conflicts found".to_owned()),
            ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        ),
        Some(message) => (("False", "MultipleNames", message), ("False", "NotAccepted", "not all names are accepted")),
    };
    let names =
        if accepted.0 == "True" { definition["spec"]["names"].clone() } else { json!({"plural": "", "kind": ""}) };
    let terminating = definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Terminating")
        .cloned();
    let mut conditions = vec![
        condition(definition, "NamesAccepted", accepted.0, accepted.1, &accepted.2, now),
        condition(definition, "Established", established.0, established.1, established.2, now),
    ];
    conditions.extend(terminating);
    definition["status"] = json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored});
}

/// A condition; keeps its timestamp if the status is unchanged.
fn condition(definition: &Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) -> Value {
    let before = definition["status"]["conditions"].as_array().into_iter().flatten();
    let same = before
        .filter(|condition| condition["type"] == kind && condition["status"] == status)
        .find_map(|condition| condition["lastTransitionTime"].as_str());
    json!({
        "type": kind, "status": status, "lastTransitionTime": same.unwrap_or(now), "reason": reason, "message": message,
    })
}

/// Sets the condition of a definition whose instances are being deleted.
pub(crate) fn terminating(definition: &mut Value, now: &str) {
    let entry = condition(
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResource deletion is pending",
        now,
    );
    if let Some(conditions) = definition["status"]["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "Terminating");
        conditions.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    "subresources": {"status": {}},
                }],
            },
        })
    }

    #[test]
    fn a_definition_is_served_with_the_names_it_did_not_say() {
        let mut object = sample();
        establish(&mut object, None, "now");
        assert!(is_established(&object));
        assert_eq!(object["status"]["acceptedNames"]["listKind"], "ThingList");
        assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
        let definition = Definition::stored(&object).unwrap();
        let resource = definition.resources().next().unwrap();
        assert_eq!(resource.singular, "thing");
        assert!(resource.has_status());
    }

    #[test]
    fn a_name_that_does_not_fit_and_two_storage_versions_are_refused() {
        let mut object = sample();
        object["metadata"]["name"] = json!("other.example.com");
        object["spec"]["versions"][0]["storage"] = json!(false);
        let causes = Definition::given(&object).unwrap_err();
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["metadata.name", "spec.versions"]);
    }
}
