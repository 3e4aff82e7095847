//! Every end of a Pod has a name.

use anyhow::ensure;
use api::{Task, TaskPhase};
use blackbox::{
    cases,
    runner::Case,
    stub_kubelet::{Act, moment},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};

use crate::world::{World, condition, message, reason, shared};

pub const CASES: &[Case] = cases![
    a_pod_on_a_node_that_never_comes_back_does_not_run_for_ever,
    every_end_of_a_pod_has_a_reason,
    every_word_of_a_report_becomes_a_reason,
    a_task_that_cannot_start_says_what_holds_it_up_and_ends,
    what_was_finished_before_the_pod_vanished_is_finished,
    the_claim_of_a_run_goes_when_it_is_over_unless_it_failed_and_somebody_wants_to_look,
];

fn terminated(code: i32, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": "Error", "message": message, "finishedAt": moment(Timestamp::now())}})
}

fn container(name: &str, state: &Value) -> Value {
    json!({"name": name, "image": "img:1", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

/// The status of a Pod that a node took two minutes ago.
fn waiting(why: &str, message: &str) -> Value {
    let long_ago = moment(Timestamp::now() - SignedDuration::from_mins(2));
    let state = json!({"waiting": {"reason": why, "message": message}});
    json!({
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": long_ago}],
        "containerStatuses": [container("agent", &state)],
    })
}

fn disrupted(by: &str) -> Value {
    let condition =
        json!({"type": "DisruptionTarget", "status": "True", "reason": by, "message": "words of the cluster"});
    json!({"phase": "Failed", "conditions": [condition]})
}

async fn every_end_of_a_pod_has_a_reason() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let init = json!({"phase": "Failed", "initContainerStatuses": [container("git-init-0", &terminated(128, "no such branch"))]});
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "disk full"});
        let node_lost = json!({"phase": "Failed", "reason": "NodeLost", "message": ""});
        let cases = [
            ("model-error", Act::fail("ModelError", "429 slow down"), "ModelError", "429 slow down"),
            ("out-of-memory", Act::exit(137, "OOMKilled"), "OOMKilled", "more memory"),
            ("exit-code", Act::exit(3, "Error"), "NonZeroExit", "exit code 3"),
            ("no-report", Act::exit(0, "Completed"), "ResultMissing", "without leaving a result"),
            ("evicted", Act::Status(evicted), "Evicted", "disk full"),
            // The controller may or may not observe that the node removes the Pod.
            ("vanished", Act::Vanish, "PodLost", "its Pod"),
            ("node-lost", Act::Status(node_lost), "NodeLost", "stopped responding"),
            ("tainted", Act::Status(disrupted("DeletionByTaintManager")), "NodeLost", "words of the cluster"),
            ("preempted", Act::Status(disrupted("PreemptionByScheduler")), "Preempted", "higher priority"),
            ("drained", Act::Status(disrupted("EvictionByEvictionAPI")), "Evicted", "evicted"),
            ("preparation", Act::Status(init), "PreparationFailed", "no such branch"),
            ("no-image", Act::Status(waiting("ImagePullBackOff", "404")), "ImagePullFailed", "cannot be pulled"),
            ("bad-image", Act::Status(waiting("InvalidImageName", "bad")), "ImagePullFailed", "no valid name"),
        ];
        for (task, act, ..) in &cases {
            world.kubelet.script(task, act.clone());
            world.task(task, json!({"templateRef": {"name": "t"}})).await?;
        }
        for (task, _, why, text) in &cases {
            let status = world.fails(task, why).await?;
            ensure!(message(&status).contains(text), "{task}: {status:?}");
            ensure!(condition(status.conditions.as_ref(), "Ready") == format!("False {why}"), "{status:?}");
            let by_cluster = ["Evicted", "PodLost", "NodeLost", "Preempted"].contains(why);
            let disrupted = condition(status.conditions.as_ref(), "Disrupted");
            ensure!(disrupted.is_empty() != by_cluster, "{task}: {status:?}");
            ensure!(status.completion_time.is_some(), "{task}: {status:?}");
        }
        world.each_run_has_one_pod()
    })
    .await
}

async fn every_word_of_a_report_becomes_a_reason() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let reasons = [
            ("PermissionRejected", "PermissionRejected"),
            ("LengthLimit", "LengthLimit"),
            ("ContentFiltered", "ContentFiltered"),
            ("SessionAborted", "SessionAborted"),
            ("ServerLost", "ServerLost"),
            ("NoProgress", "NoProgress"),
            ("BudgetExceeded", "BudgetExceeded"),
            // A reason that the Pod may not set, and an unknown one.
            ("UserStopped", "NonZeroExit"),
            ("Nonsense", "NonZeroExit"),
        ];
        for (reported, _) in reasons {
            let task = reported.to_lowercase();
            world.kubelet.script(&task, Act::fail(reported, "in its own words"));
            world.task(&task, json!({"templateRef": {"name": "t"}})).await?;
        }
        for (reported, why) in reasons {
            let status = world.fails(&reported.to_lowercase(), why).await?;
            ensure!(message(&status) == "in its own words", "{status:?}");
        }
        Ok(())
    })
    .await
}

