//! The REST server with many Tasks and many open streams.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use futures::future::try_join_all;
use reqwest::{Client, Response};

use crate::{
    memory::finished_tasks,
    program::{Program, free_port},
    world,
};

const TASKS: usize = 10_000;
const STREAMS: usize = 500;
/// Clients that ask at the same time, and for how long.
const CLIENTS: usize = 16;
const LENGTH: Duration = Duration::from_secs(5);

/// Prints the time of a list, the rate of lists beside a server that asks the API server for everything each time, and
/// the memory.
pub async fn run() -> anyhow::Result<()> {
    let cluster = world::start().await?;
    let namespace = cluster.namespace().await?;
    let client = cluster.client().await?;
    finished_tasks(&client, &namespace, TASKS).await?;

    let port = free_port()?;
    let args = [
        "server".to_owned(),
        format!("--address=127.0.0.1:{port}"),
        "--anonymous".to_owned(),
        "--requests-per-second=0".to_owned(),
        "--log=warn".to_owned(),
    ];
    let server = Program::start(&args, Some(cluster.kubeconfig_path()))?;
    let base = format!("http://127.0.0.1:{port}");
    let list = format!("{base}/api/v1/namespaces/{namespace}/tasks?limit=50");
    let http = Client::new();
    ready(&http, &list).await?;
    let before = server.memory()?;

    let mut times = Vec::new();
    for _ in 0..200 {
        let begin = Instant::now();
        http.get(&list).send().await?.error_for_status()?.bytes().await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let rate = rate(async || {
        http.get(&list).send().await?.error_for_status()?.bytes().await?;
        Ok(())
    })
    .await?;
    let every = format!("/apis/kubeopencode.io/v1alpha1/namespaces/{namespace}/tasks");
    let listing = self::rate(async || {
        client.request_text(http::Request::get(&every).body(Vec::new())?).await?;
        Ok(())
    })
    .await?;

    let stream = format!("{base}/api/v1/events/stream");
    let streams: Vec<Response> = try_join_all((0..STREAMS).map(|_| http.get(&stream).send())).await?;
    ensure!(streams.iter().all(|stream| stream.status().is_success()), "a stream was refused");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = server.memory()?;

    println!("REST server with {TASKS} Tasks");
    println!("  list of 50, p50 / p99     {:7.2} ms / {:.2} ms", millis(times[100]), millis(times[198]));
    println!("  lists a second            {rate:7.0} by {CLIENTS} clients");
    println!("  whole lists of the API server a second {listing:.1}: at best what a server without a cache answers");
    println!("  ratio                     {:7.0} times", rate / listing);
    println!("  memory                    {before:7.0} MiB, {after:.0} MiB with {STREAMS} streams");
    Ok(())
}

/// Waits until the server lists all Tasks.
async fn ready(http: &Client, list: &str) -> anyhow::Result<()> {
    for _ in 0..300 {
        if let Ok(answer) = http.get(list).send().await
            && answer.status().is_success()
            && answer.text().await?.contains(&format!("\"total\":{TASKS}"))
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the server does not list {TASKS} Tasks")
}

/// How often a second several clients can do this.
async fn rate(once: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let counts = try_join_all((0..CLIENTS).map(async |_| {
        let mut count = 0_u32;
        while begin.elapsed() < LENGTH {
            once().await?;
            count += 1;
        }
        anyhow::Ok(count)
    }))
    .await?;
    Ok(f64::from(counts.into_iter().sum::<u32>()) / begin.elapsed().as_secs_f64())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
