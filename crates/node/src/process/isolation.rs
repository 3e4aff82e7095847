//! The isolation of containers on this machine, and advice where the kernel does not permit it.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    logs::Log,
    process::{
        cgroups::{Cgroups, Enforced},
        container::Helper,
        helper::{Init, Process, Root},
        limits::Limits,
    },
    runtime::{ContainerEvent, engine::Engine},
};

/// An empty container takes a few milliseconds.
const LIMIT: Duration = Duration::from_secs(30);

/// The isolation in effect. `Display` renders a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Processes {
        /// Whether the node is not root, so that containers run in user namespaces: every user in them is, outside, the
        /// user of the node.
        user_namespace: bool,
        limits: Enforced,
    },
    /// The name of the engine.
    Engine(String),
}

impl Isolation {
    pub(crate) fn of_engine(engine: &Engine) -> Self {
        Self(Kind::Engine(engine.to_string()))
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user_namespace, limits) = match &self.0 {
            Kind::Processes { user_namespace, limits } => (*user_namespace, *limits),
            Kind::Engine(name) => {
                return write!(
                    f,
                    "{name} runs each container from its image, with the limits of its Pod; the network is shared with \
                     this machine"
                );
            }
        };
        f.write_str(
            "each container has its own processes, a read-only view of this machine's files, a private /tmp, no \
             capabilities and no access to the state directory; rarely used system calls are blocked; ",
        )?;
        if user_namespace {
            f.write_str(
                "processes run as your user (runAsUser only changes the displayed user, fsGroup has no effect); ",
            )?;
        } else {
            f.write_str("processes run as the user of the Pod, by default 1000; ")?;
        }
        f.write_str("the network is shared with this machine; ")?;
        let missing = match (limits.memory, limits.cpu) {
            (true, true) => {
                return f.write_str("memory and CPU limits are enforced");
            }
            (true, false) => "memory limits are enforced, CPU limits are not",
            (false, true) => "CPU limits are enforced, memory limits are not",
            (false, false) => "memory and CPU limits are not enforced",
        };
        let why = if user_namespace { "are delegated to your user" } else { "can be created" };
        write!(f, "{missing}: no cgroups for them {why}")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("containers cannot be isolated on this machine: {problem}; {advice}")]
pub struct IsolationError {
    problem: String,
    advice: String,
}

/// Starts an empty container, to test whether the kernel permits it.
pub(crate) async fn probe(program: &Path, dir: &Path) -> Result<(Isolation, Helper), IsolationError> {
    let user_namespace = !rustix::process::geteuid().is_root();
    let groups = Cgroups::open(dir);
    let limits = groups.as_ref().map(Cgroups::enforced).unwrap_or_default();
    let helper = Helper { program: program.to_owned(), user_namespace, groups };
    let fails = |problem: String| IsolationError { problem, advice: advise(user_namespace, &read) };
    let attempt = async {
        let log = Log::new(dir.join("probe")).begin(0).map_err(|error| error.to_string())?;
        let (sender, receiver) = oneshot::channel();
        let sender = std::sync::Mutex::new(Some(sender));
        let on_event = move |event| {
            let outcome = match event {
                ContainerEvent::Started { .. } => return,
                ContainerEvent::Exited { code: 0, .. } => Ok(()),
                ContainerEvent::Exited { code, .. } => Err(format!("an empty container exited with code {code}")),
                ContainerEvent::Failed { message } => Err(message),
            };
            let sender = sender.lock().ok().and_then(|mut sender| sender.take());
            // The receiver may have timed out.
            let _ = sender.map(|sender| sender.send(outcome));
        };
        helper
            .start("probe", nothing(dir), &Limits::none(), log, on_event)
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let ended =
            tokio::time::timeout(LIMIT, receiver).await.map_err(|_| "a container did not start in 30 s".to_owned())?;
        ended.map_err(|_| "the container was lost".to_owned())?
    };
    let outcome = attempt.await;
    let _ = fs::remove_dir_all(dir.join("probe"));
    match outcome {
        Ok(()) => Ok((Isolation(Kind::Processes { user_namespace, limits }), helper)),
        Err(problem) => {
            helper.groups.iter().for_each(Cgroups::remove);
            Err(fails(problem))
        }
    }
}

fn nothing(dir: &Path) -> Init {
    Init {
        root: Root { scratch: dir.join("scratch"), mounts: Vec::new(), hidden: Vec::new() },
        hostname: "probe".to_owned(),
        process: Process {
            command: vec!["/bin/true".to_owned()],
            env: Vec::new(),
            directory: PathBuf::from("/"),
            user: rustix::process::getuid().as_raw(),
            group: rustix::process::getgid().as_raw(),
            groups: Vec::new(),
            switch_user: false,
            // Test the seccomp filter too.
            confined: true,
        },
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What to change on the machine, according to its kernel settings.
fn advise(user_namespace: bool, setting: &dyn Fn(&str) -> Option<String>) -> String {
    if !user_namespace {
        return "root lacks CAP_SYS_ADMIN, as in most containers: run outside of a container, or add that capability"
            .to_owned();
    }
    for (path, bad, command) in [
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ] {
        if setting(path).as_deref() == Some(bad) {
            return format!(
                "user namespaces are disabled for your user: run `sudo sysctl -w {command}`, or start as root"
            );
        }
    }
    "the kernel must permit user namespaces with their own /proc, which most containers forbid: run outside of a \
     container, or as root"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforced_limits_are_reported_and_why_others_are_not() {
        let check = |user_namespace, memory, cpu, expected: &str| {
            let limits = Enforced { memory, cpu, processes: true };
            let text = Isolation(Kind::Processes { user_namespace, limits }).to_string();
            assert!(text.ends_with(expected), "{text}");
        };
        check(false, true, true, "memory and CPU limits are enforced");
        check(true, false, false, "are not enforced: no cgroups for them are delegated to your user");
        check(false, true, false, "memory limits are enforced, CPU limits are not: no cgroups for them can be created");
    }

    #[test]
    fn the_advice_names_the_kernel_setting() {
        let check = |wrong: &str, value: &str, expected: &str| {
            let advice = advise(true, &|path| path.ends_with(wrong).then(|| value.to_owned()));
            assert!(advice.contains(expected), "{advice}");
        };
        check("max_user_namespaces", "0", "user.max_user_namespaces=15000");
        check("unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1");
        check("apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0");
        check("max_user_namespaces", "9000", "outside of a container");
        assert!(advise(false, &|_| None).contains("CAP_SYS_ADMIN"));
    }
}
