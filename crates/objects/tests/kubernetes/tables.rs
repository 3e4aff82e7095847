//! Tables of every kind that has columns of its own, and of some that have not.

use anyhow::Context as _;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use kubeopencode_objects::table::{Columns, IncludeObject, columns, custom_columns, table};
use serde_json::{Value, json};

use crate::oracle::Oracle;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_have_the_same_columns_and_cells_here_and_on_a_real_api_server() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    create_all(&oracle).await?;
    let namespace = &oracle.namespace;
    let core = format!("/api/v1/namespaces/{namespace}");
    for (path, api_version, kind) in [
        (format!("{core}/pods"), "v1", "Pod"),
        (format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{namespace}"), "v1", "Namespace"),
        (format!("{core}/configmaps"), "v1", "ConfigMap"),
        (format!("{core}/secrets"), "v1", "Secret"),
        (format!("{core}/services"), "v1", "Service"),
        (format!("{core}/serviceaccounts"), "v1", "ServiceAccount"),
        (format!("{core}/persistentvolumeclaims"), "v1", "PersistentVolumeClaim"),
        (format!("{core}/events"), "v1", "Event"),
        ("/api/v1/nodes".to_owned(), "v1", "Node"),
        (format!("/apis/apps/v1/namespaces/{namespace}/deployments"), "apps/v1", "Deployment"),
        (format!("/apis/apps/v1/namespaces/{namespace}/replicasets"), "apps/v1", "ReplicaSet"),
        (
            format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
            "discovery.k8s.io/v1",
            "EndpointSlice",
        ),
        (format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"), "coordination.k8s.io/v1", "Lease"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(), "rbac.authorization.k8s.io/v1", "ClusterRole"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
        ),
        (
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"),
            "rbac.authorization.k8s.io/v1",
            "Role",
        ),
        (
            format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"),
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3Dtasks.kubeopencode.io"
                .to_owned(),
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
        ),
        (
            format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"),
            "networking.k8s.io/v1",
            "NetworkPolicy",
        ),
    ] {
        compare(&oracle, &path, api_version, kind, &columns(api_version, kind)).await?;
    }
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tasks.kubeopencode.io";
    let crd = oracle.ask(Method::GET, crd, &Value::Null).await?.granted()?;
    let columns = custom_columns(crd.pointer("/spec/versions/0/additionalPrinterColumns"));
    let path = format!("/apis/kubeopencode.io/v1alpha1/namespaces/{namespace}/tasks");
    compare(&oracle, &path, "kubeopencode.io/v1alpha1", "Task", &columns).await
}

async fn compare(oracle: &Oracle, path: &str, api_version: &str, kind: &str, columns: &Columns) -> anyhow::Result<()> {
    for include in ["", "None", "Metadata", "Object"] {
        let list = oracle.ask(Method::GET, path, &Value::Null).await?.granted()?;
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        assert!(!items.is_empty(), "no {kind}");
        for item in &mut items {
            item["apiVersion"] = json!(api_version);
            item["kind"] = json!(kind);
        }
        let before = Timestamp::now();
        let joint = if path.contains('?') { '&' } else { '?' };
        let shown = format!("{path}{joint}includeObject={include}");
        let mut theirs = oracle.ask_for(TABLE, Method::GET, &shown, &Value::Null).await?.granted()?;
        let metadata = theirs["metadata"].clone();
        let include = IncludeObject::parse(include).map_err(anyhow::Error::msg)?;
        without_descriptions(&mut theirs);
        // Ages are whole seconds, which may pass between the two.
        let ours: Vec<Value> = [0, 1]
            .map(|seconds| {
                let now = before + SignedDuration::from_secs(seconds);
                let mut ours = table(&items, metadata.clone(), columns, include, true, now);
                without_descriptions(&mut ours);
                ours
            })
            .into();
        assert!(ours.contains(&theirs), "{kind} include {include:?}\nours: {:#}\nreal: {theirs:#}", ours[0]);
    }
    Ok(())
}

/// The texts of columns are for machines, and ours.
fn without_descriptions(table: &mut Value) {
    for column in table["columnDefinitions"].as_array_mut().into_iter().flatten() {
        drop(column.as_object_mut().map(|column| column.shift_remove("description")));
    }
}

async fn create(oracle: &Oracle, path: &str, object: Value, status: Option<Value>) -> anyhow::Result<()> {
    let created = oracle.ask(Method::POST, path, &object).await?.granted().with_context(|| object.to_string())?;
    if let Some(status) = status {
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}/status");
        oracle.ask(Method::PATCH, &path, &json!({ "status": status })).await?.granted().with_context(|| path)?;
    }
    Ok(())
}

fn named(name: &str) -> Value {
    json!({"name": name})
}

