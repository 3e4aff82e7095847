//! A session ends with its run, also when the Pod cannot abort it.

use anyhow::{Context as _, ensure};
use api::Task;
use blackbox::{
    cases,
    runner::Case,
    stub_kubelet::{Act, End},
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    agent_server::AgentServer,
    world::{World, shared},
};

pub const CASES: &[Case] = cases![
    a_session_whose_client_was_killed_is_aborted_and_no_other,
    a_session_whose_task_was_deleted_with_its_node_is_aborted,
];

/// A Task that works on Agent a, in the session `ses_NAME`.
async fn works(world: &World, server: &AgentServer, name: &str, act: Act) -> anyhow::Result<()> {
    world.kubelet.script(name, act);
    let task = world.task(name, json!({"agentRef": {"name": "a"}})).await?;
    world.works(name).await?;
    server.works_for(&format!("ses_{name}"), &task.metadata.uid.context("no UID")?, 1);
    Ok(())
}

async fn agent(world: &World) -> anyhow::Result<AgentServer> {
    let server = AgentServer::start().await?;
    world.ready_agent("a", json!({"port": server.port})).await?;
    server.stand_in(world, "a").await?;
    Ok(server)
}

async fn a_session_whose_client_was_killed_is_aborted_and_no_other() -> anyhow::Result<()> {
    shared(async |world| {
        let server = agent(&world).await?;
        for name in ["killed", "over", "good", "other"] {
            works(&world, &server, name, Act::Hold).await?;
        }
        server.session("ses_child", None, Some("ses_killed"));
        server.works_on("ses_child");
        server.session("ses_person", None, None);
        server.works_on("ses_person");

        // Its client saw the end of its session. A later user of the session is not the Task.
        let report = json!({"outcome": "Failed", "reason": "ModelError", "message": "500", "sessionID": "ses_over"});
        world.kubelet.script("over", Act::End(End { code: 1, reason: "Error", message: report.to_string() }));
        world.fails("over", "ModelError").await?;
        world.finish("good");
        world.succeeds("good").await?;
        ensure!(!server.requests().contains(&"GET /session/status".to_owned()), "{:?}", server.requests());

        world.kubelet.script("killed", Act::exit(137, "OOMKilled"));
        world.fails("killed", "OOMKilled").await?;
        server.until_busy(&["ses_over", "ses_good", "ses_other", "ses_person"]).await
    })
    .await
}

async fn a_session_whose_task_was_deleted_with_its_node_is_aborted() -> anyhow::Result<()> {
    shared(async |world| {
        let server = agent(&world).await?;
        works(&world, &server, "lost", Act::Deaf).await?;
        works(&world, &server, "other", Act::Hold).await?;
        world.delete::<Task>("lost").await?;
        world.tasks.until_gone("lost").await?;
        world.api::<Pod>().delete("lost-pod", &DeleteParams::default().grace_period(0)).await?;
        server.until_busy(&["ses_other"]).await
    })
    .await
}
