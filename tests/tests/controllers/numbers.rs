//! Probes and metrics of the controller.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use api::Registry;
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use serde_json::json;

use crate::{
    gateway::Gateway,
    world::{Alone, explain},
};

pub const CASES: &[Case] = cases![a_controller_says_whether_it_is_ready_and_what_it_did];

/// Lines of `/metrics`: values by name and labels.
async fn numbers(controller: &Controller) -> anyhow::Result<BTreeMap<String, f64>> {
    let page = controller.numbers().await?;
    ensure!(page.contains("content-type: application/openmetrics-text"), "{page}");
    let (_, body) = page.split_once("\r\n\r\n").context("no body")?;
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| Some(line.rsplit_once(' ')?).map(|(name, value)| (name.to_owned(), value.to_owned()));
    lines
        .map(|line| {
            let (name, value) = pair(line).with_context(|| format!("no value: {line}"))?;
            Ok((name, value.parse()?))
        })
        .collect()
}

async fn a_controller_says_whether_it_is_ready_and_what_it_did() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let gateway = Gateway::start(world.cluster).await?;
    gateway.hold_lists();
    let options = Options { kubeconfig: Some(gateway.kubeconfig()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        // It is alive, and knows nothing yet.
        ensure!(controller.probe("/healthz").await? == "200", "it is not well");
        ensure!(controller.probe("/readyz").await? == "503", "it is ready before it knows anything");
        gateway.answer_lists();
        controller.wait_for_log("working").await?;
        for path in ["/healthz", "/readyz"] {
            ensure!(controller.probe(path).await? == "200", "{path}");
        }

        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.kubelet.script("bad", Act::fail("ModelError", "500"));
        world.task("bad", json!({"templateRef": {"name": "t"}})).await?;
        world.fails("bad", "ModelError").await?;
        world.task("good", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("good").await?;
        world.hold("runs");
        world.task("runs", json!({"templateRef": {"name": "t"}})).await?;
        world.works("runs").await?;
        world.task("waits", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("waits", "TemplateAtCapacity").await?;
        gateway.refuse(1, "/registries/r/status");
        world.create::<Registry>("r", json!({})).await?;
        let looked_at = |registry: &Registry| registry.status.is_some();
        world.record::<Registry>().until_object("r", "looked at", looked_at).await?;

        let numbers = numbers(&controller).await?;
        let here = &world.namespace;
        let target = format!("{{namespace=\"{here}\",kind=\"AgentTemplate\",name=\"t\"}}");
        let outcome = |phase: &str, reason: &str| {
            format!("task_outcomes_total{{namespace=\"{here}\",phase=\"{phase}\",reason=\"{reason}\"}}")
        };
        for (name, least) in [
            (format!("queue_length{target}"), 1.0),
            (format!("tasks_running{target}"), 1.0),
            ("task_wait_seconds_count".to_owned(), 3.0),
            (format!("task_duration_seconds_count{{namespace=\"{here}\"}}"), 2.0),
            (outcome("Failed", "ModelError"), 1.0),
            (outcome("Completed", "Succeeded"), 1.0),
            ("api_writes_total{verb=\"patch\",resource=\"tasks/status\"}".to_owned(), 5.0),
            ("api_writes_total{verb=\"post\",resource=\"pods\"}".to_owned(), 3.0),
            ("reconcile_passes_total{controller=\"task\"}".to_owned(), 3.0),
            ("reconcile_errors_total{controller=\"registry\",reason=\"ApplyFailed\"}".to_owned(), 1.0),
            ("leading".to_owned(), 1.0),
        ] {
            let value =
                numbers.get(&format!("kubeopencode_{name}")).with_context(|| format!("{name}: {numbers:#?}"))?;
            ensure!(*value >= least, "{name} is {value}");
        }
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}
