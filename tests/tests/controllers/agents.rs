//! Agents: their Deployment, Service and Secret, and their protection.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::ensure;
use api::{Agent, AgentTemplate, Model, ModelProvider};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service},
};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{Alone, World, condition, explain, shared};

pub const CASES: &[Case] = cases![
    an_agent_has_a_deployment_a_service_and_a_password,
    an_agent_that_is_deleted_leaves_nothing_behind,
    a_change_of_a_template_reaches_its_agents,
    an_agent_whose_template_is_missing_says_so_and_heals,
    an_agent_whose_context_is_missing_says_so_and_heals,
    an_agent_whose_model_is_missing_says_so_and_heals,
    an_agent_says_which_secret_is_missing_and_heals,
    a_rotated_secret_rolls_out_once,
    a_changed_model_reaches_the_agent,
    a_share_link_is_a_secret_that_goes_with_it,
    tasks_wait_while_a_changed_server_takes_over,
    a_server_that_rolls_out_when_idle_does_not_restart_under_a_task,
    a_change_that_has_waited_long_is_rolled_out_also_if_tasks_keep_coming,
    a_configuration_that_is_not_valid_leaves_the_last_good_server_running,
    what_somebody_changes_by_hand_is_put_right,
    a_service_of_that_name_that_belongs_to_somebody_else_is_left_alone,
    touching_an_agent_writes_nothing,
];

/// Status and reason of an Agent's condition.
pub fn conditions(agent: &Agent, kind: &str) -> String {
    condition(agent.status.as_ref().and_then(|status| status.conditions.as_ref()), kind)
}

/// The image in which an Agent works.
pub fn image(deployment: &Deployment) -> String {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let container = pod.and_then(|pod| pod.containers.iter().find(|container| container.name == "opencode-server"));
    container.and_then(|container| container.image.clone()).unwrap_or_default()
}

async fn an_agent_has_a_deployment_a_service_and_a_password() -> anyhow::Result<()> {
    shared(async |world| {
        let agent = world.ready_agent("a", json!({"profile": "helps"})).await?;
        for kind in ["Accepted", "ReferencesResolved", "ConfigValid", "ServerReady", "ServerHealthy"] {
            ensure!(conditions(&agent, kind).starts_with("True"), "{kind}: {:?}", agent.status);
        }
        let owner = |meta: &kube::api::ObjectMeta| {
            meta.owner_references.iter().flatten().any(|owner| Some(&owner.uid) == agent.metadata.uid.as_ref())
        };
        ensure!(owner(&world.deployment("a").await?.metadata), "the Deployment has another owner");
        ensure!(owner(&world.api::<Service>().get("a").await?.metadata), "the Service has another owner");
        let secret: Secret = world.api().get("a-server-auth").await?;
        ensure!(owner(&secret.metadata), "the Secret has another owner");
        let password = secret.data.unwrap_or_default().remove("password").map(|bytes| bytes.0).unwrap_or_default();
        ensure!(password.len() >= 32, "the password is short");
        let secret: Secret = world.api().get("a-companion").await?;
        ensure!(owner(&secret.metadata), "the Secret of the companion has another owner");
        let token = secret.data.unwrap_or_default().remove("token").map(|bytes| bytes.0).unwrap_or_default();
        ensure!(token.len() >= 32 && token != password, "the token is short, or the password");
        Ok(())
    })
    .await
}

async fn an_agent_that_is_deleted_leaves_nothing_behind() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({})).await?;
        world.delete::<Agent>("a").await?;
        world.record::<Deployment>().until_gone("a-server").await?;
        world.record::<Service>().until_gone("a").await?;
        world.record::<Secret>().until_gone("a-server-auth").await?;
        world.record::<Secret>().until_gone("a-companion").await?;
        world.pods.until("no Pod", |pods| pods.all().is_empty().then_some(())).await
    })
    .await
}

