//! Expired watches and write conflicts: missed changes are found, and nothing is done twice.

use anyhow::{Context as _, ensure};
use api::Task;
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    fire::everything_once,
    gateway::{Expiry, Gateway},
    queue::most_running,
    world::{Alone, explain},
};

pub const CASES: &[Case] =
    cases![a_watch_that_expired_begins_with_a_new_list, a_write_that_comes_too_late_is_made_again_on_what_is_there_now];

async fn a_watch_that_expired_begins_with_a_new_list() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let gateway = Gateway::start(world.cluster).await?;
    world.template("t", json!({"maxConcurrentTasks": 2})).await?;
    let options = Options { kubeconfig: Some(gateway.kubeconfig()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        for (round, how) in [Expiry::InTheWatch, Expiry::NextWatch].into_iter().enumerate() {
            let [stays, goes, waits, late] = ["stays", "goes", "waits", "late"].map(|name| format!("{name}-{round}"));
            for name in [&stays, &goes] {
                world.hold(name);
                world.task(name, json!({"templateRef": {"name": "t"}})).await?;
                world.works(name).await?;
            }
            world.task(&waits, json!({"templateRef": {"name": "t"}})).await?;
            world.waits(&waits, "TemplateAtCapacity").await?;

            // No watch sees these changes.
            gateway.expire(how);
            world.delete::<Task>(&goes).await?;
            world.api::<Pod>().delete(&format!("{goes}-pod"), &force).await?;
            world.delete::<Task>(&waits).await?;
            world.tasks.until_gone(&waits).await?;
            world.pods.until_gone(&format!("{goes}-pod")).await?;
            world.task(&late, json!({"templateRef": {"name": "t"}})).await?;
            gateway.answer_lists();

            // The slot of the deleted Task is free, and no Task is queued before the late one.
            world.succeeds(&late).await?;
            world.finish(&stays);
            world.succeeds(&stays).await?;
            gateway.until_all_is_listed_again().await.with_context(|| format!("{how:?}"))?;
            ensure!(world.pods.now(&format!("{waits}-pod")).is_none(), "{how:?}: a deleted Task ran");
            everything_once(world, &[stays, late])?;
        }
        // The two that were deleted while they ran count to the end.
        ensure!(most_running(world) <= 4, "{} ran at once", most_running(world));
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}

async fn a_write_that_comes_too_late_is_made_again_on_what_is_there_now() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let gateway = Gateway::start(world.cluster).await?;
    let quota = json!({"maxTaskStarts": 1000, "windowSeconds": 3600});
    world.template("t", json!({"maxConcurrentTasks": 1, "quota": quota})).await?;
    let options = Options { kubeconfig: Some(gateway.kubeconfig()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        // The record of the start, the claim, and the end.
        for (name, path) in [("record", "/agenttemplates/t/status"), ("claim", "/tasks/claim/status")] {
            gateway.refuse(2, path);
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
            world.succeeds(name).await?;
            ensure!(gateway.still_to_refuse() == 0, "{name}: it was not written twice");
        }
        world.hold("end");
        world.task("end", json!({"templateRef": {"name": "t"}})).await?;
        world.works("end").await?;
        gateway.refuse(2, "/tasks/end/status");
        world.finish("end");
        world.succeeds("end").await?;
        ensure!(gateway.still_to_refuse() == 0, "end: it was not written twice");
        everything_once(world, &["record", "claim", "end"].map(str::to_owned))?;
        ensure!(most_running(world) <= 1, "{} ran at once", most_running(world));
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}
