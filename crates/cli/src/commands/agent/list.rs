//! `agent list`: Agents with their load.

use jiff::Timestamp;

use crate::commands::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    output::{note, print},
    problem::Answer,
    screen::Screen,
    top,
};

/// Arguments of `agent list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// In every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Shows Agents with their load.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let load = top::Load::fetch(&cluster, args.all_namespaces).await?;
    if load.agents.is_empty() {
        note("no agents found; --all-namespaces looks everywhere");
        return Ok(Exit::Success);
    }
    print(&top::agents(&load, args.all_namespaces, Timestamp::now()).show(&Screen::stdout()))?;
    Ok(Exit::Success)
}