async fn a_change_of_a_template_reaches_its_agents() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"executorImage": "one:1"})).await?;
        world.ready_agent("a", json!({"templateRef": {"name": "t"}})).await?;
        world.ready_agent("b", json!({"templateRef": {"name": "t"}, "executorImage": "own:1"})).await?;
        let (a, b) = (world.deployment("a").await?, world.deployment("b").await?);
        ensure!((image(&a).as_str(), image(&b).as_str()) == ("one:1", "own:1"), "{} {}", image(&a), image(&b));
        let templates = world.record::<AgentTemplate>();
        let agents = |template: &AgentTemplate| template.status.as_ref().and_then(|status| status.agents);
        templates.until_object("t", "two Agents", |template| agents(template) == Some(2)).await?;

        world.merge::<AgentTemplate>("t", json!({"spec": {"executorImage": "two:2"}})).await?;
        let deployments = world.record::<Deployment>();
        let changed =
            deployments.until_object("a-server", "the new image", |deployment| image(deployment) == "two:2").await?;
        // Once: a roll-out ends the sessions of those who work with the Agent.
        world.agent_is("a", "ready again", |agent| conditions(agent, "ServerReady").starts_with("True")).await?;
        ensure!(
            changed.metadata.generation == a.metadata.generation.map(|before| before + 1),
            "it rolled out more than once"
        );
        let now = world.deployment("b").await?;
        ensure!(now.metadata.generation == b.metadata.generation, "an Agent with its own image rolled out");
        Ok(())
    })
    .await
}

async fn an_agent_whose_template_is_missing_says_so_and_heals() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"templateRef": {"name": "later"}})).await?;
        let agent = world
            .agent_is("a", "its condition", |agent| conditions(agent, "ReferencesResolved").starts_with("False"))
            .await?;
        let phase = agent.status.as_ref().and_then(|status| status.phase);
        ensure!(format!("{phase:?}") == "Some(Pending)", "{phase:?}");
        world.template("later", json!({})).await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "ReferencesResolved") == "True Resolved").await?;
        Ok(())
    })
    .await
}

async fn an_agent_whose_context_is_missing_says_so_and_heals() -> anyhow::Result<()> {
    shared(async |world| {
        let contexts = json!([{"type": "ConfigMap", "configMap": {"name": "later", "key": "a"}, "mountPath": "a.txt"}]);
        world.agent("a", json!({"contexts": contexts})).await?;
        world.agent_is("a", "its condition", |agent| conditions(agent, "Accepted") == "False ContextError").await?;
        world.config_map("later", json!({"a": "text"})).await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        let map: ConfigMap = world.api().get("a-server-context").await?;
        ensure!(map.data.unwrap_or_default().values().any(|text| text == "text"), "the context is not there");
        Ok(())
    })
    .await
}

async fn an_agent_whose_model_is_missing_says_so_and_heals() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"modelRef": {"name": "later"}})).await?;
        let missing = |agent: &Agent| conditions(agent, "ReferencesResolved") == "False ReferenceNotFound";
        let agent = world.agent_is("a", "its condition", missing).await?;
        let phase = agent.status.as_ref().and_then(|status| status.phase);
        ensure!(format!("{phase:?}") == "Some(Pending)", "{phase:?}");
        let provider = json!({"type": "openai-compatible", "baseURL": "http://model.example/v1"});
        world.create::<ModelProvider>("p", provider).await?;
        world.create::<Model>("later", json!({"model": "m", "providerRef": {"name": "p"}})).await?;
        let agent = world.agent_is("a", "ready", |agent| conditions(agent, "ServerReady").starts_with("True")).await?;
        let model = agent.status.as_ref().and_then(|status| status.resolved_model.clone());
        ensure!(model.as_deref() == Some("p/m"), "{model:?}");
        Ok(())
    })
    .await
}

/// The message of a condition.
pub fn condition_message(agent: &Agent, kind: &str) -> String {
    let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == kind);
    found.map(|condition| condition.message.clone()).unwrap_or_default()
}

async fn secret(world: &World, name: &str, key: &str, value: &str) -> anyhow::Result<()> {
    let secret = json!({"metadata": {"name": name}, "stringData": {key: value}});
    world.api::<Secret>().create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    Ok(())
}

