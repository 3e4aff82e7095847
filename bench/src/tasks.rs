//! Many Tasks on a template at once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use api::{Task, TaskPhase};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use testenv::Cluster;

use crate::{
    bare::{self, Life},
    controller::{Controller, Writes},
    node,
    program::processor_time_of,
    world,
};

/// The stub kubelet ends a Pod after this time.
const LENGTH: Duration = Duration::from_millis(100);
/// Nothing takes longer.
const LIMIT: Duration = Duration::from_mins(5);
/// One round is not enough: a pause of the API server changes it by a tenth.
const ROUNDS: usize = 5;

/// Prints throughput, latency and writes for each Task.
pub async fn run(count: usize) -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let sample = sample(&cluster).await?;
    let creates = bare::creates(&cluster.client().await?, &cluster.namespace().await?, count).await?;
    let barest =
        bare::rate(&cluster.client().await?, &cluster.namespace().await?, count, &sample, Life::Barest).await?;
    println!("{count} Tasks on a template at once, Pods of 100 ms, {ROUNDS} rounds");
    println!("  Tasks/s   bare client   share   p50 / p99        processor time a Task: API server, controller");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let round = Round::run(&cluster, count, &sample).await?;
        println!(
            "  {:7.1} {:13.1} {:5.0} %   {:.2} s / {:.2} s  {:25.1} ms, {:.1} ms",
            round.rate,
            round.limit,
            round.share(),
            round.quantile(50),
            round.quantile(99),
            round.server_time,
            round.controller_time,
        );
        rounds.push(round);
    }
    rounds.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let Some(median) = rounds.get(ROUNDS / 2) else { return Ok(()) };
    println!("  Tasks a second            {:8.1}", median.rate);
    println!("  bare client, {} writes each {:6.1}", bare::WRITES, median.limit);
    println!("  share of the limit        {:7.0} %", median.share());
    let of_creates = |rate: f64| 100.0 * rate / creates;
    println!("  share of bare creates     {:7.1} % (upstream: 3 to 4)", of_creates(median.rate));
    println!("    a bare client           {:7.1} %", of_creates(median.limit));
    println!("    without any status      {:7.1} %", of_creates(barest));
    median.writes.1.print_since(&median.writes.0, count);
    Ok(())
}

/// The Pod and the final status that the controller makes of a Task, for the bare client to write.
async fn sample(cluster: &Cluster) -> anyhow::Result<(Pod, Task)> {
    let client = cluster.client().await?;
    let _controller = Controller::start(cluster).await?;
    let namespace = cluster.namespace().await?;
    world::template(&client, &namespace).await?;
    let (_, node) = node::start(client.clone(), &namespace, LENGTH);
    world::create(&client, &namespace, vec![world::task("sample", world::on_template(world::TEMPLATE))]).await?;
    finished(&client, &namespace, 1).await?;
    node.abort();
    let pod = Api::<Pod>::namespaced(client.clone(), &namespace).get("sample-pod").await?;
    Ok((pod, Api::<Task>::namespaced(client, &namespace).get("sample").await?))
}

/// Rates of the controllers, and of a bare client just before.
struct Round {
    rate: f64,
    limit: f64,
    /// Seconds until each Task had ended.
    ends: Vec<f64>,
    /// Milliseconds of processor time a Task.
    server_time: f64,
    controller_time: f64,
    /// Before and after.
    writes: (Writes, Writes),
}

impl Round {
    async fn run(cluster: &Cluster, count: usize, sample: &(Pod, Task)) -> anyhow::Result<Self> {
        let client = cluster.client().await?;
        // The bare client writes alone.
        let limit = bare::rate(&client, &cluster.namespace().await?, count, sample, Life::Whole).await?;

        let namespace = cluster.namespace().await?;
        world::template(&client, &namespace).await?;
        let controller = Controller::start(cluster).await?;
        let (_, node) = node::start(client.clone(), &namespace, LENGTH);
        let names = (0..count).map(|number| format!("task-{number}"));
        let tasks = names.map(|name| world::task(&name, world::on_template(world::TEMPLATE))).collect();
        let servers = || processor_time_of(&["kube-apiserver", "etcd"]);
        let before = (controller.writes().await?, servers()?, controller.processor_time()?);
        let begin = Instant::now();
        let (created, ends) =
            tokio::join!(world::create(&client, &namespace, tasks), finished(&client, &namespace, count));
        created?;
        let took = begin.elapsed().as_secs_f64();
        let (server_time, controller_time) =
            (servers()?.saturating_sub(before.1), controller.processor_time()?.saturating_sub(before.2));
        let writes = (before.0, controller.writes().await?);
        node.abort();
        let mut ends: Vec<f64> = ends?.into_iter().map(|end| (end - begin).as_secs_f64()).collect();
        ends.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
        let count = count as f64;
        let each = |time: Duration| 1e3 * time.as_secs_f64() / count;
        let (server_time, controller_time) = (each(server_time), each(controller_time));
        Ok(Self { rate: count / took, limit, ends, server_time, controller_time, writes })
    }

    fn share(&self) -> f64 {
        100.0 * self.rate / self.limit
    }

    fn quantile(&self, part: usize) -> f64 {
        self.ends.get(self.ends.len() * part / 100).copied().unwrap_or_default()
    }
}

/// Waits until `count` Tasks of a namespace have completed. Returns when each did.
pub async fn finished(client: &Client, namespace: &str, count: usize) -> anyhow::Result<Vec<Instant>> {
    let tasks: Api<Task> = Api::namespaced(client.clone(), namespace);
    let mut ends: HashMap<String, Instant> = HashMap::new();
    let wait = async {
        let mut events = tasks.watch(&WatchParams::default(), "0").await?.boxed();
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(task) | WatchEvent::Modified(task) = event? {
                match task.status.as_ref().and_then(|status| status.phase) {
                    Some(TaskPhase::Completed) => {
                        ends.entry(task.name_any()).or_insert_with(Instant::now);
                    }
                    Some(TaskPhase::Failed) => {
                        bail!("Task {} failed: {:?}", task.name_any(), task.status.and_then(|status| status.message));
                    }
                    _ => {}
                }
            }
            if ends.len() == count {
                return Ok(());
            }
        }
        bail!("the watch ended early")
    };
    tokio::time::timeout(LIMIT, wait).await.context("the Tasks did not end in time")??;
    Ok(ends.into_values().collect())
}
