//! Commands about Tasks.

pub mod follow;
pub mod logs;
pub mod rerun;
pub mod run;
pub mod runs;
pub mod stage;
pub mod stop;

use clap::Subcommand;

use super::{connect::ClusterArgs, exit, exit::Exit, explain, problem::Answer};
use crate::later::Later;

/// A command about Tasks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the log of a Task.
    Logs(Later<logs::Args>),
    /// Tell why a Task waits or failed, and where its settings come from.
    Explain(Later<explain::Args>),
    /// Show how each run of a Task ended.
    Runs(Later<runs::Args>),
    /// Stop Tasks. Their logs stay.
    Stop(Later<stop::Args>),
    /// Run a Task that has ended once more.
    #[command(after_long_help = exit::HELP)]
    Rerun(Later<rerun::Args>),
}

impl Command {
    /// Does it. `before` are the flags that stand before the command.
    pub async fn run(self, before: &ClusterArgs) -> Answer<Exit> {
        let cluster = match &self {
            Self::Logs(Later(args)) => &args.cluster,
            Self::Explain(Later(args)) => &args.cluster,
            Self::Runs(Later(args)) => &args.cluster,
            Self::Stop(Later(args)) => &args.cluster,
            Self::Rerun(Later(args)) => &args.cluster,
        };
        let cluster = cluster.clone().or(before).connect().await?;
        match self {
            Self::Logs(Later(args)) => logs::run(cluster, args).await,
            Self::Explain(Later(args)) => explain::run(cluster, args).await,
            Self::Runs(Later(args)) => runs::run(cluster, args).await,
            Self::Stop(Later(args)) => stop::run(cluster, args).await,
            Self::Rerun(Later(args)) => rerun::run(cluster, args).await,
        }
    }
}
