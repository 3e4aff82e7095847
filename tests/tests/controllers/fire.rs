//! Fault injection: every Task ends once and no run has two Pods, even if processes die or connections break.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use api::{AgentTemplate, Task, TaskPhase};
use blackbox::{
    cases,
    controller::{Controller, Options},
    history::LIMIT,
    runner::Case,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    proxy::Proxy,
    queue::most_running,
    world::{Alone, World, explain, reason, shared},
};

pub const CASES: &[Case] = cases![
    a_controller_that_dies_at_any_step_leaves_nothing_undone_and_does_nothing_twice,
    a_controller_that_is_killed_again_and_again_loses_nothing,
    a_pod_that_vanishes_while_no_controller_runs_is_not_made_again,
    a_pod_that_vanishes_before_it_is_on_record_is_not_made_again,
    a_run_that_ends_while_no_controller_runs_is_recorded,
    what_was_recorded_of_a_run_is_what_its_status_says,
    connections_that_break_are_taken_up_again,
    somebody_who_keeps_editing_tasks_does_no_harm,
];

/// Checks that every run had one Pod, and that every Task got one final status.
pub fn everything_once(world: &World, tasks: &[String]) -> anyhow::Result<()> {
    world.each_run_has_one_pod()?;
    let mut ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for task in world.tasks.versions() {
        let Some(status) = task.status.clone().filter(|s| s.phase.is_some_and(TaskPhase::is_finished)) else {
            continue;
        };
        let statuses = ends.entry(task.metadata.name.clone().unwrap_or_default()).or_default();
        let text = serde_json::to_string(&status)?;
        if statuses.last() != Some(&text) {
            statuses.push(text);
        }
    }
    for task in tasks {
        let ends = ends.get(task).with_context(|| format!("{task} has no end"))?;
        ensure!(ends.len() == 1, "{task} ended more than once: {ends:#?}");
    }
    Ok(())
}

/// Creates Tasks with a context, on the target `on`.
async fn burst(world: &World, on: &Value, prefix: &str, number: usize) -> anyhow::Result<Vec<String>> {
    let names: Vec<String> = (0..number).map(|number| format!("{prefix}-{number:02}")).collect();
    let mut spec = on.clone();
    spec["contexts"] = json!([{"type": "Text", "text": "x", "mountPath": "a.txt"}]);
    let create = names.iter().map(|name| world.task(name, spec.clone()));
    futures::future::try_join_all(create).await?;
    Ok(names)
}

/// Kills controllers at every step of Tasks on the target `on`, which runs two at a time. The next one continues.
pub async fn dies_at_every_step(world: &World, on: Value) -> anyhow::Result<()> {
    for place in ["labelled", "claimed", "contexts-made", "pod-made", "run-ended", "finished"] {
        let fragile =
            Controller::start(world.cluster, Options { failpoint: Some(place), ..Options::default() }).await?;
        let names = burst(world, &on, place, 4).await?;
        let status = fragile.exit().await.with_context(|| format!("it never reached {place}"))?;
        ensure!(!status.success(), "it did not die at {place}");
        let next = Controller::start(world.cluster, Options::default()).await?;
        let outcome = async {
            for name in &names {
                let status = world.succeeds(name).await?;
                ensure!((status.run_epoch, status.attempt) == (Some(1), Some(1)), "{name}: {status:?}");
            }
            everything_once(world, &names)?;
            next.terminate().await
        };
        explain(outcome.await.with_context(|| format!("killed at {place}")), world, &[&fragile, &next])?;
    }
    ensure!(most_running(world) <= 2, "more than two ran at once");
    Ok(())
}

async fn a_controller_that_dies_at_any_step_leaves_nothing_undone_and_does_nothing_twice() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"maxConcurrentTasks": 2})).await?;
    dies_at_every_step(world, json!({"templateRef": {"name": "t"}})).await
}

