//! Whether the server of an Agent is being replaced.

use k8s_openapi::api::apps::v1::Deployment;

/// Whether Pods of an older template still serve, and will be gone when those of the current one are ready.
///
/// A roll-out that makes no progress is none: the older Pods go on until somebody mends it.
pub fn is_under_way(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let stuck = status.conditions.iter().flatten().any(|one| one.type_ == "Progressing" && one.status == "False");
    let unseen = status.observed_generation.is_some_and(|seen| Some(seen) < deployment.metadata.generation);
    let older = status.replicas.unwrap_or(0) > status.updated_replicas.unwrap_or(0);
    (unseen || older) && !stuck
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
    fn a_roll_out_begins_with_a_change_and_ends_with_the_last_older_pod() {
        let serving = json!({ "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1 });
        assert!(!judged(1, &serving));
        assert!(judged(2, &serving), "nobody has seen the change yet");
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
}
