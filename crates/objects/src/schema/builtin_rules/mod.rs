//! Validation of built-in kinds beyond their types: the most frequent rules, with the messages of Kubernetes.
//!
//! Objects are decoded, normalized and defaulted before. Metadata is validated elsewhere, with [`name_rule`] for the
//! name.

mod access;
mod config;
mod pod;
mod service;
mod workload;

use serde_json::Value;
use units::Quantity;

use super::names;
use super::violation::{Path, Violation};

/// Validates an object of a built-in kind; `old` is set for an update.
pub fn validate(api_version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<Violation> {
    let mut found = Findings::default();
    match (api_version, kind) {
        ("v1", "Pod") => pod::pod(object, old, &mut found),
        ("v1", "ConfigMap") => config::config_map(object, old, &mut found),
        ("v1", "Secret") => config::secret(object, old, &mut found),
        ("v1", "Service") => service::service(object, old, &mut found),
        ("v1", "PersistentVolumeClaim") => config::claim(object, old, &mut found),
        ("apps/v1", "Deployment") => workload::deployment(object, old, &mut found),
        ("apps/v1", "ReplicaSet") => workload::replica_set(object, old, &mut found),
        ("coordination.k8s.io/v1", "Lease") => config::lease(object, &mut found),
        ("rbac.authorization.k8s.io/v1", "Role") => access::role(object, true, &mut found),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => access::role(object, false, &mut found),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => access::binding(object, old, true, &mut found),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => access::binding(object, old, false, &mut found),
        _ => {}
    }
    found.0
}

/// The errors of a name of this kind.
pub fn name_rule(api_version: &str, kind: &str, name: &str) -> Vec<String> {
    match (api_version, kind) {
        ("v1", "Namespace") => names::dns_1123_label(name),
        ("v1", "Service") => names::dns_1035_label(name),
        ("rbac.authorization.k8s.io/v1", _) => names::path_segment(name),
        _ => names::dns_1123_subdomain(name),
    }
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, violation: Violation) {
        self.0.push(violation);
    }

    fn required(&mut self, path: &Path, detail: &str) {
        self.add(Violation::required(path.as_str(), detail));
    }

    fn invalid(&mut self, path: &Path, value: &Value, detail: &str) {
        self.add(Violation::invalid(path.as_str(), value, detail));
    }

    fn forbidden(&mut self, path: &Path, detail: &str) {
        self.add(Violation::forbidden(path.as_str(), detail));
    }

    /// Adds several errors about one string.
    fn errors(&mut self, path: &Path, text: &str, errors: Vec<String>) {
        for error in errors {
            self.add(Violation::invalid_text(path.as_str(), text, &error));
        }
    }

    /// A required string that must be one of `choices`.
    fn choice(&mut self, path: &Path, value: &Value, choices: &[&str]) {
        match value.as_str().unwrap_or_default() {
            "" => self.required(path, ""),
            text if choices.contains(&text) => {}
            _ => self.add(Violation::not_supported(path.as_str(), value, choices.iter().copied())),
        }
    }

    fn not_negative(&mut self, path: &Path, value: &Value) {
        if value.as_i64().is_some_and(|number| number < 0) {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    fn port(&mut self, path: &Path, value: &Value) {
        if !value.as_i64().is_some_and(|port| (1..=65_535).contains(&port)) {
            let shown = if value.is_null() { Value::from(0) } else { value.clone() };
            self.invalid(path, &shown, "must be between 1 and 65535, inclusive");
        }
    }

    fn port_or_name(&mut self, path: &Path, value: &Value) {
        match value {
            Value::String(name) => self.errors(path, name, names::port_name(name)),
            other => self.port(path, other),
        }
    }

    fn labels(&mut self, path: &Path, labels: &Value) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.errors(path, key, names::qualified_name(key));
            let value = value.as_str().unwrap_or_default();
            self.errors(path, value, names::label_value(value));
        }
    }

    fn unchanged(&mut self, path: &Path, new: &Value, old: &Value) {
        if new != old {
            self.invalid(path, new, "field is immutable");
        }
    }
}

/// The items of a list, each with its path.
fn items<'a>(list: &'a Value, path: &Path) -> impl Iterator<Item = (&'a Value, Path)> + use<'a> {
    let path = path.clone();
    list.as_array().into_iter().flatten().enumerate().map(move |(index, item)| (item, path.index(index)))
}

/// The value of a quantity in billionths.
fn nanos(value: &Value) -> Option<i128> {
    value.as_str()?.parse().ok().map(Quantity::nanos)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
