//! A controller that dies, and the next one: on an Agent, and while Pods of deleted Tasks linger.

use std::sync::Arc;

use anyhow::ensure;
use api::{Agent, Task};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{
    fire::dies_at_every_step,
    world::{Alone, World, explain},
};

pub const CASES: &[Case] = cases![
    a_controller_that_dies_at_any_step_of_a_task_on_an_agent_loses_nothing,
    a_deleted_task_keeps_its_slot_over_a_restart_until_its_pod_has_stopped,
];

/// Without a Deployment controller: creates the Pod of the Agent and reports it as ready.
pub async fn pretend_ready(world: &World, agent: &str) -> anyhow::Result<Arc<Agent>> {
    let deployments = world.record::<Deployment>();
    let name = format!("{agent}-server");
    deployments.until_object(&name, "created", |_| true).await?;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": format!("{name}-0"), "labels": {
            "app": "kubeopencode", "kubeopencode.io/agent": agent, "app.kubernetes.io/component": "server",
        }},
        "spec": {"containers": [{"name": "opencode-server", "image": "x"}]},
    }))?;
    world.api::<Pod>().create(&PostParams::default(), &pod).await?;
    let status = json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let patch = Patch::Merge(json!({ "status": status }));
    world.api::<Deployment>().patch_status(&name, &PatchParams::default(), &patch).await?;
    world.agent_is(agent, "ready", |agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true)).await
}

async fn a_controller_that_dies_at_any_step_of_a_task_on_an_agent_loses_nothing() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.agent("a", json!({"maxConcurrentTasks": 2, "contexts": [{"type": "Text", "text": "x"}]})).await?;
    pretend_ready(world, "a").await?;
    first.terminate().await?;
    dies_at_every_step(world, json!({"agentRef": {"name": "a"}})).await
}

async fn a_deleted_task_keeps_its_slot_over_a_restart_until_its_pod_has_stopped() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"maxConcurrentTasks": 1})).await?;
    world.template("u", json!({})).await?;
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.kubelet.script("leaving", Act::Deaf);
    world.task("leaving", json!({"templateRef": {"name": "t"}})).await?;
    world.works("leaving").await?;
    world.task("next", json!({"templateRef": {"name": "t"}})).await?;
    world.waits("next", "TemplateAtCapacity").await?;
    first.kill().await?;
    // The Pod is on a node that does not respond: the Pod stays when the Task is gone.
    world.delete::<Task>("leaving").await?;
    world.tasks.until_gone("leaving").await?;
    let second = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        // The controller has handled the waiting Tasks when a Task that came later is through.
        world.task("later", json!({"templateRef": {"name": "u"}})).await?;
        world.succeeds("later").await?;
        ensure!(world.api::<Pod>().get_opt("next-pod").await?.is_none(), "the slot was given away");
        world.waits("next", "TemplateAtCapacity").await?;
        let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        world.api::<Pod>().delete("leaving-pod", &force).await?;
        world.succeeds("next").await?;
        Ok(())
    };
    explain(outcome.await, world, &[&second])
}
