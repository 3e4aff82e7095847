//! Agents that are deleted and created again under the same name.

use anyhow::ensure;
use api::Agent;
use blackbox::{cases, runner::Case};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::Resource;
use serde_json::json;

use crate::world::shared;

pub const CASES: &[Case] = cases![an_agent_that_is_made_again_at_once_has_a_server_of_its_own];

/// The UID of the controller of an object, unless the object is being deleted.
fn owner<K: Resource>(object: &K) -> Option<String> {
    let meta = object.meta();
    let mut owners = meta.owner_references.iter().flatten().filter(|owner| owner.controller == Some(true));
    owners.next().filter(|_| meta.deletion_timestamp.is_none()).map(|owner| owner.uid.clone())
}

async fn an_agent_that_is_made_again_at_once_has_a_server_of_its_own() -> anyhow::Result<()> {
    shared(async |world| {
        let (agents, deployments, services) =
            (world.record::<Agent>(), world.record::<Deployment>(), world.record::<Service>());
        let mut agent = world.agent("a", json!({})).await?;
        for round in 0..3 {
            let uid = agent.metadata.uid.clone();
            let ready = |agent: &Agent| {
                agent.metadata.uid == uid && agent.status.as_ref().and_then(|status| status.ready) == Some(true)
            };
            agents.until_object("a", "ready", ready).await?;
            deployments.until_object("a-server", "that of the Agent", |object| owner(object) == uid).await?;
            services.until_object("a", "that of the Agent", |object| owner(object) == uid).await?;
            let task = format!("task-{round}");
            world.task(&task, json!({"agentRef": {"name": "a"}})).await?;
            world.succeeds(&task).await?;
            let (deployment, service) = (world.deployment("a").await?, world.api::<Service>().get("a").await?);
            ensure!(owner(&deployment) == uid && owner(&service) == uid, "{deployment:?} {service:?}");
            world.delete::<Agent>("a").await?;
            agent = world.agent("a", json!({})).await?;
        }
        world.each_run_has_one_pod()
    })
    .await
}
