//! `rerun`: runs a finished Task again, with the next epoch.

use api::{Task, names::annotations};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    follow::{Follow, find},
    run::attend,
};
use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    log::LogArgs,
    output::print,
    problem::{Answer, Problem},
};

/// Arguments of `rerun`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Task that has ended.
    #[arg(value_name = "TASK")]
    name: String,
    /// Stream the log of the new run and exit with its result.
    #[arg(short, long)]
    follow: bool,
    /// Wait for the new run and exit with its result.
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Requests another run.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let task = find(&cluster, &args.name).await?;
    let name = task.metadata.name.clone().unwrap_or_default();
    if Exit::of_task(&task).is_none() {
        return Err(Problem::new(format!("Task '{name}' has not ended yet"))
            .next(format!("stop it first: {}", cluster.hint(format!("kubeopencode stop {name} --wait")))));
    }
    let known = task.status.as_ref().and_then(|status| status.run_epoch).unwrap_or(0);
    let patch = json!({ "metadata": { "annotations": {
        annotations::RERUN: Timestamp::now().to_string(),
        // A rerun cancels an earlier stop request.
        annotations::STOP: Value::Null,
    } } });
    cluster.api::<Task>().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    print(&format!("task.kubeopencode.io/{name} runs again\n"))?;
    if !args.follow && !args.wait {
        return Ok(Exit::Success);
    }
    let follow = Follow { log: args.follow.then(LogArgs::default), stages: true, after_run: Some(known) };
    attend(&cluster, &name, &follow, false).await
}
