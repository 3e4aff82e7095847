//! Containers of Podman or Docker, by their command line: real images instead of this machine's files.
//!
//! A container is made, started and removed by three commands; a fourth runs while it does and carries its output. All
//! containers share the network of the machine, so the addresses of Pods and Services are the same as without an engine.
//! Whatever a node made has its label, and the next node on the same directory removes what a killed one left.

mod follow;
mod image;
mod words;

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
    runtime::{Happened, Ready, Running},
};
use words::{LABEL, Variables};

/// An engine that does not answer for this long is stuck.
const LIMIT: Duration = Duration::from_mins(1);
/// The first answer may find the engine starting up, but a person waits for it.
const FIRST_LIMIT: Duration = Duration::from_secs(20);
/// Large images over slow lines.
const PULL_LIMIT: Duration = Duration::from_mins(20);
/// As much of a complaint as a person reads.
const LONGEST_COMPLAINT: usize = 400;

/// Podman or Docker on this machine.
#[derive(Clone, Debug)]
pub struct Engine {
    program: PathBuf,
    version: String,
    /// Which containers are ours.
    node: String,
    /// Where files are that only the node may read.
    private: PathBuf,
}

/// Why an engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// It is not there.
    #[error(
        "{} is not on this machine: install it, or leave --runtime out to run containers as processes",
        .0.display()
    )]
    Missing(PathBuf),
    /// It does not work.
    #[error(
        "{} does not answer ({problem}): start it, or leave --runtime out to run containers as processes",
        program.display()
    )]
    Silent {
        /// Which one.
        program: PathBuf,
        /// What it said.
        problem: String,
    },
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        write!(f, "{}", name.display())
    }
}

/// A state that can be told from the outside.
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
    /// Whether its command ever ran: a moment of the year 1 is none.
    fn ran(&self) -> bool {
        self.running || !(self.started_at.is_empty() || self.started_at.starts_with("0001-"))
    }
}

impl Engine {
    /// Looks whether the engine is there and works. `program` is a name or a path.
    pub async fn find(program: &Path) -> Result<Self, EngineError> {
        let program = program.to_owned();
        let mut engine = Self { program, version: String::new(), node: String::new(), private: PathBuf::new() };
        let asked = async {
            let said = engine.ask(["--version"], FIRST_LIMIT).await?;
            // That one answers without its daemon; this one does not.
            engine.ask(["ps", "--quiet"], FIRST_LIMIT).await?;
            Ok::<_, Refusal>(said)
        };
        match asked.await {
            Ok(said) => {
                engine.version = version(&said);
                Ok(engine)
            }
            Err(Refusal::NotThere) => Err(EngineError::Missing(engine.program)),
            Err(Refusal::Said(problem)) => Err(EngineError::Silent { program: engine.program, problem }),
        }
    }

    /// Name and version, as a node shows what runs its containers.
    pub fn version(&self) -> String {
        format!("{self}://{}", self.version)
    }

    /// The same engine for the node on this directory. Removes what an earlier one left.
    pub(crate) async fn of_node(mut self, node: &str, root: &Path) -> io::Result<Self> {
        self.node = node.to_owned();
        self.private = root.join("private");
        crate::removal::remove(&self.private).or_else(missing_is_fine)?;
        fs::DirBuilder::new().recursive(true).create(&self.private)?;
        fs::set_permissions(&self.private, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        self.sweep().await.map_err(|problem| io::Error::other(format!("{self}: {problem}")))?;
        Ok(self)
    }

    /// Removes every container of this node.
    pub(crate) async fn sweep(&self) -> Result<(), String> {
        let label = format!("label={LABEL}={}", self.node);
        let left = self.ask(["ps", "--all", "--quiet", "--filter", &label], LIMIT).await.map_err(Refusal::text)?;
        let mut words = vec!["rm", "--force", "--volumes"];
        words.extend(left.split_whitespace());
        if words.len() > 3 {
            self.ask(words, LIMIT).await.map_err(Refusal::text)?;
        }
        Ok(())
    }

    /// An image by the policy of a container. The error is for people; the word is the reason that Kubernetes gives.
    pub(crate) async fn image(&self, name: &str, policy: Option<&str>) -> Result<Found, (&'static str, String)> {
        if policy == Some("Always") {
            self.pull(name).await?;
        }
        if let Ok(text) = self.ask(["image", "inspect", name], LIMIT).await {
            return image::read(&text).ok_or_else(|| ("ErrImagePull", format!("{self} says nothing of {name:?}")));
        }
        if policy == Some("Never") {
            let message = format!("Container image {name:?} is not present with pull policy of Never");
            return Err(("ErrImageNeverPull", message));
        }
        self.pull(name).await?;
        let text = self.ask(["image", "inspect", name], LIMIT).await.map_err(|error| ("ErrImagePull", error.text()))?;
        image::read(&text).ok_or_else(|| ("ErrImagePull", format!("{self} says nothing of {name:?}")))
    }

    async fn pull(&self, name: &str) -> Result<(), (&'static str, String)> {
        let pulled = self.ask(["pull", "--quiet", name], PULL_LIMIT).await;
        pulled.map(drop).map_err(|error| ("ErrImagePull", error.text()))
    }

    /// Starts a container. What becomes of it is told through `tell`, the end last.
    pub(crate) fn start(
        &self,
        ready: Ready,
        log: LogWriter,
        tell: impl Fn(Happened) + Send + Sync + 'static,
    ) -> Running {
        let (running, wanted) = Running::new();
        tokio::spawn(follow::follow(self.clone(), ready, wanted, log, tell));
        running
    }

    /// Starts a command in a container.
    pub(crate) fn exec(&self, name: &str, words: Vec<String>, tty: Option<OwnedFd>) -> io::Result<Child> {
        let mut command = if tty.is_some() {
            // The command forwards changes of the size, of which only the owner of a terminal hears.
            let mut command = started_by("setsid".as_ref());
            command.args(["--ctty", "--wait"]).arg(&self.program).args(["exec", "--interactive", "--tty"]);
            command
        } else {
            let mut command = self.command();
            command.args(["exec", "--interactive"]);
            command
        };
        command.arg(name).args(words).kill_on_drop(true);
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
        let say = |error: io::Error| format!("{}: {error}", file.display());
        write_private(&file, &variables.file).map_err(say)?;
        let mut command = self.command();
        command.args(words::create(ready, &self.node, &variables, &file));
        command.envs(variables.passed);
        let made = answer(command, LIMIT).await;
        // Read by now, whatever came of it.
        let removed = fs::remove_file(&file);
        made.map(drop).map_err(Refusal::text)?;
        removed.map_err(say)
    }

    async fn state(&self, name: &str) -> Result<State, String> {
        let text = self.ask(["inspect", "--type", "container", "--format", "{{json .State}}", name], LIMIT).await;
        let text = text.map_err(Refusal::text)?;
        serde_json::from_str(text.trim())
            .map_err(|error| format!("{self} tells of a container in an unknown way: {error}"))
    }

    async fn signal(&self, name: &str, signal: Signal) {
        let number = signal.as_raw().to_string();
        let sent = self.ask(["kill", "--signal", &number, name], LIMIT).await;
        if signal == Signal::KILL && sent.is_err() {
            // It may be between two states; removing it ends it in any.
            self.remove(name).await;
        }
    }

    async fn remove(&self, name: &str) {
        if let Err(error) = self.ask(["rm", "--force", "--volumes", name], LIMIT).await {
            tracing::warn!(container = name, error = error.text(), "a container could not be removed");
        }
    }

    async fn ask<W: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = W>,
        limit: Duration,
    ) -> Result<String, Refusal> {
        let mut command = self.command();
        command.args(words);
        answer(command, limit).await
    }

