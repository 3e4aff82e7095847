//! Agents that follow a repository by roll-out.

use std::{net::Ipv4Addr, sync::Arc};

use anyhow::{Context as _, ensure};
use api::Agent;
use blackbox::{
    cases,
    git_server::{GitServer, Manner},
    history::History,
    runner::Case,
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::world::{World, condition, shared};

pub const CASES: &[Case] = cases![
    a_new_commit_is_rolled_out_as_soon_as_no_task_runs,
    a_repository_that_cannot_be_read_is_named_and_not_asked_again_and_again,
    a_repository_is_asked_by_way_of_the_agents_own_proxy,
    another_ref_is_rolled_out_once,
    a_repository_over_ssh_is_asked_too,
];

fn follows(repository: &str, interval: &str) -> Value {
    let sync = json!({"enabled": true, "policy": "Rollout", "interval": interval});
    json!([{"name": "docs", "type": "Git", "mountPath": "docs",
            "git": {"repository": repository, "ref": "main", "sync": sync}}])
}

/// Status, reason and message of the condition.
fn pending(agent: &Agent) -> (String, String) {
    let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == "GitSyncPending");
    (condition(conditions, "GitSyncPending"), found.map(|found| found.message.clone()).unwrap_or_default())
}

/// The commit that the Pods of a Deployment should have.
fn commit(deployment: &Deployment) -> Option<String> {
    let metadata = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get("kubeopencode.io/git-hash-docs").cloned()
}

/// Changes an Agent, and waits until a reconciliation has observed the change.
async fn change(world: &World, agents: &History<Agent>, patch: Value) -> anyhow::Result<Arc<Agent>> {
    let changed = world.merge::<Agent>("a", patch).await?.metadata.generation;
    let observed = |agent: &Agent| agent.status.as_ref().and_then(|status| status.observed_generation) >= changed;
    agents.until_object("a", "observed", observed).await
}

async fn a_new_commit_is_rolled_out_as_soon_as_no_task_runs() -> anyhow::Result<()> {
    shared(async |world| {
        // With a certificate that only the Agent's own bundle vouches for.
        let manner = Manner { tls: true, ..Manner::default() };
        let server = GitServer::start_with(Ipv4Addr::LOCALHOST, &[("README.md", "one")], manner).await?;
        world.config_map("authorities", json!({"ca-bundle.crt": server.authority()})).await?;
        let (agents, deployments) = (world.record::<Agent>(), world.record::<Deployment>());
        let bundle = json!({"configMapRef": {"name": "authorities"}});
        let contexts = follows(&server.url(), "10s");
        world.ready_agent("a", json!({"contexts": contexts, "caBundle": bundle})).await?;
        let synced = agents.until_object("a", "synced", |agent| pending(agent).0 == "False Synced").await?;
        let statuses = synced.status.as_ref().and_then(|status| status.git_sync_statuses.clone()).unwrap_or_default();
        let first = statuses.first().and_then(|status| status.commit_hash.clone());
        ensure!(first.is_some() && commit(&world.deployment("a").await?) == first, "{statuses:?}");

        world.hold("busy");
        world.task("busy", json!({"agentRef": {"name": "a"}})).await?;
        world.works("busy").await?;
        let second = server.commit("README.md", "two").await?;
        let waits = |agent: &Agent| pending(agent).0 == "True WaitingForTasks";
        agents.until_object("a", "the new commit", waits).await?;
        // The next poll is in an hour, and a pass without a poll keeps the result.
        let asked = server.requests();
        let agent = change(&world, &agents, json!({"spec": {"contexts": follows(&server.url(), "1h")}})).await?;
        ensure!(waits(&agent), "it forgot what waits: {:?}", pending(&agent));
        ensure!(server.requests() == asked && commit(&world.deployment("a").await?) == first, "it did not wait");
        world.finish("busy");
        world.succeeds("busy").await?;
        deployments.until_object("a-server", "the new commit", |d| commit(d).as_ref() == Some(&second)).await?;
        agents.until_object("a", "synced", |agent| pending(agent).0 == "False Synced").await?;
        Ok(())
    })
    .await
}