async fn a_task_that_cannot_start_says_what_holds_it_up_and_ends() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let creating = json!({"phase": "Pending", "containerStatuses": [container("agent", &json!({"waiting": {"reason": "ContainerCreating"}}))]});
        let secret = waiting("CreateContainerConfigError", "secret \"s\" not found");
        let cases = [
            ("no-node", Act::Unscheduled, "Unschedulable", "0/1 nodes are available"),
            ("slow", Act::Status(creating), "StartupTimeout", "startupTimeout"),
            ("no-secret", Act::Status(secret), "PreparationFailed", "secret \"s\" not found"),
        ];
        for (task, act, ..) in &cases {
            world.kubelet.script(task, act.clone());
            world.task(task, json!({"templateRef": {"name": "t"}, "startupTimeout": "10s"})).await?;
        }
        world.until("no-node", "its trouble", |s| s.phase == Some(TaskPhase::Running) && reason(s) == "Unschedulable").await?;
        for (task, _, why, text) in &cases {
            let status = world.fails(task, why).await?;
            ensure!(message(&status).contains(text), "{task}: {status:?}");
            world.pods.until_gone(&format!("{task}-pod")).await?;
        }
        Ok(())
    })
    .await
}

async fn what_was_finished_before_the_pod_vanished_is_finished() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.task("done", json!({"templateRef": {"name": "t"}})).await?;
        let before = world.succeeds("done").await?;
        world.delete::<Pod>("done-pod").await?;
        world.pods.until_gone("done-pod").await?;
        world.task("other", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("other").await?;
        ensure!(world.api::<Task>().get("done").await?.status == Some(before), "its status changed");
        Ok(())
    })
    .await
}

async fn a_pod_on_a_node_that_never_comes_back_does_not_run_for_ever() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.kubelet.script("away", Act::Deaf);
        world.task("away", json!({"templateRef": {"name": "t"}})).await?;
        world.works("away").await?;
        // As kube-controller-manager evicts the Pods of a node that does not answer.
        let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
        world.api::<Pod>().delete("away-pod", &params).await?;
        let now = moment(Timestamp::now());
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "lastTransitionTime": now});
        world.merge_status::<Pod>("away-pod", json!({"conditions": [condition]})).await?;
        world.fails("away", "NodeLost").await?;
        world.pods.until_gone("away-pod").await
    })
    .await
}

fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

/// Creates the claim of a Pod, unless the cluster did so already.
pub async fn make_claim_of(world: &World, pod: &Pod) -> anyhow::Result<()> {
    let name = format!("{}-workspace", pod.name_any());
    let claims = world.api::<PersistentVolumeClaim>();
    if claims.get_opt(&name).await?.is_none() {
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid(), "controller": true});
        let metadata = json!({"ownerReferences": [owner]});
        let created = world.create_with::<PersistentVolumeClaim>(&name, metadata, claim_spec()).await;
        ensure!(created.is_ok() || claims.get_opt(&name).await?.is_some(), "{created:?}");
    }
    Ok(())
}

/// Whether the claim of a Task's first run exists and is not being deleted.
pub async fn has_claim(world: &World, task: &str) -> anyhow::Result<bool> {
    let claim = world.api::<PersistentVolumeClaim>().get_opt(&format!("{task}-pod-workspace")).await?;
    Ok(claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()))
}

async fn the_claim_of_a_run_goes_when_it_is_over_unless_it_failed_and_somebody_wants_to_look() -> anyhow::Result<()> {
    shared(async |world| {
        for (template, retain) in [("keeps", true), ("frees", false)] {
            let workspace = json!({"accessMode": "ReadWriteOnce", "size": "1Gi", "retainOnFailure": retain});
            world.template(template, json!({"workspace": workspace})).await?;
        }
        let runs =
            [("kept", "keeps", false), ("good", "keeps", true), ("freed", "frees", false), ("other", "frees", true)];
        // One claim of that name has another owner.
        world.create::<PersistentVolumeClaim>("other-pod-workspace", claim_spec()).await?;
        for (task, template, _) in runs {
            world.hold(task);
            world.task(task, json!({"templateRef": {"name": template}})).await?;
        }
        for (task, _, succeeds) in runs {
            let pod = world.works(task).await?;
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            let mut own = volumes.into_iter().filter(|volume| volume.name == "workspace");
            let own = own.next().and_then(|volume| volume.ephemeral.clone()?.volume_claim_template?.metadata?.labels);
            ensure!(own.is_some_and(|labels| labels.contains_key("kubeopencode.io/managed-by")), "{pod:?}");
            make_claim_of(&world, &pod).await?;
            if succeeds {
                world.finish(task);
            } else {
                world.kubelet.script(task, Act::fail("ModelError", "429"));
            }
        }
        for (task, _, succeeds) in runs {
            let status = world.ended(task).await?;
            ensure!((status.phase == Some(TaskPhase::Completed)) == succeeds, "{task}: {status:?}");
            ensure!(has_claim(&world, task).await? == ["kept", "other"].contains(&task), "{task}");
        }
        // The retained claim outlives its Pod, and goes with its Task.
        let claim = world.api::<PersistentVolumeClaim>().get("kept-pod-workspace").await?;
        let owners: Vec<&str> = claim.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
        ensure!(owners == ["Pod", "Task"] && claim.labels().contains_key("kubeopencode.io/retained"), "{claim:?}");
        Ok(())
    })
    .await
}