    fn command(&self) -> Command {
        let mut command = started_by(self.program.as_os_str());
        // Podman's monitor may leave a note where it was started, which is nobody's business.
        if self.private.is_dir() {
            command.current_dir(&self.private);
        }
        command
    }
}

/// In a group of its own: what is typed at the terminal of the platform is not for containers.
fn started_by(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// The number in `podman version 4.3.1` or `Docker version 27.3.1, build ce12230`.
fn version(said: &str) -> String {
    let number = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number.unwrap_or("unknown").trim_end_matches(',').to_owned()
}

/// Why an engine did not do what it was asked.
enum Refusal {
    NotThere,
    Said(String),
}

impl Refusal {
    fn text(self) -> String {
        match self {
            Self::NotThere => "it is not on this machine any more".to_owned(),
            Self::Said(text) => text,
        }
    }
}

async fn answer(mut command: Command, limit: Duration) -> Result<String, Refusal> {
    let output = tokio::time::timeout(limit, command.kill_on_drop(true).output()).await;
    let output = match output {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Err(Refusal::NotThere),
        Ok(Err(error)) => return Err(Refusal::Said(error.to_string())),
        Err(_) => return Err(Refusal::Said(format!("no answer within {} s", limit.as_secs()))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Refusal::Said(complaint(&String::from_utf8_lossy(&output.stderr), output.status)))
}

/// What went wrong, as a part of a sentence: the last thing that was said, unless an error was said before it.
fn complaint(said: &str, status: std::process::ExitStatus) -> String {
    let lines = || said.lines().rev().filter(|line| !line.trim().is_empty());
    let line = lines().find(|line| line.starts_with("Error")).or_else(|| lines().next()).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(LONGEST_COMPLAINT).collect();
    let text = text.strip_prefix("Error: ").unwrap_or(&text).trim_end_matches('.');
    if text.is_empty() { status.to_string() } else { text.to_owned() }
}

fn write_private(file: &Path, text: &str) -> io::Result<()> {
    use io::Write as _;
    fs::remove_file(file).or_else(missing_is_fine)?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text.as_bytes())
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
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
    fn a_complaint_is_one_line_without_decoration() {
        let status = std::process::ExitStatus::from_raw(256);
        assert_eq!(complaint("warning: again\nError: cannot  do that.\nSee --help\n", status), "cannot do that");
        assert_eq!(complaint("", status), "exit status: 1");
    }

    #[test]
    fn both_engines_tell_their_version() {
        assert_eq!(version("podman version 4.3.1\n"), "4.3.1");
        assert_eq!(version("Docker version 27.3.1, build ce12230\n"), "27.3.1");
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_or_does_not_work_is_told_apart() {
        let missing = Engine::find(Path::new("/no/such/podman")).await.unwrap_err().to_string();
        assert!(missing.starts_with("/no/such/podman is not on this machine"), "{missing}");
        let silent = Engine::find(Path::new("/bin/false")).await.unwrap_err().to_string();
        assert!(silent.contains("does not answer (exit status: 1)") && silent.contains("--runtime"), "{silent}");
    }
}
