//! `version`: prints the versions of this program and of the cluster.

use std::time::Duration;

use serde::Serialize;

use super::{
    connect::ClusterArgs,
    exit::Exit,
    output::{DataFormat, note, print},
    problem::{Answer, Problem},
};

/// Timeout of the cluster's version: a cluster that does not respond must not prevent printing the version of this
/// program.
const PATIENCE: Duration = Duration::from_secs(5);

/// Arguments of `version`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this program; ask no cluster.
    #[arg(long)]
    client: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = DataFormat::Text)]
    output: DataFormat,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

#[derive(Clone, Debug, Serialize)]
struct Versions {
    /// Version of this program.
    client: &'static str,
    /// `None` if the cluster does not respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerVersion>,
}

/// Version and address of the cluster.
#[derive(Clone, Debug, Serialize)]
struct ServerVersion {
    /// Kubernetes version.
    kubernetes: String,
    /// Address of the API server.
    address: String,
}

/// Prints versions.
pub async fn run(before: &ClusterArgs, args: Args) -> Answer<Exit> {
    let mut versions = Versions { client: env!("CARGO_PKG_VERSION"), server: None };
    if !args.client {
        match tokio::time::timeout(PATIENCE, ask(&args.cluster.or(before))).await {
            Ok(Ok(server)) => versions.server = Some(server),
            Ok(Err(problem)) => note(&format!("no version of the cluster: {problem}")),
            Err(_) => note(&format!("no version of the cluster: no answer in {} s", PATIENCE.as_secs())),
        }
    }
    print(&args.output.show(&versions, show)?)?;
    Ok(Exit::Success)
}

async fn ask(args: &ClusterArgs) -> Result<ServerVersion, Problem> {
    let cluster = args.connect().await?;
    let version = cluster.client.apiserver_version().await?;
    Ok(ServerVersion { kubernetes: version.git_version, address: cluster.server })
}

fn show(versions: &Versions) -> String {
    let server = versions.server.as_ref();
    let server = server.map(|server| format!("Kubernetes {} at {}\n", server.kubernetes, server.address));
    format!("kubeopencode {}\n{}", versions.client, server.unwrap_or_default())
}
