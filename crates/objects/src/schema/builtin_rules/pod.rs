//! Pods and Pod templates.

use std::collections::HashSet;

use serde_json::Value;

use super::super::names;
use super::super::violation::{Path, Violation};
use super::{Findings, items, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MAX_SECONDS: i64 = 2_147_483_647;

/// Volume sources in the order in which Kubernetes checks for a second one.
const SOURCES: [&str; 12] = [
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "iscsi",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

pub(super) fn pod(object: &Value, old: Option<&Value>, found: &mut Findings) {
    spec(&object["spec"], &Path::of("spec"), found);
    if let Some(old) = old {
        changed(&object["spec"], &old["spec"], found);
    }
}

/// Validates the spec of a Pod or of a template.
pub(super) fn spec(spec: &Value, path: &Path, found: &mut Findings) {
    let volumes = volumes(&spec["volumes"], &path.child("volumes"), found);
    let containers_path = path.child("containers");
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        found.required(&containers_path, "");
    }
    let mut seen = HashSet::new();
    for (container, path) in items(&spec["containers"], &containers_path) {
        self::container(container, &volumes, &path, found);
        unique_name(container, &mut seen, &path, found);
        probes(container, &path, found);
    }
    for (container, path) in items(&spec["initContainers"], &path.child("initContainers")) {
        self::container(container, &volumes, &path, found);
        init_container(container, &path, found);
        unique_name(container, &mut seen, &path, found);
    }
    found.choice(&path.child("restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    found.choice(&path.child("dnsPolicy"), &spec["dnsPolicy"], &dns);
    found.labels(&path.child("nodeSelector"), &spec["nodeSelector"]);
    for (field, rule) in [
        ("serviceAccountName", names::dns_1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns_1123_subdomain),
        ("hostname", names::dns_1123_label),
        ("subdomain", names::dns_1123_label),
        ("priorityClassName", names::dns_1123_subdomain),
        ("runtimeClassName", names::dns_1123_subdomain),
    ] {
        let value = text(spec, field);
        if !value.is_empty() {
            found.errors(&path.child(field), value, rule(value));
        }
    }
    tolerations(&spec["tolerations"], &path.child("tolerations"), found);
    if spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| !(1..=MAX_SECONDS).contains(&seconds)) {
        let sentence = format!("must be between 1 and {MAX_SECONDS}, inclusive");
        found.invalid(&path.child("activeDeadlineSeconds"), &spec["activeDeadlineSeconds"], &sentence);
    }
}

fn tolerations(list: &Value, path: &Path, found: &mut Findings) {
    for (toleration, path) in items(list, path) {
        let (key, value, effect) = (text(toleration, "key"), text(toleration, "value"), text(toleration, "effect"));
        let operator = path.child("operator");
        if !key.is_empty() {
            found.errors(&path.child("key"), key, names::qualified_name(key));
        } else if toleration["operator"] != "Exists" {
            let sentence = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.invalid(&operator, &text(toleration, "operator").into(), sentence);
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let sentence = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            found.invalid(&path.child("effect"), &effect.into(), sentence);
        }
        match text(toleration, "operator") {
            "" | "Equal" => found.errors(&operator, value, names::label_value(value)),
            "Exists" if value.is_empty() => {}
            "Exists" => found.invalid(&operator, &value.into(), "value must be empty when `operator` is 'Exists'"),
            _ => found.add(Violation::not_supported(operator.as_str(), &toleration["operator"], ["Equal", "Exists"])),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            found.add(Violation::not_supported(path.child("effect").as_str(), &toleration["effect"], effects));
        }
    }
}

/// Tolerations of a Pod can be added; of existing ones only the seconds can change.
fn added_tolerations(new: &Value, old: &Value, path: &Path, found: &mut Findings) {
    let without_seconds = |list: &Value| -> Vec<Value> {
        let timeless = |toleration: &Value| {
            let mut toleration = toleration.clone();
            drop(toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds")));
            toleration
        };
        list.as_array().into_iter().flatten().map(timeless).collect()
    };
    let new = without_seconds(new);
    if without_seconds(old).iter().any(|toleration| !new.contains(toleration)) {
        found.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn unique_name<'a>(container: &'a Value, seen: &mut HashSet<&'a str>, path: &Path, found: &mut Findings) {
    let name = text(container, "name");
    if !seen.insert(name) {
        found.add(Violation::duplicate(path.child("name").as_str(), &name.into()));
    }
}

/// Validates the volumes and returns the names of the valid ones.
fn volumes<'a>(list: &'a Value, path: &Path, found: &mut Findings) -> HashSet<&'a str> {
    let mut good = HashSet::new();
    for (volume, path) in items(list, path) {
        let before = found.0.len();
        source(volume, &path, found);
        let name = text(volume, "name");
        let name_path = path.child("name");
        if name.is_empty() {
            found.required(&name_path, "");
        } else {
            found.errors(&name_path, name, names::dns_1123_label(name));
        }
        if good.contains(name) {
            found.add(Violation::duplicate(name_path.as_str(), &name.into()));
        }
        if found.0.len() == before {
            good.insert(name);
        }
    }
    good
}

fn source(volume: &Value, path: &Path, found: &mut Findings) {
    let mut given = SOURCES.iter().filter(|source| volume.get(**source).is_some());
    if given.next().is_none() {
        // A source that is not listed here is known to Kubernetes: its type was checked before.
        if volume.as_object().is_none_or(|fields| fields.keys().all(|field| field == "name")) {
            found.required(path, "must specify a volume type");
        }
        return;
    }
    given.for_each(|source| found.forbidden(&path.child(source), "may not specify more than 1 volume type"));
    for (source, field) in
        [("secret", "secretName"), ("configMap", "name"), ("persistentVolumeClaim", "claimName"), ("hostPath", "path")]
    {
        let Some(value) = volume.get(source) else { continue };
        let path = path.child(source);
        if text(value, field).is_empty() {
            found.required(&path.child(field), "");
        }
        if source == "hostPath" {
            back_steps(text(value, field), &path.child(field), found);
        }
        mode(&value["defaultMode"], &path.child("defaultMode"), found);
        for (file, path) in items(&value["items"], &path.child("items")) {
            for field in ["key", "path"] {
                if text(file, field).is_empty() {
                    found.required(&path.child(field), "");
                }
            }
            mode(&file["mode"], &path.child("mode"), found);
        }
    }
}

fn mode(value: &Value, path: &Path, found: &mut Findings) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        found.invalid(path, value, FILE_MODE);
    }
}

