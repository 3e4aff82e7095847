//! `testenv`: brings up a real Kubernetes by hand, or fills the cache that tests start from.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};
use testenv::{Cluster, Options, Program};

/// A real Kubernetes on this machine, for tests.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Start a cluster and keep it until Ctrl-C.
    Up {
        /// Add a node that runs Pods (needs root).
        #[arg(long)]
        node: bool,
        /// Work in this new or empty directory, which is deleted at the end.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Build or download the programs of a cluster, and those of back ends.
    Build {
        /// Include the programs of a node.
        #[arg(long)]
        node: bool,
    },
    /// Show where each binary is.
    Env,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Action::Up { node, dir } => up(Options { node, dir, ..Options::default() }).await,
        Action::Build { node } => {
            testenv::prepare(&Options { node, ..Options::default() }).await?;
            tokio::task::spawn_blocking(|| Program::Versitygw.obtain()).await??;
            eprintln!("Everything is in {}.", testenv::cache()?.display());
            Ok(())
        }
        Action::Env => env(),
    }
}

async fn up(options: Options) -> anyhow::Result<()> {
    let started = Instant::now();
    let cluster = testenv::start(options).await?;
    println!("{}", exports(&cluster));
    eprintln!(
        "Kubernetes {} is ready after {:.1} s. Paste the line above into another terminal; Ctrl-C here ends it.",
        testenv::VERSION,
        started.elapsed().as_secs_f32()
    );
    tokio::signal::ctrl_c().await?;
    eprintln!("Removing the cluster.");
    Ok(())
}

fn exports(cluster: &Cluster) -> String {
    let bin = cluster.kubectl().parent().unwrap_or(cluster.kubectl());
    format!("export KUBECONFIG={} PATH={}:$PATH", cluster.kubeconfig_path().display(), bin.display())
}

fn env() -> anyhow::Result<()> {
    println!("cache: {}", testenv::cache()?.display());
    for program in Program::CONTROL_PLANE.into_iter().chain(Program::NODE) {
        let place = program.find()?.map_or("not built yet".to_owned(), |path| path.display().to_string());
        println!("{}: {place}", program.name());
    }
    Ok(())
}
