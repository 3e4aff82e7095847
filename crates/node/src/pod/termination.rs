//! Termination of containers, and their terminated state.

use std::time::Duration;

use domain::contract::termination::{MOST_BYTES, kept};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use rustix::process::Signal;
use tokio::time::Instant;

use super::launch::Directories;
use crate::{
    logs::{Log, end_of, last_lines},
    pod::{
        lifecycle::Terminated,
        probe::{Action, Prober},
    },
    runtime::Running,
};

/// Limits for the end of the log as a termination message (FallbackToLogsOnError).
const LOG_LINES: usize = 80;
const LOG_BYTES: usize = 2048;
/// Minimum time between SIGTERM and SIGKILL.
const MIN_GRACE: Duration = Duration::from_millis(50);

/// Stops a container: preStop hook, SIGTERM to all its processes, and SIGKILL after the grace period. Returns after the
/// last signal; the exit is reported separately.
pub(crate) async fn stop(running: Running, grace: Duration, hook: Option<(Prober, Action)>) {
    let deadline = Instant::now() + grace.max(MIN_GRACE);
    if let Some((prober, action)) = hook {
        // The result of the hook is irrelevant: the container is stopped anyway.
        let _ = tokio::time::timeout_at(deadline, prober.execute(&action, grace)).await;
    }
    running.signal(Signal::TERM);
    tokio::time::sleep_until(deadline).await;
    running.signal(Signal::KILL);
}

/// The exit of a container's main process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    /// Whether the kernel OOM killer killed a process.
    pub(crate) out_of_memory: bool,
}

/// The terminated state of a run, with its termination message.
pub(crate) fn describe(
    container: &Container,
    run: u32,
    Exit { code, signal, out_of_memory }: Exit,
    started_at: Option<Timestamp>,
    directories: &Directories,
    log: &Log,
) -> Terminated {
    let message_file = end_of(&directories.message(&container.name, run), MOST_BYTES as u64).unwrap_or_default();
    let mut message = String::from_utf8_lossy(&message_file).into_owned();
    let from_log = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && from_log && code != 0 {
        message = last_lines(log, run, LOG_LINES, LOG_BYTES);
    }
    Terminated {
        code,
        // Kubernetes reports a signal through the exit code.
        signal,
        reason: match code {
            0 => "Completed",
            _ if out_of_memory => "OOMKilled",
            _ => "Error",
        }
        .to_owned(),
        message: Some(message).filter(|message| !message.is_empty()),
        started_at,
        finished_at: Timestamp::now(),
    }
}

impl Terminated {
    /// Cuts off what a kubelet does not keep in a Pod of so many containers.
    pub(crate) fn shorten_message(&mut self, containers: usize) {
        if let Some(message) = &mut self.message {
            message.truncate(message.floor_char_boundary(kept(containers)));
        }
    }
}

/// The reason of a container that could not be started.
pub(crate) const NOT_STARTED: &str = "StartError";

/// The terminated state of a container that could not be started.
pub(crate) fn not_started(message: String) -> Terminated {
    let now = Timestamp::now();
    Terminated {
        code: 128,
        signal: None,
        reason: NOT_STARTED.to_owned(),
        message: Some(message),
        started_at: Some(now),
        finished_at: now,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::FileExt as _};

    use super::*;

    #[test]
    fn containers_share_the_space_for_messages() {
        let message = |containers| {
            let mut ended = not_started("é".repeat(2048));
            ended.shorten_message(containers);
            ended.message.unwrap().len()
        };
        assert_eq!([1, 3, 6, 7].map(message), [4096, 4096, 2048, 1754]);
    }

    #[test]
    fn of_a_message_of_any_size_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().to_owned();
        let directories = Directories { scratch: own.clone(), hidden: Vec::new(), own };
        let path = directories.message("main", 0);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As `truncate -s 1T` makes it: no machine has the memory to read all of it.
        fs::File::create(&path).unwrap().write_all_at(b"the end", 1 << 40).unwrap();
        let container = Container { name: "main".into(), ..Container::default() };
        let exit = Exit { code: 0, signal: None, out_of_memory: false };
        let ended = describe(&container, 0, exit, None, &directories, &Log::new(directories.log("main")));
        let message = ended.message.unwrap();
        assert!(message.len() == 4096 && message.ends_with("\0the end"), "{} bytes", message.len());
    }
}