async fn an_agent_says_which_secret_is_missing_and_heals() -> anyhow::Result<()> {
    shared(async |world| {
        let credentials = json!([{"name": "token", "secretRef": {"name": "later", "key": "token"}, "env": "TOKEN"}]);
        world.agent("a", json!({"credentials": credentials})).await?;
        let missing = |agent: &Agent| conditions(agent, "SecretsReady") == "False SecretMissing";
        let agent = world.agent_is("a", "its condition", missing).await?;
        ensure!(condition_message(&agent, "SecretsReady") == "Secret 'later' does not exist", "{:?}", agent.status);
        secret(&world, "later", "other", "x").await?;
        let no_key = |agent: &Agent| condition_message(agent, "SecretsReady") == "Secret 'later' has no key 'token'";
        world.agent_is("a", "the key that is missing", no_key).await?;
        world.merge::<Secret>("later", json!({"stringData": {"token": "y"}})).await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "SecretsReady") == "True Resolved").await?;
        Ok(())
    })
    .await
}

async fn a_rotated_secret_rolls_out_once() -> anyhow::Result<()> {
    shared(async |world| {
        secret(&world, "used", "token", "one").await?;
        secret(&world, "unused", "token", "one").await?;
        let credentials = json!([{"name": "token", "secretRef": {"name": "used", "key": "token"}, "env": "TOKEN"}]);
        world.ready_agent("a", json!({"credentials": credentials})).await?;
        let before = world.deployment("a").await?.metadata.generation;
        ensure!(before == Some(1), "it rolled out {before:?} times before anything changed");
        world.merge::<Secret>("unused", json!({"stringData": {"token": "two"}})).await?;
        // Tools that mirror or back up Secrets annotate them.
        world.annotate::<Secret>("used", "backup.example/at", "noon").await?;
        world.merge::<Secret>("used", json!({"stringData": {"token": "two"}})).await?;
        let deployments = world.record::<Deployment>();
        deployments.until_object("a-server", "a roll-out", |d| d.metadata.generation == Some(2)).await?;
        // All effects of the change have happened when a later change is through.
        world.merge::<Agent>("a", json!({"spec": {"executorImage": "two:2"}})).await?;
        let last = deployments.until_object("a-server", "the new image", |d| image(d) == "two:2").await?;
        ensure!(last.metadata.generation == Some(3), "it rolled out more than once: {:?}", last.metadata.generation);
        Ok(())
    })
    .await
}

async fn a_changed_model_reaches_the_agent() -> anyhow::Result<()> {
    shared(async |world| {
        let provider = json!({"type": "openai-compatible", "baseURL": "http://model.example/v1"});
        world.create::<ModelProvider>("p", provider).await?;
        world.create::<Model>("m", json!({"model": "one", "providerRef": {"name": "p"}})).await?;
        world.ready_agent("a", json!({"modelRef": {"name": "m"}})).await?;
        let model = |agent: &Agent| agent.status.as_ref().and_then(|status| status.resolved_model.clone());
        world.agent_is("a", "the first model", |agent| model(agent).is_some_and(|m| m.ends_with("/one"))).await?;
        world.merge::<Model>("m", json!({"spec": {"model": "two"}})).await?;
        world.agent_is("a", "the second model", |agent| model(agent).is_some_and(|m| m.ends_with("/two"))).await?;
        Ok(())
    })
    .await
}

