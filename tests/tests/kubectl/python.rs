//! The Python package `kubernetes`, which knows nothing of us.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use blackbox::{cases, runner::Case};
use tokio::{process::Command, sync::OnceCell, time::timeout};

use crate::{terminal::POD, world::World};

pub const CASES: &[Case] = cases![a_python_client_runs_commands_and_follows_logs];

/// The script takes seconds; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(2);

/// Objects and watches, on any server.
pub async fn objects(world: &World) -> anyhow::Result<()> {
    run(world, "objects").await
}

/// A watch that begins too long ago. Kubernetes' own server forgets only after minutes.
pub async fn forgetting(world: &World) -> anyhow::Result<()> {
    run(world, "forgetting").await
}

async fn a_python_client_runs_commands_and_follows_logs() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    world.create(POD).await?;
    world.kubectl_output(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"]).await?;
    run(&world, "pods").await
}

async fn run(world: &World, part: &str) -> anyhow::Result<()> {
    let script = cases::repository("tests/tests/kubectl/client.py");
    let mut command = world.program(python().await?.as_ref());
    let output = command.arg("-W").arg("error::UserWarning").arg(script).arg(part).arg(&world.namespace).output();
    let output = timeout(LIMIT, output).await.context("the script does not end")??;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The Python that has the package, installed if it is not there.
async fn python() -> anyhow::Result<&'static str> {
    static PYTHON: OnceCell<String> = OnceCell::const_new();
    let path = PYTHON.get_or_try_init(|| async {
        let output = Command::new(cases::repository("scripts/python")).output().await?;
        ensure!(output.status.success(), "scripts/python: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    });
    Ok(path.await?)
}