async fn create_all(oracle: &Oracle) -> anyhow::Result<()> {
    let namespace = &oracle.namespace;
    let core = format!("/api/v1/namespaces/{namespace}");
    pods(oracle, &format!("{core}/pods")).await?;
    services(oracle, &format!("{core}/services")).await?;
    workloads(oracle).await?;
    let config_map = json!({"metadata": named("c"), "data": {"a": "1"}, "binaryData": {"b": "AA=="}});
    create(oracle, &format!("{core}/configmaps"), config_map, None).await?;
    let secret = json!({"metadata": named("s"), "stringData": {"a": "1", "b": "2"}});
    create(oracle, &format!("{core}/secrets"), secret, None).await?;
    let account = json!({"metadata": named("a"), "secrets": [{"name": "s"}]});
    create(oracle, &format!("{core}/serviceaccounts"), account, None).await?;
    let claims = format!("{core}/persistentvolumeclaims");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    create(oracle, &claims, json!({"metadata": named("pending"), "spec": spec}), None).await?;
    let mut bound = json!({"metadata": named("bound"), "spec": spec});
    bound["spec"]["volumeName"] = json!("pv");
    bound["spec"]["storageClassName"] = json!("fast");
    let status = json!({
        "phase": "Bound",
        "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
    });
    create(oracle, &claims, bound, Some(status)).await?;
    let event = json!({
        "metadata": named("old"),
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace, "fieldPath": "spec.containers{a}"},
        "reason": "Pulled",
        "message": " text ",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-02T00:00:00Z",
        "count": 3,
    });
    create(oracle, &format!("{core}/events"), event, None).await?;
    let event = json!({
        "metadata": named("new"),
        "involvedObject": {"kind": "Namespace", "namespace": namespace},
        "reason": "R",
        "action": "A",
        "type": "Warning",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingComponent": "us",
        "reportingInstance": "us-1",
        "series": {"count": 7, "lastObservedTime": "2026-01-03T00:00:00.000000Z"},
    });
    create(oracle, &format!("{core}/events"), event, None).await?;
    nodes(oracle).await?;
    let status = json!({"phase": "Running", "usage": {"cost": "0.5"}, "podName": "p"});
    let tasks = format!("/apis/kubeopencode.io/v1alpha1/namespaces/{namespace}/tasks");
    create(oracle, &tasks, task("t", namespace), Some(status)).await?;
    create(oracle, &tasks, task("u", namespace), None).await
}

fn task(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "kubeopencode.io/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"agentRef": {"name": "a"}},
    })
}