async fn a_share_link_is_a_secret_that_goes_with_it() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"share": {"enabled": true}})).await?;
        let active = |agent: &Agent| conditions(agent, "ShareReady").starts_with("True");
        let agent = world.agent_is("a", "its link", active).await?;
        let share = agent.status.as_ref().and_then(|status| status.share.clone()).unwrap_or_default();
        let name = share.secret_name.unwrap_or_default();
        let link: Secret = world.api().get(&name).await?;
        let token = link.data.clone().unwrap_or_default().remove("token").map(|bytes| bytes.0).unwrap_or_default();
        // 32 random bytes as base64url without padding, as upstream's.
        let is_base64url = token.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
        ensure!(token.len() == 43 && is_base64url, "the token is not 32 bytes as base64url");
        let status = serde_json::to_string(&agent.status)?;
        ensure!(!status.contains(std::str::from_utf8(&token)?), "the token is in the status");
        ensure!(share.url.as_deref() == Some("/s/"), "{:?}", share.url);
        world.delete::<Secret>(&name).await?;
        let another = |now: &Secret| now.metadata.uid != link.metadata.uid;
        world.record::<Secret>().until_object(&name, "another token", another).await?;
        world.merge::<Agent>("a", json!({"spec": {"share": {"enabled": false}}})).await?;
        world.record::<Secret>().until_gone(&name).await?;
        world.agent_is("a", "no link", |agent| conditions(agent, "ShareReady").is_empty()).await?;
        Ok(())
    })
    .await
}

async fn tasks_wait_while_a_changed_server_takes_over() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({})).await?;
        world.kubelet.script("a-server", Act::Unscheduled);
        world.merge::<Agent>("a", json!({"spec": {"executorImage": "another"}})).await?;
        // The watch of Agents may be behind that of Tasks: a Task that is created at once may still start.
        let agent = world.agent_is("a", "rolling out", |agent| conditions(agent, "Progressing") == "True RollingOut");
        ensure!(
            agent.await?.status.as_ref().and_then(|status| status.ready) == Some(true),
            "it serves others meanwhile"
        );
        world.task("t", json!({"agentRef": {"name": "a"}})).await?;
        let status = world.waits("t", "AgentServerNotReady").await?;
        ensure!(status.message.as_deref().is_some_and(|message| message.contains("being replaced")), "{status:?}");
        world.kubelet.script("a-server", Act::Hold);
        world.succeeds("t").await?;
        world.agent_is("a", "rolled out", |agent| !conditions(agent, "Progressing").starts_with("True")).await?;
        Ok(())
    })
    .await
}

/// Changes an Agent that rolls out when idle while Task `t` runs on it. Returns the Deployment before, and the
/// Agent whose condition reports that the change waits.
async fn change_under_a_task(world: &World) -> anyhow::Result<(Deployment, Arc<Agent>)> {
    world.ready_agent("a", json!({"rollout": "WhenIdle"})).await?;
    world.hold("t");
    world.task("t", json!({"agentRef": {"name": "a"}})).await?;
    world.works("t").await?;
    let before = world.deployment("a").await?;
    world.merge::<Agent>("a", json!({"spec": {"executorImage": "another"}})).await?;
    let held = |agent: &Agent| conditions(agent, "Progressing") == "False RolloutHeld";
    Ok((before, world.agent_is("a", "its condition", held).await?))
}

async fn a_server_that_rolls_out_when_idle_does_not_restart_under_a_task() -> anyhow::Result<()> {
    shared(async |world| {
        let (before, _) = change_under_a_task(&world).await?;
        // A change that waits does not keep others from starting.
        world.task("u", json!({"agentRef": {"name": "a"}})).await?;
        world.succeeds("u").await?;
        let held = world.deployment("a").await?;
        ensure!(held.metadata.generation == before.metadata.generation, "it was changed under a Task");
        world.finish("t");
        world.succeeds("t").await?;
        world.agent_is("a", "roll-out", |agent| !conditions(agent, "Progressing").ends_with("RolloutHeld")).await?;
        let now = world.deployment("a").await?;
        ensure!(now.metadata.generation > before.metadata.generation, "it was never rolled out");
        Ok(())
    })
    .await
}