async fn a_controller_that_is_killed_again_and_again_loses_nothing() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world
        .template("t", json!({"maxConcurrentTasks": 3, "quota": {"maxTaskStarts": 1000, "windowSeconds": 3600}}))
        .await?;
    let names = burst(world, &json!({"templateRef": {"name": "t"}}), "much", 24).await?;
    let finished = |world: &World| {
        let ended = |task: &Arc<Task>| task.status.as_ref().and_then(|s| s.phase).is_some_and(TaskPhase::is_finished);
        world.tasks.all().iter().filter(|task| ended(task)).count()
    };
    let mut last = Controller::start(world.cluster, Options::default()).await?;
    for round in 1..=5 {
        let wanted = round * 3;
        world.tasks.until(&format!("{wanted} ends"), |_| (finished(world) >= wanted).then_some(())).await?;
        last.kill().await?;
        last = Controller::start(world.cluster, Options::default()).await?;
    }
    let outcome = async {
        for name in &names {
            world.succeeds(name).await?;
        }
        everything_once(world, &names)?;
        ensure!(most_running(world) <= 3, "{} ran at once", most_running(world));
        let template: AgentTemplate = world.api().get("t").await?;
        let starts = template.status.and_then(|status| status.task_start_history).unwrap_or_default();
        // A start is on record before it happens: one that a kill prevented may be on record twice, none is missing.
        let on_record = |name: &String| starts.iter().any(|start| start.task_name == *name);
        ensure!(names.iter().all(on_record), "{starts:?}");
        last.terminate().await
    };
    explain(outcome.await, world, &[&last])
}

async fn a_pod_that_vanishes_while_no_controller_runs_is_not_made_again() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({})).await?;
    world.hold("lost");
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.task("lost", json!({"templateRef": {"name": "t"}})).await?;
    world.works("lost").await?;
    world.until("lost", "its start on record", |status| status.pod_uid.is_some()).await?;
    first.kill().await?;
    let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.api::<Pod>().delete("lost-pod", &force).await?;
    world.pods.until_gone("lost-pod").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.fails("lost", "PodLost").await?;
        everything_once(world, &["lost".to_owned()])
    };
    explain(outcome.await, world, &[&next])
}

async fn a_pod_that_vanishes_before_it_is_on_record_is_not_made_again() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({})).await?;
    world.hold("lost");
    let fragile =
        Controller::start(world.cluster, Options { failpoint: Some("pod-made"), ..Options::default() }).await?;
    world.task("lost", json!({"templateRef": {"name": "t"}})).await?;
    fragile.exit().await?;
    let status = world.until("lost", "a claim", |status| status.run_epoch.is_some()).await?;
    ensure!(status.pod_uid.is_none(), "its Pod is on record already");
    // A change of the Task after the claim does not hide what came before it.
    world.annotate::<Task>("lost", "example.com/touched", "yes").await?;
    let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.api::<Pod>().delete("lost-pod", &force).await?;
    world.pods.until_gone("lost-pod").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.fails("lost", "PodLost").await?;
        everything_once(world, &["lost".to_owned()])
    };
    explain(outcome.await, world, &[&next])
}

async fn a_run_that_ends_while_no_controller_runs_is_recorded() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.template("t", json!({"maxConcurrentTasks": 1})).await?;
    world.hold("a");
    let first = Controller::start(world.cluster, Options::default()).await?;
    world.task("a", json!({"templateRef": {"name": "t"}})).await?;
    world.works("a").await?;
    world.task("b", json!({"templateRef": {"name": "t"}})).await?;
    world.waits("b", "TemplateAtCapacity").await?;
    first.kill().await?;
    world.finish("a");
    world
        .pods
        .until_object("a-pod", "its end", |pod| {
            pod.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Succeeded"))
        })
        .await?;
    world.stop("b").await?;
    let next = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.succeeds("a").await?;
        let status = world.ended("b").await?;
        ensure!(reason(&status) == "UserStopped", "{status:?}");
        everything_once(world, &["a".to_owned(), "b".to_owned()])
    };
    explain(outcome.await, world, &[&next])
}

