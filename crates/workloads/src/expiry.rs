//! Deletes Events after an hour, Pods of deleted nodes, and the oldest finished Pods beyond a limit.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};

use crate::{Shared, garbage, pods, replica_set::is_gone};

/// How long an Event is kept after its last update; the default of kube-apiserver.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// Number of finished Pods that are kept; the default of kube-controller-manager.
pub(crate) const FINISHED_PODS: usize = 12_500;

/// When an Event expires.
pub(crate) fn event_expires(written: Timestamp) -> Timestamp {
    written.checked_add(EVENT_TTL).unwrap_or(written)
}

/// Deletes an expired Event.
pub(crate) async fn event(shared: &Shared, uid: &str) -> Result<Next, kube::Error> {
    let Some(entry) = shared.graph().get(uid).cloned() else { return Ok(Next::Wait) };
    let ends = event_expires(entry.written.unwrap_or(Timestamp::UNIX_EPOCH));
    if ends > Timestamp::now() {
        return Ok(super::at(ends));
    }
    match garbage::delete(shared, &entry, PropagationPolicy::Background).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(Next::Wait),
    }
}

/// Deletes a Pod that no node will terminate: its node is gone, or it is being deleted and was never bound.
pub(crate) async fn stray_pod(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(pod) = shared.pods.object(key) else { return Ok(Next::Wait) };
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let stray = match pods::node_of(&pod) {
        Some(node) if shared.nodes.object(&Key::new("", node)).is_some() => false,
        // Ask the API server: the node may just have been created.
        Some(node) => nodes.get_metadata_opt(node).await?.is_none(),
        None => pod.metadata.deletion_timestamp.is_some(),
    };
    if stray {
        delete_now(shared, &pod).await?;
    }
    Ok(Next::Wait)
}

/// Deletes the oldest finished Pods beyond the limit.
pub(crate) async fn finished_pods(shared: &Shared) -> Result<Next, kube::Error> {
    let mut finished = shared.pods.all(|pod| pods::is_over(pod) && pod.metadata.deletion_timestamp.is_none());
    let surplus = finished.len().saturating_sub(FINISHED_PODS);
    finished.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    for pod in finished.iter().take(surplus) {
        delete_now(shared, pod).await?;
    }
    Ok(Next::Wait)
}

async fn delete_now(shared: &Shared, pod: &Pod) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
    match api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0).preconditions(preconditions)).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}
