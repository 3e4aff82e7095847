//! The helpers inside Pods, as subcommands. Their settings come from the environment, which the controller writes.

use std::{
    env,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Subcommand;
use pod::{
    attach, changes, companion, context_init, git::settings::Settings as GitSettings, git_init, git_sync, housekeeper,
    image_build, last_word, plugin_init, prep, probe, redact, session_log, shim, stop, url_fetch, workspace_clean,
};

use crate::{exit_code, process};

/// What helpers log.
const LOG: &str = "kubeopencode_pod=info";

/// A helper inside a Pod.
#[derive(Debug, Subcommand)]
pub enum Helper {
    /// Inside a Pod: write contexts to their paths.
    #[command(hide = true)]
    ContextInit,
    /// Inside a Pod: clone a repository.
    #[command(hide = true)]
    GitInit,
    /// Inside a Pod: follow a repository.
    #[command(hide = true)]
    GitSync,
    /// Inside a Pod: fetch a document.
    #[command(hide = true)]
    UrlFetch,
    /// Inside a Pod: install OpenCode plugins.
    #[command(hide = true)]
    PluginInit,
    /// Inside a Pod: put inputs and caches in place.
    #[command(hide = true)]
    Prep,
    /// Inside a Pod: keep what a run leaves.
    #[command(hide = true)]
    Housekeeper,
    /// Inside a Pod: build an image from a repository.
    #[command(hide = true)]
    ImageBuild,
    /// Inside a Pod: push the image that was built.
    #[command(hide = true)]
    ImagePush,
    /// Inside a Pod: remove the directories of deleted Tasks from a shared workspace.
    #[command(hide = true)]
    WorkspaceClean,
    /// Inside a Pod: check whether the Agent's server is usable.
    #[command(hide = true)]
    Probe,
    /// Inside a Pod: act on an Agent's workspace for the Pods of its Tasks.
    #[command(hide = true)]
    Companion,
    /// Inside a Pod: compare an Agent's workspace before and after a Task, as `attach` asks.
    #[command(hide = true)]
    Changes {
        /// As `attach` writes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Inside a Pod: run a Task on an Agent's server. Takes the arguments of `opencode run --attach`.
    #[command(hide = true, disable_help_flag = true)]
    Attach {
        /// As for `opencode`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Inside a Pod: send the prompt in a file to an OpenCode server and stream the session.
    #[command(hide = true)]
    TaskSubmit {
        /// The server's URL.
        #[arg(long)]
        url: String,
        /// File with the prompt.
        #[arg(long, value_name = "FILE")]
        task_file: String,
    },
    /// Inside a Pod: print the records of a session, which the container of the agent sends.
    #[command(hide = true)]
    SessionLog,
    /// Inside a Pod: run a command, forward signals to it and report its outcome.
    #[command(hide = true)]
    Shim {
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

impl Helper {
    /// Runs the helper.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Attach { arguments } => judged(async |env| attach::execute(&arguments, env).await),
            Self::TaskSubmit { url, task_file } => {
                let arguments = ["--attach", &url, "--prompt-file", &task_file].map(str::to_owned);
                judged(async |env| attach::execute(&arguments, env).await)
            }
            Self::Shim { command } => judged(async |env| shim::execute(&command, env).await),
            Self::Housekeeper => {
                let _ = process::log(LOG, false);
                judged(async |env| housekeeper::execute(env).await)
            }
            helper if helper.is_init_container() => helper.prepare_unless_stopped(),
            helper => exit_code(small_runtime().and_then(|runtime| runtime.block_on(helper.prepare()))),
        }
    }

    /// Whether the helper runs in an init container, or alone in its Pod. The others run beside an agent.
    fn is_init_container(&self) -> bool {
        matches!(
            self,
            Self::ContextInit
                | Self::GitInit
                | Self::UrlFetch
                | Self::PluginInit
                | Self::Prep
                | Self::ImageBuild
                | Self::ImagePush
                | Self::WorkspaceClean
        )
    }

    /// Prepares the Pod, and writes the reason of a failure to the termination message. Handles a stop at once: the
    /// helper is PID 1 of its container, and the kernel ignores signals without a handler for PID 1.
    fn prepare_unless_stopped(self) -> ExitCode {
        let runtime = match small_runtime() {
            Ok(runtime) => runtime,
            Err(error) => return exit_code(Err(error)),
        };
        let done = runtime.block_on(async {
            tokio::select! {
                // Polled first, so that the signal handler is installed before the preparation begins.
                biased;
                () = process::shutdown_requested() => None,
                done = self.prepare() => Some(done),
            }
        });
        // A file set that is being unpacked must not delay a stop.
        runtime.shutdown_background();
        let Some(done) = done else { return ExitCode::from(stop::STOPPED) };
        if let Err(error) = &done {
            let path = pod::outcome::file(&pod::env::process);
            // The message already contains the causes. If it cannot be written, it is still in the log.
            let _ = last_word::leave(&error.to_string(), &path, &redact::from_process([]));
        }
        exit_code(done)
    }

    /// Runs the helpers that prepare a Pod and log their steps.
    async fn prepare(self) -> anyhow::Result<()> {
        let env: pod::env::Lookup<'_> = &pod::env::process;
        // Their output is the log of their container. If a subscriber is already installed, it is used.
        let _ = process::log(LOG, false);
        match self {
            Self::ContextInit => {
                let copied = context_init::run(&context_init::Settings::from_env(env)?)?;
                say(&format!("{} files, {} bytes", copied.files, copied.bytes))
            }
            Self::GitInit => {
                let settings = GitSettings::from_env(env)?;
                let prepared = git_init::run(&settings).await.map_err(Into::into);
                match or_without(settings.optional, prepared)? {
                    Some(prepared) => say(if prepared.fresh { "checked out" } else { "already there" }),
                    None => Ok(()),
                }
            }
            Self::GitSync => Ok(git_sync::run(&GitSettings::from_env(env)?, process::shutdown_requested()).await?),
            Self::UrlFetch => {
                let settings = url_fetch::Settings::from_env(env)?;
                let fetched = url_fetch::run(&settings).await.map_err(Into::into);
                match or_without(settings.optional, fetched)? {
                    Some(fetched) => say(&format!("{} bytes from {}", fetched.bytes, fetched.url)),
                    None => Ok(()),
                }
            }
            Self::PluginInit => {
                let packages = plugin_init::run(&plugin_init::Settings::from_env(env)?).await?;
                say(&format!("{packages} packages"))
            }
            Self::Prep => {
                let settings = prep::Settings::from_env(env)?;
                let report = prep::run(&settings).await?;
                let delivered =
                    settings.companion.as_ref().map(|_| "; the Agent's workspace is ready").unwrap_or_default();
                say(&format!("{} inputs, {} caches{delivered}", settings.fetch.inputs.len(), report.caches.len()))
            }
            Self::ImageBuild => Ok(image_build::build(&image_build::Settings::from_env(env)?).await?),
            Self::ImagePush => {
                let report = image_build::push(&image_build::Settings::from_env(env)?).await?;
                say(&report.digest)
            }
            Self::WorkspaceClean => {
                let settings = workspace_clean::Settings::from_env(env);
                // A thread of its own: a stop must not wait until a large directory is removed.
                let report = tokio::task::spawn_blocking(move || workspace_clean::run(&settings)).await??;
                say(&format!("removed the directories of {} Tasks; {}", report.removed, report.problems.join("; ")))
            }
            Self::SessionLog => {
                let settings = session_log::Settings::from_env(env)?;
                Ok(session_log::run(&settings, &mut io::stdout(), process::shutdown_requested()).await?)
            }
            Self::Probe => Ok(probe::run(&probe::Settings::from_env(env)?).await?),
            Self::Companion => {
                Ok(companion::run(companion::Settings::from_env(env)?, process::shutdown_requested()).await?)
            }
            Self::Changes { words } => {
                say(&changes::agent::run(&words, &env::temp_dir(), &redact::from_process([])).await?)
            }
            Self::Attach { .. } | Self::TaskSubmit { .. } | Self::Shim { .. } | Self::Housekeeper => Ok(()),
        }
    }
}

/// The result; on an error of an optional step, `None` and a line in the log.
fn or_without<T>(optional: bool, result: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if optional => {
            writeln!(io::stderr(), "{error:#}; it is optional, continuing without it")?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs the attach client if this program was started under the name `opencode`.
pub fn as_opencode() -> Option<ExitCode> {
    let mut args = env::args();
    let name = args.next()?;
    if Path::new(&name).file_name()? != "opencode" {
        return None;
    }
    let arguments: Vec<String> = args.collect();
    Some(judged(async |env| attach::execute(&arguments, env).await))
}

/// Runs a helper whose exit code is the outcome of the run.
fn judged(run: impl AsyncFnOnce(pod::env::Lookup<'_>) -> u8) -> ExitCode {
    match small_runtime() {
        Ok(runtime) => {
            let code = runtime.block_on(run(&pod::env::process));
            // A pending read of standard input must not delay the exit.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Err(error) => exit_code(Err(error)),
    }
}

/// A single-threaded runtime: enough for a helper, and cheaper for the Pod.
fn small_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")
}

fn say(what: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{what}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_optional_may_fail() -> anyhow::Result<()> {
        assert_eq!(or_without(false, Ok(1))?, Some(1));
        assert_eq!(or_without(true, Ok(1))?, Some(1));
        assert_eq!(or_without::<u8>(true, Err(anyhow::anyhow!("no")))?, None);
        assert!(or_without::<u8>(false, Err(anyhow::anyhow!("no"))).is_err());
        Ok(())
    }
}
