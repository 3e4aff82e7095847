//! EndpointSlices: the addresses of the Pods that a Service selects.
//!
//! Unlike on a cluster, the deprecated Endpoints objects are not written, and the size of a slice is not limited.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{ObjectReference, Pod, Service, ServicePort, ServiceSpec},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::{
        apis::meta::v1::{ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use observe::{Key, Next};
use serde_json::json;

use crate::{Shared, pods, replica_set::is_gone};

/// Label with the name of a slice's Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Clients distinguish the slices of the control plane from their own by this name.
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Endpoints share a slice if they have the same address type (true is IPv6) and port numbers.
type SliceKey = (bool, Vec<Option<i32>>);

/// Whether a Service selects a Pod.
pub(crate) fn selects(service: &Service, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = service.spec.as_ref().and_then(selector) else { return false };
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// The selector of a Service, unless its endpoints are managed by the user.
fn selector(spec: &ServiceSpec) -> Option<&BTreeMap<String, String>> {
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    (spec.type_.as_deref() != Some("ExternalName")).then_some(selector)
}

/// The slices of a Service: one for each set of port numbers that its Pods use for the Service's ports.
fn slices(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSlice> {
    let Some(spec) = service.spec.as_ref() else { return Vec::new() };
    if selector(spec).is_none() {
        return Vec::new();
    }
    let mut groups: BTreeMap<SliceKey, Vec<Endpoint>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pods::is_over(pod)) {
        let Some(endpoint) = endpoint(pod, spec.publish_not_ready_addresses == Some(true)) else { continue };
        let numbers = spec.ports.iter().flatten().map(|port| target(port, pod)).collect();
        let six = endpoint.addresses.iter().any(|address| address.contains(':'));
        groups.entry((six, numbers)).or_default().push(endpoint);
    }
    if groups.is_empty() {
        // As on a cluster, a Service without Pods has one slice without endpoints.
        let numbers = spec.ports.iter().flatten().map(|port| target(port, &Pod::default())).collect();
        groups.insert((false, numbers), Vec::new());
    }
    let slice = |(index, ((six, numbers), mut endpoints)): (usize, (SliceKey, Vec<Endpoint>))| {
        endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
        let ports = spec.ports.iter().flatten().zip(numbers);
        let ports = ports.filter_map(|(port, number)| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(number?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        });
        EndpointSlice {
            metadata: metadata(service, index),
            address_type: if six { "IPv6" } else { "IPv4" }.to_owned(),
            endpoints,
            ports: Some(ports.collect()),
        }
    };
    groups.into_iter().enumerate().map(slice).collect()
}

fn metadata(service: &Service, index: usize) -> ObjectMeta {
    let name = service.name_any();
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None")) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let owner = service.controller_owner_ref(&());
    let owner = owner.map(|owner| OwnerReference { block_owner_deletion: Some(true), ..owner });
    // The UID makes the name differ from that of a later Service with the same name.
    let mark: String = service.uid().unwrap_or_default().chars().filter(char::is_ascii_hexdigit).take(5).collect();
    ObjectMeta {
        name: Some(if index == 0 { format!("{name}-{mark}") } else { format!("{name}-{mark}-{index}") }),
        namespace: service.namespace(),
        labels: Some(labels),
        owner_references: owner.map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

fn endpoint(pod: &Pod, always_ready: bool) -> Option<Endpoint> {
    let address = pod.status.as_ref()?.pod_ip.clone().filter(|address| !address.is_empty())?;
    let (ready, terminating) = (pods::is_ready(pod), pod.metadata.deletion_timestamp.is_some());
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(always_ready || ready && !terminating),
            serving: Some(always_ready || ready),
            terminating: Some(terminating),
        }),
        hostname: pod.spec.as_ref().and_then(|spec| spec.hostname.clone()),
        node_name: pods::node_of(pod).map(ToOwned::to_owned),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

/// The port number on a Pod; a target port may be a name.
fn target(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let beside =
                spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
            let ports = spec.containers.iter().chain(beside).flat_map(|container| container.ports.iter().flatten());
            let protocol = |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let mut named = ports.filter(|found| {
                found.name.as_ref() == Some(name) && protocol(&found.protocol) == protocol(&port.protocol)
            });
            named.next().map(|found| found.container_port)
        }
    }
}

pub(crate) async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(service) = shared.services.object(key) else { return Ok(Next::Wait) };
    if service.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let pods = shared.pods.in_namespace(&key.namespace, |pod| selects(&service, pod.labels()));
    let wanted = slices(&service, &pods);
    let uid = service.uid().unwrap_or_default();
    let live = shared.slices.in_namespace(&key.namespace, |slice| {
        slice.labels().get(SERVICE) == Some(&key.name)
            && slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
    });
    let api: Api<EndpointSlice> = Api::namespaced(shared.client.clone(), &key.namespace);
    for slice in &wanted {
        let there = live.iter().find(|live| live.name_any() == slice.name_any());
        let made = match there {
            Some(there) if same(there, slice) => continue,
            Some(there) if there.address_type == slice.address_type => {
                let labels = slice.labels();
                let patch = json!({"metadata": {"labels": labels}, "endpoints": slice.endpoints, "ports": slice.ports});
                api.patch(&slice.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?
            }
            Some(there) => {
                // The address type is immutable; the next pass creates a new slice.
                api.delete(&there.name_any(), &DeleteParams::default()).await?;
                return Ok(Next::Retry);
            }
            None => api.create(&PostParams::default(), slice).await?,
        };
        shared.slices.insert_written(made);
    }
    for surplus in live.iter().filter(|live| !wanted.iter().any(|slice| slice.name_any() == live.name_any())) {
        // Slices of a deleted Service of this name are garbage collected; slices of other owners are left alone.
        if pods::controller_of(&**surplus).is_some_and(|owner| owner.uid == uid) {
            match api.delete(&surplus.name_any(), &DeleteParams::default()).await {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => shared.slices.remove_deleted(surplus),
            }
        }
    }
    Ok(Next::Wait)
}

fn same(live: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    live.address_type == wanted.address_type
        && live.endpoints == wanted.endpoints
        && live.ports.as_deref().unwrap_or_default() == wanted.ports.as_deref().unwrap_or_default()
        && wanted.labels().iter().all(|(name, value)| live.labels().get(name) == Some(value))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::Value;

    use super::*;

    fn service(ports: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "0a1b-2c3d"},
            "spec": {"selector": {"app": "web"}, "ports": ports},
        }))
        .unwrap()
    }

    fn pod(name: &str, address: &str, ready: bool, port: i32, terminating: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": "web"}, "deletionTimestamp": terminating.then_some("2026-01-01T00:00:00Z")},
                "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
                "status": {"podIP": address, "conditions": [{"type": "Ready", "status": status}]},
            }))
            .unwrap(),
        )
    }

    /// Ports and endpoints as text.
    fn rendered(slice: &EndpointSlice) -> (Vec<i32>, Vec<String>) {
        let ports = slice.ports.iter().flatten().filter_map(|port| port.port).collect();
        let endpoint = |endpoint: &Endpoint| {
            let conditions = endpoint.conditions.clone().unwrap();
            let conditions =
                [(conditions.ready, "ready"), (conditions.serving, "serving"), (conditions.terminating, "terminating")];
            let conditions: Vec<_> =
                conditions.iter().filter(|(holds, _)| *holds == Some(true)).map(|(_, name)| *name).collect();
            format!("{} {}", endpoint.addresses.join(","), conditions.join(" "))
        };
        (ports, slice.endpoints.iter().map(endpoint).collect())
    }

    #[test]
    fn ready_pods_are_endpoints_and_others_say_what_they_are() {
        let service = service(json!([{"port": 80, "targetPort": 8080}]));
        let pods = [
            pod("b", "127.1.0.2", true, 1, false),
            pod("a", "127.1.0.1", false, 1, false),
            pod("c", "127.1.0.3", true, 1, true),
        ];
        let slices = slices(&service, &pods);
        assert_eq!(slices.len(), 1);
        let endpoints = ["127.1.0.1 ", "127.1.0.2 ready serving", "127.1.0.3 serving terminating"];
        assert_eq!(rendered(&slices[0]), (vec![8080], endpoints.map(ToOwned::to_owned).to_vec()));
    }

    #[test]
    fn a_named_port_may_be_another_on_each_pod() {
        let service = service(json!([{"port": 80, "targetPort": "http"}]));
        let pods = [pod("a", "127.1.0.1", true, 8080, false), pod("b", "127.1.0.2", true, 9090, false)];
        let slices = slices(&service, &pods);
        let found: Vec<_> = slices.iter().map(rendered).collect();
        let one = |port, endpoint: &str| (vec![port], vec![format!("{endpoint} ready serving")]);
        assert_eq!(found, [one(8080, "127.1.0.1"), one(9090, "127.1.0.2")]);
        assert_ne!(slices[0].name_any(), slices[1].name_any());
    }

    #[test]
    fn a_service_without_pods_has_an_empty_slice_and_one_without_selector_none() {
        let mut service = service(json!([{"port": 80}]));
        assert_eq!(slices(&service, &[]).iter().map(rendered).collect::<Vec<_>>(), [(vec![80], Vec::new())]);
        service.spec.as_mut().unwrap().selector = None;
        assert_eq!(slices(&service, &[]), []);
        assert!(!selects(&service, &BTreeMap::new()));
    }
}
