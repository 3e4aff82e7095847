//! Tasks in Pods of their own.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::{Task, TaskPhase};
use blackbox::{cases, git_server::GitServer, runner::Case};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{LIMIT, with_world};

pub const CASES: &[Case] = cases![
    an_image_that_does_not_exist_is_named,
    a_task_calls_tools_and_ends_with_its_usage,
    contexts_are_there_before_the_agent_starts,
    a_stopped_task_gets_a_signal_and_keeps_its_log,
    a_task_that_takes_too_long_is_stopped,
    a_task_that_needs_too_much_memory_says_so,
    a_model_that_refuses_the_key_is_named,
    a_command_of_ones_own_runs_under_the_shim,
    a_task_waits_for_room_in_the_quota_of_its_namespace,
    other_pods_are_held_to_the_same_rules,
];

async fn a_task_calls_tools_and_ends_with_its_usage() -> anyhow::Result<()> {
    with_world(async |world| {
        world.template("t", json!({})).await?;
        let token = &world.namespace;
        // The output of the shell is not in the prompt, so only a tool that really ran can have produced it.
        let description = format!(
            "[[write path=hello.txt text=\"hi there\"]] \
             [[bash cmd=\"echo $(cat hello.txt) $((40 + 2)) {token} as $(id -u) in $PWD; git --version; which opencode\"]] \
             [[tool name=grep args=\"{{\\\"pattern\\\": \\\"there\\\"}}\"]] [[say All is written]]"
        );
        world.task("hello", json!({"templateRef": {"name": "t"}, "description": description})).await?;
        let status = world.succeeds("hello").await?;
        let expected = format!("hi there 42 {token} as 1000 in /workspace");
        ensure!(world.model_received(&expected), "the tool did not run: {}", world.logs("hello"));
        ensure!(world.model_received("/tools/opencode"), "/tools is not in front of PATH");
        ensure!(!world.model_received("ripgrep execution failed"), "no ripgrep");
        ensure!(status.exit_code == Some(0), "{status:?}");
        let usage = status.usage.clone().context("no usage")?;
        ensure!(usage.tokens.is_some_and(|tokens| tokens.input > 1000 && tokens.output > 0), "{status:?}");
        let summary = status.result.and_then(|result| result.summary);
        ensure!(summary.as_deref() == Some("All is written"), "{summary:?}");
        ensure!(status.session.and_then(|session| session.id).is_some_and(|id| id.starts_with("ses_")), "no session");
        let log = world.logs("hello");
        ensure!(log.contains("[tool] write") && log.contains("All is written"), "{log}");
        ensure!(log.contains(&format!("\n    {expected}\n")) && !log.contains('\u{1b}'), "{log}");
        let records = world.kubectl(&["logs", "hello-pod", "-c", "session"])?;
        let mut records = records.lines().map(serde_json::from_str::<Value>);
        ensure!(records.any(|record| record.is_ok_and(|record| record["part"]["tool"] == "bash")), "no record");
        Ok(())
    })
    .await
}

async fn contexts_are_there_before_the_agent_starts() -> anyhow::Result<()> {
    with_world(async |world| {
        let token = &world.namespace;
        let server = GitServer::start(testenv::HOST_ADDRESS, &[("README.md", &format!("from git {token}\n"))]).await?;
        let data = json!({"data": {"writing.md": format!("from a ConfigMap {token}"), "more.md": "more"}});
        world.create::<ConfigMap>("style", data).await?;
        world.template("t", json!({})).await?;
        let contexts = json!([
            {"name": "notes", "type": "Text", "text": format!("from a text {token}")},
            {"name": "file", "type": "Text", "mountPath": "notes/file.md", "text": format!("from a file {token}")},
            {"name": "style", "type": "ConfigMap", "mountPath": "style/", "configMap": {"name": "style"}},
            {"name": "repo", "type": "Git", "mountPath": "repo", "git": {"repository": server.url(), "ref": "main"}},
            {"name": "gone", "type": "URL", "mountPath": "gone.md", "optional": true,
             "url": {"source": format!("http://{}:9/nobody", testenv::HOST_ADDRESS)}},
        ]);
        let script = "[[bash cmd=\"cat notes/file.md style/writing.md repo/README.md; git -C repo log --oneline\"]]";
        let spec = json!({"templateRef": {"name": "t"}, "description": script, "contexts": contexts});
        world.task("read", spec).await?;
        world.succeeds("read").await?;
        for source in ["a text", "a file", "a ConfigMap", "git"] {
            let text = format!("from {source} {token}");
            ensure!(world.model_received(&text), "the model did not receive {text:?}: {}", world.logs("read"));
        }
        Ok(())
    })
    .await
}

