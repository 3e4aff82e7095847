//! Agents whose settings change: old objects are removed and the new ones follow the settings.

use anyhow::ensure;
use api::{Agent, AgentTemplate};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, PersistentVolumeClaim, PodTemplateSpec, Service},
    storage::v1::StorageClass,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    agents::{condition_message, conditions},
    world::{Alone, World, explain, shared},
};

pub const CASES: &[Case] = cases![
    what_is_removed_from_an_agent_goes,
    a_volume_that_is_removed_from_an_agent_goes,
    a_changed_config_map_rolls_out,
    an_agent_does_not_take_the_claim_of_somebody_else,
    a_claim_that_cannot_change_says_so,
    a_claim_grows,
    ports_of_a_template_are_on_the_service,
    a_port_that_is_taken_is_refused_before_anything_is_made,
    an_agent_carries_the_name_of_its_template,
];

fn template(deployment: &Deployment) -> PodTemplateSpec {
    deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default()
}

/// An annotation of the Pods of a Deployment.
fn annotation(deployment: &Deployment, key: &str) -> Option<String> {
    template(deployment).metadata?.annotations?.remove(&format!("kubeopencode.io/{key}"))
}

async fn what_is_removed_from_an_agent_goes() -> anyhow::Result<()> {
    shared(async |world| {
        let pod = json!({
            "scheduling": {"nodeSelector": {"disk": "ssd"}},
            "labels": {"team": "blue"}, "annotations": {"cost": "42"},
            "resources": {"limits": {"memory": "2Gi"}},
        });
        let contexts = json!([{"type": "Text", "text": "old words", "mountPath": "old.md"}]);
        world.ready_agent("a", json!({"podSpec": pod, "contexts": contexts})).await?;
        let before = world.deployment("a").await?;
        let text = serde_json::to_string(&template(&before))?;
        ensure!(["ssd", "blue", "cost", "2Gi"].iter().all(|part| text.contains(part)), "{text}");
        world.merge::<Agent>("a", json!({"spec": {"podSpec": null, "contexts": null}})).await?;
        let plain = |now: &Deployment| {
            let text = serde_json::to_string(&template(now)).unwrap_or_default();
            !["ssd", "blue", "cost", "2Gi"].iter().any(|part| text.contains(part))
        };
        let after = world.record::<Deployment>().until_object("a-server", "nothing of it", plain).await?;
        ensure!(after.metadata.generation == before.metadata.generation.map(|n| n + 1), "it rolled out more than once");
        let map: ConfigMap = world.api().get("a-server-context").await?;
        ensure!(!map.data.unwrap_or_default().values().any(|text| text == "old words"), "the context is still there");
        Ok(())
    })
    .await
}

async fn a_volume_that_is_removed_from_an_agent_goes() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"persistence": {"sessions": {}, "workspace": {"size": "5Gi"}}})).await?;
        let before = world.deployment("a").await?;
        let strategy = before.spec.as_ref().and_then(|spec| spec.strategy.as_ref()?.type_.clone());
        ensure!(strategy.as_deref() == Some("Recreate"), "two Pods would hold one volume: {strategy:?}");
        let claim: PersistentVolumeClaim = world.api().get("a-server-workspace").await?;
        ensure!(size(&claim) == "5Gi", "{:?}", claim.spec);
        world.merge::<Agent>("a", json!({"spec": {"persistence": {"workspace": null}}})).await?;
        let emptied = |now: &Deployment| {
            let volumes = template(now).spec.and_then(|spec| spec.volumes).unwrap_or_default();
            let claims = volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
            claims.map(|claim| claim.claim_name.clone()).collect::<Vec<_>>() == ["a-server-sessions"]
        };
        world.record::<Deployment>().until_object("a-server", "only the sessions", emptied).await?;
        // The workspace stays: its deletion was not requested.
        world.api::<PersistentVolumeClaim>().get("a-server-workspace").await?;
        Ok(())
    })
    .await
}

