//! Processes and a directory that end with this process, however it ends.
//!
//! A [`Leash`] is the writing end of a pipe that only this process holds. When this process returns, panics, exits or is
//! killed by SIGKILL, the kernel closes it; a supervisor shell that reads the other end then kills the process group in
//! which all children run, undoes what the node changed on the machine and removes the directory.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::tool::{self, last_lines};

/// A child could not be started, ended by itself or did not get ready in time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is missing or cannot be run.
    #[error(transparent)]
    Tool(#[from] tool::Error),
    /// A file or directory of the cluster could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory that the caller chose already has something in it.
    #[error("{} is not empty; everything in it would be deleted at the end, so name a new directory", path.display())]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// A component ended while the cluster was starting.
    #[error("{component} ended, {status}; the end of its log:\n{log}")]
    Ended {
        /// Which.
        component: &'static str,
        /// How.
        status: ExitStatus,
        /// The last lines it wrote.
        log: String,
    },
    /// A component did not reach a state in time.
    #[error("{component}: {goal} took more than {limit:?}; the end of its log:\n{log}")]
    Late {
        /// Which.
        component: &'static str,
        /// The awaited event.
        goal: &'static str,
        /// For how long.
        limit: Duration,
        /// The last lines it wrote.
        log: String,
    },
}

