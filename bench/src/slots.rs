//! How well an Agent's slots are used.

use std::time::{Duration, Instant};

use anyhow::bail;
use api::{Agent, AgentSpec, TaskSpec, refs::LocalRef, settings::AgentSettings};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{controller::Controller, node, tasks, world};

const SLOTS: i32 = 3;
const TASKS: usize = 24;
const LENGTH: Duration = Duration::from_secs(3);

/// Prints the share of slot time that was used, and how fast a slot is handed on.
pub async fn run() -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let client = cluster.client().await?;
    let controller = Controller::start(&cluster).await?;
    let namespace = cluster.namespace().await?;
    let agents: Api<Agent> = Api::namespaced(client.clone(), &namespace);
    let settings = AgentSettings { max_concurrent_tasks: Some(SLOTS), ..AgentSettings::default() };
    agents.create(&PostParams::default(), &Agent::new("bench", AgentSpec { settings, ..AgentSpec::default() })).await?;
    make_ready(&client, &namespace).await?;

    let (times, node) = node::start(client.clone(), &namespace, LENGTH);
    let writes = controller.writes().await?;
    let spec = TaskSpec { agent_ref: Some(LocalRef::new("bench")), ..TaskSpec::default() };
    let all = (0..TASKS).map(|number| world::task(&format!("task-{number:02}"), spec.clone())).collect();
    let (created, ends) =
        tokio::join!(world::create(&client, &namespace, all), tasks::finished(&client, &namespace, TASKS));
    created?;
    ends?;
    let after = controller.writes().await?;
    node.abort();

    let runs = times.all();
    let begin = runs.iter().map(|(seen, _)| *seen).min().unwrap_or_else(Instant::now);
    let end = runs.iter().map(|(_, ended)| *ended).max().unwrap_or_else(Instant::now);
    let used: f64 = runs.iter().map(|(seen, ended)| (*ended - *seen).as_secs_f64()).sum();
    let offered = f64::from(SLOTS) * (end - begin).as_secs_f64();
    // Each start after the first few follows an end: the time in between is the hand-off.
    let mut starts: Vec<Instant> = runs.iter().map(|(seen, _)| *seen).collect();
    let mut stops: Vec<Instant> = runs.iter().map(|(_, ended)| *ended).collect();
    starts.sort_unstable();
    stops.sort_unstable();
    let slots = usize::try_from(SLOTS).unwrap_or(1);
    let mut handed: Vec<Duration> =
        starts.iter().skip(slots).zip(&stops).map(|(start, stop)| start.saturating_duration_since(*stop)).collect();
    handed.sort_unstable();
    let worst = handed.last().copied().unwrap_or_default();
    let median = handed.get(handed.len() / 2).copied().unwrap_or_default();
    println!("{TASKS} Tasks of {} s on an Agent with {SLOTS} slots", LENGTH.as_secs());
    println!("  slot time used            {:7.1} %", 100.0 * used / offered);
    println!("  hand-off, median / worst  {:6.0} ms / {:.0} ms", median.as_secs_f64() * 1e3, worst.as_secs_f64() * 1e3);
    after.print_since(&writes, TASKS);
    Ok(())
}

/// There is no Deployment controller here: we say that the server is ready, until the Agent says so too.
async fn make_ready(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let agents: Api<Agent> = Api::namespaced(client.clone(), namespace);
    let status =
        json!({ "status": { "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 } });
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Not made yet.
        let _ = deployments.patch_status("bench-server", &PatchParams::default(), &Patch::Merge(&status)).await;
        if agents.get("bench").await?.status.is_some_and(|status| status.ready == Some(true)) {
            return Ok(());
        }
    }
    bail!("the Agent is not ready")
}
