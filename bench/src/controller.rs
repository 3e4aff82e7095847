//! The controllers of the release binary, on a cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::bail;
use testenv::Cluster;

use crate::program::{Program, free_port};

/// A controller that runs; it ends with this value.
pub struct Controller {
    program: Program,
    metrics: u16,
}

impl Controller {
    /// Starts `kubeopencode controller` on a cluster, and returns when it is ready.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let (metrics, health) = (free_port()?, free_port()?);
        let arguments = [
            "controller".to_owned(),
            "--log=warn".to_owned(),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
        ];
        let program = Program::start(&arguments, Some(cluster.kubeconfig_path()))?;
        let controller = Self { program, metrics };
        for _ in 0..300 {
            let answer = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(controller);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the controller was not ready within 30 s")
    }

    /// Writes to the API server so far, events aside.
    pub async fn writes(&self) -> anyhow::Result<Writes> {
        let page = reqwest::get(format!("http://127.0.0.1:{}/metrics", self.metrics)).await?.text().await?;
        let lines =
            page.lines().filter_map(|line| line.strip_prefix("kubeopencode_api_writes_total{")?.split_once("} "));
        let counted = lines.filter(|(what, _)| !what.contains("resource=\"events\""));
        Ok(Writes(counted.filter_map(|(what, count)| Some((what.replace('"', ""), count.parse().ok()?))).collect()))
    }

    /// Memory in use, in MiB.
    pub fn memory(&self) -> anyhow::Result<f64> {
        self.program.memory()
    }

    /// Processor time taken so far.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        self.program.processor_time()
    }
}

/// Number of writes for each kind of object and verb.
pub struct Writes(BTreeMap<String, u64>);

impl Writes {
    /// Prints the writes since `before`, per Task.
    pub fn print_since(&self, before: &Self, tasks: usize) {
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let each = |count: u64| count as f64 / tasks as f64;
        let since = |(what, count): (&String, &u64)| (what.clone(), count - before.0.get(what).unwrap_or(&0));
        let new: Vec<(String, u64)> = self.0.iter().map(since).filter(|(_, count)| *count > 0).collect();
        println!("  controller writes a Task  {:8.2}", each(new.iter().map(|(_, count)| count).sum()));
        for (what, count) in new {
            println!("    {what:24}{:8.2}", each(count));
        }
    }
}
