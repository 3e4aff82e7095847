//! Containers as processes of this machine, from the node's side: start, signals, exit.

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
    logs::{LogWriter, Source},
    process::{
        cgroups::{Cgroup, Cgroups},
        helper::{ARGUMENT, Init, Join, Process, Report, Request, Start},
        limits::Limits,
    },
    runtime::{ContainerEvent, Running, Target},
};

/// How long to wait for the log pipes to close after the exit of a container.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How this program is started as the helper process of a container.
#[derive(Clone, Debug)]
pub(crate) struct Helper {
    /// The program, which calls [`crate::container_main`] when its first argument is [`ARGUMENT`].
    pub(crate) program: PathBuf,
    /// Whether namespaces need a user namespace.
    pub(crate) user_namespace: bool,
    /// `None` where the machine does not permit cgroups.
    pub(crate) groups: Option<Cgroups>,
}

/// A running container, for `exec` and probes.
#[derive(Clone, Debug)]
pub(crate) struct ContainerProcess {
    /// The container's main process.
    pub(crate) pid: u32,
    /// Environment, directory and user of the container's command.
    process: Arc<Process>,
    groups: Vec<PathBuf>,
}

impl Helper {
    /// Starts a container. Its name must be unique on this machine. Events are passed to `on_event`, the exit last.
    pub(crate) fn start(
        &self,
        name: &str,
        init: Init,
        limits: &Limits,
        log: LogWriter,
        on_event: impl Fn(ContainerEvent) + Send + 'static,
    ) -> io::Result<Running> {
        let group = self.groups.as_ref().map(|groups| groups.make(name, limits)).transpose()?.unwrap_or_default();
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = self.command();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        // The command holds our end of the socket pair.
        drop(command);
        let control = UnixStream::from_std(ours)?;
        let process = Arc::new(init.process.clone());
        let start = Start { user_namespace: self.user_namespace, groups: group.paths.clone(), init };
        let request = Request::Supervise(start).bytes()?;
        let (running, wanted) = Running::new();
        tokio::spawn(follow(child, control, request, Started { process, group }, wanted, log, on_event));
        Ok(running)
    }

    /// Starts a command in a container. Its standard input begins with the request.
    pub(crate) async fn join(
        &self,
        inside: &ContainerProcess,
        args: Vec<String>,
        tty: Option<OwnedFd>,
    ) -> io::Result<Child> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).kill_on_drop(true);
        let has_tty = tty.is_some();
        match tty {
            Some(terminal) => command.stdout(terminal.try_clone()?).stderr(terminal),
            None => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };
        let mut child = command.spawn()?;
        // The command holds the terminal, which must not outlive it.
        drop(command);
        // The command is confined by the process that starts it.
        let process = Process { command: args, confined: false, ..Process::clone(&inside.process) };
        let run = Request::Run { process, tty: has_tty }.bytes()?;
        let ContainerProcess { pid, groups, process } = inside.clone();
        let join = Join { pid, user_namespace: self.user_namespace, groups, confined: process.confined };
        let mut request = Request::Join(join).bytes()?;
        request.extend(run);
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(&request).await?;
        }
        Ok(child)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // In its own process group: Ctrl-C at the terminal of the platform must not reach containers.
        command.arg(OsString::from(ARGUMENT)).env_clear().current_dir("/").process_group(0);
        command
    }
}

struct Started {
    process: Arc<Process>,
    group: Cgroup,
}

async fn follow(
    mut child: Child,
    control: UnixStream,
    request: Vec<u8>,
    Started { process, group }: Started,
    mut wanted: mpsc::UnboundedReceiver<Signal>,
    log: LogWriter,
    on_event: impl Fn(ContainerEvent),
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
    // If this fails, reading the report fails too.
    let _ = commands.write_all(&request).await;
    drop(request);
    let mut signals_come = true;
    let end = loop {
        tokio::select! {
            line = reports.next_line() => match line {
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(Report::Started { pid }) => {
                        let (process, groups) = (Arc::clone(&process), group.paths.clone());
                        on_event(ContainerEvent::Started { target: Target::Process(ContainerProcess { pid, process, groups }) });
                    }
                    Ok(Report::Failed { message }) => break ContainerEvent::Failed { message },
                    Ok(Report::Exited { code, signal }) => {
                        let out_of_memory = code != 0 && group.ran_out_of_memory();
                        break ContainerEvent::Exited { code, signal, out_of_memory };
                    }
                    Err(error) => break ContainerEvent::Failed { message: format!("invalid report of the supervisor: {error}") },
                },
                // The supervisor was killed, and the container with it.
                _ => break ContainerEvent::Exited { code: 137, signal: Some(9), out_of_memory: false },
            },
            signal = wanted.recv(), if signals_come => match signal {
                Some(signal) => {
                    let number = u8::try_from(signal.as_raw()).unwrap_or(9);
                    // If the supervisor is gone, its report follows.
                    let _ = commands.write_all(&[number]).await;
                }
                None => signals_come = false,
            },
        }
    };
    // Reap the supervisor, which exits now.
    let _ = child.wait().await;
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, async { while copies.join_next().await.is_some() {} }).await;
    log.end();
    // The kernel may need a moment after the exit of the last process.
    let _ = tokio::task::spawn_blocking(move || group.remove()).await;
    on_event(end);
}