async fn pods(oracle: &Oracle, path: &str) -> anyhow::Result<()> {
    let finished = json!({"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z", "startedAt": "2026-01-01T00:00:00Z"});
    let state = |name: &str, ready: bool, restarts: i32, state: Value| {
        json!({
            "name": name, "ready": ready, "restartCount": restarts, "state": state, "lastState": {},
            "image": "i", "imageID": "i", "started": ready,
        })
    };
    let mut crashing = state("a", false, 4, json!({"waiting": {"reason": "CrashLoopBackOff"}}));
    crashing["lastState"] = json!({"terminated": finished});
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ready = json!([{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]);
    let init = |status: Value| json!({"phase": "Pending", "initContainerStatuses": [status]});
    let mut error = finished.clone();
    error["reason"] = json!("Error");
    let mut killed = finished.clone();
    killed["signal"] = json!(9);
    let mut completed = finished.clone();
    completed["exitCode"] = json!(0);
    completed["reason"] = json!("Completed");
    let addresses = json!([{"ip": "10.0.0.1"}]);
    for (name, status) in [
        ("pending", json!({"phase": "Pending"})),
        (
            "running",
            json!({
                "phase": "Running", "podIP": "10.0.0.1", "podIPs": addresses, "conditions": ready,
                "containerStatuses": [state("a", true, 0, running.clone())],
            }),
        ),
        ("crashing", json!({"phase": "Running", "containerStatuses": [crashing]})),
        ("evicted", json!({"phase": "Failed", "reason": "Evicted"})),
        (
            "done",
            json!({
                "phase": "Succeeded",
                "containerStatuses": [state("a", false, 0, json!({"terminated": completed}))],
            }),
        ),
        (
            "error",
            json!({"phase": "Failed", "containerStatuses": [state("a", false, 0, json!({"terminated": error}))]}),
        ),
        (
            "code",
            json!({"phase": "Failed", "containerStatuses": [state("a", false, 0, json!({"terminated": finished}))]}),
        ),
        (
            "signal",
            json!({"phase": "Failed", "containerStatuses": [state("a", false, 0, json!({"terminated": killed}))]}),
        ),
        ("init-runs", init(state("i", false, 2, running.clone()))),
        ("init-fails", init(state("i", false, 0, json!({"terminated": error})))),
        ("init-waits", init(state("i", false, 0, json!({"waiting": {"reason": "ImagePullBackOff"}})))),
        (
            "sidecar",
            json!({
                "phase": "Running", "conditions": ready,
                "initContainerStatuses": [
                    state("i", false, 0, json!({"terminated": completed})),
                    state("s", true, 1, running.clone()),
                ],
                "containerStatuses": [state("a", true, 2, running)],
            }),
        ),
        (
            "gated",
            json!({
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            }),
        ),
    ] {
        let mut init = vec![json!({"name": "i", "image": "i"})];
        if name == "sidecar" {
            init.push(json!({"name": "s", "image": "i", "restartPolicy": "Always"}));
        } else if !name.starts_with("init") {
            init.clear();
        }
        let node = if name == "running" { "n" } else { "" };
        let pod = json!({
            "metadata": named(name),
            "spec": {
                "containers": [{"name": "a", "image": "i"}],
                "initContainers": init,
                "readinessGates": [{"conditionType": "Ready"}],
                "nodeName": node,
            },
        });
        create(oracle, path, pod, Some(status)).await?;
    }
    let leaving = json!({
        "metadata": {"name": "leaving", "finalizers": ["x.io/a"]},
        "spec": {"containers": [{"name": "a", "image": "i"}]},
    });
    create(oracle, path, leaving, None).await?;
    oracle.ask(Method::DELETE, &format!("{path}/leaving"), &Value::Null).await?.granted()?;
    Ok(())
}

async fn services(oracle: &Oracle, path: &str) -> anyhow::Result<()> {
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let balanced = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "h.example"}]}});
    for (name, spec, status) in [
        ("cluster", json!({"ports": ports, "selector": {"b": "2", "a": "1"}}), None),
        ("headless", json!({"clusterIP": "None"}), None),
        ("node", json!({"type": "NodePort", "ports": ports, "externalIPs": ["192.0.2.1", "192.0.2.2"]}), None),
        ("pending", json!({"type": "LoadBalancer", "ports": ports}), None),
        ("balanced", json!({"type": "LoadBalancer", "ports": ports}), Some(balanced)),
        ("external", json!({"type": "ExternalName", "externalName": "x.example"}), None),
    ] {
        create(oracle, path, json!({"metadata": named(name), "spec": spec}), status).await?;
    }
    Ok(())
}

async fn workloads(oracle: &Oracle) -> anyhow::Result<()> {
    let namespace = &oracle.namespace;
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2"}]},
    });
    let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["z", "y"]}]});
    let spec = json!({"replicas": 2, "selector": selector, "template": template});
    let status = json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1});
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    create(oracle, &deployments, json!({"metadata": named("d"), "spec": spec}), Some(status)).await?;
    let status = json!({"replicas": 2, "readyReplicas": 1});
    let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    create(oracle, &sets, json!({"metadata": named("r"), "spec": spec}), Some(status)).await?;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
    let endpoints = addresses.map(|address| json!({"addresses": [address]}));
    let slice = json!({
        "metadata": named("many"),
        "addressType": "IPv4",
        "ports": [{"name": "a", "port": 80}, {"name": "b"}],
        "endpoints": endpoints,
    });
    create(oracle, &slices, slice, None).await?;
    create(oracle, &slices, json!({"metadata": named("none"), "addressType": "IPv4", "endpoints": []}), None).await?;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    create(oracle, &leases, json!({"metadata": named("l"), "spec": {"holderIdentity": "me"}}), None).await?;
    let access = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    create(oracle, &format!("{access}/roles"), json!({"metadata": named("r"), "rules": []}), None).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": named("b"),
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "apiGroup": group, "name": "u"},
            {"kind": "User", "apiGroup": group, "name": "v"},
            {"kind": "Group", "apiGroup": group, "name": "g"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
        ],
    });
    create(oracle, &format!("{access}/rolebindings"), binding, None).await?;
    let policies = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies");
    create(oracle, &policies, json!({"metadata": named("all"), "spec": {"podSelector": {}}}), None).await?;
    create(oracle, &policies, json!({"metadata": named("some"), "spec": {"podSelector": selector}}), None).await
}

async fn nodes(oracle: &Oracle) -> anyhow::Result<()> {
    let status = json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "nodeInfo": {
            "kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": "",
            "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "",
            "architecture": "",
        },
    });
    let labels = json!({"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker"});
    let node = json!({"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": true}});
    create(oracle, "/api/v1/nodes", node, Some(status)).await?;
    create(oracle, "/api/v1/nodes", json!({"metadata": named("plain")}), None).await
}
