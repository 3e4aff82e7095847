//! The command line: parse arguments, wire the crates, nothing else.

pub mod controller;
pub mod crds;
pub mod helpers;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};

/// Run AI coding agents on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "kubeopencode", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the controllers: they do what Tasks, Agents and CronTasks say.
    Controller(controller::Args),
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.
    Crds(crds::Args),
    /// Print the version.
    Version,
    /// What runs inside Pods.
    #[command(flatten)]
    Helper(helpers::Helper),
}

impl Cli {
    /// Does what was asked. The exit code is 0 on success and 1 on failure; clap itself exits with 2 on bad arguments.
    /// Helpers that run a Task have codes of their own.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Controller(args) => runtime().and_then(|runtime| runtime.block_on(controller::run(args))),
            Command::Crds(args) => crds::print(&args, &mut io::stdout().lock()),
            Command::Version => version(),
            Command::Helper(helper) => return helper.run(),
        };
        exit_code(done)
    }
}

fn version() -> anyhow::Result<()> {
    writeln!(io::stdout(), "kubeopencode {}", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}

/// The runtime of long-running commands.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

fn exit_code(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // `kubeopencode crds | head` is no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do if even standard error is gone.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
