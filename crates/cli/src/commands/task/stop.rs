//! `stop`: stops Tasks; their changes and logs stay.

use api::{Task, names::annotations};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::follow::{Follow, find};
use crate::commands::{
    apply::combine_problems,
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::print,
    problem::{Answer, Problem},
};

/// Arguments of `stop`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tasks to stop.
    #[arg(required = true, value_name = "TASK")]
    names: Vec<String>,
    /// Wait until they have ended.
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Requests the stop of Tasks.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let mut problems = Vec::new();
    let mut stopping = Vec::new();
    for name in &args.names {
        match stop(&cluster, name).await {
            Ok(name) => {
                print(&format!("task.kubeopencode.io/{name} is being stopped\n"))?;
                stopping.push(name);
            }
            Err(problem) => problems.push(problem),
        }
    }
    if args.wait {
        for name in stopping {
            let follow = Follow { stages: true, ..Follow::default() };
            if let Err(problem) = follow.to_the_end(&cluster, &name).await {
                problems.push(problem);
            }
        }
    }
    combine_problems(problems)
}

async fn stop(cluster: &Cluster, name: &str) -> Answer<String> {
    let task = find(cluster, name).await?;
    let name = task.metadata.name.clone().unwrap_or_default();
    if Exit::of_task(&task).is_some() {
        return Err(Problem::new(format!("Task '{name}' has ended already")));
    }
    ask(cluster, &name).await?;
    Ok(name)
}

/// Requests the stop of a Task.
pub async fn ask(cluster: &Cluster, name: &str) -> Answer<()> {
    let patch = json!({ "metadata": { "annotations": { annotations::STOP: "true" } } });
    cluster.api::<Task>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
