//! Budgets: of one run, and of all Tasks of an Agent in a window.

use anyhow::{Context as _, ensure};
use api::{Agent, Model, ModelProvider, TaskStatus};
use blackbox::{
    cases,
    runner::Case,
    stub_kubelet::{Act, End},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{
    agents::conditions,
    world::{World, condition, message, shared},
};

pub const CASES: &[Case] = cases![
    tasks_wait_while_the_budget_of_their_agent_is_used_up,
    a_run_that_used_its_budget_up_is_stopped_and_says_so,
    tasks_at_the_same_time_share_what_is_left_of_the_budget,
    a_limit_of_cost_needs_a_model_with_a_price,
];

/// The budget in the environment of the Pod of a Task.
async fn budget_of_pod(world: &World, task: &str) -> anyhow::Result<[Option<String>; 2]> {
    let pod: Pod = world.api().get(&format!("{task}-pod")).await?;
    let spec = pod.spec.context("a Pod without a spec")?;
    let env = spec.containers.into_iter().flat_map(|container| container.env.unwrap_or_default());
    let env: Vec<_> = env.collect();
    let value = |name: &str| env.iter().find(|var| var.name == name).and_then(|var| var.value.clone());
    Ok([value("BUDGET_MAX_TOKENS"), value("BUDGET_MAX_COST")])
}

fn ended_at(status: &TaskStatus) -> anyhow::Result<Timestamp> {
    Ok(status.completion_time.as_ref().context("no completionTime")?.0)
}

async fn a_run_that_used_its_budget_up_is_stopped_and_says_so() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let expected = "the Task used 21,344 of 20,000 tokens, which is all that its budget allows, and was stopped";
        let report = json!({
            "outcome": "Failed", "reason": "BudgetExceeded", "message": expected, "sessionID": "ses_1",
            "usage": {"tokens": {"input": 21_000, "output": 344}, "cost": 0.5},
        });
        world.kubelet.script("big", Act::End(End { code: 15, reason: "Error", message: report.to_string() }));
        let retry = json!({"maxRetries": 3, "causes": ["NonZeroExit"], "backoff": "1s"});
        let budget = json!({"maxTokens": 20_000, "maxCost": "2.5"});
        world.task("big", json!({"templateRef": {"name": "t"}, "budget": budget, "retry": retry})).await?;
        let status = world.fails("big", "BudgetExceeded").await?;
        ensure!(message(&status) == expected, "{status:?}");
        for (kind, expected) in [("Stopped", "True BudgetExceeded"), ("Ready", "False BudgetExceeded")] {
            ensure!(condition(status.conditions.as_ref(), kind) == expected, "{kind}: {status:?}");
        }
        let tokens = status.usage.as_ref().and_then(|usage| usage.tokens).unwrap_or_default();
        ensure!((tokens.input, tokens.output, status.attempt) == (21_000, 344, Some(1)), "{status:?}");
        let budget = budget_of_pod(&world, "big").await?;
        ensure!(budget == [Some("20000".to_owned()), Some("2.50".to_owned())], "{budget:?}");
        Ok(())
    })
    .await
}

