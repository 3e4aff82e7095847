//! Predicates on Pods that several controllers use, and Pods created from a template.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodCondition, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Resource;

/// Annotation that ranks Pods for deletion; the lowest cost is deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The owner reference of the controller.
pub(crate) fn controller_of(object: &impl Resource) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether a Pod runs or will run: it is neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_over(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a Pod is finished: phase Succeeded or Failed.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    ready_condition(pod)?.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether a Pod counts as available: ready for at least `minReadySeconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    Available,
    /// The Pod is ready, and becomes available at this time if it stays ready.
    From(Timestamp),
    Unavailable,
}

pub(crate) fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    if !is_ready(pod) {
        return Availability::Unavailable;
    }
    if min_ready_seconds <= 0 {
        return Availability::Available;
    }
    let wait = SignedDuration::from_secs(min_ready_seconds.into());
    match ready_since(pod).and_then(|since| since.checked_add(wait).ok()) {
        Some(from) if from <= now => Availability::Available,
        Some(from) => Availability::From(from),
        None => Availability::Unavailable,
    }
}

/// Sorts Pods into deletion order: the least useful first.
pub(crate) fn sort_for_deletion(pods: &mut [std::sync::Arc<Pod>]) {
    let phase_rank = |pod: &Pod| match phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost = |pod: &Pod| -> i32 {
        let annotations = pod.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(DELETION_COST)?.parse().ok()).unwrap_or(0)
    };
    let restarts = |pod: &Pod| -> i32 {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
    };
    pods.sort_by(|a, b| {
        node_of(a)
            .is_some()
            .cmp(&node_of(b).is_some())
            .then(phase_rank(a).cmp(&phase_rank(b)))
            .then(is_ready(a).cmp(&is_ready(b)))
            .then(cost(a).cmp(&cost(b)))
            .then(ready_since(b).cmp(&ready_since(a)))
            .then(restarts(b).cmp(&restarts(a)))
            .then(b.metadata.creation_timestamp.cmp(&a.metadata.creation_timestamp))
            .then(a.metadata.name.cmp(&b.metadata.name))
    });
}

/// A Pod from a template; the API server completes its name.
pub(crate) fn from_template(
    template: &PodTemplateSpec,
    namespace: Option<String>,
    prefix: String,
    owner: OwnerReference,
) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace,
            generate_name: Some(prefix),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Drops the fields that the controllers do not read; thousands of Pods are cached.
pub(crate) fn slim(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|name, _| name == DELETION_COST);
    }
    let Some(spec) = pod.spec.take() else { return };
    let ports = |containers: Vec<Container>| -> Vec<Container> {
        let slim = |container: Container| Container {
            name: container.name,
            ports: container.ports,
            restart_policy: container.restart_policy,
            ..Container::default()
        };
        containers.into_iter().map(slim).collect()
    };
    pod.spec = Some(PodSpec {
        affinity: spec.affinity,
        containers: ports(spec.containers),
        init_containers: spec.init_containers.map(ports),
        hostname: spec.hostname,
        node_name: spec.node_name,
        node_selector: spec.node_selector,
        scheduler_name: spec.scheduler_name,
        scheduling_gates: spec.scheduling_gates,
        subdomain: spec.subdomain,
        tolerations: spec.tolerations,
        ..PodSpec::default()
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: Option<&str>, phase: &str, ready_since: Option<&str>, cost: Option<&str>) -> Arc<Pod> {
        let conditions: Vec<Value> = ready_since
            .iter()
            .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}))
            .collect();
        let annotations = cost.map(|cost| json!({DELETION_COST: cost}));
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": phase, "conditions": conditions},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn those_that_do_the_least_work_go_first() {
        let (old, new) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"));
        let mut pods = [
            pod("ready-long", Some("n"), "Running", old, None),
            pod("ready-short", Some("n"), "Running", new, None),
            pod("ready-cheap", Some("n"), "Running", old, Some("-5")),
            pod("not-ready", Some("n"), "Running", None, None),
            pod("pending", Some("n"), "Pending", None, None),
            pod("unscheduled", None, "Pending", None, None),
        ];
        sort_for_deletion(&mut pods);
        let names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["unscheduled", "pending", "not-ready", "ready-cheap", "ready-short", "ready-long"]);
    }

    #[test]
    fn a_pod_is_available_after_it_was_ready_for_a_while() {
        let pod = pod("a", Some("n"), "Running", Some("2026-01-01T00:00:00Z"), None);
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let from = Availability::From(at("2026-01-01T00:00:10Z"));
        assert_eq!(availability(&pod, 10, at("2026-01-01T00:00:09Z")), from);
        assert_eq!(availability(&pod, 10, at("2026-01-01T00:00:10Z")), Availability::Available);
        assert_eq!(availability(&pod, 0, at("2026-01-01T00:00:00Z")), Availability::Available);
    }
}
