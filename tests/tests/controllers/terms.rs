//! Run terms: a run ends on the terms on which it was claimed, even if the template or the Agent changes or goes.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::{Agent, AgentTemplate, Task, TaskPhase, TaskStatus, kinds::task::RunTermsStatus};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    agent_server::AgentServer,
    ends::{has_claim, make_claim_of},
    restart::pretend_ready,
    world::{Alone, World, condition, explain, message, reason, shared},
};

pub const CASES: &[Case] = cases![
    a_template_that_is_edited_changes_nothing_for_a_run,
    an_agent_that_is_edited_changes_nothing_for_a_run,
    a_template_that_is_deleted_while_no_controller_runs_changes_nothing_for_a_run,
    a_run_without_a_pod_takes_the_settings_of_now_and_records_them,
    a_run_that_an_older_version_claimed_has_the_settings_of_its_template,
];

fn terms(status: &TaskStatus) -> anyhow::Result<RunTermsStatus> {
    let resolved = status.resolved.clone().with_context(|| format!("nothing is resolved: {status:?}"))?;
    resolved.terms.map(|terms| *terms).with_context(|| format!("no terms: {status:?}"))
}

/// Starts Tasks and waits until each of them works.
async fn all_work(world: &World, tasks: &[(&str, Value)]) -> anyhow::Result<()> {
    for (name, spec) in tasks {
        world.hold(name);
        world.task(name, spec.clone()).await?;
    }
    for (name, _) in tasks {
        world.works(name).await?;
    }
    Ok(())
}

/// Edits a template and waits until the controller knows the edit.
async fn edit_template(world: &World, name: &str, spec: Value) -> anyhow::Result<()> {
    let edited: AgentTemplate = world.merge(name, json!({ "spec": spec })).await?;
    let observed = |template: &AgentTemplate| {
        template.status.as_ref().and_then(|status| status.observed_generation) >= edited.metadata.generation
    };
    world.record::<AgentTemplate>().until_object(name, "its edit", observed).await.map(drop)
}

fn retry() -> Value {
    json!({"maxRetries": 1, "causes": ["NonZeroExit"], "backoff": "1s"})
}

async fn a_template_that_is_edited_changes_nothing_for_a_run() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("strict", json!({"startupTimeout": "20s", "retry": retry()})).await?;
        world.template("lax", json!({})).await?;
        world.kubelet.script("slow", Act::Unscheduled);
        world.task("slow", json!({"templateRef": {"name": "strict"}})).await?;
        let strict = json!({"templateRef": {"name": "strict"}});
        let lax = json!({"templateRef": {"name": "lax"}});
        let timed = json!({"templateRef": {"name": "strict"}, "timeout": "10s"});
        all_work(&world, &[("again", strict), ("once", lax), ("timed", timed)]).await?;
        let claimed = terms(&world.runs("slow").await?)?;
        ensure!(claimed.startup_timeout == Some(Duration::from_secs(20).into()), "{claimed:?}");

        edit_template(&world, "strict", json!({"startupTimeout": "1h", "retry": null})).await?;
        edit_template(&world, "lax", json!({"retry": retry()})).await?;
        for name in ["again", "once"] {
            world.kubelet.script(&format!("{name}-pod-2"), Act::succeed());
            world.kubelet.script(name, Act::fail("ModelError", "500"));
        }
        let status = world.fails("once", "ModelError").await?;
        ensure!(status.attempt == Some(1), "{status:?}");
        let status = world.succeeds("again").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
        // The next run was claimed on the terms of its own time.
        let claimed = terms(&status)?;
        ensure!(claimed.startup_timeout == Some(Duration::from_hours(1).into()), "{claimed:?}");
        ensure!(claimed.retry.is_none(), "{claimed:?}");
        let status = world.fails("slow", "Unschedulable").await?;
        ensure!(message(&status).contains("did not start within 20s"), "{status:?}");
        let status = world.ended("timed").await?;
        ensure!(reason(&status) == "Timeout" && message(&status).contains("ran for 10s"), "{status:?}");
        world.each_run_has_one_pod()
    })
    .await
}

async fn an_agent_that_is_edited_changes_nothing_for_a_run() -> anyhow::Result<()> {
    shared(async |world| {
        let server = AgentServer::start().await?;
        let settings = json!({
            "port": server.port, "rollout": "WhenIdle", "attachImage": "mine:1", "approval": {"mode": "Ask"},
        });
        world.ready_agent("a", settings).await?;
        server.stand_in(&world, "a").await?;
        world.hold("asks");
        let task = world.task("asks", json!({"agentRef": {"name": "a"}})).await?;
        world.works("asks").await?;
        let claimed = terms(&world.runs("asks").await?)?;
        ensure!(claimed.asks_approval == Some(true) && claimed.report_optional == Some(true), "{claimed:?}");

        let edit = json!({"spec": {"attachImage": null, "approval": {"mode": "Never"}}});
        let edited: Agent = world.merge("a", edit).await?;
        let generation = edited.metadata.generation;
        let observed = |agent: &Agent| agent.status.as_ref().is_some_and(|s| s.observed_generation >= generation);
        world.agent_is("a", "its edit", observed).await?;
        server.session("ses_1", task.metadata.uid.as_deref(), None);
        server.ask(&[("ses_1", "bash", "git push")]);
        let asked = |status: &TaskStatus| condition(status.conditions.as_ref(), "AwaitingApproval") == "True Asked";
        world.until("asks", "a question", asked).await?;
        // The user's own attach image need not leave a report.
        world.kubelet.script("asks", Act::exit(0, "Completed"));
        world.succeeds("asks").await.map(drop)
    })
    .await
}