async fn a_repository_that_cannot_be_read_is_named_and_not_asked_again_and_again() -> anyhow::Result<()> {
    shared(async |world| {
        let manner = Manner { refuse_first: u32::MAX, ..Manner::default() };
        let server = GitServer::start_with(Ipv4Addr::LOCALHOST, &[("README.md", "one")], manner).await?;
        let agents = world.record::<Agent>();
        world.agent("a", json!({"contexts": follows(&server.url(), "1h")})).await?;
        let failed = |agent: &Agent| pending(agent).0 == "True ReferenceNotFound";
        let agent = agents.until_object("a", "its condition", failed).await?;
        let expected = "context 'docs': 127.0.0.1 answered 500 Internal Server Error";
        ensure!(pending(&agent).1 == expected, "{:?}", pending(&agent));
        for number in 0..3 {
            let agent = change(&world, &agents, json!({"spec": {"profile": format!("p{number}")}})).await?;
            ensure!(failed(&agent), "{:?}", pending(&agent));
        }
        ensure!(server.requests() == 1, "it was asked {} times", server.requests());

        // The metadata service of a cloud is not a repository.
        let metadata = follows("http://169.254.169.254/repo.git", "1h");
        world.merge::<Agent>("a", json!({"spec": {"contexts": null}})).await?;
        agents.until_object("a", "nothing to follow", |agent| pending(agent).0.is_empty()).await?;
        world.merge::<Agent>("a", json!({"spec": {"contexts": metadata}})).await?;
        let agent = agents.until_object("a", "its condition", failed).await?;
        ensure!(pending(&agent).1.contains("169.254.169.254 is a link-local or metadata address"), "{agent:?}");
        Ok(())
    })
    .await
}

async fn a_repository_is_asked_by_way_of_the_agents_own_proxy() -> anyhow::Result<()> {
    shared(async |world| {
        // It answers for every host, as a proxy does. The one that is asked for has no address.
        let server = GitServer::start(Ipv4Addr::LOCALHOST, &[("README.md", "one")]).await?;
        let url = server.url();
        let (proxy, path) = url.rsplit_once('/').context("a repository has a path")?;
        let contexts = follows(&format!("http://git.example.invalid/{path}"), "1h");
        let agents = world.record::<Agent>();
        world.agent("a", json!({"contexts": contexts, "proxy": {"httpProxy": proxy}})).await?;
        agents.until_object("a", "synced", |agent| pending(agent).0 == "False Synced").await?;
        ensure!(server.requests() == 1, "it was asked {} times", server.requests());
        Ok(())
    })
    .await
}

async fn another_ref_is_rolled_out_once() -> anyhow::Result<()> {
    shared(async |world| {
        let server = GitServer::start(Ipv4Addr::LOCALHOST, &[]).await?;
        let stable = server.commit("README.md", "one").await?;
        server.branch("stable").await?;
        let newest = server.commit("README.md", "two").await?;
        let (agents, deployments) = (world.record::<Agent>(), world.record::<Deployment>());
        let mut contexts = follows(&server.url(), "1h");
        world.agent("a", json!({ "contexts": contexts })).await?;
        deployments.until_object("a-server", "the commit", |d| commit(d).as_ref() == Some(&newest)).await?;
        agents.until_object("a", "synced", |agent| pending(agent).0 == "False Synced").await?;
        let before = world.deployment("a").await?.metadata.generation;

        contexts[0]["git"]["ref"] = json!("stable");
        let agent = change(&world, &agents, json!({"spec": {"contexts": contexts}})).await?;
        let after = world.deployment("a").await?;
        ensure!(commit(&after) == Some(stable), "it has {:?}: {:?}", commit(&after), pending(&agent));
        ensure!(after.metadata.generation == before.map(|before| before + 1), "{before:?} {:?}", after.metadata);
        Ok(())
    })
    .await
}

async fn a_repository_over_ssh_is_asked_too() -> anyhow::Result<()> {
    shared(async |world| {
        let agents = world.record::<Agent>();
        // The port is closed, and there may be no ssh here; either way it was tried.
        world.agent("a", json!({"contexts": follows("ssh://git@127.0.0.1:9/repo.git", "1h")})).await?;
        let failed = |agent: &Agent| pending(agent).0 == "True ReferenceNotFound";
        let agent = agents.until_object("a", "its condition", failed).await?;
        let tried = [
            "context 'docs': no answer from 127.0.0.1: it cannot be reached",
            "context 'docs': the controller has no ssh; use an https repository",
        ];
        ensure!(tried.contains(&pending(&agent).1.as_str()), "{:?}", pending(&agent));
        Ok(())
    })
    .await
}
