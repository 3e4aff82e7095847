//! Validation of metadata.

use objects::schema::{Violation, name_rule, names};
use serde_json::{Map, Value, json};

use crate::kinds::Resource;

/// Maximum total size of annotations, in bytes.
const MAX_ANNOTATIONS: i64 = 256 * 1024;

/// A string field of the metadata; empty if missing.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

pub(super) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether the object has a deletion timestamp.
pub(super) fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The metadata, created if missing.
pub(super) fn of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

fn wrong_name(resource: &Resource, name: &str) -> Vec<String> {
    match &resource.custom {
        Some(_) => names::dns_1123_subdomain(name),
        None => name_rule(&resource.api_version(), &resource.kind, name),
    }
}

/// Validates the metadata of a new object.
pub(super) fn check_new(resource: &Resource, object: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let invalid = |field: &str, value: &str, wrong: &str| Violation::invalid_text(field, value, wrong);
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        // The suffix follows, so a trailing dash is not the end of the name.
        let name = prefix.strip_suffix('-').map_or(prefix.to_owned(), |prefix| format!("{prefix}a"));
        found.extend(wrong_name(resource, &name).iter().map(|wrong| invalid("metadata.generateName", prefix, wrong)));
    }
    let name = text(object, "name");
    if name.is_empty() {
        found.push(Violation::required("metadata.name", "name or generateName is required"));
    } else {
        found.extend(wrong_name(resource, name).iter().map(|wrong| invalid("metadata.name", name, wrong)));
    }
    if resource.namespaced {
        let namespace = text(object, "namespace");
        found.extend(
            names::dns_1123_label(namespace).iter().map(|wrong| invalid("metadata.namespace", namespace, wrong)),
        );
    }
    found.extend(check_fields(object));
    found.extend(check_finalizers(object));
    if knows_short_finalizers(resource) {
        found.extend(check_short_finalizers(object));
    }
    found
}

/// Validates the metadata of an update.
pub(super) fn check_change(resource: &Resource, object: &Value, old: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    if is_being_deleted(old) {
        let before = finalizers(old);
        let mut fresh: Vec<&str> =
            finalizers(object).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
        fresh.sort_unstable();
        fresh.dedup();
        if !fresh.is_empty() {
            let list: Vec<String> = fresh.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            // kube-apiserver checks built-in kinds twice, and reports the error twice.
            for _ in 0..if resource.custom.is_some() { 1 } else { 2 } {
                found.push(Violation::forbidden("metadata.finalizers", &detail));
            }
        }
    }
    for field in ["name", "namespace", "uid"] {
        if text(object, field) != text(old, field) {
            let path = format!("metadata.{field}");
            found.push(Violation::invalid_text(&path, text(object, field), "field is immutable"));
        }
    }
    found.extend(check_fields(object));
    if knows_short_finalizers(resource) {
        found.extend(check_short_finalizers(object));
    }
    found
}

/// Labels, annotations and owner references.
fn check_fields(object: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let metadata = &object["metadata"];
    let mut check = |field: &str, value: &str, wrong: Vec<String>| {
        found.extend(wrong.iter().map(|wrong| Violation::invalid_text(field, value, wrong)));
    };
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        check("metadata.labels", key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        check("metadata.labels", value, names::label_value(value));
    }
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        check("metadata.annotations", key, names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if i64::try_from(size).is_ok_and(|size| size > MAX_ANNOTATIONS) {
        found.push(Violation::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
    found.extend(check_owners(&metadata["ownerReferences"]));
    found
}

fn check_owners(owners: &Value) -> Vec<Violation> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut found = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let part = |name: &str| owner[name].as_str().unwrap_or_default();
        for (name, wrong) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if part(name).is_empty() {
                found.push(Violation::invalid_text(&format!("{FIELD}.{name}"), "", wrong));
            }
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", part("kind"), part("name"));
            if let Some(first) = &controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                found.push(Violation::invalid_struct(FIELD, &in_order(owners).to_string(), &detail));
            } else {
                controller = Some(this);
            }
        }
    }
    found
}

/// Owner references with the field order of Go's type, because a message prints them.
fn in_order(owners: &Value) -> Value {
    const FIELDS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let sorted = |owner: &Value| -> Value {
        let fields = FIELDS.iter().filter_map(|field| Some(((*field).to_owned(), owner.get(field)?.clone())));
        Value::Object(fields.collect())
    };
    owners.as_array().into_iter().flatten().map(sorted).collect()
}

fn check_finalizers(object: &Value) -> Vec<Violation> {
    const FIELD: &str = "metadata.finalizers";
    let mut found = Vec::new();
    let all = finalizers(object);
    for finalizer in &all {
        found.extend(
            names::qualified_name(finalizer).iter().map(|wrong| Violation::invalid_text(FIELD, finalizer, wrong)),
        );
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        found.push(Violation::invalid(FIELD, &object["metadata"]["finalizers"], detail));
    }
    found
}

/// Custom kinds accept every new finalizer, with a warning for unqualified names.
pub(super) fn finalizer_warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    if resource.custom.is_none() {
        return Vec::new();
    }
    let before = old.map(finalizers).unwrap_or_default();
    let fresh = finalizers(object).into_iter().filter(|name| !before.contains(name) && !name.contains('/'));
    fresh
        .filter(|name| !matches!(*name, "orphan" | "foregroundDeletion"))
        .map(|name| {
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers"
            )
        })
        .collect()
}

/// Leases and definitions follow the rules of custom kinds.
fn knows_short_finalizers(resource: &Resource) -> bool {
    resource.custom.is_none() && !matches!(&*resource.group, "coordination.k8s.io" | "apiextensions.k8s.io")
}

/// Most built-in kinds accept only standard unqualified finalizers.
fn check_short_finalizers(object: &Value) -> Vec<Violation> {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    finalizers(object)
        .into_iter()
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion"))
        .map(|(index, name)| Violation::invalid_text(&format!("metadata.finalizers[{index}]"), name, detail))
        .collect()
}
