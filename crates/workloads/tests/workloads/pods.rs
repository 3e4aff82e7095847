use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt as _, api::PropagationPolicy};
use serde_json::{Value, json};

use crate::world::{NODE, World};

cases! {
    a_pod_gets_the_node_or_reports_why_not,
    a_pod_of_a_node_that_is_gone_goes,
    the_node_is_there_and_ready,
    a_claim_is_bound_at_once,
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "one"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": whole})
}

async fn a_pod_gets_the_node_or_reports_why_not(world: World) {
    world.create::<Pod>(pod("plain", &json!({}))).await;
    world.create::<Pod>(pod("picky", &json!({"nodeSelector": {"gpu": "yes"}}))).await;
    world
        .until_one::<Pod>("plain", "running", |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Running"))
        .await;
    let unschedulable = |pod: &Pod| {
        let conditions = pod.status.as_ref().unwrap().conditions.as_deref().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.reason.as_deref() == Some("Unschedulable")
                && condition.message.as_deref().unwrap().contains("node affinity/selector")
        })
    };
    let picky = world.until_one::<Pod>("picky", "unschedulable", unschedulable).await;
    assert!(picky.spec.unwrap().node_name.is_none());
    // One that waits goes when it is deleted, though no node will ever end it.
    world.delete::<Pod>("picky", PropagationPolicy::Background).await;
    world.until_gone::<Pod>("picky").await;
}

async fn a_pod_of_a_node_that_is_gone_goes(world: World) {
    // The stub plays any node; a grace period keeps the Pod until it is deleted at once.
    world.create::<Pod>(pod("lost", &json!({"nodeName": "no-such-node"}))).await;
    world.until_gone::<Pod>("lost").await;
}

async fn the_node_is_there_and_ready(world: World) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = nodes.get(NODE).await.unwrap();
    assert_eq!(node.labels().get("kubernetes.io/os").map(String::as_str), Some("linux"));
    let output = world.kubectl(&["get", "nodes"]).await;
    assert!(output.contains(NODE) && output.contains(" Ready "), "{output}");
}

async fn a_claim_is_bound_at_once(world: World) {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    world.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "data"}, "spec": spec})).await;
    let output = world.kubectl(&["wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=20s"]).await;
    assert!(output.contains("condition met"), "{output}");
}
