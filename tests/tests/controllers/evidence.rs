//! The report of a Pod counts, also when the Pod is gone before the status of its Task is final.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::{AgentTemplate, TaskPhase};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{Alone, World, condition, explain, reason, shared};

pub const CASES: &[Case] = cases![
    a_run_that_timed_out_on_a_node_that_does_not_answer_is_not_lost,
    a_run_that_succeeded_is_not_lost_with_its_pod,
    a_run_that_cannot_start_keeps_its_reason_over_a_restart,
    what_a_run_was_made_with_is_kept_when_its_template_changes,
];

async fn vanishes(world: &World, pod: &str) -> anyhow::Result<()> {
    world.api::<Pod>().delete(pod, &DeleteParams::default().grace_period(0)).await?;
    world.pods.until_gone(pod).await
}

async fn a_run_that_timed_out_on_a_node_that_does_not_answer_is_not_lost() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.kubelet.script("mute", Act::Deaf);
        let retry = json!({"maxRetries": 1, "backoff": "1s"});
        world.task("mute", json!({"templateRef": {"name": "t"}, "timeout": "1s", "retry": retry})).await?;
        let ended = |pod: &Pod| pod.annotations().get("kubeopencode.io/ended-for").is_some_and(|why| why == "Timeout");
        world.pods.until_object("mute-pod", "asked to end", ended).await?;
        vanishes(&world, "mute-pod").await?;
        let status = world.ended("mute").await?;
        ensure!(status.phase == Some(TaskPhase::Completed) && reason(&status) == "Timeout", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped") == "True Timeout", "{status:?}");
        ensure!(status.attempt == Some(1) && status.start_time.is_some(), "{status:?}");
        Ok(())
    })
    .await
}

async fn a_run_that_succeeded_is_not_lost_with_its_pod() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let archive = tempfile::tempdir()?;
    // A log without a kubelet takes a while to be closed, and the status waits for it.
    let options = Options { archive: Some(archive.path().to_owned()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        world.task("done", json!({"templateRef": {"name": "t"}})).await?;
        let over = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Succeeded"));
        world.pods.until_object("done-pod", "its end", over).await?;
        vanishes(world, "done-pod").await?;
        let status = world.succeeds("done").await?;
        ensure!(status.exit_code == Some(0) && status.usage.is_some(), "{status:?}");
        ensure!(status.logs.as_ref().and_then(|logs| logs.complete) == Some(false), "{status:?}");
        Ok(())
    };
    explain(outcome.await, world, &[&controller])
}

async fn a_run_that_cannot_start_keeps_its_reason_over_a_restart() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({})).await?;
    let state = json!({"waiting": {"reason": "InvalidImageName", "message": "bad"}});
    let container =
        json!({"name": "agent", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    world.kubelet.script("bad", Act::Status(json!({"phase": "Pending", "containerStatuses": [container]})));
    let fragile =
        async |place| Controller::start(world.cluster, Options { failpoint: Some(place), ..Options::default() }).await;
    let first = fragile("run-ended").await?;
    world.task("bad", json!({"templateRef": {"name": "t"}})).await?;
    first.exit().await.context("it never saw the end")?;
    let second = fragile("finished").await?;
    let outcome = async {
        world.fails("bad", "ImagePullFailed").await?;
        second.exit().await.context("it never wrote the end")?;
        // No controller was left to delete the Pod, whose task could still start.
        let third = Controller::start(world.cluster, Options::default()).await?;
        world.pods.until_gone("bad-pod").await?;
        third.terminate().await
    };
    explain(outcome.await, world, &[&first, &second])
}

async fn what_a_run_was_made_with_is_kept_when_its_template_changes() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let archive = tempfile::tempdir()?;
    let options = Options { archive: Some(archive.path().to_owned()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        world.template("t", json!({"executorImage": "one:1"})).await?;
        world.hold("kept");
        let task = world.task("kept", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.runs("kept").await?;
        let place = format!("{}/{}/k8s-1.settings.json", world.namespace, task.metadata.uid.context("no UID")?);
        let reference = status.resolved.and_then(|resolved| resolved.reference);
        ensure!(reference.as_ref() == Some(&place), "{reference:?}");
        world.merge::<AgentTemplate>("t", json!({"spec": {"executorImage": "two:2"}})).await?;
        world.works("kept").await?;
        let file = archive.path().join(&place);
        for _ in 0..600 {
            if file.exists() {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        let settings: Vec<Value> = serde_json::from_slice(&std::fs::read(&file)?)?;
        let image = settings.iter().find(|setting| setting["path"] == "agent.executorImage").context("no image")?;
        ensure!(image["value"] == "one:1" && image["originText"] == "AgentTemplate 't'", "{image}");
        Ok(())
    };
    explain(outcome.await, world, &[&controller])
}
