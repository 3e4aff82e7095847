//! Ending containers: gently, then by force; and what is said of them afterwards.

use std::{fs, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use rustix::process::Signal;
use tokio::time::Instant;

use super::launch::Directories;
use crate::{
    life::Ended,
    logs::{Log, last_lines},
    probe::{Action, Prober},
    runtime::Running,
};

/// Kubernetes keeps as much of a last message.
const LONGEST_MESSAGE: usize = 4096;
/// And as much of the log in its place.
const LOG_LINES: usize = 80;
const LOG_BYTES: usize = 2048;
/// Also a container that gets no time at all is told before it is killed.
const SHORTEST: Duration = Duration::from_millis(50);

/// Ends a container: its hook, SIGTERM to all its processes, and SIGKILL when the time is over. Returns then; the end
/// itself is heard elsewhere.
pub(crate) async fn stop(running: Running, grace: Duration, hook: Option<(Prober, Action)>) {
    let deadline = Instant::now() + grace.max(SHORTEST);
    if let Some((prober, action)) = hook {
        // What the hook says changes nothing: the container ends anyway.
        let _ = tokio::time::timeout_at(deadline, prober.act(&action, grace)).await;
    }
    running.signal(Signal::TERM);
    tokio::time::sleep_until(deadline).await;
    running.signal(Signal::KILL);
}

/// How the processes of a run ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    /// Whether the kernel killed one for want of memory.
    pub(crate) out_of_memory: bool,
}

/// How a run ended, with its last message.
pub(crate) fn describe(
    container: &Container,
    run: u32,
    Exit { code, signal, out_of_memory }: Exit,
    started_at: Option<Timestamp>,
    directories: &Directories,
    log: &Log,
) -> Ended {
    let said = fs::read(directories.message(&container.name, run)).unwrap_or_default();
    let said = &said[said.len().saturating_sub(LONGEST_MESSAGE)..];
    let mut message = String::from_utf8_lossy(said).into_owned();
    let from_log = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if message.is_empty() && from_log && code != 0 {
        message = last_lines(log, run, LOG_LINES, LOG_BYTES);
    }
    Ended {
        code,
        // Kubernetes tells of a signal by its exit code.
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

/// The reason of a run that never began.
pub(crate) const NOT_STARTED: &str = "StartError";

/// A run that never began.
pub(crate) fn not_started(message: String) -> Ended {
    let now = Timestamp::now();
    Ended {
        code: 128,
        signal: None,
        reason: NOT_STARTED.to_owned(),
        message: Some(message),
        started_at: Some(now),
        finished_at: now,
    }
}
