//! ConfigMap, Secret, PersistentVolumeClaim and Lease.

use serde_json::Value;

use super::super::names;
use super::super::violation::{Path, Violation};
use super::{Findings, nanos, text};

/// Maximum size of a ConfigMap or a Secret, in bytes.
const MAX_SIZE: i64 = 1024 * 1024;

const FIXED: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, old: Option<&Value>, found: &mut Findings) {
    fixed(object, old, &["data", "binaryData"], found);
    let mut size = 0;
    for (field, binary) in [("data", false), ("binaryData", true)] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            let path = Path::of(field).key(key);
            found.errors(&path, key, names::config_key(key));
            if !binary && object["binaryData"].get(key).is_some() {
                found.invalid(&path, &key.as_str().into(), "duplicate of key present in binaryData");
            }
            size += length(value, binary);
        }
    }
    if size > MAX_SIZE {
        // This is how Kubernetes prints the path of the whole object.
        found.add(Violation::too_long("[]", MAX_SIZE));
    }
}

pub(super) fn secret(object: &Value, old: Option<&Value>, found: &mut Findings) {
    if let Some(old) = old {
        found.unchanged(&Path::of("type"), &object["type"], &old["type"]);
    }
    fixed(object, old, &["data"], found);
    let data = Path::of("data");
    let mut size = 0;
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        found.errors(&data.key(key), key, names::config_key(key));
        size += length(value, true);
    }
    if size > MAX_SIZE {
        found.add(Violation::too_long(data.as_str(), MAX_SIZE));
    }
    let has = |key: &str| object["data"].get(key).is_some();
    let mut missing = |keys: &[&str]| {
        keys.iter().filter(|key| !has(key)).for_each(|key| found.required(&data.key(key), ""));
    };
    match text(object, "type") {
        "kubernetes.io/dockercfg" => missing(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => missing(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => missing(&["username", "password"]),
        "kubernetes.io/ssh-auth" => missing(&["ssh-privatekey"]),
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if text(&object["metadata"]["annotations"], key).is_empty() {
                found.required(&Path::of("metadata.annotations").key(key), "");
            }
        }
        _ => {}
    }
}

/// Rejects changes of an immutable object.
fn fixed(object: &Value, old: Option<&Value>, fields: &[&str], found: &mut Findings) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    if object["immutable"] != true {
        found.forbidden(&Path::of("immutable"), FIXED);
    }
    for field in fields.iter().filter(|field| object.get(**field) != old.get(**field)) {
        found.forbidden(&Path::of(field), FIXED);
    }
}

/// The length of a value in bytes; for base64, of the decoded value.
fn length(value: &Value, base64: bool) -> i64 {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let length = if base64 { (text.len() / 4 * 3).saturating_sub(padding) } else { text.len() };
    i64::try_from(length).unwrap_or(i64::MAX)
}

pub(super) fn claim(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let spec = &object["spec"];
    let path = Path::of("spec");
    let modes = spec["accessModes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if modes.is_empty() {
        found.required(&path.child("accessModes"), "at least 1 access mode is required");
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().filter(|mode| !known.iter().any(|known| mode == known)) {
        found.add(Violation::not_supported(path.child("accessModes").as_str(), mode, known));
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        found.forbidden(&path.child("accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let storage = path.child("resources").key("storage");
    match spec["resources"]["requests"].get("storage") {
        None => found.required(&storage, ""),
        Some(size) if nanos(size).is_some_and(|nanos| nanos <= 0) => {
            found.invalid(&storage, size, "must be greater than zero");
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        found.errors(&path.child("storageClassName"), class, names::dns_1123_subdomain(class));
    }
    if !matches!(text(spec, "volumeMode"), "" | "Block" | "Filesystem") {
        let mode = path.child("volumeMode");
        found.add(Violation::not_supported(mode.as_str(), &spec["volumeMode"], ["Block", "Filesystem"]));
    }
    if let Some(old) = old {
        changed_claim(object, old, found);
    }
}

fn changed_claim(object: &Value, old: &Value, found: &mut Findings) {
    let bound = object["status"]["phase"] == "Bound";
    let comparable = |object: &Value, other: &Value| {
        let mut spec = object["spec"].clone();
        if text(&old["spec"], "volumeName").is_empty() {
            drop(spec.as_object_mut().map(|fields| fields.remove("volumeName")));
        }
        if bound && let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
            requests.remove("storage");
        }
        // A claim without a class can be given one once.
        if other["spec"].get("storageClassName").is_none() && old["spec"].get("storageClassName").is_none() {
            drop(spec.as_object_mut().map(|fields| fields.remove("storageClassName")));
        }
        spec
    };
    if comparable(object, old) != comparable(old, object) {
        found.forbidden(
            &Path::of("spec"),
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |object: &Value, from: &str| object.pointer(from).and_then(nanos).unwrap_or_default();
    let (new, before) =
        (size(object, "/spec/resources/requests/storage"), size(old, "/spec/resources/requests/storage"));
    if new < before && new <= size(old, "/status/capacity/storage") {
        let path = Path::of("spec.resources.requests.storage");
        found.forbidden(&path, "field can not be less than status.capacity");
    }
    found.unchanged(&Path::of("volumeMode"), &object["spec"]["volumeMode"], &old["spec"]["volumeMode"]);
}

pub(super) fn lease(object: &Value, found: &mut Findings) {
    let (spec, path) = (&object["spec"], Path::of("spec"));
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        found.invalid(&path.child("leaseDurationSeconds"), &spec["leaseDurationSeconds"], "must be greater than 0");
    }
    found.not_negative(&path.child("leaseTransitions"), &spec["leaseTransitions"]);
}
