//! The command line: parse arguments, wire the crates, nothing else.

pub mod commands;
pub mod controller;
pub mod crds;
pub mod down;
mod examples;
pub mod helpers;
pub mod log_archive;
pub mod login;
pub mod oidc;
pub mod process;
mod retention_args;
pub mod server;
mod store_args;
pub mod up;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Dispatches on the program's name and arguments.
pub fn main() -> ExitCode {
    // The node starts containers through this program.
    if let Some(code) = up::as_container() {
        return code;
    }
    // The attach image contains this binary under the name of the program that it replaces.
    helpers::as_opencode().unwrap_or_else(|| {
        let parsed = Cli::from_arg_matches(&command().get_matches());
        parsed.unwrap_or_else(|error| error.exit()).run()
    })
}

/// The whole command line, with an example in the help of every command.
pub fn command() -> clap::Command {
    examples::add(Cli::command())
}

/// Run AI coding agents on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "kubeopencode", version, propagate_version = true, after_long_help = commands::exit::HELP)]
pub struct Cli {
    #[command(flatten)]
    cluster: commands::connect::ClusterArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    User(commands::Command),
    /// Start the whole platform on this machine, without a cluster.
    Up(up::Args),
    /// Stop the platform on this machine.
    Down(down::Args),
    /// Print a new link that signs in to the page of the platform on this machine.
    Login(login::Args),
    /// Run the controllers for Tasks, Agents and CronTasks.
    Controller(controller::Args),
    /// Serve the REST API and the web page.
    Server(Box<server::Args>),
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.
    Crds(crds::Args),
    /// The helpers inside Pods.
    #[command(flatten)]
    Helper(helpers::Helper),
}

impl Cli {
    /// Executes the command. The exit codes are those of [`commands::exit::Exit`]; clap itself exits with 2 on bad
    /// arguments, and helpers that run a Task have codes of their own.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::User(command) => return command.run(&self.cluster),
            Command::Up(args) => runtime().and_then(|runtime| runtime.block_on(up::run(args))),
            Command::Down(args) => down::run(args),
            Command::Login(args) => runtime().and_then(|runtime| runtime.block_on(login::run(args))),
            Command::Controller(args) => runtime().and_then(|runtime| runtime.block_on(controller::run(args))),
            Command::Server(args) => runtime().and_then(|runtime| runtime.block_on(server::run(*args))),
            Command::Crds(args) => crds::print(&args, &mut io::stdout().lock()),
            Command::Helper(helper) => return helper.run(),
        };
        exit_code(done)
    }
}

/// The runtime of long-running commands.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

fn exit_code(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe (`kubeopencode crds | head`) is not a failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; nothing else can be done.
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
