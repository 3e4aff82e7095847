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

use crate::{bare, controller::Controller, node, world};

/// The stub kubelet ends a Pod after this time.
const LENGTH: Duration = Duration::from_millis(100);
/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_mins(5);

/// Prints throughput, latency and writes for each Task.
pub async fn run(count: usize) -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let client = cluster.client().await?;
    let controller = Controller::start(&cluster).await?;

    // One Task first: connections are made, and its Pod and status are the sample for the bare client.
    let warm = cluster.namespace().await?;
    world::template(&client, &warm).await?;
    let (_, node) = node::start(client.clone(), &warm, LENGTH);
    world::create(&client, &warm, vec![world::task("sample", world::on_template(world::TEMPLATE))]).await?;
    finished(&client, &warm, 1).await?;
    let pod = Api::<Pod>::namespaced(client.clone(), &warm).get("sample-pod").await?;
    let ended = Api::<Task>::namespaced(client.clone(), &warm).get("sample").await?;
    node.abort();
    // While the bare client writes, nobody else does.
    drop(controller);

    let bare_namespace = cluster.namespace().await?;
    let limit = bare::rate(&client, &bare_namespace, count, &(pod, ended)).await?;

    let namespace = cluster.namespace().await?;
    world::template(&client, &namespace).await?;
    let controller = Controller::start(&cluster).await?;
    let (_, node) = node::start(client.clone(), &namespace, LENGTH);
    let writes = controller.writes().await?;
    let tasks =
        (0..count).map(|number| world::task(&format!("task-{number}"), world::on_template(world::TEMPLATE))).collect();
    let begin = Instant::now();
    let (created, ends) = tokio::join!(world::create(&client, &namespace, tasks), finished(&client, &namespace, count));
    created?;
    let mut ends = ends?;
    let took = begin.elapsed().as_secs_f64();
    let after = controller.writes().await?;
    node.abort();
    ends.sort_unstable();
    let quantile = |part: usize| ends.get(ends.len() * part / 100).map_or(0.0, |end| (*end - begin).as_secs_f64());
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let rate = count as f64 / took;
    println!("{count} Tasks on a template at once, Pods of 100 ms");
    println!("  Tasks a second            {rate:8.1}");
    println!("  bare client, {} writes each {limit:6.1}", bare::WRITES);
    println!("  share of the limit        {:7.0} %", 100.0 * rate / limit);
    println!("  ended after, p50 / p99    {:6.2} s / {:.2} s", quantile(50), quantile(99));
    after.print_since(&writes, count);
    Ok(())
}

/// Waits until `count` Tasks of a namespace have completed. Answers when each did.
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
    tokio::time::timeout(PATIENCE, wait).await.context("the Tasks did not end in time")??;
    Ok(ends.into_values().collect())
}
