//! Tasks on an Agent's server.

use std::time::{Duration, Instant};

use anyhow::ensure;
use api::TaskPhase;
use blackbox::{cases, runner::Case};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::sleep;

use crate::world::{LIMIT, World, with_world};

pub const CASES: &[Case] = cases![an_agents_server_serves_its_tasks];

/// One case, since a server takes a while to start.
async fn an_agents_server_serves_its_tasks() -> anyhow::Result<()> {
    with_world(async |world| {
        world.ready_agent("a", json!({})).await?;
        the_server_has_a_password(world).await?;
        five_at_once(world).await?;
        contexts_are_delivered(world).await?;
        a_stop_aborts_the_session(world).await?;
        a_refusal_is_named(world).await
    })
    .await
}

async fn the_server_has_a_password(world: &World) -> anyhow::Result<()> {
    let pods = world.api::<Pod>().list(&ListParams::default().labels("kubeopencode.io/agent=a")).await?;
    let name = pods.items.first().and_then(|pod| pod.metadata.name.clone()).unwrap_or_default();
    let ask = |args: &[&str]| world.kubectl(&[&["exec", &name, "-c", "opencode-server", "--"], args].concat());
    ask(&["/tools/kubeopencode", "probe"])?;
    let refused = ask(&["env", "OPENCODE_SERVER_PASSWORD=wrong", "/tools/kubeopencode", "probe"]);
    ensure!(refused.is_err_and(|error| error.to_string().contains("HTTP 401")), "a wrong password is taken");
    Ok(())
}

async fn five_at_once(world: &World) -> anyhow::Result<()> {
    let token = &world.namespace;
    try_join_all((0..5).map(async |number| {
        let name = format!("five-{number}");
        let script = format!(
            "[[write path=five-{number}.txt text=\"number {number}\"]] \
             [[bash cmd=\"echo $(cat five-{number}.txt) $((40 + {number})) {token}\"]] [[say done {number}]]"
        );
        world.task(&name, json!({"agentRef": {"name": "a"}, "description": script})).await?;
        let status = world.succeeds(&name).await?;
        let expected = format!("number {number} {} {token}", 40 + number);
        ensure!(world.model_received(&expected), "the tool did not run: {}", world.logs(&name));
        ensure!(status.usage.and_then(|usage| usage.tokens).is_some_and(|tokens| tokens.input > 1000), "no usage");
        let summary = status.result.and_then(|result| result.summary);
        ensure!(summary.as_deref() == Some(format!("done {number}").as_str()), "{summary:?}");
        let log = world.logs(&name);
        ensure!(log.contains(&format!("done {number}")), "{log}");
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

async fn contexts_are_delivered(world: &World) -> anyhow::Result<()> {
    let token = &world.namespace;
    let contexts = json!([
        {"name": "notes", "type": "Text", "text": format!("from a text {token}")},
        {"name": "file", "type": "Text", "mountPath": "docs/file.md", "text": format!("from a file {token}")},
    ]);
    let script = "[[bash cmd=\"cat .kubeopencode/tasks/reader/docs/file.md\"]] [[say read]]";
    world.task("reader", json!({"agentRef": {"name": "a"}, "description": script, "contexts": contexts})).await?;
    world.succeeds("reader").await?;
    for source in ["a text", "a file"] {
        let text = format!("from {source} {token}");
        ensure!(world.model_received(&text), "the model did not receive {text:?}: {}", world.logs("reader"));
    }
    let log = world.kubectl(&["logs", "reader-pod", "-c", "prep"])?;
    ensure!(log.contains("/workspace/.kubeopencode/tasks/reader in the Agent's workspace"), "{log}");
    // The companion takes no one at their word, and the agent does not know the word.
    let environment = world.kubectl(&["exec", "deployment/a-server", "-c", "opencode-server", "--", "env"])?;
    ensure!(!environment.contains("COMPANION"), "{environment}");

    // They go with their Task.
    let list = ["exec", "deployment/a-server", "-c", "opencode-server", "--", "ls", ".kubeopencode/tasks"];
    ensure!(world.kubectl(&list)? == "reader\n", "they are not there");
    world.kubectl(&["delete", "task", "reader"])?;
    let deleted = Instant::now();
    while !world.kubectl(&list)?.is_empty() {
        ensure!(deleted.elapsed() < LIMIT, "they are still there");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn a_stop_aborts_the_session(world: &World) -> anyhow::Result<()> {
    let token = &world.namespace;
    let script = format!("[[bash cmd=\"echo started-{token}\"]] [[bash cmd=\"sleep 300\"]] [[say never]]");
    world.task("endless", json!({"agentRef": {"name": "a"}, "description": script})).await?;
    world.until_model_received(&format!("started-{token}\\n")).await?;
    world.stop("endless").await?;
    let status = world.ends("endless", TaskPhase::Completed, "UserStopped").await?;
    // The client is PID 1 of its container: a kill by the node would be exit code 137 without a last line in the log.
    let log = world.kubectl(&["logs", "endless-pod"])?;
    ensure!(status.exit_code == Some(143) && log.contains("session aborted"), "{status:?}\n{log}");
    Ok(())
}

async fn a_refusal_is_named(world: &World) -> anyhow::Result<()> {
    world.task("refused", json!({"agentRef": {"name": "a"}, "description": "[[status 401]]"})).await?;
    world.ends("refused", TaskPhase::Failed, "ModelError").await?;
    Ok(())
}
