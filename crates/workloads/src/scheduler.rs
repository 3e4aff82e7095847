//! Binds Pods to the one node, unless their constraints exclude it.
//!
//! Unlike on a cluster, resource requests are not summed up: the machine may be overcommitted.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use crate::{Shared, pods};

/// The decision about a Pod without a node.
#[derive(Debug, PartialEq)]
enum Decision {
    /// Do not bind: the Pod is bound, finished, gated or for another scheduler, or the node is not registered yet.
    Leave,
    Bind,
    /// The node does not fit, for this reason.
    Refuse(String),
}

fn decide(pod: &Pod, node: Option<&Node>) -> Decision {
    let Some(spec) = &pod.spec else { return Decision::Leave };
    let elsewhere = spec.scheduler_name.as_deref().is_some_and(|name| name != "default-scheduler");
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    if pods::node_of(pod).is_some() || !pods::is_active(pod) || elsewhere || gated {
        return Decision::Leave;
    }
    let Some(node) = node else { return Decision::Leave };
    let refuse = |why: String| Decision::Refuse(format!("0/1 nodes are available: 1 node(s) {why}."));
    let selected = spec.node_selector.iter().flatten().all(|(name, value)| node.labels().get(name) == Some(value));
    let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = required.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let wanted = required.is_none_or(|selector| selector.node_selector_terms.iter().any(|term| matches(term, node)));
    if !selected || !wanted {
        return refuse("didn't match Pod's node affinity/selector".to_owned());
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        return refuse("were unschedulable".to_owned());
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let keeps_off = |taint: &&Taint| {
        taint.effect != "PreferNoSchedule" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    match node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).find(keeps_off) {
        Some(Taint { key, value, .. }) => {
            refuse(format!("had untolerated taint {{{key}: {}}}", value.as_deref().unwrap_or_default()))
        }
        None => Decision::Bind,
    }
}

/// An empty term matches nothing.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    (term.match_expressions.is_some() || term.match_fields.is_some())
        && labels.into_iter().all(|wanted| holds(wanted, node.labels().get(&wanted.key).map(String::as_str)))
        && fields
            .into_iter()
            .all(|wanted| wanted.key == "metadata.name" && holds(wanted, node.metadata.name.as_deref()))
}

fn holds(wanted: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let listed = || found.is_some_and(|found| values.iter().any(|value| value == found));
    let numbers = || Some((found?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match wanted.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => numbers().is_some_and(|(found, bound)| found > bound),
        "Lt" => numbers().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        _ => !key.is_empty() && text(&toleration.value) == text(&taint.value),
    }
}

pub(crate) async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(pod) = shared.pods.object(key) else { return Ok(Next::Wait) };
    let node = shared.nodes.object(&Key::new("", &shared.settings.node));
    match decide(&pod, node.as_deref()) {
        Decision::Leave => {}
        Decision::Bind => bind(shared, &pod, key).await?,
        Decision::Refuse(why) => refuse(shared, &pod, key, &why).await?,
    }
    Ok(Next::Wait)
}

async fn bind(shared: &Shared, pod: &Pod, key: &Key) -> Result<(), kube::Error> {
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": shared.settings.node});
    let metadata = json!({"name": key.name, "namespace": key.namespace, "uid": pod.uid()});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", key.namespace, key.name);
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(binding.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    // Taken before the request: the node may see the binding, and emit its own events, before the response arrives.
    let decided = Timestamp::now();
    match shared.client.request::<Value>(request).await {
        // The Pod is gone, or was bound before the watch delivered it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let message = format!("Successfully assigned {}/{} to {}", key.namespace, key.name, shared.settings.node);
            shared.events.normal(pod, decided, "Scheduled", &message);
            Ok(())
        }
    }
}

async fn refuse(shared: &Shared, pod: &Pod, key: &Key, why: &str) -> Result<(), kube::Error> {
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let is_reported = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        condition.type_ == "PodScheduled" && condition.message.as_deref() == Some(why)
    };
    if conditions.iter().any(is_reported) {
        return Ok(());
    }
    shared.events.warning(pod, "FailedScheduling", why);
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    let mut conditions = json!(conditions);
    if let Some(list) = conditions.as_array_mut() {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now());
        list.push(json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
                         "lastTransitionTime": now}));
    }
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": conditions}});
    api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use super::*;

    fn node(taints: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "local", "labels": {"kubernetes.io/os": "linux", "cores": "8"}},
            "spec": {"taints": taints},
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(spec: Value, taints: Value, refused: Option<&str>) {
        let mut whole = json!({"containers": []});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": whole})).unwrap();
        let expected = refused
            .map_or(Decision::Bind, |why| Decision::Refuse(format!("0/1 nodes are available: 1 node(s) {why}.")));
        assert_eq!(decide(&pod, Some(&node(taints))), expected, "{spec}");
    }

    #[test]
    fn a_pod_gets_our_node_unless_it_wants_another() {
        let mismatch = Some("didn't match Pod's node affinity/selector");
        let none = || json!([]);
        check(json!({}), none(), None);
        check(json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), none(), None);
        check(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}), none(), mismatch);
        let affinity = |key: &str, operator: &str, values: Value| {
            let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        check(affinity("kubernetes.io/os", "In", json!(["linux"])), none(), None);
        check(affinity("kubernetes.io/os", "NotIn", json!(["linux"])), none(), mismatch);
        check(affinity("gpu", "Exists", Value::Null), none(), mismatch);
        check(affinity("gpu", "DoesNotExist", Value::Null), none(), None);
        check(affinity("cores", "Gt", json!(["4"])), none(), None);
        check(affinity("cores", "Lt", json!(["4"])), none(), mismatch);
    }

    #[test]
    fn a_taint_excludes_pods_that_do_not_tolerate_it() {
        let taint = || json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        check(json!({}), taint(), Some("had untolerated taint {k: v}"));
        check(json!({}), json!([{"key": "k", "effect": "PreferNoSchedule"}]), None);
        for (toleration, enough) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "k", "value": "v", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "value": "v", "effect": "NoExecute"}), false),
        ] {
            let why = (!enough).then_some("had untolerated taint {k: v}");
            check(json!({"tolerations": [toleration]}), taint(), why);
        }
    }

    #[test]
    fn a_pod_for_another_scheduler_is_left_alone() {
        for spec in [
            json!({"containers": [], "schedulerName": "another"}),
            json!({"containers": [], "schedulingGates": [{"name": "g"}]}),
            json!({"containers": [], "nodeName": "elsewhere"}),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
            assert_eq!(decide(&pod, Some(&node(json!([])))), Decision::Leave, "{spec}");
        }
    }
}
