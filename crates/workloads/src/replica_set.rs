//! ReplicaSets: keeps the desired number of Pods.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Selector,
};
use observe::{Key, Next};
use serde_json::json;

use crate::{
    Shared, ownership,
    pods::{self, Availability},
};

/// Maximum number of Pods that one pass creates or deletes.
const BURST: usize = 500;

/// The changes of one pass.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// Orphans that match the selector.
    adopt: Vec<Arc<Pod>>,
    /// Pods of this ReplicaSet that no longer match.
    release: Vec<Arc<Pod>>,
    create: usize,
    delete: Vec<Arc<Pod>>,
    replicas: i32,
    fully_labeled: i32,
    ready: i32,
    available: i32,
    /// When the next ready Pod becomes available.
    requeue_at: Option<Timestamp>,
}

/// Decides from the Pods of the namespace.
fn plan(set: &ReplicaSet, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let Some(spec) = &set.spec else { return Plan::default() };
    let Ok(selector) = Selector::try_from(spec.selector.clone()) else { return Plan::default() };
    let deleting = set.metadata.deletion_timestamp.is_some();
    let mut plan = Plan::default();
    let mut ours = Vec::new();
    for pod in pods {
        match ownership::relation(&**pod, set, &selector) {
            ownership::Relation::Ours => ours.push(Arc::clone(pod)),
            ownership::Relation::Mismatched => plan.release.push(Arc::clone(pod)),
            ownership::Relation::Orphan if !deleting && pods::is_active(pod) => {
                plan.adopt.push(Arc::clone(pod));
                ours.push(Arc::clone(pod));
            }
            ownership::Relation::Orphan | ownership::Relation::Unrelated => {}
        }
    }
    ours.retain(|pod| pods::is_active(pod));

    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let template_labels = spec.template.as_ref().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    for pod in &ours {
        plan.replicas += 1;
        let labelled = template_labels.into_iter().flatten().all(|(name, value)| pod.labels().get(name) == Some(value));
        plan.fully_labeled += i32::from(labelled);
        plan.ready += i32::from(pods::is_ready(pod));
        match pods::availability(pod, spec.min_ready_seconds.unwrap_or(0), now) {
            Availability::Available => plan.available += 1,
            Availability::From(at) => plan.requeue_at = Some(plan.requeue_at.map_or(at, |other| other.min(at))),
            Availability::Unavailable => {}
        }
    }
    if deleting {
        plan.release.clear();
        return plan;
    }
    if ours.len() < wanted {
        plan.create = (wanted - ours.len()).min(BURST);
    } else if ours.len() > wanted {
        let surplus = (ours.len() - wanted).min(BURST);
        pods::sort_for_deletion(&mut ours);
        ours.truncate(surplus);
        plan.delete = ours;
    }
    plan
}

impl Plan {
    fn status(&self, set: &ReplicaSet, failure: Option<&kube::Error>, now: Timestamp) -> ReplicaSetStatus {
        let before = set.status.clone().unwrap_or_default();
        let mut conditions = before.conditions.unwrap_or_default();
        let failed = conditions.iter().any(|condition| condition.type_ == "ReplicaFailure");
        match failure {
            Some(error) if !failed => conditions.push(ReplicaSetCondition {
                type_: "ReplicaFailure".to_owned(),
                status: "True".to_owned(),
                reason: Some("FailedCreate".to_owned()),
                message: Some(error.to_string()),
                last_transition_time: Some(Time(now)),
            }),
            None => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
            Some(_) => {}
        }
        ReplicaSetStatus {
            replicas: self.replicas,
            fully_labeled_replicas: Some(self.fully_labeled),
            ready_replicas: Some(self.ready),
            available_replicas: Some(self.available),
            observed_generation: set.metadata.generation,
            conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
            terminating_replicas: before.terminating_replicas,
        }
    }
}

/// Compares statuses; the API server omits zeros.
fn same(a: Option<&ReplicaSetStatus>, b: &ReplicaSetStatus) -> bool {
    let facts = |status: &ReplicaSetStatus| {
        (
            status.replicas,
            status.fully_labeled_replicas.unwrap_or(0),
            status.ready_replicas.unwrap_or(0),
            status.available_replicas.unwrap_or(0),
            status.observed_generation.unwrap_or(0),
            status.conditions.clone().unwrap_or_default(),
        )
    };
    a.is_some_and(|a| facts(a) == facts(b))
}

