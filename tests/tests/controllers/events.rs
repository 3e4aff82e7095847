//! Events, as `kubectl describe` shows them: each once, and without secrets.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use api::{Agent, Task};
use axum::{Router, routing::post};
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::Act,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret, events::v1::Event};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::world::{Alone, World, condition, explain, shared};

pub const CASES: &[Case] = cases![
    the_end_of_a_task_is_reported_once_and_without_secrets,
    an_agent_that_stays_wrong_is_reported_once,
    events_and_traces_are_flushed_before_the_controller_ends,
];

/// Type and note of the events about an object with this reason.
async fn events_about(world: &World, name: &str, reason: &str) -> anyhow::Result<Vec<(String, String)>> {
    let events = world.api::<Event>().list(&ListParams::default()).await?;
    let about = |event: &Event| {
        let object = event.regarding.as_ref().and_then(|object| object.name.as_deref());
        object == Some(name) && event.reason.as_deref() == Some(reason)
    };
    let found = events.items.into_iter().filter(about);
    Ok(found.map(|event| (event.type_.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}

/// Waits for the first event with this reason about an object: events are written in the background. Returns its type
/// and note.
pub async fn until_event(world: &World, name: &str, reason: &str) -> anyhow::Result<(String, String)> {
    let events = world.record::<Event>();
    let wanted = format!("{reason} of {name}");
    let first = events.until(&wanted, |events| {
        events.all().into_iter().find(|event| {
            let object = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            object == Some(name) && event.reason.as_deref() == Some(reason)
        })
    });
    let first = first.await?;
    Ok((first.type_.clone().unwrap_or_default(), first.note.clone().unwrap_or_default()))
}

async fn the_end_of_a_task_is_reported_once_and_without_secrets() -> anyhow::Result<()> {
    shared(async |world| {
        const VALUE: &str = "heliotrope-42-is-the-key";
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "keys"}, "stringData": {"token": VALUE, "username": "u", "password": VALUE},
        }))?;
        world.api::<Secret>().create(&PostParams::default(), &secret).await?;
        let credentials = json!([{"name": "key", "secretRef": {"name": "keys", "key": "token"}, "env": "KEY"}]);
        world.template("t", json!({ "credentials": credentials })).await?;
        world.kubelet.script("bad", Act::fail("ModelError", "HTTP 500: the model is down"));
        for name in ["good", "bad", "stopped"] {
            if name == "stopped" {
                world.hold(name);
            }
            world.task(name, json!({"templateRef": {"name": "t"}, "outputs": ["verdict"]})).await?;
        }
        // One that cannot even start.
        let contexts = json!([{"type": "ConfigMap", "mountPath": "a", "configMap": {"name": "missing", "key": "k"}}]);
        world.task("stuck", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.works("stopped").await?;
        world.stop("stopped").await?;
        for (name, kind, reason, text) in [
            ("good", "Warning", "NotSupported", "outputs are not checked because the controller has no depot"),
            ("good", "Normal", "Succeeded", ""),
            ("bad", "Warning", "ModelError", "the model is down"),
            ("stopped", "Normal", "UserStopped", ""),
            ("stuck", "Warning", "ContextError", "missing"),
        ] {
            let (type_, note) = until_event(&world, name, reason).await?;
            ensure!(type_ == kind && note.contains(text), "{name}: {type_} {note}");
            // A change of a finished Task emits no event.
            world.annotate::<Task>(name, "example.com/touched", "yes").await?;
        }
        // All effects of the changes have happened when a later Task is through.
        world.task("later", json!({"templateRef": {"name": "t"}})).await?;
        until_event(&world, "later", "Succeeded").await?;
        for (name, reason) in [("good", "Succeeded"), ("bad", "ModelError"), ("stopped", "UserStopped")] {
            let all = events_about(&world, name, reason).await?;
            ensure!(all.len() == 1, "{name}: {all:?}");
        }
        let events = world.api::<Event>().list(&ListParams::default()).await?;
        ensure!(!serde_json::to_string(&events.items)?.contains("heliotrope"), "an event holds a secret");
        Ok(())
    })
    .await
}

async fn an_agent_that_stays_wrong_is_reported_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"modelRef": {"name": "nothing"}})).await?;
        let (kind, note) = until_event(&world, "a", "ReferenceNotFound").await?;
        ensure!(kind == "Warning" && note.contains("nothing"), "{kind} {note}");
        for number in 0..5 {
            let port = 4100 + number;
            let changed = world.merge::<Agent>("a", json!({"spec": {"port": port}})).await?;
            let looked = |agent: &Agent| {
                let status = agent.status.as_ref();
                status.and_then(|status| status.observed_generation) >= changed.metadata.generation
                    && condition(status.and_then(|s| s.conditions.as_ref()), "ReferencesResolved")
                        == "False ReferenceNotFound"
            };
            world.agent_is("a", "looked at", looked).await?;
        }
        // Events are written in order: when this one is there, so would be any before it.
        world.ready_agent("b", json!({})).await?;
        until_event(&world, "b", "Ready").await?;
        let events = world.api::<Event>().list(&ListParams::default()).await?;
        let about = |event: &&Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some("a");
        let all: Vec<&Event> = events.items.iter().filter(about).collect();
        let reasons: BTreeSet<_> = all.iter().map(|event| &event.reason).collect();
        ensure!(all.len() == reasons.len() && all.iter().all(|event| event.series.is_none()), "{all:#?}");
        Ok(())
    })
    .await
}

async fn events_and_traces_are_flushed_before_the_controller_ends() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    // A collector that takes its time with the first run, so that the second waits.
    let (exports, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let collect = {
        let (exports, answers) = (Arc::clone(&exports), Arc::clone(&answers));
        move || async move {
            exports.fetch_add(1, Ordering::SeqCst);
            drop(answers.acquire().await);
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let collector = Router::new().route("/v1/traces", post(collect));
    let server = tokio::spawn(async move { axum::serve(listener, collector).await });
    world.configure(json!({"observability": {"openTelemetry": {"enabled": true, "endpoint": endpoint}}})).await?;
    world.template("t", json!({})).await?;
    let controller = Controller::start(world.cluster, Options { leader: Some("told"), ..Options::default() }).await?;
    let outcome = async {
        for name in ["first", "second"] {
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
            world.succeeds(name).await?;
        }
        // The last status is written; its event and its trace are not.
        controller.send(Signal::TERM)?;
        controller.wait_for_log("ending").await?;
        answers.add_permits(Semaphore::MAX_PERMITS);
        let status = controller.exit().await?;
        ensure!(status.success(), "it ended with {status}");
        let found = events_about(world, "second", "Succeeded").await?;
        ensure!(found.len() == 1, "the event: {found:?}");
        ensure!(exports.load(Ordering::SeqCst) == 2, "{} runs were exported", exports.load(Ordering::SeqCst));
        // Everything was written while it led, and then it gave the lease back.
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
        let lease = leases.get("kubeopencode.io").await?.spec.context("the lease is empty")?;
        ensure!(lease.holder_identity.is_none(), "{lease:?}");
        Ok(())
    };
    let outcome = outcome.await;
    server.abort();
    explain(outcome, world, &[&controller])
}