async fn a_change_that_has_waited_long_is_rolled_out_also_if_tasks_keep_coming() -> anyhow::Result<()> {
    shared(async |world| {
        let (before, agent) = change_under_a_task(&world).await?;
        // As if it had begun to wait an hour ago.
        let mut status = serde_json::to_value(&agent.status)?;
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
        }
        world.merge_status::<Agent>("a", json!({"conditions": status["conditions"]})).await?;
        world.agent_is("a", "its condition", |agent| conditions(agent, "Progressing") == "False Draining").await?;
        world.task("u", json!({"agentRef": {"name": "a"}})).await?;
        world.waits("u", "AgentServerNotReady").await?;
        ensure!(world.deployment("a").await?.metadata.generation == before.metadata.generation, "under a Task");
        world.finish("t");
        world.succeeds("u").await?;
        ensure!(world.deployment("a").await?.metadata.generation > before.metadata.generation, "never rolled out");
        Ok(())
    })
    .await
}

async fn a_configuration_that_is_not_valid_leaves_the_last_good_server_running() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"config": {"theme": "dark", "model": "test/model"}})).await?;
        let before = world.deployment("a").await?;
        world.merge::<Agent>("a", json!({"spec": {"config": "{ this is no JSON"}})).await?;
        let agent =
            world.agent_is("a", "its condition", |agent| conditions(agent, "ConfigValid").starts_with("False")).await?;
        let ready = agent.status.as_ref().and_then(|status| status.ready);
        ensure!(ready == Some(true), "its server was stopped: {:?}", agent.status);
        let now = world.deployment("a").await?;
        ensure!(now.metadata.generation == before.metadata.generation, "its Deployment was changed");
        world.merge::<Agent>("a", json!({"spec": {"config": {"theme": "light", "model": "test/model"}}})).await?;
        world.agent_is("a", "its repair", |agent| conditions(agent, "ConfigValid") == "True Valid").await?;
        Ok(())
    })
    .await
}

async fn what_somebody_changes_by_hand_is_put_right() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"contexts": [{"type": "Text", "text": "right"}]})).await?;
        let before = world.deployment("a").await?;
        let deployments = world.record::<Deployment>();
        let replicas = |deployment: &Deployment| deployment.spec.as_ref().and_then(|spec| spec.replicas);
        world.merge::<Deployment>("a-server", json!({"spec": {"replicas": 3}})).await?;
        deployments
            .until_object("a-server", "one replica", |d| {
                d.metadata.generation > before.metadata.generation && replicas(d) == Some(1)
            })
            .await?;
        let container = json!([{"name": "opencode-server", "image": "other:1"}]);
        let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": container}}}}));
        world.api::<Deployment>().patch("a-server", &PatchParams::default(), &patch).await?;
        deployments.until_object("a-server", "its image", |deployment| image(deployment) == image(&before)).await?;

        let service: Service = world.api().get("a").await?;
        world.delete::<Service>("a").await?;
        let other = |now: &Service| now.metadata.uid != service.metadata.uid;
        world.record::<Service>().until_object("a", "a new Service", other).await?;
        world.delete::<Deployment>("a-server").await?;
        let other = |now: &Deployment| now.metadata.uid != before.metadata.uid;
        deployments.until_object("a-server", "a new Deployment", other).await?;

        let maps = world.record::<ConfigMap>();
        let right = |map: &ConfigMap| map.data.iter().flatten().any(|(_, text)| text.contains("right"));
        let first = maps.until_object("a-server-context", "there", right).await?;
        let wrong: BTreeMap<_, _> = first.data.iter().flatten().map(|(key, _)| (key.clone(), "wrong")).collect();
        world.merge::<ConfigMap>("a-server-context", json!({ "data": wrong })).await?;
        let mended = |now: &ConfigMap| right(now) && now.metadata.resource_version != first.metadata.resource_version;
        maps.until_object("a-server-context", "right again", mended).await?;
        world.delete::<ConfigMap>("a-server-context").await?;
        let other = |now: &ConfigMap| right(now) && now.metadata.uid != first.metadata.uid;
        maps.until_object("a-server-context", "a new ConfigMap", other).await?;
        Ok(())
    })
    .await
}

