use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, discovery::v1::EndpointSlice};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::world::{World, deployment};

cases! {
    a_service_knows_its_ready_pods,
}

/// Addresses of ready endpoints, and the port.
fn ready(slices: &[EndpointSlice]) -> (usize, Option<i32>) {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| endpoint.conditions.as_ref().unwrap().ready == Some(true)).count();
    (ready, slices.first().and_then(|slice| slice.ports.as_ref()?.first()?.port))
}

async fn a_service_knows_its_ready_pods(world: World) {
    let labels = "kubernetes.io/service-name=web";
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]});
    world.create::<Service>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    world.until::<EndpointSlice>(labels, "empty", |slices| slices.len() == 1 && ready(slices).0 == 0).await;
    let mut object = deployment("web", "one", 2);
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": 4096}]);
    world.create::<Deployment>(object).await;
    world.until::<EndpointSlice>(labels, "two endpoints", |slices| ready(slices) == (2, Some(4096))).await;
    world.kubectl(&["scale", "deployment/web", "--replicas=1"]).await;
    world.until::<EndpointSlice>(labels, "one endpoint", |slices| ready(slices) == (1, Some(4096))).await;
    let output = world.kubectl(&["describe", "service", "web"]).await;
    assert!(output.contains(":4096"), "{output}");
    world.kubectl(&["set", "image", "deployment/web", "c=broken"]).await;
    world.merge::<Service>("web", json!({"spec": {"publishNotReadyAddresses": true}})).await;
    world.until::<EndpointSlice>(labels, "two endpoints", |slices| ready(slices).0 == 2).await;
    world.delete::<Service>("web", PropagationPolicy::Background).await;
    world.until::<EndpointSlice>(labels, "gone", <[EndpointSlice]>::is_empty).await;
}
