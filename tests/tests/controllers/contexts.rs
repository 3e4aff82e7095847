//! Contexts of Tasks.

use anyhow::ensure;
use api::{AgentTemplate, Instruction, Model, ModelProvider, Task, TaskStatus};
use blackbox::{cases, runner::Case};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;

use crate::world::{condition, message, reason, shared};

pub const CASES: &[Case] = cases![
    what_a_task_refers_to_may_come_late,
    what_a_template_refers_to_may_come_late,
    an_optional_config_map_may_be_missing,
    two_contexts_on_one_path_are_an_error_that_names_both,
    two_mebibytes_of_contexts_are_split_over_config_maps,
    more_contexts_than_can_be_handed_over_fail_before_anything_is_created,
    a_path_that_leaves_the_workspace_is_refused_at_once,
    a_task_on_an_agent_brings_its_instructions_and_is_refused_what_it_would_not_get,
];

async fn what_a_task_refers_to_may_come_late() -> anyhow::Result<()> {
    shared(async |world| {
        // One slot: who waits for something else does not take it.
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        let contexts = json!([
            {"name": "notes", "type": "ConfigMap", "configMap": {"name": "later", "key": "a"}, "mountPath": "a.txt"},
        ]);
        world.task("early", json!({"templateRef": {"name": "t"}, "contexts": contexts, "priority": 9})).await?;
        let status = world.waits("early", "ContextError").await?;
        for part in ["notes", "ConfigMap later does not exist", "optional: true", "the Task fails at"] {
            ensure!(message(&status).contains(part), "{part}: {status:?}");
        }
        ensure!(condition(status.conditions.as_ref(), "Queued") == "True ContextError", "{status:?}");
        ensure!(status.run_epoch.is_none() && status.queue_position.is_none(), "{status:?}");
        world.task("other", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("other").await?;

        world.config_map("later", json!({"b": "x"})).await?;
        let no_key = |status: &TaskStatus| message(status).contains("has no text under the key \"a\"");
        world.until("early", "the key that is missing", no_key).await?;
        world.merge::<ConfigMap>("later", json!({"data": {"a": "the text"}})).await?;
        let status = world.succeeds("early").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(1), Some(1)), "{status:?}");
        let contexts: ConfigMap = world.api().get("early-context").await?;
        ensure!(contexts.data.unwrap_or_default().values().any(|text| text == "the text"), "the text is not there");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_on_an_agent_brings_its_instructions_and_is_refused_what_it_would_not_get() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({})).await?;
        let spec = json!({"agentRef": {"name": "a"}, "instructionRefs": [{"name": "rules"}]});
        world.task("instructed", spec).await?;
        let status = world.waits("instructed", "ReferenceNotFound").await?;
        ensure!(message(&status).contains("Instruction 'rules' does not exist"), "{status:?}");
        world.hold("instructed");
        world.create::<Instruction>("rules", json!({"text": "Always be kind."})).await?;
        let pod = world.works("instructed").await?;
        ensure!(pod.annotations().values().any(|text| text.contains("Always be kind.")), "{pod:?}");
        world.finish("instructed");

        let tools = json!([{"ref": {"kind": "RemoteMCPServer", "name": "t"}}]);
        world.task("tools", json!({"agentRef": {"name": "a"}, "tools": tools})).await?;
        let status = world.fails("tools", "Invalid").await?;
        ensure!(message(&status).contains("set tools on the Agent"), "{status:?}");

        world.template("t", json!({})).await?;
        world.task("asks", json!({"templateRef": {"name": "t"}, "approval": {"mode": "Always"}})).await?;
        let status = world.fails("asks", "Invalid").await?;
        ensure!(message(&status).contains("use agentRef") && status.pod_name.is_none(), "{status:?}");
        Ok(())
    })
    .await
}

