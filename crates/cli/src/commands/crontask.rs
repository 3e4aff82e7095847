//! Commands about CronTasks.

use api::{
    CronTask, Task,
    names::{annotations, labels},
};
use clap::Subcommand;
use domain::cron;
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    get::{self, ListArgs},
    kinds::Kind,
    missing::missing,
    output::{note, print},
    problem::{Answer, Problem},
};

/// A command about CronTasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show CronTasks.
    List(ListArgs),
    /// Create a Task now, besides the schedule.
    Trigger(Args),
    /// Create no further Tasks.
    Suspend(Args),
    /// Create Tasks by the schedule again.
    Resume(Args),
}

/// Arguments of the commands about CronTasks.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CronTask.
    #[arg(value_name = "CRONTASK")]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Command {
    /// The cluster flags of the subcommand.
    pub fn cluster(&self) -> &ClusterArgs {
        match self {
            Self::List(args) => &args.cluster,
            Self::Trigger(args) | Self::Suspend(args) | Self::Resume(args) => &args.cluster,
        }
    }
}

/// Executes the command.
pub async fn run(cluster: Cluster, command: Command) -> Answer<Exit> {
    let (args, patch, done) = match command {
        Command::List(args) => return get::list_kind(cluster, Kind::of_type::<CronTask>()?, args).await,
        Command::Trigger(args) => {
            (args, json!({ "metadata": { "annotations": { annotations::TRIGGER: "true" } } }), "triggered")
        }
        Command::Suspend(args) => (args, suspend(true), "suspended"),
        Command::Resume(args) => (args, suspend(false), "resumed"),
    };
    let api = cluster.api::<CronTask>();
    let Some(found) = api.get_opt(&args.name).await? else {
        return Err(missing(&cluster, &Kind::of_type::<CronTask>()?, &args.name).await);
    };
    let name = found.name_any();
    if done == "triggered" {
        let all = cluster.api::<Task>().list(&ListParams::default()).await?.items;
        if let Some(refusal) = cron::trigger_refusal(&found, &cron::children(&found, &all), Timestamp::now()) {
            let problem = Problem::new(format!("CronTask '{name}' was not triggered: {}", refusal.message));
            let tasks = cluster.hint(format!("kubeopencode get tasks -l {}={name}", labels::CRON_TASK));
            return Err(problem.next(format!("see its Tasks with: {tasks}")));
        }
    }
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    print(&format!("crontask.kubeopencode.io/{name} {done}\n"))?;
    if done == "triggered" {
        let tasks = cluster.hint(format!("kubeopencode get tasks -l {}={name}", labels::CRON_TASK));
        note(&format!("see its Tasks with: {tasks}"));
    }
    Ok(Exit::Success)
}

fn suspend(suspend: bool) -> Value {
    json!({ "spec": { "suspend": suspend } })
}
