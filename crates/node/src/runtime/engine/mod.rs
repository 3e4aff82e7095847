//! Containers of Podman or Docker through their command line: real images instead of this machine's files.
//!
//! Three commands create, start and remove a container; a fourth is attached to its output while it runs. All
//! containers use the host network, so the addresses of Pods and Services are the same as without an engine. Every
//! container has the label of its node, and the next node on the same directory removes what a killed one left.

mod args;
mod container;
mod image;

use std::{
    ffi::OsStr,
    fmt, fs, io,
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::Signal;
use serde::Deserialize;
use tokio::process::{Child, Command};

pub(crate) use image::Found;

use crate::{
    logs::LogWriter,
    runtime::{ContainerEvent, Ready, Running},
};
use args::{LABEL, Variables};

/// Timeout of a command.
const LIMIT: Duration = Duration::from_mins(1);
/// Timeout of the first command: the engine may be starting, but a user waits.
const FIRST_LIMIT: Duration = Duration::from_secs(20);
/// Timeout of a pull: large images on slow networks.
const PULL_LIMIT: Duration = Duration::from_mins(20);
/// Maximum length of an error message in an event.
const MAX_ERROR: usize = 400;

/// Podman or Docker on this machine.
#[derive(Clone, Debug)]
pub struct Engine {
    program: PathBuf,
    version: String,
    /// Value of the label of our containers.
    node: String,
    /// Directory for files that only the node may read.
    private: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "{} is not installed: install it, or omit --runtime to run containers as processes",
        .0.display()
    )]
    Missing(PathBuf),
    #[error(
        "{} does not respond ({problem}): start it, or omit --runtime to run containers as processes",
        program.display()
    )]
    Silent { program: PathBuf, problem: String },
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        write!(f, "{}", name.display())
    }
}

/// The state in the output of `inspect`.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    status: String,
    running: bool,
    exit_code: i32,
    #[serde(rename = "OOMKilled")]
    out_of_memory: bool,
    error: String,
    started_at: String,
}

impl State {
    /// Whether the command ever ran: a start time in the year 1 means no.
    fn ran(&self) -> bool {
        self.running || !(self.started_at.is_empty() || self.started_at.starts_with("0001-"))
    }
}

impl Engine {
    /// Checks that the engine is installed and responds. `program` is a name or a path.
    pub async fn find(program: &Path) -> Result<Self, EngineError> {
        let program = program.to_owned();
        let mut engine = Self { program, version: String::new(), node: String::new(), private: PathBuf::new() };
        let asked = async {
            let output = engine.run_command(["--version"], FIRST_LIMIT).await?;
            // `--version` works without the daemon; this does not.
            engine.run_command(["ps", "--quiet"], FIRST_LIMIT).await?;
            Ok::<_, CommandError>(output)
        };
        match asked.await {
            Ok(output) => {
                engine.version = version(&output);
                Ok(engine)
            }
            Err(CommandError::NotInstalled) => Err(EngineError::Missing(engine.program)),
            Err(CommandError::Failed(problem)) => Err(EngineError::Silent { program: engine.program, problem }),
        }
    }

    /// Name and version, shown as the container runtime of the node.
    pub fn version(&self) -> String {
        format!("{self}://{}", self.version)
    }