async fn a_changed_config_map_rolls_out() -> anyhow::Result<()> {
    shared(async |world| {
        world.config_map("guides", json!({"go.md": "Use go fmt."})).await?;
        let contexts = json!([{"type": "ConfigMap", "configMap": {"name": "guides"}, "mountPath": "guides"}]);
        let bundle = json!({"configMapRef": {"name": "ca"}});
        world.agent("a", json!({"contexts": contexts, "caBundle": bundle})).await?;
        let missing = |agent: &Agent| conditions(agent, "ReferencesResolved") == "False ReferenceNotFound";
        let agent = world.agent_is("a", "its condition", missing).await?;
        ensure!(
            condition_message(&agent, "ReferencesResolved").contains("ConfigMap 'ca' does not exist"),
            "{:?}",
            agent.status
        );
        world.config_map("ca", json!({"ca-bundle.crt": "one"})).await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "ServerReady").starts_with("True")).await?;
        let first = world.deployment("a").await?;
        let deployments = world.record::<Deployment>();

        world.merge::<ConfigMap>("ca", json!({"data": {"ca-bundle.crt": "two"}})).await?;
        let rotated = |now: &Deployment| annotation(now, "config-hash") != annotation(&first, "config-hash");
        deployments.until_object("a-server", "the new certificates", rotated).await?;
        world.merge::<ConfigMap>("guides", json!({"data": {"go.md": "Use gofumpt."}})).await?;
        let edited = |now: &Deployment| annotation(now, "context-hash") != annotation(&first, "context-hash");
        let last = deployments.until_object("a-server", "the new guide", edited).await?;
        ensure!(last.metadata.generation == Some(3), "it rolled out {:?} times", last.metadata.generation);
        Ok(())
    })
    .await
}

fn claim(name: &str) -> anyhow::Result<PersistentVolumeClaim> {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?)
}

async fn an_agent_does_not_take_the_claim_of_somebody_else() -> anyhow::Result<()> {
    shared(async |world| {
        let claims = world.api::<PersistentVolumeClaim>();
        claims.create(&PostParams::default(), &claim("a-server-sessions")?).await?;
        world.agent("a", json!({"persistence": {"sessions": {}}})).await?;
        let conflict = |agent: &Agent| conditions(agent, "Accepted") == "False NameConflict";
        let agent = world.agent_is("a", "its condition", conflict).await?;
        ensure!(condition_message(&agent, "Accepted").contains("PersistentVolumeClaim"), "{:?}", agent.status);
        ensure!(world.api::<Deployment>().get_opt("a-server").await?.is_none(), "a server would write to it");
        world.delete::<PersistentVolumeClaim>("a-server-sessions").await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        Ok(())
    })
    .await
}

async fn a_claim_that_cannot_change_says_so() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"persistence": {"sessions": {"size": "2Gi"}}})).await?;
        world.merge::<Agent>("a", json!({"spec": {"persistence": {"sessions": {"size": "1Gi"}}}})).await?;
        let kept = |agent: &Agent| conditions(agent, "PersistenceApplied") == "False ClaimKept";
        let agent = world.agent_is("a", "its condition", kept).await?;
        let message = condition_message(&agent, "PersistenceApplied");
        ensure!(message.contains("claim 'a-server-sessions'") && message.contains("cannot shrink to 1Gi"), "{message}");
        ensure!(conditions(&agent, "Accepted") == "True Valid", "the rest goes on: {:?}", agent.status);
        world.merge::<Agent>("a", json!({"spec": {"persistence": {"sessions": {"size": "2048Mi"}}}})).await?;
        world.agent_is("a", "nothing of it", |agent| conditions(agent, "PersistenceApplied").is_empty()).await?;
        Ok(())
    })
    .await
}

/// How much a claim asks for.
fn size(claim: &PersistentVolumeClaim) -> String {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    requests.unwrap_or_default().remove("storage").map(|size| size.0).unwrap_or_default()
}

