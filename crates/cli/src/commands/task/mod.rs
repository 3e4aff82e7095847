//! Commands about Tasks.

pub mod artifacts;
pub mod diff;
pub mod follow;
pub mod logs;
pub mod outputs;
mod patch;
pub mod pull;
pub mod rerun;
pub mod results;
pub mod run;
pub mod runs;
pub mod stage;
pub mod stop;

use clap::Subcommand;

use super::{connect::ClusterArgs, exit, exit::Exit, explain, get, kinds::Kind, problem::Answer};

/// A command about Tasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show Tasks.
    List(get::ListArgs),
    /// Show the log of a Task.
    Logs(logs::Args),
    /// Explain why a Task waits or failed, an Agent is not ready or a CronTask does not run.
    Explain(explain::Args),
    /// Show how each run of a Task ended.
    Runs(runs::Args),
    /// Stop Tasks. Their logs stay.
    Stop(stop::Args),
    /// Run a finished Task again.
    #[command(after_long_help = exit::HELP)]
    Rerun(rerun::Args),
}

impl Command {
    /// Executes the command. `before` are the flags before the subcommand.
    pub async fn run(self, before: &ClusterArgs) -> Answer<Exit> {
        let cluster = match &self {
            Self::List(args) => &args.cluster,
            Self::Logs(args) => &args.cluster,
            Self::Explain(args) => &args.cluster,
            Self::Runs(args) => &args.cluster,
            Self::Stop(args) => &args.cluster,
            Self::Rerun(args) => &args.cluster,
        };
        let cluster = cluster.clone().or(before).connect().await?;
        match self {
            Self::List(args) => get::list_kind(cluster, Kind::of_type::<api::Task>()?, args).await,
            Self::Logs(args) => Box::pin(logs::run(cluster, args)).await,
            Self::Explain(args) => explain::run(cluster, args).await,
            Self::Runs(args) => runs::run(cluster, args).await,
            Self::Stop(args) => stop::run(cluster, args).await,
            Self::Rerun(args) => rerun::run(cluster, args).await,
        }
    }
}
