//! The processes of containers, seen from the node: starting, signalling, hearing of the end.

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
    inside::{ARGUMENT, Join, Order, Process, Report, Start},
    logs::{LogWriter, Source},
};

/// The log of a container is complete when its pipes are closed. Nothing should keep them open longer than this.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How this program is started as a part of a container.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    /// The program, which calls [`crate::container_main`] when its first argument is [`ARGUMENT`].
    pub(crate) program: PathBuf,
    /// Whether namespaces need a user namespace.
    pub(crate) user_namespace: bool,
}

/// What becomes of a container.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Its command runs.
    Started { pid: u32 },
    /// It could not be started.
    Failed { message: String },
    /// It ended, and its log is complete.
    Exited { code: i32, signal: Option<i32> },
}

/// A container that was started. Dropping this does not end it.
#[derive(Clone, Debug)]
pub(crate) struct Running(mpsc::UnboundedSender<Signal>);

impl Running {
    /// Sends a signal to all its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        // Nobody takes it any more when the container is gone.
        let _ = self.0.send(signal);
    }
}

/// A running container, for commands in it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its first process.
    pub(crate) pid: u32,
    /// Environment, directory and user of its command.
    pub(crate) process: Arc<Process>,
}

impl Helper {
    /// Starts a container. What becomes of it is told through `tell`, the end last.
    pub(crate) fn start(
        &self,
        start: Start,
        log: LogWriter,
        tell: impl Fn(Happened) + Send + 'static,
    ) -> io::Result<Running> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = self.command();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        // It holds the other end of the pair as long as it lives.
        drop(command);
        let control = UnixStream::from_std(ours)?;
        let order = Order::Supervise(start).bytes()?;
        let (signals, wanted) = mpsc::unbounded_channel();
        tokio::spawn(follow(child, control, order, wanted, log, tell));
        Ok(Running(signals))
    }

    /// Starts a command in a container. Standard input belongs to the command once the orders are written to it.
    pub(crate) async fn join(&self, target: &Target, words: Vec<String>, tty: Option<PathBuf>) -> io::Result<Child> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).kill_on_drop(true);
        match tty {
            Some(_) => command.stdout(Stdio::null()).stderr(Stdio::null()),
            None => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };
        let mut child = command.spawn()?;
        let process = Process { command: words, ..Process::clone(&target.process) };
        let run = Order::Run { process, tty: tty.is_some() }.bytes()?;
        let mut orders = Order::Join(Join { pid: target.pid, user_namespace: self.user_namespace, tty }).bytes()?;
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

async fn follow(
    mut child: Child,
    control: UnixStream,
    order: Vec<u8>,
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
                    Ok(Report::Started { pid }) => tell(Happened::Started { pid }),
                    Ok(Report::Failed { message }) => break Happened::Failed { message },
                    Ok(Report::Exited { code, signal }) => break Happened::Exited { code, signal },
                    Err(error) => break Happened::Failed { message: format!("the supervisor is confused: {error}") },
                },
                // Somebody killed the supervisor, and the container with it.
                _ => break Happened::Exited { code: 137, signal: Some(9) },
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
    tell(end);
}