async fn a_stopped_task_gets_a_signal_and_keeps_its_log() -> anyhow::Result<()> {
    with_world(async |world| {
        // The shim itself kills nothing before the node does, which would be exit code 137: 143 means that the signal did
        // it.
        let patient = json!([{"name": "SHIM_GRACE_SECONDS", "value": "3600"}]);
        world.template("t", json!({"podSpec": {"extraEnv": patient}})).await?;
        let token = &world.namespace;
        let script = format!("[[bash cmd=\"echo started-{token}\"]] [[bash cmd=\"sleep 300\"]] [[say never]]");
        world.task("endless", json!({"templateRef": {"name": "t"}, "description": script})).await?;
        world.until_model_received(&format!("started-{token}\\n")).await?;
        world.stop("endless").await?;
        let status = world.ends("endless", TaskPhase::Completed, "UserStopped").await?;
        ensure!(status.exit_code == Some(143), "{status:?}");
        let log = world.kubectl(&["logs", "endless-pod"])?;
        ensure!(log.contains(&format!("started-{token}")) && log.contains("stopped"), "{log}");
        Ok(())
    })
    .await
}

async fn a_task_that_takes_too_long_is_stopped() -> anyhow::Result<()> {
    with_world(async |world| {
        world.template("t", json!({})).await?;
        let spec = json!({"templateRef": {"name": "t"}, "description": "[[hang]] silence", "timeout": "8s"});
        world.task("slow", spec).await?;
        let status = world.ends("slow", TaskPhase::Completed, "Timeout").await?;
        ensure!(status.exit_code == Some(143), "{status:?}");
        ensure!(world.kubectl(&["logs", "slow-pod"])?.contains("stopped"), "the log is gone");
        Ok(())
    })
    .await
}

async fn a_task_that_needs_too_much_memory_says_so() -> anyhow::Result<()> {
    with_world(async |world| {
        let little = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "160Mi"}});
        world.template("t", json!({"podSpec": {"resources": little}})).await?;
        world.task("big", json!({"templateRef": {"name": "t"}, "description": "[[say never]]"})).await?;
        world.ends("big", TaskPhase::Failed, "OOMKilled").await?;
        Ok(())
    })
    .await
}

async fn a_model_that_refuses_the_key_is_named() -> anyhow::Result<()> {
    with_world(async |world| {
        world.template("t", json!({})).await?;
        world.task("refused", json!({"templateRef": {"name": "t"}, "description": "[[status 401]]"})).await?;
        let status = world.ends("refused", TaskPhase::Failed, "ModelError").await?;
        ensure!(status.message.as_deref().is_some_and(|message| message.contains("401")), "{status:?}");
        Ok(())
    })
    .await
}

async fn an_image_that_does_not_exist_is_named() -> anyhow::Result<()> {
    with_world(async |world| {
        world.template("t", json!({"executorImage": "registry.invalid/nobody/nothing:1"})).await?;
        world.task("lost", json!({"templateRef": {"name": "t"}, "description": "[[say never]]"})).await?;
        let status = world.ends("lost", TaskPhase::Failed, "ImagePullFailed").await?;
        let message = status.message.unwrap_or_default();
        ensure!(message.contains("registry.invalid/nobody/nothing:1"), "{message}");
        Ok(())
    })
    .await
}

async fn a_command_of_ones_own_runs_under_the_shim() -> anyhow::Result<()> {
    with_world(async |world| {
        let command = json!(["sh", "-c", "echo path=$PATH; cat task.md; exit 7"]);
        world.template("t", json!({ "command": command })).await?;
        world.task("own", json!({"templateRef": {"name": "t"}, "description": "what to do"})).await?;
        let status = world.ended("own").await?;
        let log = world.logs("own");
        ensure!(status.phase == Some(TaskPhase::Failed) && status.exit_code == Some(7), "{status:?}\n{log}");
        ensure!(log.contains("path=/tools:") && log.contains("what to do"), "{log}");
        Ok(())
    })
    .await
}

async fn a_task_waits_for_room_in_the_quota_of_its_namespace() -> anyhow::Result<()> {
    with_world(async |world| {
        world.template("t", json!({"command": ["sh", "-c", "echo there was room"]})).await?;
        world.create::<ResourceQuota>("none", json!({"spec": {"hard": {"pods": "0"}}})).await?;
        let counted = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.hard.is_some());
        world.until::<ResourceQuota>("none", "to be counted", counted).await?;
        world.task("patient", json!({"templateRef": {"name": "t"}})).await?;
        let message = |task: &Task| task.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
        let refused = |task: &Task| message(task).contains("exceeded quota: none");
        world.until::<Task>("patient", "to say what it waits for", refused).await?;
        world.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await?;
        let status = world.succeeds("patient").await?;
        ensure!(status.run_epoch == Some(1), "{status:?}");
        ensure!(!status.message.unwrap_or_default().contains("quota"), "it still speaks of the quota");
        Ok(())
    })
    .await
}

/// Without this the other cases would prove nothing about restricted namespaces.
async fn other_pods_are_held_to_the_same_rules() -> anyhow::Result<()> {
    with_world(async |world| {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
            "spec": {"containers": [{"name": "c", "image": "testenv.local/busybox:1"}]},
        });
        let pod: Pod = serde_json::from_value(object)?;
        // The rules are labels of the namespace, which admission observes a moment later.
        let (pods, trial) = (world.api::<Pod>(), PostParams { dry_run: true, ..PostParams::default() });
        let refused = async || pods.create(&trial, &pod).await.is_err_and(|e| e.to_string().contains("PodSecurity"));
        let deadline = Instant::now() + LIMIT;
        while !refused().await {
            ensure!(Instant::now() < deadline, "a plain Pod is admitted");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    })
    .await
}