async fn a_service_of_that_name_that_belongs_to_somebody_else_is_left_alone() -> anyhow::Result<()> {
    shared(async |world| {
        let foreign =
            json!({"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}});
        let foreign = world.api::<Service>().create(&PostParams::default(), &serde_json::from_value(foreign)?).await?;
        world.agent("taken", json!({})).await?;
        world.agent_is("taken", "its condition", |agent| conditions(agent, "Accepted") == "False NameConflict").await?;
        let now: Service = world.api().get("taken").await?;
        ensure!(now.metadata.resource_version == foreign.metadata.resource_version, "the other's Service was changed");
        world.delete::<Service>("taken").await?;
        world.agent_is("taken", "its health", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        Ok(())
    })
    .await
}

/// The resource versions of all objects of an Agent.
async fn versions(world: &World, agent: &str) -> anyhow::Result<Value> {
    let deployment = world.deployment(agent).await?.metadata;
    let service = world.api::<Service>().get(agent).await?.metadata;
    let secret = world.api::<Secret>().get(&format!("{agent}-server-auth")).await?.metadata;
    Ok(json!([deployment.resource_version, deployment.generation, service.resource_version, secret.resource_version]))
}

/// Creates an Agent and waits until it is accepted: earlier changes have been reconciled by then.
async fn sentinel(world: &World, name: &str) -> anyhow::Result<()> {
    world.agent(name, json!({})).await?;
    world.agent_is(name, "accepted", |agent| conditions(agent, "Accepted") == "True Valid").await?;
    Ok(())
}

async fn touching_an_agent_writes_nothing() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        // Amounts that the API server writes in its own format, and paths whose order is not that of the API server.
        let contexts = json!([
            {"type": "Text", "text": "z", "mountPath": "/opt/z/a.txt"}, {"type": "Text", "text": "a", "mountPath": "/opt/a/z.txt"},
        ]);
        let resources = json!({"limits": {"cpu": "1000m", "memory": "2048Mi"}, "requests": {"cpu": "0.5"}});
        world.agent("a", json!({"contexts": contexts, "podSpec": {"resources": resources}})).await?;
        world.agent_is("a", "created", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        sentinel(world, "first").await?;
        let one = controller.writes().await?;
        sentinel(world, "second").await?;
        let two = controller.writes().await?;
        let before = versions(world, "a").await?;
        for number in 0..20 {
            world.merge::<Agent>("a", json!({"metadata": {"labels": {"touched": number.to_string()}, "annotations": {"touched": number.to_string()}}})).await?;
        }
        // The effect of a status change of the Deployment.
        world.merge_status::<Deployment>("a-server", json!({"observedGeneration": 1})).await?;
        let touched = versions(world, "a").await?;
        sentinel(world, "third").await?;
        let three = controller.writes().await?;
        // Tasks and CronTasks of other cases may still move.
        let of_agents = |what: &str| {
            ["agents", "deployments", "services", "secrets", "configmaps"].iter().any(|kind| what.contains(kind))
        };
        for (what, count) in three.iter().filter(|(what, _)| of_agents(what)) {
            let (first, second) = (one.get(what).copied().unwrap_or(0), two.get(what).copied().unwrap_or(0));
            // As many as the second sentinel took, and none for the touched Agent.
            ensure!(count - second <= second - first, "{what}: {} instead of {}", count - second, second - first);
        }
        ensure!(versions(world, "a").await? == touched, "something was written: {before} {touched}");
        controller.terminate().await?;

        let next = Controller::start(world.cluster, Options::default()).await?;
        let restarted = async {
            next.wait_for_log("working").await?;
            sentinel(world, "fourth").await?;
            let writes = next.writes().await?;
            for (what, count) in writes.iter().filter(|(what, _)| of_agents(what)) {
                let (first, second) = (one.get(what).copied().unwrap_or(0), two.get(what).copied().unwrap_or(0));
                ensure!(*count <= second - first, "after a restart, {what}: {count} instead of {}", second - first);
            }
            ensure!(versions(world, "a").await? == touched, "something was written by the next controller");
            Ok(())
        };
        explain(restarted.await, world, &[&next])
    };
    explain(outcome.await, world, &[&controller])
}
