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
use crate::later::Later;

/// A command about Agents.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open the agent's terminal here. Wakes the Agent if it is suspended, and keeps it awake meanwhile.
    Attach(Later<attach::Args>),
    /// Show Agents with their load.
    List(Later<list::Args>),
    /// Scale an Agent to zero. It stays so until somebody resumes it.
    Suspend(Later<suspend::Args>),
    /// Start a suspended Agent again.
    Resume(Later<suspend::Args>),
    /// Share the agent's terminal by a link, or show the link.
    Share(Later<share::Args>),
    /// Close the link.
    Unshare(Later<share::UnshareArgs>),
}

impl Command {
    /// The flags about the cluster.
    pub fn cluster(&self) -> &ClusterArgs {
        match self {
            Self::Attach(Later(args)) => &args.cluster,
            Self::List(Later(args)) => &args.cluster,
            Self::Suspend(Later(args)) | Self::Resume(Later(args)) => &args.cluster,
            Self::Share(Later(args)) => &args.cluster,
            Self::Unshare(Later(args)) => &args.cluster,
        }
    }
}

/// Does it.
pub async fn run(cluster: Cluster, command: Command) -> Answer<Exit> {
    match command {
        Command::Attach(Later(args)) => Box::pin(attach::run(cluster, args)).await,
        Command::List(Later(args)) => list::run(cluster, args).await,
        Command::Suspend(Later(args)) => Box::pin(suspend::run(cluster, args, true)).await,
        Command::Resume(Later(args)) => Box::pin(suspend::run(cluster, args, false)).await,
        Command::Share(Later(args)) => share::run(cluster, args).await,
        Command::Unshare(Later(args)) => share::close(cluster, args).await,
    }
}
