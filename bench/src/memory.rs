//! Memory of the controller.

use std::time::Duration;

use api::Task;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{controller::Controller, world};

/// Memory limit of an idle controller, in MiB.
const IDLE_LIMIT: f64 = 30.0;

/// Prints the memory of an idle controller, and of one that knows `count` finished Tasks.
pub async fn run(count: usize) -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let client = cluster.client().await?;
    let idle = {
        let controller = Controller::start(&cluster).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        controller.memory()?
    };
    let namespace = cluster.namespace().await?;
    finished_tasks(&client, &namespace, count).await?;
    let controller = Controller::start(&cluster).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let full = controller.memory()?;
    println!("memory of the controller");
    println!("  idle                      {idle:7.1} MiB, limit {IDLE_LIMIT:.0} MiB");
    println!("  {count:6} finished Tasks     {full:7.1} MiB");
    Ok(())
}

/// Creates Tasks that have ended, on a template that is gone, so that no controller starts them before they have.
pub async fn finished_tasks(client: &Client, namespace: &str, count: usize) -> anyhow::Result<()> {
    let tasks: Api<Task> = Api::namespaced(client.clone(), namespace);
    let ended = json!({ "status": {
        "phase": "Completed", "runEpoch": 1, "attempt": 1, "reason": "Succeeded", "message": "the agent finished its work",
        "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "exitCode": 0,
        "usage": { "cost": "0.1", "tokens": { "input": 1000, "output": 100, "reasoning": 0, "cache": 0 } },
        "conditions": [{ "type": "Ready", "status": "True", "reason": "Succeeded", "message": "the agent finished its work",
                         "lastTransitionTime": "2026-01-01T00:00:01Z", "observedGeneration": 1 }],
    }});
    let makes = (0..count).map(|number| {
        let (tasks, ended) = (tasks.clone(), ended.clone());
        async move {
            let name = format!("old-{number}");
            tasks.create(&PostParams::default(), &world::task(&name, world::on_template("gone"))).await?;
            tasks.patch_status(&name, &PatchParams::default(), &Patch::Merge(ended)).await.map(drop)
        }
    });
    stream::iter(makes).buffer_unordered(world::USERS).try_collect::<()>().await?;
    Ok(())
}
