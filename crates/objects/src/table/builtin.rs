//! The columns of built-in kinds.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::age::since;
use super::{Column, Columns, pod};
use crate::selector::LabelSelector;

/// The columns of a built-in kind; by default name and creation time.
pub fn columns(api_version: &str, kind: &str) -> Columns {
    let cells: fn(&Value, Timestamp) -> Vec<Value> = match (api_version, kind) {
        ("v1", "Pod") => return Columns::new(pod_columns(), pod::cells),
        ("v1", "Namespace") => namespace,
        ("v1", "ConfigMap") => config_map,
        ("v1", "Secret") => secret,
        ("v1", "Service") => service,
        ("v1", "ServiceAccount") => service_account,
        ("v1", "PersistentVolumeClaim") => claim,
        ("v1", "Event") => event,
        ("v1", "Node") => node,
        ("apps/v1", "Deployment") => deployment,
        ("apps/v1", "ReplicaSet") => replica_set,
        ("discovery.k8s.io/v1", "EndpointSlice") => endpoint_slice,
        ("coordination.k8s.io/v1", "Lease") => lease,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => role_binding,
        ("networking.k8s.io/v1", "NetworkPolicy") => network_policy,
        _ => return Columns::new(default_columns(), default_cells),
    };
    Columns::new(own_columns(kind), cells)
}

fn name() -> Column {
    Column::new("Name", "string", "The name of the object.")
}

fn age() -> Column {
    Column::new("Age", "string", "Time since the object was created.")
}

fn column(name: &str, description: &str) -> Column {
    Column::new(name, "string", description)
}

fn number(name: &str, description: &str) -> Column {
    Column::new(name, "integer", description)
}

fn default_columns() -> Vec<Column> {
    vec![name(), Column::new("Created At", "date", "When the object was created.")]
}

fn default_cells(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![text(object, "/metadata/name").into(), text(object, "/metadata/creationTimestamp").into()]
}

fn pod_columns() -> Vec<Column> {
    vec![
        name(),
        column("Ready", "Number of ready containers, of all containers."),
        column("Status", "Aggregate state of the containers."),
        column("Restarts", "Number of container restarts, and the time of the last one."),
        age(),
        Column::wide("IP", "The address of the Pod."),
        Column::wide("Node", "Node of the Pod."),
        Column::wide("Nominated Node", "Node that will run the Pod once resources are free."),
        Column::wide("Readiness Gates", "Number of fulfilled readiness gates."),
    ]
}

fn containers() -> [Column; 3] {
    [
        Column::wide("Containers", "The containers of the template."),
        Column::wide("Images", "The images of the template."),
        Column::wide("Selector", "Label selector of its Pods."),
    ]
}

fn own_columns(kind: &str) -> Vec<Column> {
    match kind {
        "Namespace" => vec![name(), column("Status", "Active or Terminating."), age()],
        "ConfigMap" => vec![name(), column("Data", "Number of keys."), age()],
        "Secret" => {
            vec![name(), column("Type", "Type of the Secret."), column("Data", "Number of keys."), age()]
        }
        "Service" => vec![
            name(),
            column("Type", "Type of the Service."),
            column("Cluster-IP", "Address in the cluster."),
            column("External-IP", "Addresses outside of the cluster."),
            column("Port(s)", "Ports."),
            age(),
            Column::wide("Selector", "Label selector of its Pods."),
        ],
        "ServiceAccount" => vec![name(), column("Secrets", "Number of Secrets."), age()],
        "PersistentVolumeClaim" => vec![
            name(),
            column("Status", "Phase of the claim."),
            column("Volume", "Bound volume."),
            column("Capacity", "Size of the volume."),
            column("Access Modes", "Access modes of the volume."),
            column("StorageClass", "StorageClass of the claim."),
            column("VolumeAttributesClass", "VolumeAttributesClass of the claim."),
            age(),
            Column::wide("VolumeMode", "File system or block device."),
        ],
        "Event" => vec![
            column("Last Seen", "Time of the last occurrence."),
            column("Type", "Normal or Warning."),
            column("Reason", "Reason of the event."),
            column("Object", "Object that the event is about."),
            Column::wide("Subobject", "Part of the object."),
            Column::wide("Source", "Component that reported the event."),
            column("Message", "Description of the event."),
            Column::wide("First Seen", "Time of the first occurrence."),
            Column::wide("Count", "Number of occurrences."),
            Column { format: "name".to_owned(), ..Column::wide("Name", "The name of the event.") },
        ],
        "Node" => vec![
            name(),
            column("Status", "Readiness of the node."),
            column("Roles", "Roles of the node."),
            age(),
            column("Version", "Version of the kubelet."),
            Column::wide("Internal-IP", "Address in the cluster."),
            Column::wide("External-IP", "Address outside of the cluster."),
            Column::wide("OS-Image", "Operating system."),
            Column::wide("Kernel-Version", "Kernel version."),
            Column::wide("Container-Runtime", "Container runtime."),
        ],
        "Deployment" => [
            name(),
            column("Ready", "Number of ready Pods, of all desired Pods."),
            column("Up-to-date", "Number of Pods of the current template."),
            column("Available", "Number of available Pods."),
            age(),
        ]
        .into_iter()
        .chain(containers())
        .collect(),
        "ReplicaSet" => [
            name(),
            number("Desired", "Desired number of Pods."),
            number("Current", "Current number of Pods."),
            number("Ready", "Number of ready Pods."),
            age(),
        ]
        .into_iter()
        .chain(containers())
        .collect(),
        "EndpointSlice" => vec![
            name(),
            column("AddressType", "Address family."),
            column("Ports", "Ports."),
            column("Endpoints", "Addresses."),
            age(),
        ],
        "Lease" => vec![name(), column("Holder", "Holder of the lease."), age()],
        "RoleBinding" | "ClusterRoleBinding" => vec![
            name(),
            column("Role", "Role of the binding."),
            age(),
            Column::wide("Users", "Bound users."),
            Column::wide("Groups", "Bound groups."),
            Column::wide("ServiceAccounts", "Bound service accounts."),
        ],
        "NetworkPolicy" => vec![name(), column("Pod-Selector", "Label selector of the affected Pods."), age()],
        _ => default_columns(),
    }
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn whole(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn map<'v>(value: &'v Value, path: &str) -> Option<&'v Map<String, Value>> {
    value.pointer(path).and_then(Value::as_object)
}

