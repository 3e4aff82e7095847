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

const AGENT: &str = "bench";
const SLOTS: usize = 3;
const TASKS: usize = 24;
const LENGTH: Duration = Duration::from_secs(3);
/// One round has few hand-offs, and the slowest in a hundred is asked for.
const ROUNDS: usize = 5;

/// Prints the share of slot time that was used, and how fast a slot is handed on.
pub async fn run() -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let client = cluster.client().await?;
    let controller = Controller::start(&cluster).await?;
    println!("{TASKS} Tasks of {} s on an Agent with {SLOTS} slots, {ROUNDS} rounds", LENGTH.as_secs());
    let mut before = controller.writes().await?;
    let (mut shares, mut handed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let namespace = cluster.namespace().await?;
        make_ready(&client, &namespace).await?;
        before = controller.writes().await?;
        let runs = round(&client, &namespace).await?;
        shares.push(share(&runs));
        handed.extend(hand_offs(&runs));
    }
    shares.sort_by(f64::total_cmp);
    handed.sort_unstable();
    let quantile = |part: usize| handed.get(handed.len() * part / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let worst = handed.last().map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let (median, least) = (shares.get(ROUNDS / 2), shares.first());
    println!("  slot time used, median / least  {:5.1} % / {:.1} %", median.unwrap_or(&0.0), least.unwrap_or(&0.0));
    println!("  hand-off, p50 / p99 / worst     {:3.0} ms / {:.0} ms / {worst:.0} ms", quantile(50), quantile(99));
    controller.writes().await?.print_since(&before, TASKS);
    Ok(())
}

/// Runs all Tasks on the Agent. Returns when each Pod was first observed, and when it ended.
async fn round(client: &Client, namespace: &str) -> anyhow::Result<Vec<(Instant, Instant)>> {
    let (times, node) = node::start(client.clone(), namespace, LENGTH);
    let spec = TaskSpec { agent_ref: Some(LocalRef::new(AGENT)), ..TaskSpec::default() };
    let all = (0..TASKS).map(|number| world::task(&format!("task-{number:02}"), spec.clone())).collect();
    let (created, ends) =
        tokio::join!(world::create(client, namespace, all), tasks::finished(client, namespace, TASKS));
    created?;
    ends?;
    node.abort();
    Ok(times.all())
}

/// The share of slot time that was used between the first start and the last end, in percent.
fn share(runs: &[(Instant, Instant)]) -> f64 {
    let begin = runs.iter().map(|(observed, _)| *observed).min().unwrap_or_else(Instant::now);
    let end = runs.iter().map(|(_, ended)| *ended).max().unwrap_or_else(Instant::now);
    let used: f64 = runs.iter().map(|(observed, ended)| (*ended - *observed).as_secs_f64()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    let slots = SLOTS as f64;
    100.0 * used / (slots * (end - begin).as_secs_f64())
}

/// Each start after the first few follows an end: the time in between is the hand-off.
fn hand_offs(runs: &[(Instant, Instant)]) -> Vec<Duration> {
    let (mut starts, mut stops): (Vec<Instant>, Vec<Instant>) = runs.iter().copied().unzip();
    starts.sort_unstable();
    stops.sort_unstable();
    starts.iter().skip(SLOTS).zip(&stops).map(|(start, stop)| start.saturating_duration_since(*stop)).collect()
}

/// Makes the Agent. There is no Deployment controller here, so this reports the server as ready until the Agent does too.
async fn make_ready(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let agents: Api<Agent> = Api::namespaced(client.clone(), namespace);
    let settings = AgentSettings { max_concurrent_tasks: Some(i32::try_from(SLOTS)?), ..AgentSettings::default() };
    agents.create(&PostParams::default(), &Agent::new(AGENT, AgentSpec { settings, ..AgentSpec::default() })).await?;
    let status =
        json!({ "status": { "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1 } });
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Not created yet.
        let _ = deployments.patch_status("bench-server", &PatchParams::default(), &Patch::Merge(&status)).await;
        if agents.get(AGENT).await?.status.is_some_and(|status| status.ready == Some(true)) {
            return Ok(());
        }
    }
    bail!("the Agent is not ready")
}
