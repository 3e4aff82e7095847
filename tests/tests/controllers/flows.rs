//! From a Task to its final status.

use anyhow::ensure;
use api::{Task, TaskPhase};
use blackbox::{cases, runner::Case};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use crate::world::{condition, message, reason, shared};

pub const CASES: &[Case] = cases![
    a_task_on_a_template_runs_in_its_own_pod_and_tells_all_in_its_final_status,
    a_task_on_an_agent_waits_for_its_server_and_runs,
    a_task_created_before_its_agent_runs_once_the_agent_is_there,
    a_task_created_before_its_template_runs_once_the_template_is_there,
    a_task_stopped_while_it_runs_keeps_its_pod_and_log,
];

async fn a_task_on_a_template_runs_in_its_own_pod_and_tells_all_in_its_final_status() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let task = world.task("hello", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.succeeds("hello").await?;

        ensure!(status.phase == Some(TaskPhase::Completed), "{status:?}");
        ensure!((status.run_epoch, status.attempt, status.exit_code) == (Some(1), Some(1), Some(0)), "{status:?}");
        ensure!(status.pod_name.as_deref() == Some("hello-pod"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Ready") == "True Succeeded", "{status:?}");
        ensure!(status.start_time.is_some() && status.completion_time.is_some(), "{status:?}");
        let timings = status.timings.clone().unwrap_or_default();
        ensure!(timings.admitted_at.is_some() && timings.pod_created_at.is_some(), "{timings:?}");
        ensure!(timings.scheduled_at.is_some() && timings.prepared_at.is_some(), "{timings:?}");
        let session = status.session.clone().unwrap_or_default();
        let title = format!("kubeopencode/{}/hello/", world.namespace);
        ensure!(session.id.as_deref() == Some("ses_1"), "{session:?}");
        ensure!(session.title.is_some_and(|found| found.starts_with(&title)), "the session has another title");
        let usage = status.usage.clone().unwrap_or_default();
        ensure!(usage.cost.as_deref() == Some("0.250000"), "{usage:?}");
        ensure!(usage.tokens.is_some_and(|tokens| (tokens.input, tokens.cache) == (10, 3)), "{usage:?}");
        let summary = status.result.clone().and_then(|result| result.summary);
        ensure!(summary.as_deref() == Some("all is well"), "{summary:?}");
        ensure!(status.observed_generation == task.metadata.generation, "{status:?}");

        let pod: Pod = world.api().get("hello-pod").await?;
        ensure!(status.pod_uid == pod.metadata.uid, "{status:?}");
        let owner = pod.metadata.owner_references.unwrap_or_default();
        ensure!(owner.first().map(|owner| owner.uid.clone()) == task.metadata.uid, "{owner:?}");
        let contexts: ConfigMap = world.api().get("hello-context").await?;
        let texts = contexts.data.unwrap_or_default();
        ensure!(texts.values().any(|text| text.contains("say hello")), "{texts:?}");
        let labels = world.api::<Task>().get("hello").await?.metadata.labels.unwrap_or_default();
        ensure!(labels.get("kubeopencode.io/agent-template").is_some_and(|name| name == "t"), "{labels:?}");

        let finals = world.tasks.versions().into_iter().filter_map(|task| task.status.clone());
        let finals = finals.filter(|status| status.phase.is_some_and(TaskPhase::is_finished)).count();
        ensure!(finals == 1, "the final status was written {finals} times");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_on_an_agent_waits_for_its_server_and_runs() -> anyhow::Result<()> {
    shared(async |world| {
        let agent = world.ready_agent("a", json!({})).await?;
        let url = agent.status.as_ref().and_then(|status| status.url.clone()).unwrap_or_default();
        ensure!(url == format!("http://a.{}.svc.cluster.local:4096", world.namespace), "{url}");
        world.task("hello", json!({"agentRef": {"name": "a"}})).await?;
        world.succeeds("hello").await?;
        let pod: Pod = world.api().get("hello-pod").await?;
        let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
        let command = containers.first().and_then(|container| container.command.clone()).unwrap_or_default();
        ensure!(command.starts_with(&["opencode".into(), "run".into(), "--attach".into(), url]), "{command:?}");
        let labels = world.api::<Task>().get("hello").await?.metadata.labels.unwrap_or_default();
        ensure!(labels.get("kubeopencode.io/agent").is_some_and(|name| name == "a"), "{labels:?}");
        Ok(())
    })
    .await
}

async fn a_task_created_before_its_agent_runs_once_the_agent_is_there() -> anyhow::Result<()> {
    shared(async |world| {
        world.task("early", json!({"agentRef": {"name": "late"}})).await?;
        let status = world.waits("early", "AgentNotFound").await?;
        ensure!(message(&status).starts_with("Agent 'late' does not exist"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued") == "True AgentNotFound", "{status:?}");
        world.agent("late", json!({})).await?;
        let status = world.succeeds("early").await?;
        ensure!(condition(status.conditions.as_ref(), "Queued") == "False CapacityAvailable", "{status:?}");
        Ok(())
    })
    .await
}

async fn a_task_created_before_its_template_runs_once_the_template_is_there() -> anyhow::Result<()> {
    shared(async |world| {
        world.task("early", json!({"templateRef": {"name": "late"}})).await?;
        world.waits("early", "TemplateNotFound").await?;
        world.template("late", json!({})).await?;
        world.succeeds("early").await?;
        Ok(())
    })
    .await
}

async fn a_task_stopped_while_it_runs_keeps_its_pod_and_log() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("long");
        world.task("long", json!({"templateRef": {"name": "t"}})).await?;
        world.works("long").await?;
        world.stop("long").await?;
        let status = world.ended("long").await?;
        ensure!(status.phase == Some(TaskPhase::Completed), "{status:?}");
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped") == "True UserStopped", "{status:?}");
        let pod: Pod = world.api().get("long-pod").await?;
        ensure!(pod.metadata.deletion_timestamp.is_none(), "its log goes with its Pod");
        Ok(())
    })
    .await
}
