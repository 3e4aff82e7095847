//! Whether the server of an Agent is being replaced, and why it is not ready.

use std::borrow::Borrow;

use api::conditions::{reasons, types};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};

use crate::{explain::pod, status};

/// A roll-out waits this long for a moment without running Tasks. An Agent that is always busy has none.
const MAX_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// From when on new Tasks wait for a roll-out, which waits for the running ones. `conditions` contain since when the
/// roll-out waits, if it was seen before.
pub fn drains_from(conditions: &[Condition], now: Timestamp) -> Timestamp {
    let held = status::find(conditions, types::PROGRESSING)
        .filter(|one| [reasons::ROLLOUT_HELD, reasons::DRAINING].contains(&one.reason.as_str()));
    let since = held.map_or(now, |held| held.last_transition_time.0);
    since.checked_add(MAX_WAIT).unwrap_or(Timestamp::MAX)
}

/// Whether Pods of an older template still serve, and will be replaced when those of the current one are ready.
///
/// A roll-out without progress does not count: the older Pods keep running until it is fixed.
pub fn is_under_way(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let unseen = status.observed_generation.is_some_and(|seen| Some(seen) < deployment.metadata.generation);
    let older = status.replicas.unwrap_or(0) > status.updated_replicas.unwrap_or(0);
    (unseen || older) && !is_stuck(deployment)
}

/// Whether the Pods of the current template did not become ready in time.
pub fn is_stuck(deployment: &Deployment) -> bool {
    condition(deployment, "Progressing", "False").is_some()
}

/// Why the server of an Agent is not ready, by its Deployment or its newest Pod. Pods that are being deleted are
/// ignored.
pub fn obstacle<P: Borrow<Pod>>(deployment: &Deployment, pods: &[P]) -> Option<String> {
    if let Some(refused) = condition(deployment, "ReplicaFailure", "True") {
        return Some(format!("its Pod cannot be created: {refused}"));
    }
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let pods = pods.iter().map(|pod| -> &Pod { pod.borrow() });
    let staying: Vec<&Pod> = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
    let newest = staying.iter().map(|pod| created(pod)).max();
    // Creation times are whole seconds: the previous Pod may have the same.
    let complaint = staying.iter().filter(|pod| Some(created(pod)) == newest).find_map(|pod| complaint(pod));
    complaint.or_else(|| condition(deployment, "Progressing", "False").map(str::to_owned))
}

/// The problem of a server's Pod: it is unscheduled, or a container does not start or keeps crashing.
pub fn complaint(pod: &Pod) -> Option<String> {
    let cause = pod::unscheduled(pod).or_else(|| pod::broken(pod).into_iter().next());
    cause.map(|cause| cause.message)
}

/// The message of a Deployment's condition, if it has this value.
fn condition<'a>(deployment: &'a Deployment, kind: &str, value: &str) -> Option<&'a str> {
    let mut conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.find(|one| one.type_ == kind && one.status == value)?;
    Some(found.message.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(generation: i64, status: &Value) -> bool {
        let all = json!({ "metadata": { "generation": generation }, "status": status });
        is_under_way(&serde_json::from_value(all).unwrap())
    }

    #[test]
    fn a_change_that_has_waited_long_lets_no_further_task_start() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        assert_eq!(drains_from(&conditions, at(1000)), at(1300), "it waits from now on");
        status::set(&mut conditions, types::PROGRESSING, false, reasons::ROLLOUT_HELD, "", None, at(1000));
        assert_eq!(drains_from(&conditions, at(1200)), at(1300));
        status::set(&mut conditions, types::PROGRESSING, false, reasons::DRAINING, "", None, at(1300));
        assert_eq!(drains_from(&conditions, at(2000)), at(1300), "and so it stays");
        status::set(&mut conditions, types::PROGRESSING, true, reasons::ROLLING_OUT, "", None, at(2100));
        assert_eq!(drains_from(&conditions, at(3000)), at(3300));
    }

    #[test]
    fn a_roll_out_begins_with_a_change_and_ends_with_the_last_older_pod() {
        let serving = json!({ "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1 });
        assert!(!judged(1, &serving));
        assert!(judged(2, &serving), "the change was not observed yet");
        assert!(judged(2, &json!({ "observedGeneration": 2, "replicas": 1, "readyReplicas": 1 })));
        assert!(judged(
            2,
            &json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 2 })
        ));
        assert!(!judged(2, &json!({ "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1 })));
        assert!(!judged(1, &json!({})) && !judged(1, &Value::Null), "one that was just made replaces nothing");
    }

    #[test]
    fn one_that_is_stuck_leaves_the_older_server_in_charge() {
        let conditions = json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        let status = json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "conditions": conditions });
        assert!(!judged(2, &status));
    }

    fn server(conditions: &Value) -> Deployment {
        serde_json::from_value(json!({"status": { "conditions": conditions }})).unwrap()
    }

    fn pod(created: &str, metadata: &Value, status: &Value) -> Pod {
        let mut pod = json!({"metadata": metadata, "status": status});
        pod["metadata"]["creationTimestamp"] = json!(created);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn whoever_knows_best_says_what_keeps_a_server_from_being_ready() {
        let refused =
            json!({"type": "ReplicaFailure", "status": "True", "message": "serviceaccount \"bot\" not found"});
        let late = json!({"type": "Progressing", "status": "False", "message": "it has timed out"});
        let waiting = |reason: &str, message: &str| {
            let state = json!({"waiting": {"reason": reason, "message": message}});
            json!({"containerStatuses": [{"name": "opencode-server", "image": "i:1", "imageID": "", "ready": false,
                "restartCount": 0, "state": state}]})
        };
        let unscheduled = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]});
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let bad_image = pod(old, &json!({}), &waiting("ImagePullBackOff", "no such image"));
        let pulled = "container 'opencode-server' with image i:1 cannot start: no such image";
        let no_node = pod(new, &json!({}), &unscheduled);
        let starts = pod(new, &json!({}), &waiting("ContainerCreating", ""));
        let going = pod(new, &json!({"deletionTimestamp": new}), &unscheduled);
        let refusal = "its Pod cannot be created: serviceaccount \"bot\" not found";
        for (conditions, pods, expected) in [
            (json!([]), vec![], None),
            (json!([late, refused]), vec![&bad_image], Some(refusal)),
            (json!([late]), vec![&bad_image], Some(pulled)),
            (json!([]), vec![&bad_image, &no_node], Some("0/3 nodes")),
            (json!([]), vec![&bad_image, &starts], None),
            (json!([]), vec![&starts, &no_node], Some("0/3 nodes")),
            (json!([]), vec![&no_node, &starts], Some("0/3 nodes")),
            (json!([]), vec![&going, &bad_image], Some(pulled)),
            (json!([late]), vec![&starts], Some("it has timed out")),
        ] {
            assert_eq!(obstacle(&server(&conditions), &pods).as_deref(), expected, "{conditions}");
        }
    }
}
