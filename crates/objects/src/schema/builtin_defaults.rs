//! Defaults of built-in kinds that are not part of their schemas.
//!
//! Defaults that depend on other objects (the address of a Service, the default StorageClass) are not set here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Sets the defaults of an object of a built-in kind.
pub fn fill_defaults(api_version: &str, kind: &str, object: &mut Value) {
    match (api_version, kind) {
        ("v1", "Pod") => pod(object),
        ("v1", "Service") => in_spec(object, service),
        ("v1", "Secret") => {
            set(object, "type", "Opaque");
            merge_string_data(object);
        }
        ("v1", "Namespace") => namespace(object),
        ("v1", "PersistentVolumeClaim") => {
            in_spec(object, |spec| set(spec, "volumeMode", "Filesystem"));
            set(part(object, "status"), "phase", "Pending");
        }
        ("v1", "PersistentVolume") => {
            in_spec(object, |spec| {
                set(spec, "persistentVolumeReclaimPolicy", "Retain");
                set(spec, "volumeMode", "Filesystem");
            });
            set(part(object, "status"), "phase", "Pending");
        }
        ("v1", "Endpoints") => {
            for subset in items(object, "subsets") {
                items(subset, "ports").for_each(|port| set(port, "protocol", "TCP"));
            }
        }
        ("apps/v1", "Deployment") => in_spec(object, deployment),
        ("apps/v1", "ReplicaSet") => in_spec(object, |spec| {
            set(spec, "replicas", 1);
            template(spec);
        }),
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            for port in items(object, "ports") {
                set(port, "name", "");
                set(port, "protocol", "TCP");
            }
        }
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => in_spec(object, network_policy),
        ("storage.k8s.io/v1", "StorageClass") => {
            set(object, "reclaimPolicy", "Delete");
            set(object, "volumeBindingMode", "Immediate");
        }
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => in_spec(object, definition),
        _ => {}
    }
}

/// Sets a field that is missing, null or an empty string.
fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        let unset = fields.get(field).is_none_or(|value| value.is_null() || value == "");
        if unset {
            fields.insert(field.to_owned(), value.into());
        }
    }
}

/// Sets a number that is missing or zero.
fn set_number(object: &mut Value, field: &str, value: i64) {
    if object.get(field).is_none_or(|number| number.as_i64() == Some(0)) {
        set_anew(object, field, value);
    }
}

fn set_anew(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value.into());
    }
}

/// A field, created if it is missing.
fn part<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    set(object, field, Map::new());
    &mut object[field]
}

fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// As in Go, the spec always exists.
fn in_spec(object: &mut Value, fill: impl FnOnce(&mut Value)) {
    if object.is_object() {
        fill(part(object, "spec"));
    }
}

/// `stringData` is merged into `data`.
fn merge_string_data(secret: &mut Value) {
    let texts = secret.as_object_mut().and_then(|fields| fields.shift_remove("stringData"));
    for (key, text) in texts.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        set_anew(part(secret, "data"), key, encoded);
    }
}

fn namespace(object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object.get_mut("metadata").filter(|_| !name.is_empty()) {
        set_anew(part(metadata, "labels"), "kubernetes.io/metadata.name", name);
    }
    set(part(object, "status"), "phase", "Active");
}

fn pod(object: &mut Value) {
    in_spec(object, |spec| {
        pod_spec(spec);
        set(spec, "enableServiceLinks", true);
        let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                requests(container);
                for port in items(container, "ports").filter(|_| host_network) {
                    let number = port["containerPort"].as_i64().unwrap_or_default();
                    set_number(port, "hostPort", number);
                }
            }
        }
    });
}

/// In a Pod, but not in a template, requests default to limits.
fn requests(container: &mut Value) {
    let Some(resources) = container.get_mut("resources") else { return };
    let limits = resources["limits"].as_object().cloned().unwrap_or_default();
    if !limits.is_empty() {
        let requests = part(resources, "requests");
        limits.into_iter().for_each(|(resource, limit)| set(requests, &resource, limit));
    }
}

fn template(spec: &mut Value) {
    pod_spec(part(part(spec, "template"), "spec"));
}

