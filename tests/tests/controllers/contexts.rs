//! What a Task brings along.

use anyhow::ensure;
use blackbox::{cases, runner::Case};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;

use crate::world::{message, shared};

pub const CASES: &[Case] = cases![
    a_missing_config_map_fails_the_task_with_a_sentence,
    an_optional_config_map_may_be_missing,
    two_contexts_on_one_path_are_an_error_that_names_both,
    two_mebibytes_of_contexts_are_split_over_config_maps,
    more_contexts_than_can_be_handed_over_fail_before_anything_is_created,
    a_path_that_leaves_the_workspace_is_refused_at_once,
];

async fn a_missing_config_map_fails_the_task_with_a_sentence() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.config_map("there", json!({"a": "x"})).await?;
        let map = |name: &str, key: &str| {
            json!([{"name": "notes", "type": "ConfigMap", "configMap": {"name": name, "key": key}, "mountPath": "a.txt"}])
        };
        world.task("no-map", json!({"templateRef": {"name": "t"}, "contexts": map("nowhere", "a")})).await?;
        world.task("no-key", json!({"templateRef": {"name": "t"}, "contexts": map("there", "b")})).await?;
        let status = world.fails("no-map", "ContextError").await?;
        ensure!(message(&status).contains("ConfigMap nowhere does not exist"), "{status:?}");
        ensure!(message(&status).contains("notes") && message(&status).contains("optional: true"), "{status:?}");
        ensure!(status.run_epoch.is_none(), "a run was claimed: {status:?}");
        let status = world.fails("no-key", "ContextError").await?;
        ensure!(message(&status).contains("has no text under the key \"b\""), "{status:?}");
        ensure!(world.api::<Pod>().get_opt("no-map-pod").await?.is_none(), "it has a Pod");
        Ok(())
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
        let status = world.fails("huge", "ContextError").await?;
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