fn back_steps(value: &str, path: &Path, found: &mut Findings) {
    if value.split('/').any(|part| part == "..") {
        found.invalid(path, &value.into(), "must not contain '..'");
    }
}

fn container(container: &Value, volumes: &HashSet<&str>, path: &Path, found: &mut Findings) {
    let name = text(container, "name");
    if name.is_empty() {
        found.required(&path.child("name"), "");
    } else {
        found.errors(&path.child("name"), name, names::dns_1123_label(name));
    }
    if text(container, "image").is_empty() {
        found.required(&path.child("image"), "");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    found.choice(&path.child("terminationMessagePolicy"), &container["terminationMessagePolicy"], &policies);
    ports(&container["ports"], &path.child("ports"), found);
    environment(container, path, found);
    mounts(&container["volumeMounts"], volumes, &path.child("volumeMounts"), found);
    let policies = ["Always", "IfNotPresent", "Never"];
    found.choice(&path.child("imagePullPolicy"), &container["imagePullPolicy"], &policies);
    resources(&container["resources"], &path.child("resources"), found);
}

fn ports(list: &Value, path: &Path, found: &mut Findings) {
    let mut seen = HashSet::new();
    for (port, path) in items(list, path) {
        let name = text(port, "name");
        if !name.is_empty() {
            let errors = names::port_name(name);
            if errors.is_empty() && !seen.insert(name) {
                found.add(Violation::duplicate(path.child("name").as_str(), &name.into()));
            }
            found.errors(&path.child("name"), name, errors);
        }
        match port["containerPort"].as_i64().unwrap_or_default() {
            0 => found.required(&path.child("containerPort"), ""),
            _ => found.port(&path.child("containerPort"), &port["containerPort"]),
        }
        if port["hostPort"].as_i64().is_some_and(|port| port != 0) {
            found.port(&path.child("hostPort"), &port["hostPort"]);
        }
        found.choice(&path.child("protocol"), &port["protocol"], &PROTOCOLS);
    }
}

fn environment(container: &Value, path: &Path, found: &mut Findings) {
    for (variable, path) in items(&container["env"], &path.child("env")) {
        let name = text(variable, "name");
        if name.is_empty() {
            found.required(&path.child("name"), "");
        } else {
            found.errors(&path.child("name"), name, names::environment_variable(name));
        }
        let Some(from) = variable.get("valueFrom") else { continue };
        let path = path.child("valueFrom");
        for (source, field) in [("configMapKeyRef", "key"), ("secretKeyRef", "key"), ("fieldRef", "fieldPath")] {
            if from.get(source).is_some_and(|source| text(source, field).is_empty()) {
                found.required(&path.child(source).child(field), "");
            }
        }
        let sources = from.as_object().map_or(0, serde_json::Map::len);
        let sentence = match sources {
            0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        found.invalid(&path, &"".into(), sentence);
    }
    let path = path.child("envFrom");
    for (source, _) in items(&container["envFrom"], &path) {
        let count = ["configMapRef", "secretRef"].iter().filter(|field| source.get(**field).is_some()).count();
        if count != 1 {
            let none = "must specify one of: `configMapRef` or `secretRef`";
            let both = "may not have more than one field specified at a time";
            found.invalid(&path, &"".into(), if count == 0 { none } else { both });
        }
    }
}

fn mounts(list: &Value, volumes: &HashSet<&str>, path: &Path, found: &mut Findings) {
    let mut places = HashSet::new();
    for (mount, item) in items(list, path) {
        let name = text(mount, "name");
        if name.is_empty() {
            found.required(&item.child("name"), "");
        }
        if !volumes.contains(name) {
            found.add(Violation::not_found(item.child("name").as_str(), name));
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            found.required(&item.child("mountPath"), "");
        }
        if !places.insert(place) {
            found.invalid(&item.child("mountPath"), &place.into(), "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let inside = text(mount, field);
            // Kubernetes reports the list here, not the item.
            if inside.starts_with('/') {
                found.invalid(&path.child(field), &inside.into(), "must be a relative path");
            }
            back_steps(inside, &path.child(field), found);
        }
    }
}

fn resources(resources: &Value, path: &Path, found: &mut Findings) {
    let amount = |value: &Value| super::nanos(value).unwrap_or_default();
    for list in ["limits", "requests"] {
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            if amount(value) < 0 {
                found.invalid(&path.child(list).key(name), value, "must be greater than or equal to 0");
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        if let Some(limit) = resources["limits"].get(name)
            && amount(request) > amount(limit)
        {
            let sentence =
                format!("must be less than or equal to {name} limit of {}", limit.as_str().unwrap_or_default());
            found.invalid(&path.child("requests"), request, &sentence);
        }
    }
}

fn init_container(container: &Value, path: &Path, found: &mut Findings) {
    if container["restartPolicy"] == "Always" {
        probes(container, path, found);
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.get(field).is_some() {
            found.forbidden(&path.child(field), "may not be set for init containers without restartPolicy=Always");
        }
    }
}

fn probes(container: &Value, path: &Path, found: &mut Findings) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name) else { continue };
        let path = path.child(name);
        handler(probe, &path, found);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            found.not_negative(&path.child(field), &probe[field]);
        }
        if name != "readinessProbe" && probe["successThreshold"].as_i64().is_some_and(|count| count != 1) {
            found.invalid(&path.child("successThreshold"), &probe["successThreshold"], "must be 1");
        }
    }
}

