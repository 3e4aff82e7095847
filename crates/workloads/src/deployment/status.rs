//! The status of a Deployment. `kubectl rollout status` relies on the reasons and messages.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;

use super::plan::{Observed, Rollout, Step, total};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The reason of a completed rollout; kept until the next rollout begins.
const COMPLETE: &str = "NewReplicaSetAvailable";

/// The status, and when to reconcile again without a change.
pub(super) fn status(
    observed: &Observed<'_>,
    rollout: &Rollout,
    steps: &[Step],
    now: Timestamp,
) -> (DeploymentStatus, Option<Timestamp>) {
    let before = observed.deployment.status.clone().unwrap_or_default();
    let sets = observed.sets;
    let sum = |of: fn(&ReplicaSet) -> i32| sets.iter().map(|set| of(set)).sum::<i32>();
    let replicas = sum(|set| set.status.as_ref().map_or(0, |status| status.replicas));
    let ready = sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0));
    let available = sum(|set| set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0));
    let updated = rollout.new.as_ref().and_then(|new| new.status.as_ref()).map_or(0, |status| status.replicas);
    let mut status = DeploymentStatus {
        observed_generation: observed.deployment.metadata.generation,
        replicas: Some(replicas),
        updated_replicas: Some(updated),
        ready_replicas: Some(ready),
        available_replicas: Some(available),
        unavailable_replicas: Some((total(sets) - available).max(0)),
        collision_count: before.collision_count,
        terminating_replicas: before.terminating_replicas,
        conditions: None,
    };
    let mut conditions = before.conditions.clone().unwrap_or_default();

    let (_, unavailable) = observed.bounds();
    let enough = available >= observed.desired() - unavailable;
    let (reason, message) = if enough {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut conditions, AVAILABLE, truth(enough), reason, message.to_owned(), now);

    let requeue_at = progress(observed, rollout, steps, &before, &status, &mut conditions, now);

    let failure = rollout.new.as_ref().and_then(|new| {
        let conditions = new.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE)
    });
    match failure {
        Some(failure) => {
            let reason = failure.reason.clone().unwrap_or_default();
            set(&mut conditions, REPLICA_FAILURE, "True", &reason, failure.message.clone().unwrap_or_default(), now);
        }
        None => conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
    }
    status.conditions = Some(conditions);
    (status, requeue_at)
}

/// Updates `Progressing`. Returns the progress deadline of an incomplete rollout.
fn progress(
    observed: &Observed<'_>,
    rollout: &Rollout,
    steps: &[Step],
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
) -> Option<Timestamp> {
    // The API server defaults to 600; the largest number means "never".
    let deadline = observed.spec.progress_deadline_seconds.unwrap_or(600);
    if deadline == i32::MAX {
        conditions.retain(|condition| condition.type_ != PROGRESSING);
        return None;
    }
    let reason = |conditions: &[DeploymentCondition]| {
        let current = conditions.iter().find(|condition| condition.type_ == PROGRESSING);
        current.and_then(|condition| condition.reason.clone()).unwrap_or_default()
    };
    if observed.spec.paused == Some(true) {
        if reason(conditions) != "ProgressDeadlineExceeded" {
            set(conditions, PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused".to_owned(), now);
        }
        return None;
    }
    if reason(conditions) == "DeploymentPaused" {
        set(conditions, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), now);
    }
    if let Some(Step::Create(made)) = steps.iter().find(|step| matches!(step, Step::Create(_))) {
        let message = format!("Created new replica set {:?}", made.name_any());
        set(conditions, PROGRESSING, "True", "NewReplicaSetCreated", message, now);
    } else if let Some(new) = rollout.new.as_ref().filter(|_| reason(conditions).is_empty()) {
        let message = format!("Found new replica set {:?}", new.name_any());
        set(conditions, PROGRESSING, "True", "FoundNewReplicaSet", message, now);
    } else if let Some(new) = steps.iter().find_map(|step| match step {
        Step::SetRevision(new, _) => Some(new),
        _ => None,
    }) {
        // A rollback is a rollout like any other.
        let message = format!("Found new replica set {:?}", new.name_any());
        set(conditions, PROGRESSING, "True", "FoundNewReplicaSet", message, now);
    }
    if reason(conditions) == COMPLETE && status.replicas == status.updated_replicas {
        return None;
    }
    let name = rollout.new.as_ref().map(|new| new.name_any());
    let subject = name.map_or_else(|| "Deployment".to_owned(), |name| format!("ReplicaSet {name:?}"));
    let desired = Some(observed.desired());
    let complete = rollout.new.is_some()
        && status.updated_replicas == desired
        && status.replicas == desired
        && status.available_replicas == desired;
    let former = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    let advanced = status.updated_replicas.unwrap_or(0) > before.updated_replicas.unwrap_or(0)
        || former(status) < former(before)
        || status.ready_replicas.unwrap_or(0) > before.ready_replicas.unwrap_or(0)
        || status.available_replicas.unwrap_or(0) > before.available_replicas.unwrap_or(0);
    if complete {
        set(conditions, PROGRESSING, "True", COMPLETE, format!("{subject} has successfully progressed."), now);
        return None;
    }
    if advanced {
        // Each progress restarts the deadline, so the condition is replaced even if it is equal.
        conditions.retain(|condition| {
            !(condition.type_ == PROGRESSING && condition.reason.as_deref() == Some("ReplicaSetUpdated"))
        });
        set(conditions, PROGRESSING, "True", "ReplicaSetUpdated", format!("{subject} is progressing."), now);
    }
    let since = conditions.iter().find(|condition| condition.type_ == PROGRESSING)?;
    let since = since.last_update_time.as_ref()?.0;
    let late = since.checked_add(SignedDuration::from_secs(deadline.into())).ok()?;
    if late > now {
        return Some(late);
    }
    let message = format!("{subject} has timed out progressing.");
    set(conditions, PROGRESSING, "False", "ProgressDeadlineExceeded", message, now);
    None
}

