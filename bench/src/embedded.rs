//! The platform on one machine, beside a real API server on the same one.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use api::{AgentTemplate, AgentTemplateSpec, Task, settings::AgentSettings};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;

use crate::{
    load,
    memory::finished_tasks,
    program::{Program, processor_time_of},
    tasks, world,
};

/// How long each server is written to.
const LOAD: Duration = Duration::from_secs(10);
/// How long doing nothing is watched.
const IDLE: Duration = Duration::from_secs(10);
/// How many short Tasks run, one after another.
const TASKS: usize = 20;
const NAMESPACE: &str = "default";

/// Where Tasks are.
const ALL_TASKS: &str = "/apis/kubeopencode.io/v1alpha1/tasks";

/// Prints all of it. A full store holds `stored` finished Tasks.
pub async fn run(stored: usize) -> anyhow::Result<()> {
    println!("kubeopencode up");
    let mut starts = Vec::new();
    for _ in 0..5 {
        starts.push(Platform::start().await?.took);
    }
    let platform = Platform::start().await?;
    println!("  start to first list of Tasks {:4.0} ms (cold, median of 5)", millis(median(&mut starts)));
    println!("  trivial Task, apply to Completed {:.0} ms (median of {TASKS})", millis(trivial_task(&platform).await?));
    println!("  processor when idle       {:8.2} %", idle(&platform).await?);
    durable_writes(&platform).await?;

    let client = platform.client().await?;
    finished_tasks(&client, NAMESPACE, stored).await?;
    let mut lists = Vec::new();
    let every = Api::<Task>::namespaced(client, NAMESPACE);
    for _ in 0..5 {
        let begin = Instant::now();
        let found = every.list_metadata(&ListParams::default()).await?.items.len();
        lists.push(begin.elapsed());
        if found < stored {
            bail!("{found} Tasks of {stored} are listed");
        }
    }
    println!("{stored} finished Tasks");
    println!("  list of their metadata    {:7.0} ms", millis(median(&mut lists)));
    println!("  list, whole, as bytes     {:7.0} ms", millis(platform.whole_list().await?));
    println!("  memory of the platform    {:7.0} MiB", platform.program.memory()?);
    println!("  processor when idle       {:8.2} %", idle(&platform).await?);
    Ok(())
}

/// A platform with a state directory of its own. Both go with this value.
struct Platform {
    program: Program,
    took: Duration,
    kubeconfig: PathBuf,
    _dir: TempDir,
}

impl Platform {
    /// Starts one, and returns when its API server has answered a question about our kinds.
    async fn start() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (state, kubeconfig) = (dir.path().join("state"), dir.path().join("kubeconfig"));
        let begin = Instant::now();
        let text = |path: &Path| path.display().to_string();
        let program = Program::start(
            &[
                "up",
                "--host-images",
                "--api-port=0",
                "--port=0",
                "--state-dir",
                &text(&state),
                "--kubeconfig",
                &text(&kubeconfig),
            ],
            None,
        )?;
        while begin.elapsed() < Duration::from_secs(30) {
            if kubeconfig.exists()
                && let Ok(client) = connect(&kubeconfig).await
                && client.request_text(get(ALL_TASKS)?).await.is_ok()
            {
                return Ok(Self { program, took: begin.elapsed(), kubeconfig, _dir: dir });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("the platform did not answer within 30 s")
    }

    async fn client(&self) -> anyhow::Result<Client> {
        connect(&self.kubeconfig).await
    }

    /// How long it takes to fetch all Tasks.
    async fn whole_list(&self) -> anyhow::Result<Duration> {
        let client = self.client().await?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let begin = Instant::now();
            client.request_text(get(ALL_TASKS)?).await?;
            times.push(begin.elapsed());
        }
        Ok(median(&mut times))
    }
}

async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Time from the request that creates the Task to its final status.
async fn trivial_task(platform: &Platform) -> anyhow::Result<Duration> {
    let client = platform.client().await?;
    let settings = AgentSettings { command: Some(vec!["true".into()]), ..AgentSettings::default() };
    let template = AgentTemplate::new(world::TEMPLATE, AgentTemplateSpec { settings, ..AgentTemplateSpec::default() });
    Api::<AgentTemplate>::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &template).await?;
    let mut times = Vec::new();
    for number in 0..TASKS {
        let task = world::task(&format!("short-{number}"), world::on_template(world::TEMPLATE));
        let begin = Instant::now();
        let (created, ends) = tokio::join!(
            world::create(&client, NAMESPACE, vec![task]),
            tasks::finished(&client, NAMESPACE, number + 1),
        );
        created?;
        times.push(ends?.into_iter().max().context("no end")? - begin);
    }
    Ok(median(&mut times))
}

/// Share of one processor that the idle platform uses.
async fn idle(platform: &Platform) -> anyhow::Result<f64> {
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = platform.program.processor_time()?;
    tokio::time::sleep(IDLE).await;
    Ok(100.0 * platform.program.processor_time()?.saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64())
}

/// The same writes to this server and to a real one, both of which wait for the disk.
async fn durable_writes(platform: &Platform) -> anyhow::Result<()> {
    let before = platform.program.processor_time()?;
    let ours = load::run(async || platform.client().await, NAMESPACE, LOAD).await?;
    let our_time = platform.program.processor_time()?.saturating_sub(before);

    let cluster = world::start_with(testenv::Options { durable: true, ..testenv::Options::api_only() }).await?;
    let namespace = cluster.namespace().await?;
    let servers = ["kube-apiserver", "etcd"];
    let before = processor_time_of(&servers)?;
    let theirs = load::run(async || Ok(cluster.client().await?), &namespace, LOAD).await?;
    let their_time = processor_time_of(&servers)?.saturating_sub(before);

    let each = |time: Duration, rate: &load::Rate| millis(time) / f64::from(rate.writes);
    let (our_cost, their_cost) = (each(our_time, &ours), each(their_time, &theirs));
    println!("durable writes by 16 clients at once");
    println!("  here                      {:7.0} a second, {our_cost:.2} ms of processor each", ours.a_second());
    println!("  kube-apiserver and etcd   {:7.0} a second, {their_cost:.2} ms of processor each", theirs.a_second());
    println!(
        "  ratio                     {:7.1} times the rate, {:.2} of the processor time",
        ours.a_second() / theirs.a_second(),
        our_cost / their_cost
    );
    Ok(())
}

fn get(path: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