fn handler(probe: &Value, path: &Path, found: &mut Findings) {
    let mut given = ["exec", "httpGet", "tcpSocket", "grpc"].into_iter().filter(|kind| probe.get(*kind).is_some());
    let Some(first) = given.next() else {
        found.required(path, "must specify a handler type");
        return;
    };
    let (action, action_path) = (&probe[first], path.child(first));
    match first {
        "exec" if action["command"].as_array().is_none_or(Vec::is_empty) => {
            found.required(&action_path.child("command"), "");
        }
        "exec" => {}
        _ => found.port_or_name(&action_path.child("port"), &action["port"]),
    }
    if first == "httpGet" && !matches!(text(action, "scheme"), "HTTP" | "HTTPS") {
        let scheme = action_path.child("scheme");
        found.add(Violation::not_supported(scheme.as_str(), &action["scheme"], ["HTTP", "HTTPS"]));
    }
    given.for_each(|kind| found.forbidden(&path.child(kind), "may not specify more than 1 handler type"));
}

/// Rejects changes of immutable fields of a Pod.
fn changed(new: &Value, old: &Value, found: &mut Findings) {
    let path = Path::of("spec");
    for list in ["containers", "initContainers"] {
        let count = |spec: &Value| spec[list].as_array().map_or(0, Vec::len);
        if count(new) != count(old) {
            found.forbidden(&path.child(list), "pod updates may not add or remove containers");
            return;
        }
        for (container, path) in items(&new[list], &path.child(list)) {
            let image = text(container, "image");
            if image.trim() != image {
                let sentence = "must not have leading or trailing whitespace";
                found.invalid(&path.child("image"), &image.into(), sentence);
            }
        }
    }
    let deadline = path.child("activeDeadlineSeconds");
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(now), Some(before)) if before < now => {
            let sentence = "must be less than or equal to previous value";
            return found.invalid(&deadline, &new["activeDeadlineSeconds"], sentence);
        }
        (None, Some(_)) => {
            let sentence = "must not update from a positive integer to nil value";
            found.invalid(&deadline, &Value::Null, sentence);
        }
        _ => {}
    }
    added_tolerations(&new["tolerations"], &old["tolerations"], &path.child("tolerations"), found);
    let comparable = |spec: &Value| {
        let mut spec = spec.clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                drop(container.as_object_mut().map(|fields| fields.remove("image")));
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
                fields.remove(field);
            }
            let negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
            if negative && new["terminationGracePeriodSeconds"] == 1 {
                fields.remove("terminationGracePeriodSeconds");
            }
        }
        spec
    };
    if comparable(new) != comparable(old) {
        found.forbidden(
            &path,
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}
