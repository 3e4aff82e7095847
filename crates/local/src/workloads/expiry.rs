//! What goes by itself: Events after an hour, Pods of a node that is gone, and the oldest finished Pods when there are
//! too many.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};

use super::{World, garbage, pods, replica_set::is_gone};

/// How long an Event is kept after it was last written; the API server of a cluster does the same.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// So many finished Pods may stay; their logs are worth more than the room that they take.
pub(crate) const FINISHED_PODS: usize = 12_500;

/// When an Event goes.
pub(crate) fn event_ends(written: Timestamp) -> Timestamp {
    written.checked_add(EVENT_LIFE).unwrap_or(written)
}

/// Deletes an Event whose time has come.
pub(crate) async fn event(world: &World, uid: &str) -> Result<Next, kube::Error> {
    let Some(entry) = world.inventory().get(uid).cloned() else { return Ok(Next::Wait) };
    let ends = event_ends(entry.written.unwrap_or(Timestamp::UNIX_EPOCH));
    if ends > Timestamp::now() {
        return Ok(super::at(ends));
    }
    match garbage::delete(world, &entry, PropagationPolicy::Background).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(Next::Wait),
    }
}

/// Deletes a Pod that no node will ever end: its node is gone, or it never had one and is on its way out.
pub(crate) async fn stray_pod(world: &World, key: &Key) -> Result<Next, kube::Error> {
    let Some(pod) = world.pods.object(key) else { return Ok(Next::Wait) };
    let nodes: Api<Node> = Api::all(world.client.clone());
    let stray = match pods::node_of(&pod) {
        Some(node) if world.nodes.object(&Key::new("", node)).is_some() => false,
        // Asked for by name: the node may just have been made.
        Some(node) => nodes.get_metadata_opt(node).await?.is_none(),
        None => pod.metadata.deletion_timestamp.is_some(),
    };
    if stray {
        delete_now(world, &pod).await?;
    }
    Ok(Next::Wait)
}

/// Deletes the oldest finished Pods beyond the limit.
pub(crate) async fn finished_pods(world: &World) -> Result<Next, kube::Error> {
    let mut finished = world.pods.all(|pod| pods::is_over(pod) && pod.metadata.deletion_timestamp.is_none());
    let surplus = finished.len().saturating_sub(FINISHED_PODS);
    finished.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    for pod in finished.iter().take(surplus) {
        delete_now(world, pod).await?;
    }
    Ok(Next::Wait)
}

async fn delete_now(world: &World, pod: &Pod) -> Result<(), kube::Error> {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
    match api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0).preconditions(preconditions)).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}