/// Waits for the pipe to close; kills until nothing is left (a killed process may stay for a moment, and one that was
/// being started may join late); then undoes and removes.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM
read -r _
n=0
while kill -s KILL -- "-$1" 2>/dev/null && [ "$n" -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
[ ! -f "$2/undo.sh" ] || sh "$2/undo.sh"
rm -rf "$2"
"#;

/// The children of one cluster and the directory they work in.
#[derive(Debug)]
pub(crate) struct Leash {
    dir: PathBuf,
    pipe: Option<PipeWriter>,
    supervisor: Child,
    /// Leads the process group of the children, so that it exists before the first and needs no registration.
    leader: Child,
    children: Vec<(&'static str, Child)>,
}

impl Leash {
    /// Makes the directory (a new one if `dir` is none) and starts the supervisor.
    ///
    /// The supervisor inherits `lock`, so the lock is released only when everything is cleaned up.
    pub(crate) fn new(dir: Option<&Path>, lock: Option<File>) -> Result<Self, Error> {
        let dir = match dir {
            Some(dir) => new_dir(dir)?,
            None => tempfile::Builder::new().prefix("testenv-").tempdir().map_err(write(&std::env::temp_dir()))?.keep(),
        };
        Self::supervise(&dir, lock).inspect_err(|_| {
            // Nothing watches over the directory yet. What stays, if this fails too, is empty.
            let _ = std::fs::remove_dir_all(&dir);
        })
    }

    fn supervise(dir: &Path, lock: Option<File>) -> Result<Self, Error> {
        let (reader, writer) = io::pipe().map_err(write(dir))?;
        let mut leader = Command::new("cat");
        leader.stdin(reader.try_clone().map_err(write(dir))?).stdout(Stdio::null()).process_group(0);
        let leader = start(&mut leader)?;
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "testenv-supervisor"]).arg(leader.id().to_string()).arg(dir);
        supervisor.stdin(reader).stdout(lock.map_or_else(Stdio::null, Stdio::from)).stderr(Stdio::null());
        let supervisor = start(supervisor.current_dir("/").process_group(0))?;
        Ok(Self { dir: dir.to_owned(), pipe: Some(writer), supervisor, leader, children: Vec::new() })
    }

    /// The directory of the cluster.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file of the cluster and returns its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        let path = self.dir.join(name);
        std::fs::write(&path, content).map_err(write(&path))?;
        Ok(path)
    }

    /// Starts a child in the directory, with its output in `<component>.log`, and returns its process id.
    pub(crate) fn spawn(&mut self, component: &'static str, mut command: Command) -> Result<u32, Error> {
        let log = self.dir.join(component).with_extension("log");
        let out = File::create(&log).map_err(write(&log))?;
        let err = out.try_clone().map_err(write(&log))?;
        command.current_dir(&self.dir).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = start(command.process_group(self.leader.id().cast_signed()))?;
        let id = child.id();
        self.children.push((component, child));
        Ok(id)
    }

    /// Polls until `probe` succeeds. Ends early if any child has ended.
    pub(crate) async fn until<P, F>(
        &mut self,
        component: &'static str,
        goal: &'static str,
        limit: Duration,
        mut probe: P,
    ) -> Result<(), Error>
    where
        P: FnMut() -> F,
        F: Future<Output = bool>,
    {
        let started = Instant::now();
        while !probe().await {
            self.all_alive()?;
            if started.elapsed() > limit {
                return Err(Error::Late { component, goal, limit, log: self.log_tail(component) });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Kills a child and waits for its end.
    pub(crate) fn kill(&mut self, component: &str) {
        for (_, mut child) in self.children.extract_if(.., |(name, _)| *name == component) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The last lines of a component's log.
    pub(crate) fn log_tail(&self, component: &str) -> String {
        let log = std::fs::read(self.dir.join(component).with_extension("log")).unwrap_or_default();
        last_lines(&String::from_utf8_lossy(&log), 25)
    }

    fn all_alive(&mut self) -> Result<(), Error> {
        let ended = |(at, (_, child)): (usize, &mut (_, Child))| Some((at, child.try_wait().ok()??));
        let Some((at, status)) = self.children.iter_mut().enumerate().find_map(ended) else { return Ok(()) };
        let (component, _) = self.children.swap_remove(at);
        Err(Error::Ended { component, status, log: self.log_tail(component) })
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // The supervisor kills too; doing it here as well means that `wait` cannot hang if someone killed the supervisor.
        for (_, child) in &mut self.children {
            let _ = child.kill();
        }
        for child in self.children.iter_mut().map(|(_, child)| child).chain([&mut self.leader, &mut self.supervisor]) {
            let _ = child.wait();
        }
    }
}

fn start(command: &mut Command) -> Result<Child, tool::Error> {
    command.spawn().map_err(|source| tool::not_started(command, source))
}

fn new_dir(dir: &Path) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(dir).map_err(write(dir))?;
    let dir = dir.canonicalize().map_err(write(dir))?;
    match dir.read_dir().map_err(write(&dir))?.next() {
        None => Ok(dir),
        Some(_) => Err(Error::NotEmpty { path: dir }),
    }
}

pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $! > grandchild; sleep 1000"]);
        command
    }

    async fn with_sleeper() -> (Leash, PathBuf) {
        let mut leash = Leash::new(None, None).unwrap();
        leash.spawn("sleeper", sleeper()).unwrap();
        let file = leash.dir().join("grandchild");
        let written = || std::future::ready(std::fs::read(&file).is_ok_and(|text| text.ends_with(b"\n")));
        leash.until("sleeper", "its file", Duration::from_secs(5), written).await.unwrap();
        let pid = std::fs::read_to_string(&file).unwrap();
        (leash, Path::new("/proc").join(pid.trim()))
    }

    #[tokio::test]
    async fn dropping_ends_children_and_grandchildren_and_removes_the_directory() {
        let (leash, grandchild) = with_sleeper().await;
        let dir = leash.dir().to_owned();
        assert!(grandchild.exists());
        drop(leash);
        assert!(!dir.exists());
        let state = std::fs::read_to_string(grandchild.join("stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "still running: {state}");
    }

    #[tokio::test]
    async fn a_child_that_ends_is_reported_with_its_log() {
        let mut leash = Leash::new(None, None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such flag >&2; exit 1"]);
        leash.spawn("etcd", command).unwrap();
        let never = || std::future::ready(false);
        let error = leash.until("etcd", "readiness", Duration::from_secs(5), never).await.unwrap_err();
        assert_eq!(error.to_string(), "etcd ended, exit status: 1; the end of its log:\nno such flag");
    }

    #[tokio::test]
    async fn a_wait_ends_after_its_limit_and_names_the_component() {
        let (mut leash, _) = with_sleeper().await;
        let never = || std::future::ready(false);
        let error = leash.until("sleeper", "waking up", Duration::from_millis(60), never).await.unwrap_err();
        assert!(error.to_string().starts_with("sleeper: waking up took more than 60ms"), "{error}");
    }

    #[test]
    fn a_directory_with_content_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(Leash::new(Some(dir.path()), None), Err(Error::NotEmpty { .. })));
        assert!(dir.path().join("thesis.tex").exists());
    }
}