async fn a_claim_grows() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    // Only storage that can grow does, and only once it is there.
    let classes: Api<StorageClass> = Api::all(world.client.clone());
    let class =
        json!({"metadata": {"name": world.namespace}, "provisioner": "example.com/none", "allowVolumeExpansion": true});
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        let sessions =
            |size: &str| json!({"persistence": {"sessions": {"size": size, "storageClassName": world.namespace}}});
        world.agent("a", sessions("1Gi")).await?;
        let claims = world.record::<PersistentVolumeClaim>();
        claims.until_object("a-server-sessions", "there", |claim| size(claim) == "1Gi").await?;
        let bound = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        world.merge_status::<PersistentVolumeClaim>("a-server-sessions", bound).await?;
        world.merge::<Agent>("a", json!({"spec": sessions("2Gi")})).await?;
        claims.until_object("a-server-sessions", "larger", |claim| size(claim) == "2Gi").await?;
        controller.terminate().await
    };
    let outcome = explain(outcome.await, world, &[&controller]);
    classes.delete(&world.namespace, &DeleteParams::default()).await?;
    outcome
}

fn ports(service: &Service) -> Vec<(String, i32)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.name.clone().unwrap_or_default(), port.port)).collect()
}

async fn ports_of_a_template_are_on_the_service() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"extraPorts": [{"name": "web", "port": 8080}]})).await?;
        world.agent("a", json!({"templateRef": {"name": "t"}})).await?;
        let services = world.record::<Service>();
        let has = |wanted: &'static [(&'static str, i32)]| {
            move |service: &Service| {
                let all = ports(service);
                let own = all.iter().filter(|(name, _)| name != "companion");
                own.map(|(name, port)| (name.as_str(), *port)).eq(wanted.iter().copied())
            }
        };
        services.until_object("a", "the template's port", has(&[("http", 4096), ("web", 8080)])).await?;
        world.merge::<AgentTemplate>("t", json!({"spec": {"extraPorts": null}})).await?;
        services.until_object("a", "no other port", has(&[("http", 4096)])).await?;
        world.merge::<Agent>("a", json!({"spec": {"extraPorts": [{"name": "metrics", "port": 9000}]}})).await?;
        services.until_object("a", "its own port", has(&[("http", 4096), ("metrics", 9000)])).await?;
        Ok(())
    })
    .await
}

async fn a_port_that_is_taken_is_refused_before_anything_is_made() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"extraPorts": [{"name": "web", "port": 4096}]})).await?;
        let refused = |agent: &Agent| conditions(agent, "Accepted") == "False PodCreationError";
        let agent = world.agent_is("a", "its condition", refused).await?;
        ensure!(condition_message(&agent, "Accepted").contains("4096"), "{:?}", agent.status);
        ensure!(conditions(&agent, "ConfigValid") == "True Valid", "what came before it: {:?}", agent.status);
        ensure!(world.api::<ConfigMap>().get_opt("a-server-context").await?.is_none(), "a ConfigMap was created");
        world.merge::<Agent>("a", json!({"spec": {"extraPorts": [{"name": "web", "port": 80}]}})).await?;
        world.agent_is("a", "its health", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        Ok(())
    })
    .await
}

async fn an_agent_carries_the_name_of_its_template() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("one", json!({})).await?;
        world.template("two", json!({})).await?;
        let named = |name: &'static str| {
            move |agent: &Agent| {
                let label = agent.metadata.labels.as_ref().and_then(|all| all.get("kubeopencode.io/agent-template"));
                label.map_or("", String::as_str) == name
            }
        };
        let uses = async |world: &World, template: Value| {
            world.merge::<Agent>("a", json!({"spec": {"templateRef": template}})).await.map(drop)
        };
        world.agent("a", json!({"templateRef": {"name": "one"}})).await?;
        world.agent_is("a", "the first", named("one")).await?;
        uses(&world, json!({"name": "two"})).await?;
        world.agent_is("a", "the second", named("two")).await?;
        uses(&world, Value::Null).await?;
        world.agent_is("a", "none", named("")).await?;
        Ok(())
    })
    .await
}
