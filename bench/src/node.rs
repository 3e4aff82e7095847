//! A kubelet that runs nothing: it reports that a Pod started, and after a while that it ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The report of a Pod that succeeded, as the controller reads it.
const REPORT: &str = r#"{"outcome":"Succeeded","reason":"Succeeded","message":"done","usage":{"tokens":{"input":1,"output":1},"cost":0.0},"summary":"hello"}"#;

/// When each Pod was first observed and when it ended, by our own clock.
#[derive(Clone, Default)]
pub struct Times(Arc<Mutex<HashMap<String, Run>>>);

/// When a Pod was first observed, and when it ended.
type Run = (Instant, Option<Instant>);

impl Times {
    /// Both times of every Pod that ended.
    pub fn all(&self) -> Vec<(Instant, Instant)> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.values().filter_map(|(observed, ended)| Some((*observed, (*ended)?))).collect()
    }

    /// Records a Pod. Returns whether it is new.
    fn record_observed(&self, pod: &str) -> bool {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = !times.contains_key(pod);
        times.entry(pod.to_owned()).or_insert_with(|| (Instant::now(), None));
        new
    }

    fn ended(&self, pod: &str) {
        if let Some(times) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(pod) {
            times.1 = Some(Instant::now());
        }
    }
}

/// Runs every Pod of a namespace for `length`.
pub fn start(client: Client, namespace: &str, length: Duration) -> (Times, JoinHandle<()>) {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let times = Times::default();
    let run_times = times.clone();
    let node = tokio::spawn(async move {
        let mut version = "0".to_owned();
        loop {
            let Ok(events) = pods.watch(&WatchParams::default(), &version).await else { continue };
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event {
                    version = pod.resource_version().unwrap_or_default();
                    let name = pod.name_any();
                    if pod.metadata.deletion_timestamp.is_none() && run_times.record_observed(&name) {
                        tokio::spawn(run(pods.clone(), name, length, run_times.clone()));
                    }
                }
            }
        }
    });
    (times, node)
}

async fn run(pods: Api<Pod>, name: String, length: Duration, times: Times) {
    let params = PatchParams::default();
    let _ = pods.patch_status(&name, &params, &Patch::Merge(running())).await;
    tokio::time::sleep(length).await;
    times.ended(&name);
    let _ = pods.patch_status(&name, &params, &Patch::Merge(succeeded())).await;
}

/// The status of a Pod that runs.
pub fn running() -> Value {
    container("Running", &json!({ "running": { "startedAt": Timestamp::now() } }))
}

/// The status of a Pod that did its work.
pub fn succeeded() -> Value {
    let ended = json!({ "terminated": {
        "exitCode": 0, "startedAt": Timestamp::now(), "finishedAt": Timestamp::now(), "message": REPORT,
    }});
    container("Succeeded", &ended)
}

fn container(phase: &str, state: &Value) -> Value {
    json!({ "status": { "phase": phase, "containerStatuses": [{
        "name": "agent", "image": "bench", "imageID": "", "ready": phase == "Running", "restartCount": 0, "state": state,
    }]}})
}
