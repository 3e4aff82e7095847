//! Who runs, who waits, and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::ensure;
use api::{Agent, AgentTemplate, Task, TaskPhase};
use blackbox::{cases, runner::Case, stub_kubelet::Act};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::world::{World, condition, message, reason, shared};

pub const CASES: &[Case] = cases![
    no_more_start_in_a_window_than_the_quota_allows,
    a_task_that_is_refused_gives_its_start_back,
    a_burst_never_exceeds_what_an_agent_may_run_at_once,
    a_burst_never_exceeds_what_a_template_may_run_at_once,
    tasks_start_by_priority_and_then_by_age,
    a_raised_limit_lets_waiting_tasks_start_at_once,
    a_task_that_goes_elsewhere_before_it_starts_bears_the_label_of_where_it_runs,
    an_agent_that_its_user_suspended_waits_for_its_user,
    an_agent_that_sleeps_is_woken_by_a_task,
    an_idle_agent_goes_to_sleep_and_stays_asleep_for_nobody,
    a_task_on_an_agent_that_is_deleted_ends,
    a_deleted_task_keeps_its_slot_until_its_pod_has_stopped,
];

/// The most Tasks that were Running at any moment.
pub fn most_running(world: &World) -> usize {
    let (mut running, mut most) = (BTreeSet::new(), 0);
    for task in world.tasks.versions() {
        let phase = task.status.as_ref().and_then(|status| status.phase);
        let name = task.metadata.name.clone().unwrap_or_default();
        if phase == Some(TaskPhase::Running) {
            running.insert(name)
        } else {
            running.remove(&name)
        };
        most = most.max(running.len());
    }
    most
}

/// Names of Tasks in the order in which they were admitted.
fn order(world: &World) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for task in world.tasks.versions() {
        let name = task.metadata.name.clone().unwrap_or_default();
        if task.status.as_ref().and_then(|status| status.run_epoch).is_some() && !order.contains(&name) {
            order.push(name);
        }
    }
    order
}

async fn burst(world: &Arc<World>, target: serde_json::Value, tasks: usize, most: usize) -> anyhow::Result<()> {
    let names: Vec<String> = (0..tasks).map(|number| format!("burst-{number:02}")).collect();
    let create = names.iter().map(|name| {
        let mut spec = json!({"description": "say hello"});
        spec.as_object_mut().into_iter().for_each(|spec| spec.extend(target.as_object().cloned().unwrap_or_default()));
        world.task(name, spec)
    });
    futures::future::try_join_all(create).await?;
    for name in &names {
        world.succeeds(name).await?;
    }
    let found = most_running(world);
    ensure!(found == most, "{found} ran at once, not {most}");
    world.each_run_has_one_pod()
}

async fn a_burst_never_exceeds_what_an_agent_may_run_at_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({"maxConcurrentTasks": 3})).await?;
        burst(&world, json!({"agentRef": {"name": "a"}}), 15, 3).await
    })
    .await
}

async fn a_burst_never_exceeds_what_a_template_may_run_at_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 2})).await?;
        burst(&world, json!({"templateRef": {"name": "t"}}), 12, 2).await
    })
    .await
}

async fn tasks_start_by_priority_and_then_by_age() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.hold("first");
        world.task("first", json!({"templateRef": {"name": "t"}})).await?;
        world.works("first").await?;
        for (name, priority) in [("low-1", 0), ("low-2", 0), ("high", 5), ("lowest", -1)] {
            world.task(name, json!({"templateRef": {"name": "t"}, "priority": priority})).await?;
            let status = world.waits(name, "TemplateAtCapacity").await?;
            ensure!(message(&status).contains("one Task at a time"), "{status:?}");
            let place = match name {
                "low-1" | "high" => 1,
                "low-2" => 2,
                _ => 4,
            };
            ensure!(status.queue_position == Some(place), "{name}: {status:?}");
            let labels = world.api::<Task>().get(name).await?.metadata.labels.unwrap_or_default();
            ensure!(labels.get("kubeopencode.io/agent-template").is_some_and(|on| on == "t"), "{name}: {labels:?}");
        }
        world.finish("first");
        world.succeeds("lowest").await?;
        let order = order(&world);
        ensure!(order == ["first", "high", "low-1", "low-2", "lowest"], "{order:?}");
        Ok(())
    })
    .await
}

