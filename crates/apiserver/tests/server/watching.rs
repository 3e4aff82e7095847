//! Watches.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::world::{LIMIT, World, in_process};

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn map(name: &str, team: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
}

/// The next events as `KIND name`.
async fn collect(maps: &Api<ConfigMap>, params: &WatchParams, version: &str, count: usize) -> Vec<String> {
    let events = maps.watch(params, version).await.unwrap();
    let read = events.take(count).map_ok(|event| match event {
        WatchEvent::Added(map) => format!("ADDED {}", map.name_any()),
        WatchEvent::Modified(map) => format!("MODIFIED {}", map.name_any()),
        WatchEvent::Deleted(map) => format!("DELETED {}", map.name_any()),
        WatchEvent::Bookmark(_) => "BOOKMARK".to_owned(),
        WatchEvent::Error(status) => format!("ERROR {}", status.code),
    });
    tokio::time::timeout(LIMIT, read.try_collect()).await.expect("events are missing").unwrap()
}

#[tokio::test]
async fn every_change_after_a_revision_is_seen_in_order() {
    for client in [in_process().await.1, World::start_and_leak().await] {
        let maps = maps(&client);
        let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        maps.create(&PostParams::default(), &map("a", "x")).await.unwrap();
        let label = Patch::Merge(json!({"data": {"k": "v"}}));
        maps.patch("a", &PatchParams::default(), &label).await.unwrap();
        maps.delete("a", &DeleteParams::default()).await.unwrap();
        let events = collect(&maps, &WatchParams::default(), &version, 3).await;
        assert_eq!(events, ["ADDED a", "MODIFIED a", "DELETED a"]);
    }
}

#[tokio::test]
async fn an_object_that_leaves_a_selection_is_deleted_for_those_who_watch_it() {
    let (_server, client) = in_process().await;
    let maps = maps(&client);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("a", "x")).await.unwrap();
    maps.create(&PostParams::default(), &map("b", "y")).await.unwrap();
    let team = |name: &str| Patch::Merge(json!({"metadata": {"labels": {"team": name}}}));
    maps.patch("a", &PatchParams::default(), &team("y")).await.unwrap();
    maps.patch("b", &PatchParams::default(), &team("x")).await.unwrap();
    let params = WatchParams::default().labels("team=x");
    assert_eq!(collect(&maps, &params, &version, 3).await, ["ADDED a", "DELETED a", "ADDED b"]);
}

#[tokio::test]
async fn a_revision_that_is_forgotten_is_gone() {
    let (_server, client) = in_process().await;
    let maps = maps(&client);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("a", "x")).await.unwrap();
    // Large objects fill the history sooner than many changes do.
    for round in 0..40 {
        let change = Patch::Merge(json!({"data": {"k": round.to_string().repeat(200 * 1024)}}));
        maps.patch("a", &PatchParams::default(), &change).await.unwrap();
    }
    // The request is fine, as with Kubernetes: clients handle the error in an event.
    let events = maps.watch(&WatchParams::default(), &version).await.unwrap();
    match Box::pin(events).next().await.unwrap().unwrap() {
        WatchEvent::Error(status) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_streaming_list_ends_with_its_bookmark() {
    let (_server, client) = in_process().await;
    let maps = maps(&client);
    maps.create(&PostParams::default(), &map("a", "x")).await.unwrap();
    let config = watcher::Config::default().streaming_lists();
    let mut events = watcher(maps.clone(), config).default_backoff().boxed();
    let mut observed = Vec::new();
    while observed.last().map(String::as_str) != Some("APPLY b") {
        let event = tokio::time::timeout(LIMIT, events.next()).await.expect("events are missing").unwrap().unwrap();
        observed.push(match event {
            watcher::Event::Init => "INIT".to_owned(),
            watcher::Event::InitApply(map) => format!("INIT {}", map.name_any()),
            watcher::Event::InitDone => {
                maps.create(&PostParams::default(), &map("b", "x")).await.unwrap();
                "DONE".to_owned()
            }
            watcher::Event::Apply(map) => format!("APPLY {}", map.name_any()),
            watcher::Event::Delete(map) => format!("DELETE {}", map.name_any()),
        });
    }
    assert_eq!(observed, ["INIT", "INIT a", "DONE", "APPLY b"]);
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over_with_a_bookmark() {
    let (_server, client) = in_process().await;
    let maps = maps(&client);
    let params = WatchParams::default().timeout(1);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let started = std::time::Instant::now();
    assert_eq!(collect(&maps, &params, &version, 10).await, ["BOOKMARK"]);
    assert!(started.elapsed() >= Duration::from_millis(900));
}

impl World {
    /// A client over TLS whose server lives as long as the test.
    async fn start_and_leak() -> Client {
        let world = Box::leak(Box::new(Self::start().await));
        world.remote().await
    }
}
