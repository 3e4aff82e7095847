//! Role, ClusterRole and their bindings.

use serde_json::{Value, json};

use super::super::names;
use super::super::violation::{Path, Violation};
use super::{Findings, items, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Value, namespaced: bool, found: &mut Findings) {
    let is_empty = |rule: &Value, field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
    for (rule, path) in items(&object["rules"], &Path::of("rules")) {
        if is_empty(rule, "verbs") {
            found.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if !is_empty(rule, "nonResourceURLs") {
            let urls = path.child("nonResourceURLs");
            if namespaced {
                let sentence = "namespaced rules cannot apply to non-resource URLs";
                found.invalid(&urls, &rule["nonResourceURLs"], sentence);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !is_empty(rule, field)) {
                let sentence = "rules cannot apply to both regular resources and non-resource URLs";
                found.invalid(&urls, &rule["nonResourceURLs"], sentence);
            }
            continue;
        }
        if is_empty(rule, "apiGroups") {
            found.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if is_empty(rule, "resources") {
            found.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

pub(super) fn binding(object: &Value, old: Option<&Value>, namespaced: bool, found: &mut Findings) {
    let role = &object["roleRef"];
    let path = Path::of("roleRef");
    let unsupported = |path: &Path, value: &str, choices: &[&str]| {
        Violation::not_supported(path.as_str(), &value.into(), choices.iter().copied())
    };
    if text(role, "apiGroup") != GROUP {
        found.add(unsupported(&path.child("apiGroup"), text(role, "apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        found.add(unsupported(&path.child("kind"), text(role, "kind"), kinds));
    }
    let name = text(role, "name");
    if name.is_empty() {
        found.required(&path.child("name"), "");
    } else {
        found.errors(&path.child("name"), name, names::path_segment(name));
    }
    for (subject, path) in items(&object["subjects"], &Path::of("subjects")) {
        self::subject(subject, namespaced, &path, found);
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        // Kubernetes prints its internal type here, with the field names of Go.
        let shown = json!({ "APIGroup": text(role, "apiGroup"), "Kind": text(role, "kind"), "Name": name });
        found.invalid(&path, &shown, "cannot change roleRef");
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path, found: &mut Findings) {
    let name = text(subject, "name");
    if name.is_empty() {
        found.required(&path.child("name"), "");
    }
    let group = text(subject, "apiGroup");
    let mut group_must_be = |wanted: &str| {
        if group != wanted {
            found.add(Violation::not_supported(path.child("apiGroup").as_str(), &group.into(), [wanted]));
        }
    };
    match text(subject, "kind") {
        "ServiceAccount" => {
            group_must_be("");
            if !name.is_empty() {
                found.errors(&path.child("name"), name, names::dns_1123_subdomain(name));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                found.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => group_must_be(GROUP),
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            found.add(Violation::not_supported(path.child("kind").as_str(), &other.into(), kinds));
        }
    }
}
