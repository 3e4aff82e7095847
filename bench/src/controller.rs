//! The controllers of the release binary, on a cluster.

use std::time::Duration;

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
    pub async fn writes(&self) -> anyhow::Result<u64> {
        let page = reqwest::get(format!("http://127.0.0.1:{}/metrics", self.metrics)).await?.text().await?;
        let lines = page.lines().filter(|line| line.starts_with("kubeopencode_api_writes_total"));
        let counted = lines.filter(|line| !line.contains("resource=\"events\""));
        Ok(counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
    }

    /// Memory in use, in MiB.
    pub fn memory(&self) -> anyhow::Result<f64> {
        self.program.memory()
    }
}
