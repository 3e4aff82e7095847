//! Files that Tasks delivered to their Agent's workspace are removed with them.

use anyhow::ensure;
use api::{Agent, Task};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
};
use serde_json::{Value, json};

use crate::{
    agent_server::AgentServer,
    restart::pretend_ready,
    world::{Alone, World, explain, shared},
};

pub const CASES: &[Case] =
    cases![delivered_files_go_with_their_task_and_no_others, files_of_tasks_that_went_while_nobody_watched_are_found,];

/// An Agent at whose address `server` stands.
fn agent(server: &AgentServer) -> Value {
    json!({"port": server.port, "workspaceDir": server.workspace()})
}

async fn task(world: &World, name: &str) -> anyhow::Result<()> {
    world.hold(name);
    world.task(name, json!({"agentRef": {"name": "a"}})).await?;
    world.works(name).await.map(drop)
}

async fn delivered_files_go_with_their_task_and_no_others() -> anyhow::Result<()> {
    shared(async |world| {
        let server = AgentServer::start().await?;
        world.ready_agent("a", agent(&server)).await?;
        server.stand_in(&world, "a").await?;
        for name in ["first", "second", "third"] {
            task(&world, name).await?;
            server.deliver(name)?;
        }
        // Neither is a Task of this Agent: a stranger's directory stays, one that a Task could have left does not.
        server.deliver("Strange Name")?;
        world.template("t", json!({})).await?;
        world.task("elsewhere", json!({"templateRef": {"name": "t"}})).await?;
        server.deliver("elsewhere")?;

        world.delete::<Task>("first").await?;
        server.until_delivered(&["second", "third", "Strange Name"]).await?;
        ensure!(!server.requests().iter().any(|request| request.contains("..")), "{:?}", server.requests());

        // A suspended Agent cannot be reached; its files are removed when it resumes.
        world.merge::<Agent>("a", json!({"spec": {"suspend": true}})).await?;
        let asleep = |agent: &Agent| agent.status.as_ref().and_then(|status| status.ready) == Some(false);
        world.agent_is("a", "asleep", asleep).await?;
        world.delete::<Task>("second").await?;
        world.tasks.until_gone("second").await?;
        world.merge::<Agent>("a", json!({"spec": {"suspend": false}})).await?;
        let awake = |agent: &Agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true);
        world.agent_is("a", "awake", awake).await?;
        server.stand_in(&world, "a").await?;
        server.until_delivered(&["third", "Strange Name"]).await
    })
    .await
}

async fn files_of_tasks_that_went_while_nobody_watched_are_found() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let server = AgentServer::start().await?;
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.agent("a", agent(&server)).await?;
    pretend_ready(world, "a").await?;
    server.stand_in(world, "a").await?;
    for name in ["stays", "goes"] {
        task(world, name).await?;
        server.deliver(name)?;
    }
    first.kill().await?;
    // There is no garbage collector here, so the case deletes the Pod.
    world.delete::<Task>("goes").await?;
    world.delete::<k8s_openapi::api::core::v1::Pod>("goes-pod").await?;
    world.pods.until_gone("goes-pod").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    explain(server.until_delivered(&["stays"]).await, world, &[&next])
}