async fn tasks_wait_while_the_budget_of_their_agent_is_used_up() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"budget": {"maxCost": "0.7", "window": "1h"}})).await?;
        let mut first = None;
        // Each costs a quarter, and may use the rest of the budget, or less if the Task sets a limit.
        for (name, own, left) in [("one", None, "0.70"), ("two", None, "0.45"), ("three", Some("0.1"), "0.10")] {
            let mut spec = json!({"agentRef": {"name": "a"}});
            if let Some(own) = own {
                spec["budget"] = json!({"maxCost": own});
            }
            world.task(name, spec).await?;
            let status = world.succeeds(name).await?;
            let budget = budget_of_pod(&world, name).await?;
            ensure!(budget == [None, Some(left.to_owned())], "{name}: {budget:?}");
            first = first.or(Some(ended_at(&status)?));
        }
        let first = first.context("no Task ended")?;

        world.task("late", json!({"agentRef": {"name": "a"}})).await?;
        let status = world.waits("late", "BudgetExceeded").await?;
        let room = first + SignedDuration::from_hours(1);
        let expected = format!("the Tasks of Agent 'a' spent 0.75 of 0.70 in 1h; there is room again at {room}");
        ensure!(message(&status) == expected, "{expected}: {status:?}");
        ensure!(status.queue_position == Some(1), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued") == "True BudgetExceeded", "{status:?}");

        // A Task created before the budget was set counts too, and starts by itself when there is room.
        world.merge::<Agent>("a", json!({"spec": {"budget": {"window": "4s"}}})).await?;
        let status = world.succeeds("late").await?;
        let admitted = status.timings.and_then(|timings| timings.admitted_at).context("no admittedAt")?.0;
        ensure!(admitted >= first + SignedDuration::from_secs(4), "{admitted}, and the first ended at {first}");
        world.each_run_has_one_pod()
    })
    .await
}

async fn tasks_at_the_same_time_share_what_is_left_of_the_budget() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"budget": {"maxCost": "0.7", "window": "1h"}})).await?;
        for name in ["small", "large", "late"] {
            world.hold(name);
        }
        // A Task cannot raise the limit of its Agent.
        for (name, own, share) in [("small", "0.2", "0.20"), ("large", "9", "0.50")] {
            world.task(name, json!({"agentRef": {"name": "a"}, "budget": {"maxCost": own}})).await?;
            world.works(name).await?;
            let budget = budget_of_pod(&world, name).await?;
            ensure!(budget == [None, Some(share.to_owned())], "{name}: {budget:?}");
        }
        world.task("late", json!({"agentRef": {"name": "a"}})).await?;
        let status = world.waits("late", "BudgetReserved").await?;
        let expected = "the Tasks that run on Agent 'a' may use all that is left of its budget; ";
        ensure!(message(&status).starts_with(expected), "{status:?}");
        // It used half of its share.
        world.finish("large");
        world.succeeds("large").await?;
        world.works("late").await?;
        let budget = budget_of_pod(&world, "late").await?;
        ensure!(budget == [None, Some("0.25".to_owned())], "{budget:?}");
        for name in ["small", "late"] {
            world.finish(name);
            world.succeeds(name).await?;
        }
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_limit_of_cost_needs_a_model_with_a_price() -> anyhow::Result<()> {
    shared(async |world| {
        let provider = json!({"type": "openai-compatible", "baseURL": "http://model.example/v1"});
        world.create::<ModelProvider>("p", provider).await?;
        world.create::<Model>("m", json!({"model": "m", "providerRef": {"name": "p"}})).await?;
        let model = json!({"modelRef": {"name": "m"}});
        world.template("t", model.clone()).await?;
        world.ready_agent("a", model.clone()).await?;
        let budget = json!({"maxCost": "1"});
        world.task("on-template", json!({"templateRef": {"name": "t"}, "budget": budget})).await?;
        world.task("on-agent", json!({"agentRef": {"name": "a"}, "budget": budget})).await?;
        let mut limited = model;
        limited["budget"] = json!({"maxCost": "5", "window": "24h"});
        world.agent("limited", limited).await?;
        let refused = |agent: &Agent| conditions(agent, "ConfigValid") == "False UnpricedModel";
        world.agent_is("limited", "a price missed", refused).await?;
        for task in ["on-template", "on-agent"] {
            let status = world.waits(task, "UnpricedModel").await?;
            ensure!(message(&status).contains("the price of model \"p/m\" is not known"), "{status:?}");
            ensure!(status.run_epoch.is_none(), "{status:?}");
        }
        world.merge::<Model>("m", json!({"spec": {"cost": {"input": 1.5, "output": 2}}})).await?;
        for task in ["on-template", "on-agent"] {
            world.succeeds(task).await?;
        }
        world.agent_is("limited", "its price", |agent| conditions(agent, "ConfigValid") == "True Valid").await?;
        Ok(())
    })
    .await
}
