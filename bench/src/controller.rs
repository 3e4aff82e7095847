//! The release binary as a child process.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use testenv::Cluster;

/// A controller that runs; it ends with this value.
pub struct Controller {
    child: Child,
    metrics: u16,
}

impl Controller {
    /// Starts `kubeopencode controller` on a cluster, and returns when it is ready.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let binary = std::env::current_exe()?.with_file_name("kubeopencode");
        if !binary.exists() {
            bail!("{} is not there: run `make bench`", binary.display());
        }
        let (metrics, health) = (free_port()?, free_port()?);
        let child = Command::new(binary)
            .args(["controller", "--log", "warn"])
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .env("KUBECONFIG", cluster.kubeconfig_path())
            .stdout(Stdio::null())
            .spawn()
            .context("the controller does not start")?;
        let controller = Self { child, metrics };
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
