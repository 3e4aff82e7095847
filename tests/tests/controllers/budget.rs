//! Budgets of runs.

use anyhow::{Context as _, ensure};
use blackbox::{
    cases,
    runner::Case,
    stub_kubelet::{Act, End},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::world::{World, condition, message, shared};

pub const CASES: &[Case] = cases![a_run_that_used_its_budget_up_is_stopped_and_says_so];

/// What the Pod of a Task may use, as it is told.
async fn told(world: &World, task: &str) -> anyhow::Result<[Option<String>; 2]> {
    let pod: Pod = world.api().get(&format!("{task}-pod")).await?;
    let spec = pod.spec.context("a Pod without a spec")?;
    let env = spec.containers.into_iter().flat_map(|container| container.env.unwrap_or_default());
    let env: Vec<_> = env.collect();
    let value = |name: &str| env.iter().find(|var| var.name == name).and_then(|var| var.value.clone());
    Ok([value("BUDGET_MAX_TOKENS"), value("BUDGET_MAX_COST")])
}

async fn a_run_that_used_its_budget_up_is_stopped_and_says_so() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let words = "the Task used 21,344 of 20,000 tokens, which is all that its budget allows, and was stopped";
        let report = json!({
            "outcome": "Failed", "reason": "BudgetExceeded", "message": words, "sessionID": "ses_1",
            "usage": {"tokens": {"input": 21_000, "output": 344}, "cost": 0.5},
        });
        world.kubelet.script("big", Act::End(End { code: 15, reason: "Error", message: report.to_string() }));
        let retry = json!({"maxRetries": 3, "causes": ["NonZeroExit"], "backoff": "1s"});
        let budget = json!({"maxTokens": 20_000, "maxCost": "2.5"});
        world.task("big", json!({"templateRef": {"name": "t"}, "budget": budget, "retry": retry})).await?;
        let status = world.fails("big", "BudgetExceeded").await?;
        ensure!(message(&status) == words, "{status:?}");
        for (kind, expected) in [("Stopped", "True BudgetExceeded"), ("Ready", "False BudgetExceeded")] {
            ensure!(condition(status.conditions.as_ref(), kind) == expected, "{kind}: {status:?}");
        }
        let tokens = status.usage.as_ref().and_then(|usage| usage.tokens).unwrap_or_default();
        ensure!((tokens.input, tokens.output, status.attempt) == (21_000, 344, Some(1)), "{status:?}");
        let told = told(&world, "big").await?;
        ensure!(told == [Some("20000".to_owned()), Some("2.50".to_owned())], "{told:?}");
        Ok(())
    })
    .await
}
