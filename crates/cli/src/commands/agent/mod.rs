//! Commands about Agents.

mod attach;
mod list;
mod share;
mod suspend;

use clap::Subcommand;

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    problem::Answer,
};

/// A command about Agents.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open the agent's terminal here. Wakes the Agent if it is suspended, and keeps it awake meanwhile.
    Attach(attach::Args),
    /// Show Agents with their load.
    List(list::Args),
    /// Scale an Agent to zero until it is resumed.
    Suspend(suspend::Args),
    /// Start a suspended Agent again.
    Resume(suspend::Args),
    /// Share the agent's terminal by a link, or show the link.
    Share(share::Args),
    /// Close the link.
    Unshare(share::UnshareArgs),
}

impl Command {
    /// The cluster flags of the subcommand.
    pub fn cluster(&self) -> &ClusterArgs {
        match self {
            Self::Attach(args) => &args.cluster,
            Self::List(args) => &args.cluster,
            Self::Suspend(args) | Self::Resume(args) => &args.cluster,
            Self::Share(args) => &args.cluster,
            Self::Unshare(args) => &args.cluster,
        }
    }
}

/// Executes the command.
pub async fn run(cluster: Cluster, command: Command) -> Answer<Exit> {
    match command {
        Command::Attach(args) => Box::pin(attach::run(cluster, args)).await,
        Command::List(args) => list::run(cluster, args).await,
        Command::Suspend(args) => Box::pin(suspend::run(cluster, args, true)).await,
        Command::Resume(args) => Box::pin(suspend::run(cluster, args, false)).await,
        Command::Share(args) => Box::pin(share::run(cluster, args)).await,
        Command::Unshare(args) => share::close(cluster, args).await,
    }
}