async fn what_was_recorded_of_a_run_is_what_its_status_says() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let archive = tempfile::tempdir()?;
    let options = Options { archive: Some(archive.path().to_owned()), ..Options::default() };
    world.template("t", json!({})).await?;
    world.hold("lost");
    let first = Options { failpoint: Some("run-recorded"), ..options.clone() };
    let first = Controller::start(world.cluster, first).await?;
    world.task("lost", json!({"templateRef": {"name": "t"}})).await?;
    world.works("lost").await?;
    world.api::<Pod>().delete("lost-pod", &DeleteParams::default().grace_period(0)).await?;
    first.exit().await.context("it never recorded the end")?;
    let task = world.api::<Task>().get("lost").await?;
    ensure!(task.status.as_ref().and_then(|status| status.phase) == Some(TaskPhase::Running), "{:?}", task.status);

    let uid = task.metadata.uid.context("no UID")?;
    let place = format!("{}/{uid}/k8s-1.run.json", world.namespace);
    let file = archive.path().join(&place);
    let mut record: Value = serde_json::from_slice(&fs::read(&file)?)?;
    ensure!(record["reason"] == "PodLost" && record["result"]["ref"] == *place, "{record:#}");
    record["message"] = json!("as the first one wrote it");
    fs::write(&file, record.to_string())?;

    let next = Controller::start(world.cluster, options).await?;
    let outcome = async {
        let status = world.ended("lost").await?;
        ensure!(status.message.as_deref() == Some("as the first one wrote it"), "{status:?}");
        everything_once(world, &["lost".to_owned()])?;
        // It goes with its Task.
        world.api::<Task>().delete("lost", &DeleteParams::default()).await?;
        let deadline = Instant::now() + LIMIT;
        while file.exists() {
            ensure!(Instant::now() < deadline, "its record stays");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    explain(outcome.await, world, &[&first, &next])
}

async fn connections_that_break_are_taken_up_again() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let proxy = Proxy::start(world.cluster).await?;
    world.template("t", json!({"maxConcurrentTasks": 2})).await?;
    let options = Options { kubeconfig: Some(proxy.kubeconfig()), ..Options::default() };
    let controller = Controller::start(world.cluster, options).await?;
    let outcome = async {
        let names = burst(world, &json!({"templateRef": {"name": "t"}}), "cut", 12).await?;
        for name in names.iter().take(6) {
            world.succeeds(name).await?;
            // Requests in flight are lost, and so are the responses to writes.
            proxy.cut();
        }
        for name in &names {
            world.succeeds(name).await?;
        }
        // The API server does not answer for a while; changes meanwhile are found afterwards.
        proxy.close();
        let late = burst(world, &json!({"templateRef": {"name": "t"}}), "late", 3).await?;
        world.delete::<Task>("cut-00").await?;
        proxy.open();
        for name in &late {
            world.succeeds(name).await?;
        }
        everything_once(world, &[names, late].concat())?;
        ensure!(most_running(world) <= 2, "{} ran at once", most_running(world));
        Ok(())
    };
    explain(outcome.await, world, &[&controller])
}

async fn somebody_who_keeps_editing_tasks_does_no_harm() -> anyhow::Result<()> {
    shared(async |world| {
        let quota = json!({"maxTaskStarts": 1000, "windowSeconds": 3600});
        world.template("t", json!({"maxConcurrentTasks": 2, "quota": quota})).await?;
        let names = burst(&world, &json!({"templateRef": {"name": "t"}}), "edited", 10).await?;
        let done = Arc::new(AtomicBool::new(false));
        let editor = tokio::spawn({
            let (world, names, done) = (Arc::clone(&world), names.clone(), Arc::clone(&done));
            async move {
                let mut number = 0;
                while !done.load(Ordering::SeqCst) {
                    for name in &names {
                        number += 1;
                        world
                            .merge::<Task>(name, json!({"metadata": {"labels": {"edit": number.to_string()}}}))
                            .await?;
                    }
                }
                anyhow::Ok(())
            }
        });
        for name in &names {
            let status = world.succeeds(name).await?;
            ensure!((status.run_epoch, status.attempt) == (Some(1), Some(1)), "{name}: {status:?}");
        }
        done.store(true, Ordering::SeqCst);
        editor.await??;
        ensure!(most_running(&world) <= 2, "{} ran at once", most_running(&world));
        let template: AgentTemplate = world.api().get("t").await?;
        let starts = template.status.and_then(|status| status.task_start_history).unwrap_or_default();
        ensure!(starts.len() == names.len(), "{} starts are on record, not {}: {starts:?}", starts.len(), names.len());
        everything_once(&world, &names)
    })
    .await
}
