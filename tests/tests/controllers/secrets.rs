//! Secrets and certificates that Tasks name: waited for without a slot, and named when they do not come.

use anyhow::ensure;
use api::TaskStatus;
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::world::{Alone, World, explain, message, shared};

pub const CASES: &[Case] = cases![
    a_secret_that_never_comes_is_named_in_the_end,
    a_secret_that_a_context_names_may_come_late,
    what_a_pod_cannot_start_without_may_come_late,
];

async fn secret(world: &World, name: &str, key: &str) -> anyhow::Result<()> {
    let secret = json!({"metadata": {"name": name}, "stringData": {key: "x"}});
    world.api::<Secret>().create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    Ok(())
}

fn repository(secret: &str) -> Value {
    let git = json!({"repository": "https://git.example/x.git", "secretRef": {"name": secret}});
    json!([{"name": "code", "type": "Git", "mountPath": "code", "git": git}])
}

async fn a_secret_that_a_context_names_may_come_late() -> anyhow::Result<()> {
    shared(async |world| {
        // One slot: who waits for a Secret does not take it.
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        let spec = json!({"templateRef": {"name": "t"}, "contexts": repository("later"), "priority": 9});
        world.task("early", spec).await?;
        let status = world.waits("early", "SecretMissing").await?;
        ensure!(message(&status).starts_with("Secret 'later' does not exist; the Task fails at"), "{status:?}");
        ensure!(status.run_epoch.is_none() && status.queue_position.is_none(), "{status:?}");
        world.task("other", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("other").await?;

        secret(&world, "later", "pasword").await?;
        let no_key = |status: &TaskStatus| message(status).contains("Secret 'later' has none of the keys username,");
        world.until("early", "the key that is missing", no_key).await?;
        world.merge::<Secret>("later", json!({"stringData": {"password": "y"}})).await?;
        world.succeeds("early").await?;
        world.each_run_has_one_pod()
    })
    .await
}

async fn what_a_pod_cannot_start_without_may_come_late() -> anyhow::Result<()> {
    shared(async |world| {
        let credentials = json!([{"name": "token", "secretRef": {"name": "token", "key": "a"}, "env": "TOKEN"}]);
        world.template("credential", json!({ "credentials": credentials })).await?;
        world.template("bundle", json!({"caBundle": {"configMapRef": {"name": "authorities"}}})).await?;
        world.template("plain", json!({})).await?;
        let url = json!({"source": "https://docs.example/x", "secretRef": {"name": "wiki"}});
        let document = json!([{"type": "URL", "mountPath": "x.md", "url": url}]);
        for (task, spec, why, text) in [
            ("credential", json!({}), "SecretMissing", "Secret 'token' does not exist"),
            ("bundle", json!({}), "ReferenceNotFound", "ConfigMap 'authorities' does not exist"),
            ("plain", json!({ "contexts": document }), "SecretMissing", "Secret 'wiki' does not exist"),
        ] {
            let mut spec = spec;
            spec["templateRef"] = json!({"name": task});
            world.task(task, spec).await?;
            let status = world.waits(task, why).await?;
            ensure!(message(&status).contains(text), "{status:?}");
        }
        secret(&world, "token", "b").await?;
        let no_key = |status: &TaskStatus| message(status).contains("Secret 'token' has no key 'a'");
        world.until("credential", "the key that is missing", no_key).await?;
        world.merge::<Secret>("token", json!({"stringData": {"a": "y"}})).await?;
        world.succeeds("credential").await?;
        secret(&world, "wiki", "token").await?;
        world.succeeds("plain").await?;
        world.config_map("authorities", json!({"other": "x"})).await?;
        let no_key =
            |status: &TaskStatus| message(status).contains("ConfigMap 'authorities' has no key 'ca-bundle.crt'");
        world.until("bundle", "the key that is missing", no_key).await?;
        world.merge::<ConfigMap>("authorities", json!({"data": {"ca-bundle.crt": "x"}})).await?;
        world.succeeds("bundle").await?;
        Ok(())
    })
    .await
}

async fn a_secret_that_never_comes_is_named_in_the_end() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.configure(json!({"defaults": {"referenceGracePeriod": "1s"}})).await?;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        world.task("lost", json!({"templateRef": {"name": "t"}, "contexts": repository("typo")})).await?;
        let status = world.fails("lost", "SecretMissing").await?;
        ensure!(message(&status) == "Secret 'typo' does not exist", "{status:?}");
        ensure!(world.api::<Pod>().get_opt("lost-pod").await?.is_none(), "it ran");
        Ok(())
    };
    explain(outcome.await, world, &[&controller])
}
