//! Events: what `kubectl describe` shows. Each thing once, and no secret in it.

use std::collections::BTreeSet;

use anyhow::ensure;
use api::{Agent, Task};
use blackbox::{cases, runner::Case, stub_kubelet::Act};
use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kube::api::{ListParams, PostParams};
use serde_json::json;

use crate::world::{World, condition, shared};

pub const CASES: &[Case] =
    cases![the_end_of_a_task_is_told_once_and_without_secrets, an_agent_that_stays_wrong_is_told_once];

/// Type and note of the events about an object with this reason.
async fn told(world: &World, name: &str, reason: &str) -> anyhow::Result<Vec<(String, String)>> {
    let events = world.api::<Event>().list(&ListParams::default()).await?;
    let about = |event: &Event| {
        let object = event.regarding.as_ref().and_then(|object| object.name.as_deref());
        object == Some(name) && event.reason.as_deref() == Some(reason)
    };
    let found = events.items.into_iter().filter(about);
    Ok(found.map(|event| (event.type_.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}

/// Type and note of the first event with this reason about an object. Events are written aside, so this waits for it.
pub async fn until_told(world: &World, name: &str, reason: &str) -> anyhow::Result<(String, String)> {
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

async fn the_end_of_a_task_is_told_once_and_without_secrets() -> anyhow::Result<()> {
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
        for (name, kind, reason, words) in [
            ("good", "Warning", "NotSupported", "outputs are not checked yet"),
            ("good", "Normal", "Succeeded", ""),
            ("bad", "Warning", "ModelError", "the model is down"),
            ("stopped", "Normal", "UserStopped", ""),
            ("stuck", "Warning", "ContextError", "missing"),
        ] {
            let (type_, note) = until_told(&world, name, reason).await?;
            ensure!(type_ == kind && note.contains(words), "{name}: {type_} {note}");
            // A touch of a Task that ended tells nothing new.
            world.annotate::<Task>(name, "example.com/touched", "yes").await?;
        }
        // Whatever a touch leads to has happened when a later Task is through.
        world.task("later", json!({"templateRef": {"name": "t"}})).await?;
        until_told(&world, "later", "Succeeded").await?;
        for (name, reason) in [("good", "Succeeded"), ("bad", "ModelError"), ("stopped", "UserStopped")] {
            let all = told(&world, name, reason).await?;
            ensure!(all.len() == 1, "{name}: {all:?}");
        }
        let events = world.api::<Event>().list(&ListParams::default()).await?;
        ensure!(!serde_json::to_string(&events.items)?.contains("heliotrope"), "an event holds a secret");
        Ok(())
    })
    .await
}

async fn an_agent_that_stays_wrong_is_told_once() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"modelRef": {"name": "nothing"}})).await?;
        let (kind, note) = until_told(&world, "a", "ReferenceNotFound").await?;
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
        until_told(&world, "b", "Ready").await?;
        let events = world.api::<Event>().list(&ListParams::default()).await?;
        let about = |event: &&Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some("a");
        let all: Vec<&Event> = events.items.iter().filter(about).collect();
        let reasons: BTreeSet<_> = all.iter().map(|event| &event.reason).collect();
        ensure!(all.len() == reasons.len() && all.iter().all(|event| event.series.is_none()), "{all:#?}");
        Ok(())
    })
    .await
}
