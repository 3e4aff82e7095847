//! The Node object of this machine: shown by `kubectl get nodes`, and the target of Pod bindings.

use std::{fs, thread};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Allocatable Pods; Pods are processes here, and no machine needs more.
const PODS: u32 = 1000;
/// Taint of a node that is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Creates the Node object, or updates it, and marks it ready.
pub async fn register(client: &Client, name: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels(name)}}));
    match nodes.create(&PostParams::default(), &node.map_err(kube::Error::SerdeError)?).await {
        // Left by an earlier start.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => drop(other?),
    }
    let patch = json!({ "status": status(name, memory(), Timestamp::now()) });
    let node = nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    // The API server taints a new node until it is reported ready.
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let (new, others): (Vec<_>, Vec<_>) = taints.into_iter().partition(|taint| taint.key == NOT_READY);
    if !new.is_empty() {
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": others}}))).await?;
    }
    Ok(())
}

/// Sets the container runtime version of the node, for a node that uses a container engine.
pub async fn set_runtime(client: &Client, name: &str, runtime: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"status": {"nodeInfo": {"containerRuntimeVersion": runtime}}});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn labels(name: &str) -> Value {
    json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch()})
}

fn status(name: &str, memory: Option<String>, now: Timestamp) -> Value {
    let now = Time(now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut capacity = json!({"cpu": cores, "pods": PODS.to_string()});
    if let Some(memory) = memory {
        capacity["memory"] = json!(memory);
    }
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory pressure is not measured"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "disk pressure is not measured"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "process count is not measured"),
            condition("Ready", "True", "KubeletReady", "Pods run on this machine"),
        ],
        "nodeInfo": {
            "architecture": arch(), "operatingSystem": "linux", "osImage": os_image(),
            "kernelVersion": line("/proc/sys/kernel/osrelease"), "machineID": "", "systemUUID": "",
            "bootID": line("/proc/sys/kernel/random/boot_id"),
            "containerRuntimeVersion": concat!("process://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION")), "kubeProxyVersion": "",
        },
    })
}

/// The architecture as images and labels name it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn line(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

fn os_image() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// The memory of the machine as a quantity.
fn memory() -> Option<String> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(format!("{}Ki", total.trim().strip_suffix(" kB")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_says_that_it_is_ready_and_what_it_has() {
        let status = status("local", Some("1024Ki".to_owned()), Timestamp::UNIX_EPOCH);
        assert_eq!(status["capacity"]["memory"], "1024Ki");
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!((&ready["status"], &ready["lastHeartbeatTime"]), (&json!("True"), &json!("1970-01-01T00:00:00Z")));
        assert!(memory().is_some_and(|memory| memory.ends_with("Ki")));
    }
}
