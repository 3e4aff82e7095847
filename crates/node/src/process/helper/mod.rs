//! The helper processes between the node and a container: this program again, in a process of its own.
//!
//! The node has many threads, and entering namespaces needs a process with a single thread. So the node starts itself
//! under [`ARGUMENT`] with a request on standard input:
//!
//! - `Supervise` creates the namespaces, starts `Init` in them and stays: it forwards signals, reports the exit, and
//!   kills the container when the node is gone, for whatever reason.
//! - `Init` is the first process of the container: it builds the root file system, drops all privileges and executes
//!   the container's command. All of its descendants die with it.
//! - `Join` enters the namespaces of a running container, confines itself and starts `Run` there, for `exec` and probes.
//!
//! Requests contain the values of Secrets. They are sent through a pipe, never as arguments or files.

mod in_root;
mod protocol;
mod root;
mod root_plan;
mod seccomp;

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{DumpableBehavior, Pid, PidfdFlags, Signal},
    thread::{CapabilitySet, CapabilitySets, Gid, ThreadNameSpaceType, Uid, UnshareFlags},
};

pub(crate) use protocol::{Init, Join, Mount, Process, Report, Request, Root, Start};
pub(crate) use root::{mount_points, source};

/// The first argument that makes this program a helper process of a container.
pub const ARGUMENT: &str = "node-container";

/// Exit codes of a shell for a command that cannot be executed, and for one that is not found.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// Upper bound of capability numbers; unknown ones return an error.
const CAPABILITIES: u32 = 64;

/// Executes the request on standard input. Call it first in `main` when the first argument is [`ARGUMENT`]: it needs a
/// process without other threads. Returns the exit code of the process.
pub fn container_main() -> u8 {
    let request = match Request::read(rustix::stdio::stdin()) {
        Ok(request) => request,
        Err(error) => {
            return warn_once(&format!(
                "invalid request on standard input (this command is started by the node): {error}"
            ));
        }
    };
    match request {
        Request::Supervise(start) => supervise(start),
        Request::Init(init) => run_init(&init),
        Request::Join(join) => enter(&join),
        Request::Run { process, tty } => run(&process, tty),
    }
}

fn warn_once(message: &str) -> u8 {
    // Standard error may be closed; nothing else can be done.
    let _ = writeln!(io::stderr(), "{message}");
    CANNOT_RUN
}

fn supervise(start: Start) -> u8 {
    let Ok(control) = rustix::stdio::stdin().try_clone_to_owned() else {
        return warn_once("no connection to the node");
    };
    let mut control = UnixStream::from(control);
    let report = match start_and_watch(start, &control) {
        Ok(status) => Report::Exited { code: code(status), signal: signal(status) },
        Err(message) => Report::Failed { message },
    };
    // The node may be gone.
    let _ = report.write(&mut control);
    0
}

/// Starts the container and forwards signals until it exits.
fn start_and_watch(start: Start, control: &UnixStream) -> Result<ExitStatus, String> {
    let (mut child, mut setting_up) =
        start_init(&start).map_err(|error| format!("cannot start the container: {error}"))?;
    // Before the container starts anything: children stay in the cgroup.
    let problem = join_groups(&start.groups, child.id())
        .and_then(|()| Request::Init(start.init).write(&mut setting_up))
        .and_then(|()| {
            // The other end closes when the container's command is executed.
            let mut problem = String::new();
            setting_up.read_to_string(&mut problem)?;
            Ok(problem)
        })
        .unwrap_or_else(|error| format!("cannot set up the container: {error}"));
    if !problem.is_empty() {
        let _ = child.kill();
        let _ = child.wait();
        return Err(problem);
    }
    let mut node = control;
    // If the node is gone, the poll below stops the container.
    let _ = Report::Started { pid: child.id() }.write(&mut node);
    watch(&mut child, control).map_err(|error| {
        let _ = child.kill();
        format!("lost the container: {error}")
    })
}

fn start_init(start: &Start) -> io::Result<(Child, UnixStream)> {
    let program = File::open("/proc/self/exe")?;
    let mut namespaces = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if start.user_namespace {
        namespaces |= UnshareFlags::NEWUSER;
    }
    #[expect(deprecated, reason = "its danger is unsharing the table of files among threads; here is neither")]
    rustix::thread::unshare(namespaces)?;
    if start.user_namespace {
        let process = &start.init.process;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{} {} 1", process.user, user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{} {} 1", process.group, group.as_raw()))?;
        keep_capabilities()?;
    }
    let (ours, theirs) = UnixStream::pair()?;
    let child = again(&program).stdin(OwnedFd::from(theirs)).spawn()?;
    Ok((child, ours))
}

/// Moves a process into cgroups; pid 0 is this process.
fn join_groups(groups: &[PathBuf], pid: u32) -> io::Result<()> {
    groups.iter().try_for_each(|group| {
        let joined = fs::write(group.join("cgroup.procs"), pid.to_string());
        joined.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", group.display())))
    })
}

/// This program from an open file: its path may not exist in the container.
fn again(program: &File) -> Command {
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg(ARGUMENT);
    command
}

