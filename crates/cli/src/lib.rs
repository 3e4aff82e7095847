//! The command line: parse arguments, wire the crates, nothing else.

pub mod crds;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

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
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.
    Crds(crds::Args),
    /// Print the version.
    Version,
}

impl Cli {
    /// Does what was asked. The exit code is 0 on success and 1 on failure; clap itself exits with 2 on bad arguments.
    pub fn run(self) -> ExitCode {
        let mut out = io::stdout().lock();
        let done = match self.command {
            Command::Crds(args) => crds::print(&args, &mut out),
            Command::Version => {
                writeln!(out, "kubeopencode {}", env!("CARGO_PKG_VERSION")).map_err(anyhow::Error::from)
            }
        };
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
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