    /// The engine for the node on this directory. Removes containers that an earlier node left.
    pub(crate) async fn of_node(mut self, node: &str, root: &Path) -> io::Result<Self> {
        self.node = node.to_owned();
        self.private = root.join("private");
        crate::pod::removal::remove(&self.private).or_else(ignore_missing)?;
        fs::DirBuilder::new().recursive(true).create(&self.private)?;
        fs::set_permissions(&self.private, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        self.sweep().await.map_err(|problem| io::Error::other(format!("{self}: {problem}")))?;
        Ok(self)
    }

    /// Removes every container of this node.
    pub(crate) async fn sweep(&self) -> Result<(), String> {
        let label = format!("label={LABEL}={}", self.node);
        let left = self
            .run_command(["ps", "--all", "--quiet", "--filter", &label], LIMIT)
            .await
            .map_err(CommandError::text)?;
        let mut args = vec!["rm", "--force", "--volumes"];
        args.extend(left.split_whitespace());
        if args.len() > 3 {
            self.run_command(args, LIMIT).await.map_err(CommandError::text)?;
        }
        Ok(())
    }

    /// Resolves an image according to the pull policy. The error is a reason of Kubernetes and a message.
    pub(crate) async fn image(&self, name: &str, policy: Option<&str>) -> Result<Found, (&'static str, String)> {
        if policy == Some("Always") {
            self.pull(name).await?;
        }
        if let Ok(text) = self.run_command(["image", "inspect", name], LIMIT).await {
            return image::read(&text)
                .ok_or_else(|| ("ErrImagePull", format!("{self} returned no metadata for {name:?}")));
        }
        if policy == Some("Never") {
            let message = format!("Container image {name:?} is not present with pull policy of Never");
            return Err(("ErrImageNeverPull", message));
        }
        self.pull(name).await?;
        let text = self
            .run_command(["image", "inspect", name], LIMIT)
            .await
            .map_err(|error| ("ErrImagePull", error.text()))?;
        image::read(&text).ok_or_else(|| ("ErrImagePull", format!("{self} returned no metadata for {name:?}")))
    }

    async fn pull(&self, name: &str) -> Result<(), (&'static str, String)> {
        let pulled = self.run_command(["pull", "--quiet", name], PULL_LIMIT).await;
        pulled.map(drop).map_err(|error| ("ErrImagePull", error.text()))
    }

    /// Starts a container. Events are passed to `on_event`, the exit last.
    pub(crate) fn start(
        &self,
        ready: Ready,
        log: LogWriter,
        on_event: impl Fn(ContainerEvent) + Send + Sync + 'static,
    ) -> Running {
        let (running, wanted) = Running::new();
        tokio::spawn(container::run_to_exit(self.clone(), ready, wanted, log, on_event));
        running
    }

    pub(crate) fn exec(&self, name: &str, args: Vec<String>, tty: Option<OwnedFd>) -> io::Result<Child> {
        let mut command = if tty.is_some() {
            // The engine forwards resizes only if it is the session leader of the terminal.
            let mut command = command_for("setsid".as_ref());
            command.args(["--ctty", "--wait"]).arg(&self.program).args(["exec", "--interactive", "--tty"]);
            command
        } else {
            let mut command = self.command();
            command.args(["exec", "--interactive"]);
            command
        };
        command.arg(name).args(args).kill_on_drop(true);
        match tty {
            Some(terminal) => {
                command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
            }
            None => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        command.spawn()
    }

    async fn create(&self, ready: &Ready) -> Result<(), String> {
        let variables = Variables::of(&ready.init.process.env)?;
        let file = self.private.join(&ready.name);
        let fails = |error: io::Error| format!("{}: {error}", file.display());
        write_private(&file, &variables.file).map_err(fails)?;
        let mut command = self.command();
        command.args(args::create(ready, &self.node, &variables, &file));
        command.envs(variables.passed);
        let created = answer(command, LIMIT).await;
        // Already read by the engine, also on an error.
        let removed = fs::remove_file(&file);
        created.map(drop).map_err(CommandError::text)?;
        removed.map_err(fails)
    }

    async fn state(&self, name: &str) -> Result<State, String> {
        let text =
            self.run_command(["inspect", "--type", "container", "--format", "{{json .State}}", name], LIMIT).await;
        let text = text.map_err(CommandError::text)?;
        serde_json::from_str(text.trim())
            .map_err(|error| format!("cannot parse the container state of {self}: {error}"))
    }

    async fn signal(&self, name: &str, signal: Signal) {
        let number = signal.as_raw().to_string();
        let sent = self.run_command(["kill", "--signal", &number, name], LIMIT).await;
        if signal == Signal::KILL && sent.is_err() {
            // It may be between two states; removing it works in any.
            self.remove(name).await;
        }
    }

    async fn remove(&self, name: &str) {
        if let Err(error) = self.run_command(["rm", "--force", "--volumes", name], LIMIT).await {
            tracing::warn!(container = name, error = error.text(), "cannot remove a container");
        }
    }

    async fn run_command<W: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = W>,
        limit: Duration,
    ) -> Result<String, CommandError> {
        let mut command = self.command();
        command.args(args);
        answer(command, limit).await
    }

    fn command(&self) -> Command {
        let mut command = command_for(self.program.as_os_str());
        // Podman's monitor may write files to its working directory.
        if self.private.is_dir() {
            command.current_dir(&self.private);
        }
        command
    }
}

/// In its own process group: Ctrl-C at the terminal of the platform must not reach containers.
fn command_for(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// The number in `podman version 4.3.1` or `Docker version 27.3.1, build ce12230`.
fn version(output: &str) -> String {
    let number = output.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number.unwrap_or("unknown").trim_end_matches(',').to_owned()
}

enum CommandError {
    NotInstalled,
    Failed(String),
}

impl CommandError {
    fn text(self) -> String {
        match self {
            Self::NotInstalled => "it is no longer installed".to_owned(),
            Self::Failed(text) => text,
        }
    }
}

async fn answer(mut command: Command, limit: Duration) -> Result<String, CommandError> {
    let output = tokio::time::timeout(limit, command.kill_on_drop(true).output()).await;
    let output = match output {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Err(CommandError::NotInstalled),
        Ok(Err(error)) => return Err(CommandError::Failed(error.to_string())),
        Err(_) => return Err(CommandError::Failed(format!("no response within {} s", limit.as_secs()))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(CommandError::Failed(error_message(&String::from_utf8_lossy(&output.stderr), output.status)))
}

/// The error message of a command: the last line of its output, unless an earlier line is marked as an error.
fn error_message(output: &str, status: std::process::ExitStatus) -> String {
    let lines = || output.lines().rev().filter(|line| !line.trim().is_empty());
    let line = lines().find(|line| line.starts_with("Error")).or_else(|| lines().next()).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MAX_ERROR).collect();
    let text = text.strip_prefix("Error: ").unwrap_or(&text).trim_end_matches('.');
    if text.is_empty() { status.to_string() } else { text.to_owned() }
}

fn write_private(file: &Path, text: &str) -> io::Result<()> {
    use io::Write as _;
    fs::remove_file(file).or_else(ignore_missing)?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_state_says_whether_the_command_ever_ran() {
        let read = |text: &str| serde_json::from_str::<State>(text).unwrap();
        let ended =
            read(r#"{"Status": "exited", "ExitCode": 137, "OOMKilled": true, "StartedAt": "2026-01-01T00:00:00Z"}"#);
        assert!(ended.ran() && ended.out_of_memory && ended.exit_code == 137);
        let made = read(
            r#"{"Status": "created", "ExitCode": 127, "Error": "no such file", "StartedAt": "0001-01-01T00:00:00Z"}"#,
        );
        assert!(!made.ran());
        assert_eq!(made.error, "no such file");
    }

    #[test]
    fn an_error_message_is_one_line_without_decoration() {
        let status = std::process::ExitStatus::from_raw(256);
        assert_eq!(error_message("warning: again\nError: cannot  do that.\nSee --help\n", status), "cannot do that");
        assert_eq!(error_message("", status), "exit status: 1");
    }

    #[test]
    fn the_version_of_both_engines_is_parsed() {
        assert_eq!(version("podman version 4.3.1\n"), "4.3.1");
        assert_eq!(version("Docker version 27.3.1, build ce12230\n"), "27.3.1");
    }

    #[tokio::test]
    async fn a_missing_engine_and_a_broken_one_are_different_errors() {
        let missing = Engine::find(Path::new("/no/such/podman")).await.unwrap_err().to_string();
        assert!(missing.starts_with("/no/such/podman is not installed"), "{missing}");
        let silent = Engine::find(Path::new("/bin/false")).await.unwrap_err().to_string();
        assert!(silent.contains("does not respond (exit status: 1)") && silent.contains("--runtime"), "{silent}");
    }
}
