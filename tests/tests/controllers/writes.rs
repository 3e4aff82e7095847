//! Writes to the API server per Task.

use anyhow::ensure;
use api::Task;
use blackbox::{cases, runner::Case};
use serde_json::{Value, json};

use crate::world::{World, shared};

pub const CASES: &[Case] = cases![a_long_run_of_a_task_that_comes_with_its_label_costs_four_writes];

/// Writes of the controller for a Task: each but the first version of it, and its one Pod.
fn writes(world: &World, task: &str) -> usize {
    let versions = world.tasks.versions();
    let of_task = versions.iter().filter(|version| version.metadata.name.as_deref() == Some(task));
    let distinct: std::collections::BTreeSet<_> = of_task.map(|version| &version.metadata.resource_version).collect();
    distinct.len()
}

async fn a_long_run_of_a_task_that_comes_with_its_label_costs_four_writes() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.ready_agent("a", json!({})).await?;
        let spec = |target: Value| {
            let mut spec = target;
            spec["description"] = json!("say hello");
            spec
        };
        let cases = [
            ("on-template", json!({"templateRef": {"name": "t"}}), json!({"kubeopencode.io/agent-template": "t"}), 4),
            ("on-agent", json!({"agentRef": {"name": "a"}}), json!({"kubeopencode.io/agent": "a"}), 4),
            // Labels and status cannot be written at once, and neither can claim, start and end.
            ("without-label", json!({"templateRef": {"name": "t"}}), json!({}), 5),
        ];
        for (name, target, labels, _) in &cases {
            world.hold(name);
            world.create_with::<Task>(name, json!({ "labels": labels }), spec(target.clone())).await?;
        }
        for (name, ..) in &cases {
            world.until(name, "its start on record", |status| status.start_time.is_some()).await?;
            world.finish(name);
        }
        for (name, _, _, expected) in &cases {
            world.succeeds(name).await?;
            let found = writes(&world, name);
            ensure!(found == *expected, "{name}: {found} writes, not {expected}");
        }
        Ok(())
    })
    .await
}