pub(crate) async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(set) = shared.replica_sets.object(key) else { return Ok(Next::Wait) };
    let now = Timestamp::now();
    let uid = set.uid().unwrap_or_default();
    let candidates = shared.pods.in_namespace(&key.namespace, |pod| match pods::controller_of(pod) {
        Some(owner) => owner.uid == uid,
        None => true,
    });
    let plan = plan(&set, &candidates, now);
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    let Some(owner) = set.controller_owner_ref(&()) else { return Ok(Next::Wait) };
    let owner = OwnerReference { block_owner_deletion: Some(true), ..owner };

    for pod in &plan.adopt {
        shared.pods.insert_written(slimmed(ownership::adopt(&api, &**pod, &owner).await?));
    }
    for pod in &plan.release {
        shared.pods.insert_written(slimmed(ownership::release(&api, &**pod, &uid).await?));
    }
    let mut failure = None;
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    if let Some(template) = template.filter(|_| plan.create > 0) {
        let prefix = format!("{}-", key.name);
        let pod = pods::from_template(template, Some(key.namespace.clone()), prefix, owner);
        for _ in 0..plan.create {
            match api.create(&PostParams::default(), &pod).await {
                Ok(made) => shared.pods.insert_written(slimmed(made)),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
    }
    for pod in &plan.delete {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        match api.delete(&pod.name_any(), &DeleteParams::default().preconditions(preconditions)).await {
            Ok(answer) => match answer.left() {
                Some(deleting) if deleting.metadata.deletion_timestamp.is_some() => {
                    shared.pods.insert_written(slimmed(deleting));
                }
                _ => shared.pods.remove_deleted(pod),
            },
            Err(error) if is_gone(&error) => shared.pods.remove_deleted(pod),
            Err(error) => return Err(error),
        }
    }

    let status = plan.status(&set, failure.as_ref(), now);
    if !same(set.status.as_ref(), &status) {
        let sets: Api<ReplicaSet> = Api::namespaced(shared.client.clone(), &key.namespace);
        // The version makes the API server reject a status that would not count Pods the watch has not delivered yet.
        let mut status = json!(status);
        status["conditions"] = json!(status.get("conditions"));
        let patch =
            json!({"metadata": {"uid": set.uid(), "resourceVersion": set.resource_version()}, "status": status});
        let made = sets.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        shared.replica_sets.insert_written(made);
    }
    match failure {
        Some(error) => Err(error),
        // Pods that were just created or deleted are counted when the watch delivers them.
        None => Ok(plan.requeue_at.map_or(Next::Wait, crate::at)),
    }
}

fn slimmed(mut pod: Pod) -> Pod {
    pods::slim(&mut pod);
    pod
}

/// Whether an object does not exist any more, or was recreated under the same name.
pub(crate) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn set(replicas: i32, deleting: bool) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "set-uid", "generation": 3,
                         "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z")},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"metadata": {"labels": {"app": "web"}}}},
        }))
        .unwrap()
    }

    fn pod(name: &str, app: &str, owner: Option<&str>, phase: &str) -> Arc<Pod> {
        let owners: Vec<Value> = owner
            .iter()
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true}))
            .collect();
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners},
                "status": {"phase": phase},
            }))
            .unwrap(),
        )
    }

    /// Names of Pods to adopt, to release and to delete, the number to create, and the number that exists.
    type Expected<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], usize, i32);

    #[track_caller]
    fn check(set: &ReplicaSet, pods: &[Arc<Pod>], expected: Expected<'_>) {
        let plan = plan(set, pods, Timestamp::UNIX_EPOCH);
        let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
        let found = (names(&plan.adopt), names(&plan.release), names(&plan.delete));
        assert_eq!((found.0, found.1, found.2, plan.create, plan.replicas), {
            let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            (own(expected.0), own(expected.1), own(expected.2), expected.3, expected.4)
        });
    }

    #[test]
    fn missing_pods_are_made_and_finished_ones_do_not_count() {
        let ours = Some("set-uid");
        let pods = [pod("a", "web", ours, "Running"), pod("b", "web", ours, "Failed")];
        check(&set(3, false), &pods, (&[], &[], &[], 2, 1));
    }

    #[test]
    fn surplus_pods_go_and_the_least_useful_first() {
        let ours = Some("set-uid");
        let pods = [pod("a", "web", ours, "Running"), pod("b", "web", ours, "Pending")];
        check(&set(1, false), &pods, (&[], &[], &["b"], 0, 2));
    }

    #[test]
    fn orphans_that_match_are_adopted_and_strays_released() {
        let pods = [
            pod("orphan", "web", None, "Running"),
            pod("other", "db", None, "Running"),
            pod("stray", "db", Some("set-uid"), "Running"),
            pod("foreign", "web", Some("another-uid"), "Running"),
        ];
        check(&set(2, false), &pods, (&["orphan"], &["stray"], &[], 1, 1));
    }

    #[test]
    fn a_set_on_its_way_out_does_nothing() {
        let pods = [pod("orphan", "web", None, "Running"), pod("a", "web", Some("set-uid"), "Running")];
        check(&set(5, true), &pods, (&[], &[], &[], 0, 1));
    }

    #[test]
    fn zeros_may_be_omitted() {
        let written: ReplicaSetStatus =
            serde_json::from_value(json!({"replicas": 0, "observedGeneration": 3})).unwrap();
        let status = Plan::default().status(&set(0, false), None, Timestamp::UNIX_EPOCH);
        assert!(same(Some(&written), &status) && !same(None, &status));
    }
}
