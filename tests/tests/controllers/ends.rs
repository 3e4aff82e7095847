//! Every end of a Pod has a name.

use anyhow::ensure;
use api::TaskPhase;
use blackbox::{cases, runner::Case, stub_kubelet::Act};
use serde_json::{Value, json};

use crate::world::{condition, message, shared};

pub const CASES: &[Case] = cases![every_end_of_a_pod_has_a_reason];

async fn every_end_of_a_pod_has_a_reason() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let failed = |status: Value| Act::Status(status);
        let cases: Vec<(&str, Act, &str, &str)> = vec![
            ("model-error", Act::fail("ModelError", "429 slow down"), "ModelError", "429 slow down"),
            ("out-of-memory", Act::exit(137, "OOMKilled"), "OOMKilled", "more memory"),
            ("exit-code", Act::exit(3, "Error"), "NonZeroExit", "exit code 3"),
            ("no-report", Act::exit(0, "Completed"), "ResultMissing", "without leaving a result"),
            ("evicted", failed(json!({"phase": "Failed", "reason": "Evicted", "message": "disk full"})), "Evicted", "disk full"),
            ("vanished", Act::Vanish, "PodLost", "vanished"),
        ];
        for (task, act, ..) in &cases {
            world.kubelet.script(task, act.clone());
            world.task(task, json!({"templateRef": {"name": "t"}})).await?;
        }
        for (task, _, why, words) in &cases {
            let status = world.fails(task, why).await?;
            ensure!(status.phase == Some(TaskPhase::Failed), "{status:?}");
            ensure!(message(&status).contains(words), "{task}: {status:?}");
            ensure!(condition(status.conditions.as_ref(), "Ready") == format!("False {why}"), "{status:?}");
        }
        world.each_run_has_one_pod()
    })
    .await
}
