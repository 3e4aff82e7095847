//! A controller that dies aside from the straight path of a Task: at its quota, its stop, its retry, its next run.

use anyhow::{Context as _, ensure};
use api::{AgentTemplate, Task, TaskStatus};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use serde_json::json;

use crate::{
    fire::everything_once,
    queue::most_running,
    world::{Alone, World, explain, reason},
};

pub const CASES: &[Case] = cases![
    a_start_that_is_on_record_and_did_not_happen_never_lets_more_start_than_the_quota,
    a_controller_that_dies_when_it_stops_a_task_stops_it_once,
    a_controller_that_dies_when_it_tries_again_tries_once,
    a_controller_that_dies_when_a_task_is_to_run_again_runs_it_once,
];

/// A controller that dies at a place.
async fn fragile(world: &World, place: &'static str) -> anyhow::Result<Controller> {
    Controller::start(world.cluster, Options { failpoint: Some(place), ..Options::default() }).await
}

async fn died(controller: &Controller, place: &str) -> anyhow::Result<()> {
    let status = controller.exit().await.with_context(|| format!("it never reached {place}"))?;
    ensure!(!status.success(), "it did not die at {place}");
    Ok(())
}

async fn a_start_that_is_on_record_and_did_not_happen_never_lets_more_start_than_the_quota() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let quota = json!({"maxTaskStarts": 3, "windowSeconds": 3600});
    world.template("t", json!({"maxConcurrentTasks": 1, "quota": quota})).await?;
    let first = fragile(world, "start-recorded").await?;
    let names = ["a", "b", "c", "d"];
    for name in names {
        world.task(name, json!({"templateRef": {"name": "t"}})).await?;
    }
    died(&first, "start-recorded").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        // The one that was to start when the controller died may count twice; it runs, and so does another.
        world.succeeds("a").await?;
        world.succeeds("b").await?;
        ensure!(most_running(world) <= 1, "{} ran at once", most_running(world));
        // A waiting Task that could start has started when a Task that came later is through.
        world.template("u", json!({})).await?;
        world.task("later", json!({"templateRef": {"name": "u"}})).await?;
        world.succeeds("later").await?;
        let ran: Vec<&str> =
            names.into_iter().filter(|name| world.pods.now(&format!("{name}-pod")).is_some()).collect();
        ensure!(ran.len() <= 3, "more than the quota ran: {ran:?}");
        let template: AgentTemplate = world.api().get("t").await?;
        let starts = template.status.and_then(|status| status.task_start_history).unwrap_or_default();
        let on_record = |name: &&str| starts.iter().any(|start| start.task_name == **name);
        ensure!(ran.iter().all(on_record) && starts.len() <= 3, "{ran:?} ran, on record are {starts:?}");
        everything_once(world, &["a", "b"].map(str::to_owned))?;
        next.terminate().await
    };
    explain(outcome.await, world, &[&first, &next])
}

async fn a_controller_that_dies_when_it_stops_a_task_stops_it_once() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"maxConcurrentTasks": 1})).await?;
    let first = fragile(world, "told-to-end").await?;
    world.hold("stopped");
    world.task("stopped", json!({"templateRef": {"name": "t"}})).await?;
    world.works("stopped").await?;
    world.task("waits", json!({"templateRef": {"name": "t"}})).await?;
    world.waits("waits", "TemplateAtCapacity").await?;
    world.stop("stopped").await?;
    died(&first, "told-to-end").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        let status = world.ended("stopped").await?;
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        world.succeeds("waits").await?;
        everything_once(world, &["stopped", "waits"].map(str::to_owned))?;
        ensure!(most_running(world) <= 1, "{} ran at once", most_running(world));
        next.terminate().await
    };
    explain(outcome.await, world, &[&first, &next])
}

async fn a_controller_that_dies_when_it_tries_again_tries_once() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let retry = json!({"maxRetries": 1, "causes": ["NonZeroExit"], "backoff": "1s"});
    world.template("t", json!({"maxConcurrentTasks": 1, "retry": retry})).await?;
    for place in ["retry-decided", "put-back"] {
        let first = fragile(world, place).await?;
        world.kubelet.script(place, Act::fail("ModelError", "500"));
        world.kubelet.script(&format!("{place}-pod-2"), Act::succeed());
        world.task(place, json!({"templateRef": {"name": "t"}})).await?;
        died(&first, place).await?;
        let next = Controller::start(world.cluster, Options::default()).await?;
        let outcome = async {
            let status = world.succeeds(place).await?;
            ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
            everything_once(world, &[place.to_owned()])?;
            next.terminate().await
        };
        explain(outcome.await.with_context(|| format!("killed at {place}")), world, &[&first, &next])?;
    }
    // Two Tasks, each of which was tried twice.
    ensure!(world.kubelet.runs().len() == 4, "{:?}", world.kubelet.runs());
    ensure!(most_running(world) <= 1, "{} ran at once", most_running(world));
    Ok(())
}

async fn a_controller_that_dies_when_a_task_is_to_run_again_runs_it_once() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"maxConcurrentTasks": 1})).await?;
    for place in ["stop-taken-back", "rerun-noted"] {
        let first = fragile(world, place).await?;
        world.hold(place);
        world.task(place, json!({"templateRef": {"name": "t"}})).await?;
        world.works(place).await?;
        world.stop(place).await?;
        world.ended(place).await?;
        world.finish(place);
        world.annotate::<Task>(place, "kubeopencode.io/rerun", "1").await?;
        died(&first, place).await?;
        let next = Controller::start(world.cluster, Options::default()).await?;
        let outcome = async {
            let again = |status: &TaskStatus| status.run_epoch == Some(2) && reason(status) == "Succeeded";
            let status = world.until(place, "its second run", again).await?;
            ensure!(status.attempt == Some(1) && status.observed_rerun.as_deref() == Some("1"), "{status:?}");
            world.each_run_has_one_pod()?;
            next.terminate().await
        };
        explain(outcome.await.with_context(|| format!("killed at {place}")), world, &[&first, &next])?;
    }
    // Two Tasks, each of which ran twice.
    ensure!(world.kubelet.runs().len() == 4, "{:?}", world.kubelet.runs());
    ensure!(most_running(world) <= 1, "{} ran at once", most_running(world));
    Ok(())
}