/// The first non-empty string.
fn either<'v>(first: &'v str, second: &'v str) -> &'v str {
    if first.is_empty() { second } else { first }
}

fn joined<'v>(texts: impl IntoIterator<Item = &'v str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<_>>().join(separator)
}

fn name_of(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

fn age_of(object: &Value, now: Timestamp) -> Value {
    since(object.pointer("/metadata/creationTimestamp"), now).into()
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_of(object), text(object, "/status/phase").into(), age_of(object, now)]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys: usize = ["/data", "/binaryData"].into_iter().filter_map(|path| map(object, path)).map(Map::len).sum();
    vec![name_of(object), keys.into(), age_of(object, now)]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys = map(object, "/data").map_or(0, Map::len);
    vec![name_of(object), text(object, "/type").into(), keys.into(), age_of(object, now)]
}

fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_of(object), list(object, "/secrets").len().into(), age_of(object, now)]
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = list(object, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (whole(port, "/port"), text(port, "/protocol"));
        match whole(port, "/nodePort") {
            ..=0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    let selector = map(object, "/spec/selector").filter(|selector| !selector.is_empty()).map(|selector| {
        let mut pairs: Vec<String> =
            selector.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        pairs.sort();
        pairs.join(",")
    });
    vec![
        name_of(object),
        text(object, "/spec/type").into(),
        either(text(object, "/spec/clusterIPs/0"), "<none>").into(),
        external_addresses(object).into(),
        either(&ports, "<none>").into(),
        age_of(object, now),
        selector.unwrap_or_else(|| "<none>".to_owned()).into(),
    ]
}

fn external_addresses(service: &Value) -> String {
    let external: Vec<&str> = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => either(&external.join(","), "<none>").to_owned(),
        "LoadBalancer" => {
            let mut addresses: Vec<&str> = list(service, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| either(text(ingress, "/ip"), text(ingress, "/hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            addresses.sort_unstable();
            addresses.dedup();
            either(&joined(addresses.into_iter().chain(external), ","), "<pending>").to_owned()
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let deleted = object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null());
    let volume = text(object, "/spec/volumeName");
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => Some("RWO"),
        Some("ReadOnlyMany") => Some("ROX"),
        Some("ReadWriteMany") => Some("RWX"),
        Some("ReadWriteOncePod") => Some("RWOP"),
        _ => None,
    };
    // In the order of kube-apiserver, not of the object.
    let modes: Vec<&str> = list(object, "/status/accessModes").iter().filter_map(short).collect();
    let modes = joined(["RWO", "ROX", "RWX", "RWOP"].into_iter().filter(|mode| modes.contains(mode)), ",");
    let bound = !volume.is_empty();
    let old_class = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get("volume.beta.kubernetes.io/storage-class"))
        .and_then(Value::as_str);
    vec![
        name_of(object),
        if deleted { "Terminating" } else { text(object, "/status/phase") }.into(),
        volume.into(),
        if bound { either(text(object, "/status/capacity/storage"), "0") } else { "" }.into(),
        if bound { modes.as_str() } else { "" }.into(),
        old_class.unwrap_or(text(object, "/spec/storageClassName")).into(),
        either(text(object, "/spec/volumeAttributesClassName"), "<unset>").into(),
        age_of(object, now),
        either(text(object, "/spec/volumeMode"), "<unset>").into(),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let time = |path: &str| object.pointer(path).filter(|time| !time.is_null());
    let first = since(time("/firstTimestamp").or(time("/eventTime")), now);
    let series = time("/series");
    let last = match (series, time("/lastTimestamp")) {
        (Some(series), _) => since(series.get("lastObservedTime"), now),
        (None, Some(last)) => since(Some(last), now),
        (None, None) => first.clone(),
    };
    let count = match (series, whole(object, "/count")) {
        (Some(series), _) => whole(series, "/count"),
        (None, 0) => 1,
        (None, count) => count,
    };
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = either(text(object, "/source/component"), text(object, "/reportingComponent"));
    let source = match either(text(object, "/source/host"), text(object, "/reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        text(object, "/message").trim().into(),
        first.into(),
        count.into(),
        name_of(object),
    ]
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(object, "/status/conditions").iter().rfind(|condition| text(condition, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        status += ",SchedulingDisabled";
    }
    let mut roles: Vec<&str> = map(object, "/metadata/labels")
        .into_iter()
        .flatten()
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => value.as_str().filter(|_| label == "kubernetes.io/role"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").iter().find(|address| text(address, "/type") == kind);
        found.map_or("<none>", |address| text(address, "/address"))
    };
    let info = |name: &str| either(text(object, &format!("/status/nodeInfo/{name}")), "<unknown>").into();
    vec![
        name_of(object),
        status.into(),
        either(&roles.join(","), "<none>").into(),
        age_of(object, now),
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Names and images of the template, and the selector.
fn template_cells(object: &Value, selector: String) -> [Value; 3] {
    let containers = list(object, "/spec/template/spec/containers");
    let all = |field: &str| Value::from(joined(containers.iter().map(|container| text(container, field)), ","));
    [all("/name"), all("/image"), selector.into()]
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let selector = LabelSelector::from_object(object.pointer("/spec/selector"))
        .map_or_else(|_| "<invalid>".to_owned(), |selector| selector.to_string());
    let mut cells = vec![
        name_of(object),
        format!("{}/{}", whole(object, "/status/readyReplicas"), whole(object, "/spec/replicas")).into(),
        whole(object, "/status/updatedReplicas").into(),
        whole(object, "/status/availableReplicas").into(),
        age_of(object, now),
    ];
    cells.extend(template_cells(object, selector));
    cells
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name_of(object),
        whole(object, "/spec/replicas").into(),
        whole(object, "/status/replicas").into(),
        whole(object, "/status/readyReplicas").into(),
        age_of(object, now),
    ];
    cells.extend(template_cells(object, printed_selector(object.pointer("/spec/selector"))));
    cells
}

fn printed_selector(selector: Option<&Value>) -> String {
    match LabelSelector::from_object(selector) {
        Ok(selector) => either(&selector.to_string(), "<none>").to_owned(),
        Err(_) => "<error>".to_owned(),
    }
}

fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = list(object, "/ports").iter().map(|port| match port.get("port").and_then(Value::as_i64) {
        Some(number) => number.to_string(),
        None => either(text(port, "/name"), "*").to_owned(),
    });
    let addresses = list(object, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
    let addresses = addresses.filter_map(Value::as_str).map(ToOwned::to_owned);
    vec![
        name_of(object),
        text(object, "/addressType").into(),
        three_of(&ports.collect::<Vec<_>>()).into(),
        three_of(&addresses.collect::<Vec<_>>()).into(),
        age_of(object, now),
    ]
}

fn three_of(texts: &[String]) -> String {
    match texts.len() {
        0 => "<unset>".to_owned(),
        1..=3 => texts.join(","),
        count => format!("{} + {} more...", texts[..3].join(","), count - 3),
    }
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_of(object), text(object, "/spec/holderIdentity").into(), age_of(object, now)]
}

fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let subjects = list(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
        let names = subjects.map(|subject| match (kind, text(subject, "/namespace")) {
            ("ServiceAccount", namespace) if !namespace.is_empty() => {
                format!("{namespace}/{}", text(subject, "/name"))
            }
            _ => text(subject, "/name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name_of(object),
        format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name")).into(),
        age_of(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let everything = Value::Object(Map::new());
    let selector = printed_selector(Some(object.pointer("/spec/podSelector").unwrap_or(&everything)));
    vec![name_of(object), selector.into(), age_of(object, now)]
}