/// execve drops the capabilities of users other than root. `Init` needs some to mount.
fn keep_capabilities() -> io::Result<()> {
    let needed =
        CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP | CapabilitySet::SYS_CHROOT | CapabilitySet::DAC_OVERRIDE;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable = needed;
    rustix::thread::set_capabilities(None, sets)?;
    for capability in needed.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

fn watch(child: &mut Child, mut control: &UnixStream) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let mut node_is_there = true;
    loop {
        let mut fds = vec![PollFd::new(&ended, PollFlags::IN)];
        if node_is_there {
            fds.push(PollFd::new(&control, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !fds[0].revents().is_empty() {
            return child.wait();
        }
        if fds.get(1).is_some_and(|control| !control.revents().is_empty()) {
            let mut number = [0];
            let signal = match control.read(&mut number) {
                Ok(1) => Signal::from_named_raw(i32::from(number[0])),
                _ => None,
            };
            node_is_there = signal.is_some();
            send(pid, signal.unwrap_or(Signal::KILL));
        }
    }
}

/// Sends a signal to the container's process group. SIGKILL to its first process kills the whole PID namespace.
fn send(pid: Pid, signal: Signal) {
    // The process may be gone already.
    let _ = if signal == Signal::KILL {
        rustix::process::kill_process(pid, signal)
    } else {
        rustix::process::kill_process_group(pid, signal)
    };
}

fn run_init(init: &Init) -> u8 {
    let Ok(to_supervisor) = rustix::stdio::stdin().try_clone_to_owned() else { return CANNOT_RUN };
    let error = set_up_and_exec(init);
    // Closed on exec when the container's command takes over.
    let _ = UnixStream::from(to_supervisor).write_all(error.as_bytes());
    CANNOT_RUN
}

/// Returns only on an error.
fn set_up_and_exec(init: &Init) -> String {
    let prepared = rustix::process::setsid()
        .map_err(|error| format!("cannot start a session: {error}"))
        .and_then(|_| root::enter(&init.root).map_err(|error| error.to_string()))
        .and_then(|()| {
            rustix::system::sethostname(init.hostname.as_bytes())
                .map_err(|error| format!("cannot set the host name: {error}"))
        })
        .and_then(|()| read_nothing().map_err(|error| format!("cannot open /dev/null: {error}")));
    match prepared {
        Ok(()) => {
            let error = exec(&init.process);
            cannot_run(&init.process, &error)
        }
        Err(message) => message,
    }
}

/// Redirects standard input from /dev/null.
fn read_nothing() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?)
}

fn cannot_run(process: &Process, error: &io::Error) -> String {
    let command = process.command.first().map_or("", String::as_str);
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "exec: {command:?}: not found in the container; check the command, its PATH and its working directory"
            )
        }
        _ => format!("exec: {command:?}: {error}"),
    }
}

/// Drops all privileges and executes the command.
fn exec(process: &Process) -> io::Error {
    let Some((program, arguments)) = process.command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
    };
    if let Err(error) = give_up_privileges(process) {
        return error;
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(process.env.iter().map(|(name, value)| (name, value)));
    command.current_dir(&process.directory);
    command.exec()
}

fn give_up_privileges(process: &Process) -> io::Result<()> {
    // Dropping fails for unknown capabilities, and without the permission to drop.
    for number in 0..CAPABILITIES {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false) {
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    if process.switch_user {
        let (user, group) = (Uid::from_raw(process.user), Gid::from_raw(process.group));
        // The user must be able to reopen the log pipes through /dev/stdout.
        let _ = rustix::fs::fchown(rustix::stdio::stdout(), Some(user), Some(group));
        let _ = rustix::fs::fchown(rustix::stdio::stderr(), Some(user), Some(group));
        let groups: Vec<Gid> = process.groups.iter().copied().map(Gid::from_raw).collect();
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    rustix::thread::set_no_new_privs(true)?;
    // After the last change of identity, which would clear it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if process.confined { seccomp::refuse() } else { Ok(()) }
}

fn enter(join: &Join) -> u8 {
    match start_inside(join) {
        Ok(mut child) => match child.wait() {
            Ok(status) => u8::try_from(code(status)).unwrap_or(u8::MAX),
            Err(error) => warn_once(&format!("lost the command: {error}")),
        },
        Err(error) => warn_once(&format!("cannot enter the container: {error}")),
    }
}

fn start_inside(join: &Join) -> io::Result<Child> {
    // In a user namespace, the processes of the container have the same user, and could trace this one.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    join_groups(&join.groups, 0)?;
    let program = File::open("/proc/self/exe")?;
    let pid = i32::try_from(join.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let container = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let mut namespaces = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    if join.user_namespace {
        namespaces |= ThreadNameSpaceType::USER;
    }
    rustix::thread::move_into_thread_name_spaces(container.as_fd(), namespaces)?;
    // Before `Run` exists, which the container sees from its first instruction on, and could trace until it is confined.
    rustix::thread::set_no_new_privs(true)?;
    if join.confined {
        seccomp::refuse()?;
    }
    let mut command = again(&program);
    // The rest of standard input belongs to the command: first its request, then its input.
    command.stdin(Stdio::inherit()).spawn()
}

fn run(process: &Process, tty: bool) -> u8 {
    let terminal = || -> io::Result<()> {
        // Until the command is executed, as in `Join`.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::process::setsid()?;
        if tty {
            rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        Ok(())
    };
    let error = match terminal() {
        Ok(()) => exec(process),
        Err(error) => error,
    };
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    warn_once(&cannot_run(process, &error));
    code
}

/// The exit code as a container runtime reports it.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

fn signal(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal()
}