async fn what_a_template_refers_to_may_come_late() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"modelRef": {"name": "later"}})).await?;
        for task in ["early", "stopped", "corrected"] {
            world.task(task, json!({"templateRef": {"name": "t"}})).await?;
            let status = world.waits(task, "ReferenceNotFound").await?;
            ensure!(message(&status).contains("Model 'later' does not exist"), "{status:?}");
        }
        world.stop("stopped").await?;
        let status = world.ended("stopped").await?;
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        world.template("other", json!({})).await?;
        world.merge::<Task>("corrected", json!({"spec": {"templateRef": {"name": "other"}}})).await?;
        world.succeeds("corrected").await?;
        let provider = json!({"type": "openai-compatible", "baseURL": "http://model.example/v1"});
        world.create::<ModelProvider>("p", provider).await?;
        world.create::<Model>("later", json!({"model": "m", "providerRef": {"name": "p"}})).await?;
        world.succeeds("early").await?;

        // Or it is the template that changes.
        world.merge::<AgentTemplate>("t", json!({"spec": {"modelRef": {"name": "never"}}})).await?;
        world.task("waits", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("waits", "ReferenceNotFound").await?;
        world
            .merge::<AgentTemplate>("t", json!({"spec": {"modelRef": null, "config": {"model": "test/model"}}}))
            .await?;
        world.succeeds("waits").await?;
        world.each_run_has_one_pod()
    })
    .await
}

async fn an_optional_config_map_may_be_missing() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let contexts = json!([{"type": "ConfigMap", "configMap": {"name": "nowhere", "key": "a"}, "mountPath": "a.txt", "optional": true}]);
        world.task("goes-on", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.succeeds("goes-on").await?;
        Ok(())
    })
    .await
}

async fn two_contexts_on_one_path_are_an_error_that_names_both() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let contexts = json!([
            {"name": "one", "type": "Text", "text": "1", "mountPath": "a.txt"},
            {"name": "two", "type": "Text", "text": "2", "mountPath": "/workspace/a.txt"},
        ]);
        world.task("clash", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        let status = world.fails("clash", "ContextError").await?;
        for part in ["one", "two", "/workspace/a.txt"] {
            ensure!(message(&status).contains(part), "{status:?}");
        }
        Ok(())
    })
    .await
}

async fn two_mebibytes_of_contexts_are_split_over_config_maps() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let text = "0123456789abcdef".repeat(1000 * 64);
        world.config_map("first", json!({"a": text})).await?;
        world.config_map("second", json!({"a": text})).await?;
        let contexts = json!([
            {"type": "ConfigMap", "configMap": {"name": "first", "key": "a"}, "mountPath": "a.txt"},
            {"type": "ConfigMap", "configMap": {"name": "second", "key": "a"}, "mountPath": "b.txt"},
        ]);
        world.task("large", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.succeeds("large").await?;
        let maps = world.api::<ConfigMap>().list(&ListParams::default()).await?;
        let size = |map: &ConfigMap| map.data.iter().flatten().map(|(_, text)| text.len()).sum::<usize>();
        let ours: Vec<_> = maps.iter().filter(|map| map.name_any().starts_with("large-context")).collect();
        let total: usize = ours.iter().map(|map| size(map)).sum();
        ensure!(total >= 2 * text.len() && ours.len() >= 2, "{total} bytes");
        Ok(())
    })
    .await
}

async fn more_contexts_than_can_be_handed_over_fail_before_anything_is_created() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.config_map("big", json!({"a": "0123456789abcdef".repeat(1000 * 64)})).await?;
        let contexts: Vec<_> = (0..10)
            .map(|n| json!({"type": "ConfigMap", "configMap": {"name": "big", "key": "a"}, "mountPath": format!("{n}.txt")}))
            .collect();
        world.task("huge", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        let status = world.fails("huge", "AssignmentTooLarge").await?;
        ensure!(message(&status).contains("move the largest"), "{status:?}");
        ensure!(world.api::<ConfigMap>().get_opt("huge-context").await?.is_none(), "something was created");
        Ok(())
    })
    .await
}

async fn a_path_that_leaves_the_workspace_is_refused_at_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let text = |path: &str| json!([{"type": "Text", "text": "x", "mountPath": path}]);
        let refused = world.task("up", json!({"templateRef": {"name": "t"}, "contexts": text("../x")})).await;
        ensure!(refused.is_err_and(|error| format!("{error:#}").contains("must not contain '..'")), "it was stored");
        world.task("proc", json!({"templateRef": {"name": "t"}, "contexts": text("/proc/x")})).await?;
        let status = world.fails("proc", "ContextError").await?;
        ensure!(message(&status).contains("/proc/x"), "{status:?}");
        Ok(())
    })
    .await
}