async fn a_task_that_goes_elsewhere_before_it_starts_bears_the_label_of_where_it_runs() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"suspend": true})).await?;
        world.template("t", json!({})).await?;
        world.task("moves", json!({"agentRef": {"name": "a"}})).await?;
        world.waits("moves", "AgentSuspended").await?;
        world.merge::<Task>("moves", json!({"spec": {"agentRef": null, "templateRef": {"name": "t"}}})).await?;
        world.succeeds("moves").await?;
        let labels = world.api::<Task>().get("moves").await?.metadata.labels.unwrap_or_default();
        let expected = BTreeMap::from([("kubeopencode.io/agent-template".to_owned(), "t".to_owned())]);
        ensure!(labels == expected, "{labels:?}");
        Ok(())
    })
    .await
}

async fn a_raised_limit_lets_waiting_tasks_start_at_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        for name in ["a", "b", "c"] {
            world.hold(name);
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
        }
        world.waits("c", "TemplateAtCapacity").await?;
        world.merge::<AgentTemplate>("t", json!({"spec": {"maxConcurrentTasks": 3}})).await?;
        for name in ["a", "b", "c"] {
            world.runs(name).await?;
        }
        Ok(())
    })
    .await
}

async fn no_more_start_in_a_window_than_the_quota_allows() -> anyhow::Result<()> {
    shared(async |world| {
        let templates = world.record::<AgentTemplate>();
        world.template("t", json!({"quota": {"maxTaskStarts": 2, "windowSeconds": 60}})).await?;
        let names = ["a", "b", "c"];
        for name in names {
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
        }
        let late = world.tasks.until("one over quota", |tasks| {
            let waits =
                |task: &&Arc<Task>| task.status.as_ref().is_some_and(|status| reason(status) == "QuotaExceeded");
            tasks.all().iter().find(waits).cloned()
        });
        let late = late.await?.metadata.name.clone().unwrap_or_default();
        for name in names.into_iter().filter(|name| *name != late) {
            world.succeeds(name).await?;
        }
        let template: AgentTemplate = world.api().get("t").await?;
        let starts = template.status.and_then(|status| status.task_start_history).unwrap_or_default();
        ensure!(starts.len() == 2, "{starts:?}");
        // A controller that dies in between does not lose the count.
        let version = |version: &Option<String>| version.as_ref().and_then(|version| version.parse::<u64>().ok());
        let recorded = templates.versions().into_iter().find(|template| {
            template
                .status
                .as_ref()
                .and_then(|status| status.task_start_history.as_ref())
                .is_some_and(|all| !all.is_empty())
        });
        let claimed = world
            .tasks
            .versions()
            .into_iter()
            .find(|task| task.status.as_ref().is_some_and(|status| status.run_epoch.is_some()));
        let recorded = recorded.and_then(|template| version(&template.metadata.resource_version));
        let claimed = claimed.and_then(|task| version(&task.metadata.resource_version));
        ensure!(recorded.is_some() && recorded < claimed, "recorded at {recorded:?}, claimed at {claimed:?}");
        // It starts by itself when the first record leaves the window.
        world.succeeds(&late).await?;
        let mut admitted = BTreeMap::new();
        for name in names {
            let timings = world.ended(name).await?.timings.unwrap_or_default();
            admitted.extend(timings.admitted_at.map(|at| (at.0.as_second(), name)));
        }
        let times: Vec<i64> = admitted.keys().copied().collect();
        ensure!(times.last().zip(times.first()).is_some_and(|(last, first)| last - first >= 60), "{admitted:?}");
        Ok(())
    })
    .await
}

async fn a_task_that_is_refused_gives_its_start_back() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"quota": {"maxTaskStarts": 1, "windowSeconds": 3600}})).await?;
        let item = json!({"type": "Text", "text": "x", "mountPath": "a.txt"});
        world.task("bad", json!({"templateRef": {"name": "t"}, "contexts": [item, item]})).await?;
        world.fails("bad", "ContextError").await?;
        world.task("good", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("good").await?;
        // The start is recorded when the next Task learns that the quota is used up.
        world.task("late", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("late", "QuotaExceeded").await?;
        let recorded = |template: &AgentTemplate| {
            let starts = template.status.as_ref().and_then(|status| status.task_start_history.clone());
            let names: Vec<String> = starts.into_iter().flatten().map(|start| start.task_name).collect();
            names == ["good"]
        };
        world.record::<AgentTemplate>().until_object("t", "the start of good", recorded).await?;
        Ok(())
    })
    .await
}