fn truth(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

/// Sets a condition. A condition with the same status and reason keeps its timestamps.
fn set(
    conditions: &mut Vec<DeploymentCondition>,
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let current = conditions.iter().find(|condition| condition.type_ == kind);
    if current.is_some_and(|current| current.status == status && current.reason.as_deref() == Some(reason)) {
        return;
    }
    let unchanged = current.filter(|current| current.status == status);
    let since = unchanged.and_then(|current| current.last_transition_time.clone()).unwrap_or(Time(now));
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(since),
        last_update_time: Some(Time(now)),
    });
}

/// Compares statuses; the API server omits zeros.
pub(super) fn same(a: Option<&DeploymentStatus>, b: &DeploymentStatus) -> bool {
    let facts = |status: &DeploymentStatus| {
        let numbers = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.unavailable_replicas,
            status.collision_count,
        ];
        (numbers.map(|number| number.unwrap_or(0)), status.observed_generation, status.conditions.clone())
    };
    a.is_some_and(|a| facts(a) == facts(b))
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::{Value, json};

    use super::*;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    fn set_of(available: i32) -> Arc<ReplicaSet> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "web-1", "uid": "s", "annotations": {"deployment.kubernetes.io/revision": "1"}},
                "spec": {"replicas": 2, "selector": {}, "template": template()},
                "status": {"replicas": 2, "readyReplicas": available, "availableReplicas": available},
            }))
            .unwrap(),
        )
    }

    /// Status, reason and message of `Progressing`, and the status of `Available`, at this second.
    fn conditions(before: Value, available: i32, second: i64) -> (String, String, Option<i64>, Value) {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "d", "generation": 4},
            "spec": {"replicas": 2, "selector": {}, "template": template(), "progressDeadlineSeconds": 60},
            "status": before,
        }))
        .unwrap();
        let sets = [set_of(available)];
        let spec = deployment.spec.as_ref().unwrap();
        let observed = Observed { deployment: &deployment, spec, sets: &sets, old_pods_running: false };
        let rollout = observed.rollout();
        let steps = observed.steps(&rollout);
        let now = Timestamp::from_second(second).unwrap();
        let (status, requeue_at) = status(&observed, &rollout, &steps, now);
        let find = |kind: &str| {
            let all = status.conditions.as_ref().unwrap();
            all.iter().find(|condition| condition.type_ == kind).unwrap().clone()
        };
        let progressing = find(PROGRESSING);
        let text = format!("{} {}", progressing.status, progressing.reason.unwrap());
        (text, find(AVAILABLE).status, requeue_at.map(Timestamp::as_second), json!(status))
    }

    #[test]
    fn a_rollout_is_found_advances_completes_and_stays_complete() {
        let (progress, available, late, status) = conditions(Value::Null, 0, 100);
        // Two Pods of the current template exist that were not counted before: that is progress.
        assert_eq!((progress.as_str(), available.as_str(), late), ("True ReplicaSetUpdated", "False", Some(160)));
        let (progress, available, late, status) = conditions(status, 1, 130);
        assert_eq!((progress.as_str(), available.as_str(), late), ("True ReplicaSetUpdated", "False", Some(190)));
        let (progress, available, late, status) = conditions(status, 2, 150);
        assert_eq!((progress.as_str(), available.as_str(), late), ("True NewReplicaSetAvailable", "True", None));
        let (progress, available, late, _) = conditions(status, 0, 900);
        assert_eq!((progress.as_str(), available.as_str(), late), ("True NewReplicaSetAvailable", "False", None));
    }

    #[test]
    fn a_rollout_that_stands_still_has_taken_too_long() {
        let (_, _, _, status) = conditions(Value::Null, 0, 100);
        let (progress, _, late, _) = conditions(status.clone(), 0, 159);
        assert_eq!((progress.as_str(), late), ("True ReplicaSetUpdated", Some(160)));
        let (progress, _, late, _) = conditions(status, 0, 160);
        assert_eq!((progress.as_str(), late), ("False ProgressDeadlineExceeded", None));
    }

    #[test]
    fn a_status_without_news_is_not_written_again() {
        let (_, _, _, status) = conditions(Value::Null, 1, 100);
        let (_, _, _, again) = conditions(status.clone(), 1, 120);
        let read = |status: &Value| serde_json::from_value::<DeploymentStatus>(status.clone()).unwrap();
        assert!(same(Some(&read(&status)), &read(&again)));
    }
}