fn pod_spec(spec: &mut Value) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "securityContext", Map::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "schedulerName", "default-scheduler");
    // The deprecated and the current name of the same field.
    for (from, to) in [("serviceAccount", "serviceAccountName"), ("serviceAccountName", "serviceAccount")] {
        if let Some(account) = spec.get(from).cloned() {
            set(spec, to, account);
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        set(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            field_or_resource(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name) {
            set_number(probe, "timeoutSeconds", 1);
            set_number(probe, "periodSeconds", 10);
            set_number(probe, "successThreshold", 1);
            set_number(probe, "failureThreshold", 3);
            action(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get_mut(name) {
                action(handler);
            }
        }
    }
}

fn action(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
    if let Some(grpc) = handler.get_mut("grpc")
        && grpc.get("service").is_none()
    {
        set(grpc, "service", "");
    }
}

/// Whether an image without a digest has the tag `latest`, or none.
fn is_latest(image: &str) -> bool {
    // Kubernetes treats an invalid name as a fixed version.
    if image.is_empty() || image.contains(char::is_whitespace) {
        return false;
    }
    if image.contains('@') {
        return image.split('@').next().is_some_and(|name| tag_of(name) == Some("latest"));
    }
    tag_of(image).unwrap_or("latest") == "latest"
}

fn tag_of(name: &str) -> Option<&str> {
    name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag)
}

fn volume(volume: &mut Value) {
    let Value::Object(fields) = volume else { return };
    if !fields.keys().any(|field| field != "name") {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = fields.get_mut(source) {
            set(source, "defaultMode", 0o644);
        }
    }
    if let Some(path) = fields.get_mut("hostPath")
        && path.get("type").is_none()
    {
        set_anew(path, "type", "");
    }
    downward_files(volume.get_mut("downwardAPI"));
    for source in volume.get_mut("projected").into_iter().flat_map(|source| items(source, "sources")) {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            set(token, "expirationSeconds", 3600);
        }
        downward_files(source.get_mut("downwardAPI"));
    }
    if let Some(image) = volume.get_mut("image") {
        let reference = image.get("reference").and_then(Value::as_str).unwrap_or_default();
        let policy = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        set(image, "pullPolicy", policy);
    }
    if let Some(template) = volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate")) {
        set(part(template, "spec"), "volumeMode", "Filesystem");
    }
}

fn downward_files(source: Option<&mut Value>) {
    source.into_iter().flat_map(|source| items(source, "items")).for_each(field_or_resource);
}

fn field_or_resource(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef") {
        set(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef") {
        set(resource, "divisor", "0");
    }
}

fn deployment(spec: &mut Value) {
    set(spec, "replicas", 1);
    let strategy = part(spec, "strategy");
    set(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = part(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", "25%");
        set(rolling, "maxSurge", "25%");
    }
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    template(spec);
}

fn service(spec: &mut Value) {
    set(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "ClientIP" {
        let client = part(part(spec, "sessionAffinityConfig"), "clientIP");
        set(client, "timeoutSeconds", 10_800);
    } else if let Value::Object(fields) = &mut *spec {
        fields.remove("sessionAffinityConfig");
    }
    set(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        set(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or_default();
        if port.get("targetPort").is_none_or(|target| target == 0 || target == "") {
            set_anew(port, "targetPort", number);
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = object.get_mut("roleRef") {
        set(role, "apiGroup", GROUP);
    }
    for subject in items(object, "subjects") {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            set(subject, "apiGroup", GROUP);
        }
    }
}

fn network_policy(spec: &mut Value) {
    let has_egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        set_anew(spec, "policyTypes", if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            items(rule, "ports").for_each(|port| set(port, "protocol", "TCP"));
        }
    }
}

fn definition(spec: &mut Value) {
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = spec.get_mut("names").filter(|_| !kind.is_empty()) {
        set(names, "singular", kind.to_lowercase());
        set(names, "listKind", format!("{kind}List"));
    }
    set(spec, "conversion", json!({ "strategy": "None" }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_image_decides_when_it_is_pulled() {
        for (image, latest) in [
            ("a", true),
            ("a:latest", true),
            ("a:1", false),
            ("host:5000/a", true),
            ("host:5000/a:1", false),
            ("a@sha256:0", false),
            ("", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn a_plain_pod_gets_its_policies() {
        let mut pod =
            json!({ "spec": { "containers": [{ "name": "a", "image": "a", "ports": [{ "containerPort": 1 }] }] } });
        fill_defaults("v1", "Pod", &mut pod);
        assert_eq!(
            pod,
            json!({ "spec": {
            "containers": [{ "name": "a", "image": "a", "ports": [{ "containerPort": 1, "protocol": "TCP" }],
                "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File" }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
            "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "enableServiceLinks": true,
        } })
        );
    }

    #[test]
    fn a_secret_and_a_binding_say_what_they_are() {
        let mut secret = json!({ "type": "", "data": { "a": "YQ==" }, "stringData": { "a": "b" } });
        fill_defaults("v1", "Secret", &mut secret);
        assert_eq!(secret, json!({ "type": "Opaque", "data": { "a": "Yg==" } }));
        let mut binding = json!({ "roleRef": {}, "subjects": [{ "kind": "User" }, { "kind": "ServiceAccount" }] });
        fill_defaults("rbac.authorization.k8s.io/v1", "RoleBinding", &mut binding);
        assert_eq!(binding["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
        assert_eq!(binding["subjects"][1].get("apiGroup"), None);
    }
}