async fn an_agent_that_its_user_suspended_waits_for_its_user() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"suspend": true})).await?;
        world.task("hello", json!({"agentRef": {"name": "a"}})).await?;
        let status = world.waits("hello", "AgentSuspended").await?;
        ensure!(message(&status).contains("set spec.suspend to false"), "{status:?}");
        let agent = world
            .agent_is("a", "suspended", |agent| {
                let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_ref());
                condition(conditions, "Suspended") == "True UserRequested"
            })
            .await?;
        ensure!(agent.spec.suspend, "a Task resumed an Agent that its user suspended");
        ensure!(world.deployment("a").await?.spec.and_then(|spec| spec.replicas) == Some(0), "it has replicas");
        world.merge::<Agent>("a", json!({"spec": {"suspend": false}})).await?;
        world.succeeds("hello").await?;
        Ok(())
    })
    .await
}

async fn an_agent_that_sleeps_is_woken_by_a_task() -> anyhow::Result<()> {
    shared(async |world| {
        let metadata = json!({"annotations": {"kubeopencode.io/suspended-by": "Standby"}});
        let config = json!({"model": "test/model"});
        let spec = json!({"suspend": true, "standby": {"idleTimeout": "1h"}, "config": config});
        world.create_with::<Agent>("a", metadata, spec).await?;
        world.task("hello", json!({"agentRef": {"name": "a"}})).await?;
        world.succeeds("hello").await?;
        let agent: Agent = world.api().get("a").await?;
        ensure!(!agent.spec.suspend, "it still sleeps");
        ensure!(agent.metadata.annotations.unwrap_or_default().is_empty(), "it still says that it sleeps");
        Ok(())
    })
    .await
}

async fn an_idle_agent_goes_to_sleep_and_stays_asleep_for_nobody() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"standby": {"idleTimeout": "1s"}})).await?;
        let asleep = |agent: &Agent| {
            let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_ref());
            agent.spec.suspend && condition(conditions, "Suspended") == "True Standby"
        };
        world.agent_is("a", "asleep", asleep).await?;
        world.hold("hello");
        world.task("hello", json!({"agentRef": {"name": "a"}})).await?;
        world.works("hello").await?;
        let agent: Agent = world.api().get("a").await?;
        ensure!(!agent.spec.suspend, "it sleeps while a Task runs on it");
        world.finish("hello");
        world.succeeds("hello").await?;
        world.agent_is("a", "asleep again", asleep).await?;
        Ok(())
    })
    .await
}

async fn a_task_on_an_agent_that_is_deleted_ends() -> anyhow::Result<()> {
    shared(async |world| {
        world.ready_agent("a", json!({})).await?;
        world.hold("orphan");
        world.task("orphan", json!({"agentRef": {"name": "a"}})).await?;
        world.works("orphan").await?;
        world.delete::<Agent>("a").await?;
        world.fails("orphan", "AgentGone").await?;
        Ok(())
    })
    .await
}

async fn a_deleted_task_keeps_its_slot_until_its_pod_has_stopped() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.template("u", json!({})).await?;
        world.kubelet.script("leaving", Act::Deaf);
        world.task("leaving", json!({"templateRef": {"name": "t"}})).await?;
        world.works("leaving").await?;
        world.task("next", json!({"templateRef": {"name": "t"}})).await?;
        world.waits("next", "TemplateAtCapacity").await?;
        world.delete::<Task>("leaving").await?;
        world.tasks.until_gone("leaving").await?;
        // The controller has handled the deletion when a Task that came later is through.
        world.task("later", json!({"templateRef": {"name": "u"}})).await?;
        world.succeeds("later").await?;
        world.waits("next", "TemplateAtCapacity").await?;
        let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        world.api::<Pod>().delete("leaving-pod", &force).await?;
        world.succeeds("next").await?;
        Ok(())
    })
    .await
}
