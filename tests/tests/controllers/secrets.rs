//! Secrets and certificates that Tasks name: waited for without a slot, named when they do not come, and used only by Tasks
//! that may.

use std::time::Duration;

use anyhow::ensure;
use api::TaskStatus;
use blackbox::{
    cases,
    control_plane::Server,
    controller::{Controller, Options},
    runner::Case,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::{Alone, SERVER, World, explain, message, shared};

const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/admission/task-secrets.yaml");
const ALLOW_TASKS: &str = "kubeopencode.io/allow-tasks";
/// Longer than a controller needs, even on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);
const TASK_SECRETS: &str = "kubeopencode.io/task-secrets";

pub const CASES: &[Case] = cases![
    a_secret_of_a_task_is_used_when_its_owner_opens_it,
    a_secret_of_a_task_is_used_where_authors_are_checked,
    a_secret_that_never_comes_is_named_in_the_end,
    a_secret_that_a_context_names_may_come_late,
    what_a_pod_cannot_start_without_may_come_late,
];

/// A Secret that Agents and templates can use.
async fn secret(world: &World, name: &str, key: &str) -> anyhow::Result<()> {
    secret_with(world, name, key, &json!({})).await
}

/// A Secret that Tasks can use too.
async fn open_secret(world: &World, name: &str, key: &str) -> anyhow::Result<()> {
    secret_with(world, name, key, &json!({ALLOW_TASKS: "true"})).await
}

async fn secret_with(world: &World, name: &str, key: &str, labels: &Value) -> anyhow::Result<()> {
    let secret = json!({"metadata": {"name": name, "labels": labels}, "stringData": {key: "x"}});
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

        open_secret(&world, "later", "pasword").await?;
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
        open_secret(&world, "wiki", "token").await?;
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

/// Waits until the Namespace lists these Secrets for the admission policy.
async fn lists(world: &World, names: Option<&str>) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let begin = Instant::now();
    loop {
        let namespace = namespaces.get(&world.namespace).await?;
        let found = namespace.annotations().get(TASK_SECRETS).map(String::as_str);
        if found == names {
            return Ok(());
        }
        ensure!(begin.elapsed() < LIMIT, "the Namespace lists {found:?}, not {names:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn a_secret_of_a_task_is_used_when_its_owner_opens_it() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        secret(&world, "closed", "password").await?;
        world.task("reads", json!({"templateRef": {"name": "t"}, "contexts": repository("closed")})).await?;
        let status = world.waits("reads", "SecretNotAllowed").await?;
        let expected = "Secret 'closed' (spec.contexts[0].git.secretRef) may not be used by this Task: it has no label \
                        kubeopencode.io/allow-tasks=true, and no admission policy checks who may name it; label it, or \
                        apply deploy/admission/task-secrets.yaml; the Task fails at ";
        ensure!(message(&status).starts_with(expected), "{status:?}");
        ensure!(world.api::<Pod>().get_opt("reads-pod").await?.is_none(), "it ran");
        world.merge::<Secret>("closed", json!({"metadata": {"labels": {ALLOW_TASKS: "true"}}})).await?;
        world.succeeds("reads").await?;
        lists(&world, Some("closed")).await?;
        open_secret(&world, "another", "password").await?;
        lists(&world, Some("another,closed")).await?;
        world.merge::<Secret>("closed", json!({"metadata": {"labels": null}})).await?;
        world.delete::<Secret>("another").await?;
        lists(&world, None).await
    })
    .await
}

async fn a_secret_of_a_task_is_used_where_authors_are_checked() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    // The embedded API server checks authors itself and has no policies.
    let is_real = SERVER.get() == Server::Real;
    let policy = |verb: &str| {
        let output = world.cluster.kubectl_command([verb, "--filename", POLICY]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(())
    };
    if is_real {
        policy("apply")?;
    }
    let options = Options { unchecked_task_secrets: !is_real, ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        secret(world, "closed", "password").await?;
        world.task("reads", json!({"templateRef": {"name": "t"}, "contexts": repository("closed")})).await?;
        world.succeeds("reads").await?;
        anyhow::Ok(())
    };
    let outcome = outcome.await;
    if is_real {
        policy("delete")?;
    }
    explain(outcome, world, &[&controller])
}
