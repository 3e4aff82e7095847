//! Stop, timeout, delete.

use anyhow::ensure;
use api::{Task, TaskPhase};
use blackbox::{cases, runner::Case, stub_kubelet::Act};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use crate::world::{condition, reason, shared};

pub const CASES: &[Case] = cases![
    a_task_stopped_while_it_runs_keeps_its_pod_and_log,
    a_task_stopped_while_it_waits_never_runs,
    a_task_stopped_before_a_node_took_its_pod_leaves_no_pod,
    a_task_that_takes_too_long_is_stopped,
    a_task_deleted_while_it_runs_leaves_nothing_behind,
    a_task_deleted_while_it_runs_gives_its_slot_back,
    a_task_stopped_twice_ends_once,
];

async fn a_task_stopped_while_it_runs_keeps_its_pod_and_log() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("long");
        world.task("long", json!({"templateRef": {"name": "t"}})).await?;
        world.works("long").await?;
        world.stop("long").await?;
        let status = world.ended("long").await?;
        ensure!(status.phase == Some(TaskPhase::Completed), "{status:?}");
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped") == "True UserStopped", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Ready") == "False UserStopped", "{status:?}");
        let pod: Pod = world.api().get("long-pod").await?;
        ensure!(pod.metadata.deletion_timestamp.is_none(), "its log goes with its Pod");
        ensure!(status.pod_uid == pod.metadata.uid, "{status:?}");
        Ok(())
    })
    .await
}

async fn a_task_stopped_while_it_waits_never_runs() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.hold("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.works("first").await?;
        world.task("second", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("second", "TemplateAtCapacity").await?;
        world.stop("second").await?;
        let status = world.ended("second").await?;
        ensure!(status.phase == Some(TaskPhase::Completed) && reason(&status) == "UserStopped", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped") == "True UserStopped", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued").starts_with("False"), "{status:?}");
        ensure!(status.queue_position.is_none() && status.run_epoch.is_none(), "{status:?}");
        world.finish("first");
        world.succeeds("first").await?;
        world.task("third", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("third").await?;
        ensure!(world.api::<Pod>().get_opt("second-pod").await?.is_none(), "it ran");
        Ok(())
    })
    .await
}

async fn a_task_stopped_before_a_node_took_its_pod_leaves_no_pod() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.kubelet.script("stuck", Act::Unscheduled);
        world.task("stuck", json!({"templateRef": {"name": "t"}})).await?;
        world.until("stuck", "its trouble", |status| reason(status) == "Unschedulable").await?;
        world.stop("stuck").await?;
        let status = world.ended("stuck").await?;
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        world.pods.until_gone("stuck-pod").await
    })
    .await
}

async fn a_task_that_takes_too_long_is_stopped() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("slow");
        world.task("slow", json!({"templateRef": {"name": "t"}, "timeout": "1s"})).await?;
        let status = world.ended("slow").await?;
        ensure!(status.phase == Some(TaskPhase::Completed) && reason(&status) == "Timeout", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped") == "True Timeout", "{status:?}");
        ensure!(world.api::<Pod>().get_opt("slow-pod").await?.is_some(), "its log is gone");
        Ok(())
    })
    .await
}

async fn a_task_deleted_while_it_runs_leaves_nothing_behind() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("doomed");
        let contexts = json!([{"type": "Text", "text": "hello", "mountPath": "a.txt"}]);
        world.task("doomed", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.works("doomed").await?;
        let maps = world.record::<ConfigMap>();
        maps.until_object("doomed-context", "its contexts", |_| true).await?;
        world.delete::<Task>("doomed").await?;
        world.tasks.until_gone("doomed").await?;
        world.pods.until_gone("doomed-pod").await?;
        maps.until_gone("doomed-context").await
    })
    .await
}

async fn a_task_deleted_while_it_runs_gives_its_slot_back() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.hold("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.works("first").await?;
        world.task("second", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("second", "TemplateAtCapacity").await?;
        world.delete::<Task>("first").await?;
        world.succeeds("second").await?;
        Ok(())
    })
    .await
}

async fn a_task_stopped_twice_ends_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("long");
        world.task("long", json!({"templateRef": {"name": "t"}})).await?;
        world.works("long").await?;
        world.stop("long").await?;
        world.ended("long").await?;
        world.annotate::<Task>("long", "kubeopencode.io/stop", "false").await?;
        world.stop("long").await?;
        // Something that surely happens after the controller has looked at it again.
        world.task("other", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("other").await?;
        let ends: std::collections::BTreeSet<_> = world
            .tasks
            .versions()
            .iter()
            .filter(|task| task.metadata.name.as_deref() == Some("long"))
            .filter_map(|task| task.status.clone())
            .filter(|status| status.phase.is_some_and(TaskPhase::is_finished))
            .map(|status| serde_json::to_string(&status).unwrap_or_default())
            .collect();
        ensure!(ends.len() == 1, "{ends:?}");
        Ok(())
    })
    .await
}
