//! The commands with which people and scripts work with a cluster.
//!
//! Each module is one command: its arguments, its I/O, and pure functions that render text. Shared parts are in
//! [`connect`], `kinds`, `screen`, `table` and `problem`.

mod agent;
mod apply;
mod columns;
mod completion;
pub mod connect;
mod crontask;
mod delete;
mod describe;
mod doctor;
pub mod exit;
mod explain;
mod get;
mod kinds;
mod log;
mod man;
mod manifest;
mod missing;
mod money;
mod output;
mod permission;
mod problem;
mod rest;
mod screen;
mod setup;
mod size;
mod span;
mod store;
mod table;
mod task;
mod top;
mod tunnel;
mod version;

use std::process::ExitCode;

use api::AgentTemplate;
use clap::Subcommand;

use connect::{Cluster, ClusterArgs};
use exit::Exit;
use kinds::Kind;
use problem::{Answer, Problem};

/// A command for people and scripts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a Task, stream its log and exit with its result.
    #[command(after_long_help = exit::HELP)]
    Run(task::run::Args),
    /// Show objects: Tasks, Agents, and every other kind.
    Get(get::Args),
    /// Show everything about an object, with its conditions and events.
    Describe(describe::Args),
    /// Create or update objects from manifests.
    Apply(apply::Args),
    /// Delete objects.
    Delete(delete::Args),
    /// Show the log of a Task.
    Logs(task::logs::Args),
    /// Explain why a Task waits or failed, an Agent is not ready or a CronTask does not run.
    Explain(explain::Args),
    /// Show how each run of a Task ended.
    Runs(task::runs::Args),
    /// Show the current load and cost of Agents.
    Top(top::Args),
    /// Show and download the files that a Task left.
    Artifacts(task::artifacts::Args),
    /// Show the changes of a Task.
    Diff(task::diff::Args),
    /// Apply the changes of a Task to a checkout on this machine.
    Pull(task::pull::Args),
    /// Show the outputs of a Task.
    Outputs(task::outputs::Args),
    /// Stop Tasks. Their logs stay.
    Stop(task::stop::Args),
    /// Run a finished Task again.
    #[command(after_long_help = exit::HELP)]
    Rerun(task::rerun::Args),
    /// Approve an agent's permission request.
    Approve(permission::ApproveArgs),
    /// Deny an agent's permission request.
    Deny(permission::DenyArgs),
    /// Work with Agents.
    #[command(subcommand, visible_alias = "agents")]
    Agent(agent::Command),
    /// Work with CronTasks.
    #[command(subcommand, visible_aliases = ["ct", "crontasks"])]
    Crontask(crontask::Command),
    /// Work with Tasks; most subcommands are also top-level commands.
    #[command(subcommand, visible_alias = "tasks")]
    Task(task::Command),
    /// Show AgentTemplates.
    #[command(visible_alias = "template")]
    Templates(get::ListArgs),
    /// Set up a model: test a provider and its key, save them, run a first Task.
    Setup(Box<setup::Args>),
    /// Work on the store of logs, records and artifacts itself.
    #[command(subcommand)]
    Store(store::Command),
    /// Check what the platform needs and how to fix what is missing.
    Doctor(doctor::Args),
    /// Print the completion script of a shell.
    Completion(completion::Args),
    /// Print the manual page, or write a page for every command.
    Man(man::Args),
    /// Print the versions of this program and of the cluster.
    Version(version::Args),
}

impl Command {
    /// Executes the command. `before` are the flags before the subcommand.
    pub fn run(self, before: &ClusterArgs) -> ExitCode {
        let done = match super::runtime() {
            Ok(runtime) => {
                let done = runtime.block_on(self.execute(before));
                // A pending read of standard input or a watch must not delay the exit.
                runtime.shutdown_background();
                done
            }
            Err(error) => Err(Problem::new(format!("{error:#}"))),
        };
        match done {
            Ok(exit) => exit.into(),
            Err(problem) if problem.is_broken_pipe() => Exit::Success.into(),
            Err(problem) => {
                output::note(&format!("error: {problem}"));
                if let Some(next) = problem.next_step() {
                    output::note(&format!("hint: {next}"));
                }
                problem.exit().into()
            }
        }
    }

    async fn execute(self, before: &ClusterArgs) -> Answer<Exit> {
        let connect = async |args: &ClusterArgs| -> Answer<Cluster> { args.clone().or(before).connect().await };
        match self {
            Self::Run(mut args) => {
                let cluster = match connect(&args.cluster).await {
                    Err(_) if args.accept_old_context() => connect(&args.cluster).await?,
                    connected => connected?,
                };
                Box::pin(task::run::run(cluster, args)).await
            }
            Self::Get(args) => get::run(connect(&args.how.cluster).await?, args).await,
            Self::Templates(args) => {
                let kind = Kind::of_type::<AgentTemplate>()?;
                get::list_kind(connect(&args.cluster).await?, kind, args).await
            }
            Self::Describe(args) => describe::run(connect(&args.cluster).await?, args).await,
            Self::Apply(args) => apply::run(connect(&args.cluster).await?, args).await,
            Self::Delete(args) => delete::run(connect(&args.cluster).await?, args).await,
            Self::Top(args) => top::run(connect(&args.cluster).await?, args).await,
            Self::Approve(args) => permission::approve(connect(&args.common.cluster).await?, args).await,
            Self::Deny(args) => permission::deny(connect(&args.common.cluster).await?, args).await,
            Self::Agent(command) => Box::pin(agent::run(connect(command.cluster()).await?, command)).await,
            Self::Crontask(command) => crontask::run(connect(command.cluster()).await?, command).await,
            Self::Logs(args) => Box::pin(task::Command::Logs(args).run(before)).await,
            Self::Explain(args) => Box::pin(task::Command::Explain(args).run(before)).await,
            Self::Runs(args) => Box::pin(task::Command::Runs(args).run(before)).await,
            Self::Artifacts(args) => {
                let cluster = connect(&args.cluster()).await?;
                Box::pin(task::artifacts::run(cluster, args)).await
            }
            Self::Diff(args) => Box::pin(task::diff::run(connect(&args.cluster).await?, args)).await,
            Self::Pull(args) => Box::pin(task::pull::run(connect(&args.cluster).await?, args)).await,
            Self::Outputs(args) => Box::pin(task::outputs::run(connect(&args.cluster).await?, args)).await,
            Self::Stop(args) => Box::pin(task::Command::Stop(args).run(before)).await,
            Self::Rerun(args) => Box::pin(task::Command::Rerun(args).run(before)).await,
            Self::Task(command) => Box::pin(command.run(before)).await,
            Self::Setup(args) => Box::pin(setup::run(connect(&args.cluster).await?, *args)).await,
            Self::Store(command) => Box::pin(store::run(command)).await,
            Self::Doctor(args) => doctor::run(before, args).await,
            Self::Completion(args) => completion::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Version(args) => version::run(before, args).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn no_two_flags_of_a_command_have_the_same_name() {
        crate::Cli::command().debug_assert();
        crate::command().debug_assert();
    }
}