async fn a_template_that_is_deleted_while_no_controller_runs_changes_nothing_for_a_run() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let first = Controller::start(world.cluster, Options::default()).await?;
    for (template, retain) in [("keeps", true), ("frees", false)] {
        let workspace = json!({"accessMode": "ReadWriteOnce", "size": "1Gi", "retainOnFailure": retain});
        world.template(template, json!({"workspace": workspace})).await?;
    }
    world.template("again", json!({"retry": retry()})).await?;
    world.template("own-image", json!({"attachImage": "mine:1"})).await?;
    world.agent("a", json!({"templateRef": {"name": "own-image"}})).await?;
    pretend_ready(world, "a").await?;
    let on = |template: &str| json!({"templateRef": {"name": template}});
    let agent = json!({"agentRef": {"name": "a"}});
    all_work(world, &[("kept", on("keeps")), ("freed", on("frees")), ("again", on("again")), ("unreported", agent)])
        .await?;
    for task in ["kept", "freed"] {
        make_claim_of(world, &*world.works(task).await?).await?;
    }

    first.kill().await?;
    for template in ["keeps", "frees", "again", "own-image"] {
        world.delete::<AgentTemplate>(template).await?;
    }
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        for task in ["kept", "freed", "again"] {
            world.kubelet.script(task, Act::fail("ModelError", "500"));
        }
        world.kubelet.script("unreported", Act::exit(0, "Completed"));
        world.succeeds("unreported").await?;
        for (task, keeps) in [("kept", true), ("freed", false)] {
            world.fails(task, "ModelError").await?;
            ensure!(has_claim(world, task).await? == keeps, "the claim of {task}");
        }
        // The next run needs the template again.
        let back = |status: &TaskStatus| status.phase == Some(TaskPhase::Queued) && status.run_epoch == Some(1);
        world.until("again", "another try", back).await?;
        world.kubelet.script("again-pod-2", Act::succeed());
        world.template("again", json!({})).await?;
        let status = world.succeeds("again").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
        next.terminate().await
    };
    explain(outcome.await, world, &[&first, &next])
}

async fn a_run_without_a_pod_takes_the_settings_of_now_and_records_them() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"executorImage": "one:1", "startupTimeout": "10m"})).await?;
    let first = Controller::start(world.cluster, Options { failpoint: Some("claimed"), ..Options::default() }).await?;
    world.hold("resumed");
    world.task("resumed", json!({"templateRef": {"name": "t"}})).await?;
    first.exit().await.context("it never claimed the run")?;
    let claimed = world.runs("resumed").await?;
    ensure!(terms(&claimed)?.startup_timeout == Some(Duration::from_mins(10).into()), "{claimed:?}");
    ensure!(world.api::<Pod>().get_opt("resumed-pod").await?.is_none(), "there is a Pod");

    world.merge::<AgentTemplate>("t", json!({"spec": {"executorImage": "two:2", "startupTimeout": "20m"}})).await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        let pod = world.works("resumed").await?;
        let images: Vec<_> = pod.spec.iter().flat_map(|spec| &spec.containers).map(|one| one.image.clone()).collect();
        ensure!(images.contains(&Some("two:2".to_owned())), "{images:?}");
        let status = world.api::<Task>().get("resumed").await?.status.unwrap_or_default();
        ensure!(terms(&status)?.startup_timeout == Some(Duration::from_mins(20).into()), "{status:?}");
        let hash = |status: &TaskStatus| status.resolved.as_ref().and_then(|resolved| resolved.hash.clone());
        ensure!(hash(&status) != hash(&claimed), "{status:?}");
        world.finish("resumed");
        let status = world.succeeds("resumed").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(1), Some(1)), "{status:?}");
        world.each_run_has_one_pod()?;
        next.terminate().await
    };
    explain(outcome.await, world, &[&first, &next])
}

async fn a_run_that_an_older_version_claimed_has_the_settings_of_its_template() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.template("t", json!({"startupTimeout": "10m", "retry": retry()})).await?;
    let on_template = json!({"templateRef": {"name": "t"}});
    all_work(world, &[("unrecorded", on_template.clone()), ("stale", on_template)]).await?;
    first.kill().await?;
    // The older version records no terms. After a later version led in between, those of an earlier run are left.
    for (task, terms) in [("unrecorded", Value::Null), ("stale", json!({"epoch": 0, "startupTimeout": "1s"}))] {
        let patch = Patch::Merge(json!({"status": {"resolved": {"terms": terms}}}));
        world.api::<Task>().patch_status(task, &PatchParams::default(), &patch).await?;
    }

    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        for task in ["unrecorded", "stale"] {
            let recorded = |status: &TaskStatus| {
                terms(status).is_ok_and(|terms| {
                    terms.epoch == Some(1) && terms.startup_timeout == Some(Duration::from_mins(10).into())
                })
            };
            world.until(task, "its terms", recorded).await?;
            world.kubelet.script(&format!("{task}-pod-2"), Act::succeed());
            world.kubelet.script(task, Act::fail("ModelError", "500"));
            let status = world.succeeds(task).await?;
            ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
        }
        next.terminate().await
    };
    explain(outcome.await, world, &[&first, &next])
}
