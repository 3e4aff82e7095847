//! Service.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::names;
use super::super::violation::{Path, Reason, Violation};
use super::{Findings, items, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn service(object: &Value, old: Option<&Value>, found: &mut Findings) {
    let spec = &object["spec"];
    let path = Path::of("spec");
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if let Some(old) = old {
        address(spec, &old["spec"], found);
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        found.required(&path.child("ports"), "");
    }
    if kind == "ExternalName" {
        external_name(spec, &path, found);
    }
    let mut seen = HashSet::new();
    let ports_path = path.child("ports");
    for (port, path) in items(&spec["ports"], &ports_path) {
        self::port(port, ports.len() > 1, &mut seen, &path, found);
    }
    found.labels(&path.child("selector"), &spec["selector"]);
    found.choice(&path.child("sessionAffinity"), &spec["sessionAffinity"], &["ClientIP", "None"]);
    found.choice(&path.child("type"), &spec["type"], &TYPES);
    let mut used = HashSet::new();
    for (port, path) in items(&spec["ports"], &ports_path) {
        if kind == "ClusterIP" && port["nodePort"].as_i64().is_some_and(|port| port != 0) {
            found.forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if !used.insert((text(port, "protocol"), port["port"].as_i64())) {
            // Kubernetes prints its internal type here, with the fields of Go in their order.
            let message = format!(
                r#"Duplicate value: {{"Name":"","Protocol":"{}","AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                text(port, "protocol"),
                port["port"],
            );
            found.add(Violation { reason: Reason::Duplicate, field: path.as_str().to_owned(), message });
        }
    }
}

/// The address of a Service is immutable, unless its type changes to or from one without an address.
fn address(spec: &Value, old: &Value, found: &mut Findings) {
    let has_address = |spec: &Value| text(spec, "type") != "ExternalName";
    let before = text(old, "clusterIP");
    if has_address(spec) && has_address(old) && !before.is_empty() && text(spec, "clusterIP") != before {
        let shown = match &spec["clusterIPs"] {
            Value::Null => json!([text(spec, "clusterIP")]),
            addresses => addresses.clone(),
        };
        found.invalid(&Path::of("spec.clusterIPs").index(0), &shown, "may not change once set");
    }
}

fn external_name(spec: &Value, path: &Path, found: &mut Findings) {
    let name = text(spec, "externalName").trim_end_matches('.');
    if name.is_empty() {
        found.required(&path.child("externalName"), "");
    } else {
        found.errors(&path.child("externalName"), name, names::dns_1123_subdomain(name));
    }
}

fn port<'a>(port: &'a Value, named: bool, seen: &mut HashSet<&'a str>, path: &Path, found: &mut Findings) {
    let name = text(port, "name");
    if named && name.is_empty() {
        found.required(&path.child("name"), "");
    } else if !name.is_empty() {
        found.errors(&path.child("name"), name, names::dns_1123_label(name));
        if !seen.insert(name) {
            found.add(Violation::duplicate(path.child("name").as_str(), &name.into()));
        }
    }
    found.port(&path.child("port"), &port["port"]);
    found.choice(&path.child("protocol"), &port["protocol"], &PROTOCOLS);
    found.port_or_name(&path.child("targetPort"), &port["targetPort"]);
}
