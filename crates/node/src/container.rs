//! Containers as processes of this machine, seen from the node: starting, signalling, hearing of the end.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    groups::{Group, Groups},
    inside::{ARGUMENT, Init, Join, Order, Process, Report, Start},
    limits::Limits,
    logs::{LogWriter, Source},
    runtime::{Happened, Running, Target},
};

/// The log of a container is complete when its pipes are closed. Nothing should keep them open longer than this.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);

/// How this program is started as a part of a container.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    /// The program, which calls [`crate::container_main`] when its first argument is [`ARGUMENT`].
    pub(crate) program: PathBuf,
    /// Whether namespaces need a user namespace.
    pub(crate) user_namespace: bool,
    /// What limits containers, where the machine lets us.
    pub(crate) groups: Option<Groups>,
}

/// A running container, for commands in it.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    /// Its first process.
    pub(crate) pid: u32,
    /// Environment, directory and user of its command.
    process: Arc<Process>,
    /// Its control groups.
    groups: Vec<PathBuf>,
}

impl Helper {
    /// Starts a container. Its name is its own on this machine. What becomes of it is told through `tell`, the end last.
    pub(crate) fn start(
        &self,
        name: &str,
        init: Init,
        limits: &Limits,
        log: LogWriter,
        tell: impl Fn(Happened) + Send + 'static,
    ) -> io::Result<Running> {
        let group = self.groups.as_ref().map(|groups| groups.make(name, limits)).transpose()?.unwrap_or_default();
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = self.command();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        // It holds the other end of the pair as long as it lives.
        drop(command);
        let control = UnixStream::from_std(ours)?;
        let process = Arc::new(init.process.clone());
        let start = Start { user_namespace: self.user_namespace, groups: group.paths.clone(), init };
        let order = Order::Supervise(start).bytes()?;
        let (running, wanted) = Running::new();
        tokio::spawn(follow(child, control, order, Started { process, group }, wanted, log, tell));
        Ok(running)
    }

    /// Starts a command in a container. Standard input belongs to the command once the orders are written to it.
    pub(crate) async fn join(&self, inside: &Inside, words: Vec<String>, tty: Option<OwnedFd>) -> io::Result<Child> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).kill_on_drop(true);
        let has_tty = tty.is_some();
        match tty {
            Some(terminal) => command.stdout(terminal.try_clone()?).stderr(terminal),
            None => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };
        let mut child = command.spawn()?;
        // It holds the terminal, which must not outlive the command.
        drop(command);
        let process = Process { command: words, ..Process::clone(&inside.process) };
        let run = Order::Run { process, tty: has_tty }.bytes()?;
        let Inside { pid, groups, .. } = inside.clone();
        let mut orders = Order::Join(Join { pid, user_namespace: self.user_namespace, groups }).bytes()?;
        orders.extend(run);
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(&orders).await?;
        }
        Ok(child)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // In a group of its own: what is typed at the terminal of the platform is not for containers.
        command.arg(OsString::from(ARGUMENT)).env_clear().current_dir("/").process_group(0);
        command
    }
}

/// What was started.
struct Started {
    process: Arc<Process>,
    group: Group,
}

async fn follow(
    mut child: Child,
    control: UnixStream,
    order: Vec<u8>,
    Started { process, group }: Started,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
    log: LogWriter,
    tell: impl Fn(Happened),
) {
    let mut copies = tokio::task::JoinSet::new();
    if let Some(stdout) = child.stdout.take() {
        copies.spawn(log.clone().copy(Source::Stdout, stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        copies.spawn(log.clone().copy(Source::Stderr, stderr));
    }
    let (reports, mut commands) = control.into_split();
    let mut reports = BufReader::new(reports).lines();
    // If this fails, so does reading the report.
    let _ = commands.write_all(&order).await;
    drop(order);
    let mut signals_come = true;
    let end = loop {
        tokio::select! {
            line = reports.next_line() => match line {
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(Report::Started { pid }) => {
                        let (process, groups) = (Arc::clone(&process), group.paths.clone());
                        tell(Happened::Started { target: Target::Process(Inside { pid, process, groups }) });
                    }
                    Ok(Report::Failed { message }) => break Happened::Failed { message },
                    Ok(Report::Exited { code, signal }) => {
                        let out_of_memory = code != 0 && group.ran_out_of_memory();
                        break Happened::Exited { code, signal, out_of_memory };
                    }
                    Err(error) => break Happened::Failed { message: format!("the supervisor is confused: {error}") },
                },
                // Somebody killed the supervisor, and the container with it.
                _ => break Happened::Exited { code: 137, signal: Some(9), out_of_memory: false },
            },
            signal = wanted.recv(), if signals_come => match signal {
                Some(signal) => {
                    let number = u8::try_from(signal.as_raw()).unwrap_or(9);
                    // If it is gone, its report comes next.
                    let _ = commands.write_all(&[number]).await;
                }
                None => signals_come = false,
            },
        }
    };
    // Reaps the supervisor, which has nothing left to do.
    let _ = child.wait().await;
    let _ = tokio::time::timeout(LAST_WORDS, async { while copies.join_next().await.is_some() {} }).await;
    log.end();
    // Its last process is gone, but the kernel may need a moment to see that.
    let _ = tokio::task::spawn_blocking(move || group.remove()).await;
    tell(end);
}
