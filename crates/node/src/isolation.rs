//! What keeps containers apart from the machine, and what to do where the kernel does not allow it.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    container::Helper,
    engine::Engine,
    groups::{Enforced, Groups},
    inside::{Init, Process, Root},
    limits::Limits,
    logs::Log,
    runtime::Happened,
};

/// A container that does nothing takes a few milliseconds.
const LIMIT: Duration = Duration::from_secs(30);

/// What is in force on this machine. Prints as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Processes {
        /// Whether the node is not root, so that containers live in user namespaces: every user in them is, outside, the
        /// one who started the node.
        user_namespace: bool,
        limits: Enforced,
    },
    /// The name of an engine, which has its own ways.
    Engine(String),
}

impl Isolation {
    /// What an engine does.
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
                    "each container is one of {name}, from its image and with the limits of its Pod; the network is \
                     shared with this machine"
                );
            }
        };
        f.write_str(
            "each container has its own processes, a read-only view of this machine's files, a private /tmp, no \
             capabilities, no system calls that hardly any program needs, and no access to the state directory; ",
        )?;
        if user_namespace {
            f.write_str("its user is you (runAsUser is only a name for that, fsGroup is not in force); ")?;
        } else {
            f.write_str("its user is the one of the Pod, and of uid 1000 where the Pod names none; ")?;
        }
        f.write_str("the network is shared with this machine; ")?;
        let missing = match (limits.memory, limits.cpu) {
            (true, true) => {
                return f.write_str("limits of memory and processors are enforced");
            }
            (true, false) => "limits of memory are enforced, limits of processors are not",
            (false, true) => "limits of processors are enforced, limits of memory are not",
            (false, false) => "limits of memory and processors are not enforced",
        };
        let why = if user_namespace { "were handed over to you" } else { "can be made here" };
        write!(f, "{missing}, because no control groups for them {why}")
    }
}

/// Why no container can be started here.
#[derive(Debug, thiserror::Error)]
#[error("containers cannot be kept apart on this machine: {problem}; {advice}")]
pub struct IsolationError {
    problem: String,
    advice: String,
}

/// Starts a container that does nothing, to see whether the kernel allows it.
pub(crate) async fn probe(program: &Path, dir: &Path) -> Result<(Isolation, Helper), IsolationError> {
    let user_namespace = !rustix::process::geteuid().is_root();
    let groups = Groups::open(dir);
    let limits = groups.as_ref().map(Groups::enforced).unwrap_or_default();
    let helper = Helper { program: program.to_owned(), user_namespace, groups };
    let fails = |problem: String| IsolationError { problem, advice: advise(user_namespace, &read) };
    let attempt = async {
        let log = Log::new(dir.join("probe")).begin(0).map_err(|error| error.to_string())?;
        let (tell, told) = oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        let heard = move |happened| {
            let outcome = match happened {
                Happened::Started { .. } => return,
                Happened::Exited { code: 0, .. } => Ok(()),
                Happened::Exited { code, .. } => Err(format!("a container that does nothing ended with code {code}")),
                Happened::Failed { message } => Err(message),
            };
            let tell = tell.lock().ok().and_then(|mut tell| tell.take());
            // Whoever asked may have stopped waiting.
            let _ = tell.map(|tell| tell.send(outcome));
        };
        helper
            .start("probe", nothing(dir), &Limits::none(), log, heard)
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let ended =
            tokio::time::timeout(LIMIT, told).await.map_err(|_| "a container did not start in 30 s".to_owned())?;
        ended.map_err(|_| "the container was lost".to_owned())?
    };
    let outcome = attempt.await;
    let _ = fs::remove_dir_all(dir.join("probe"));
    match outcome {
        Ok(()) => Ok((Isolation(Kind::Processes { user_namespace, limits }), helper)),
        Err(problem) => {
            helper.groups.iter().for_each(Groups::remove);
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
            // What the kernel does not allow is found out before anybody relies on it.
            confined: true,
        },
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What to change on the machine, read from its settings.
fn advise(user_namespace: bool, setting: &dyn Fn(&str) -> Option<String>) -> String {
    if !user_namespace {
        return "root may lack CAP_SYS_ADMIN, as in most containers: run this outside of a container, or give it that \
                capability"
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
            return format!("user namespaces are off for you: run `sudo sysctl -w {command}`, or start this as root");
        }
    }
    "the kernel must allow user namespaces with a /proc of their own, which most containers forbid: run this outside of \
     a container, or as root"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_limited_is_told_and_why_the_rest_is_not() {
        let check = |user_namespace, memory, cpu, expected: &str| {
            let limits = Enforced { memory, cpu, processes: true };
            let said = Isolation(Kind::Processes { user_namespace, limits }).to_string();
            assert!(said.ends_with(expected), "{said}");
        };
        check(false, true, true, "limits of memory and processors are enforced");
        check(true, false, false, "are not enforced, because no control groups for them were handed over to you");
        check(
            false,
            true,
            false,
            "limits of memory are enforced, limits of processors are not, \
               because no control groups for them can be made here",
        );
    }

    #[test]
    fn the_advice_names_the_setting_that_is_in_the_way() {
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
