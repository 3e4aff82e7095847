//! Starts, signals and reaps processes. As PID 1 or subreaper the shim is the parent of every orphan.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::sync::mpsc;

/// Polling interval of the process table while leftover processes are ended.
const POLL: Duration = Duration::from_millis(20);

/// The process group of the command.
#[derive(Debug, Clone, Copy)]
pub struct Group(Pid);

impl Group {
    /// Starts a command in its own process group. This process becomes the parent of orphans in its tree.
    pub fn start(mut command: Command) -> io::Result<(Self, Child)> {
        // If this fails, orphans go to PID 1: the shim itself, or a process that reaps them.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let child = command.process_group(0).spawn()?;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = id.ok_or_else(|| io::Error::other("the command has no process id"))?;
        Ok((Self(pid), child))
    }

    /// Sends a signal to the whole group.
    pub fn signal(self, signal: Signal) {
        // The group may be gone already.
        let _ = rustix::process::kill_process_group(self.0, signal);
    }

    /// Reaps every child, in a thread of its own. Sends the command's exit code, and closes the channel when no child
    /// is left.
    pub fn reap(self) -> mpsc::UnboundedReceiver<u8> {
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            loop {
                match rustix::process::wait(WaitOptions::empty()) {
                    Ok(Some((pid, status))) if pid == self.0 => {
                        let code = match (status.exit_status(), status.terminating_signal()) {
                            (Some(code), _) => code,
                            (None, Some(signal)) => 128 + signal,
                            (None, None) => continue,
                        };
                        let _ = sender.send(u8::try_from(code).unwrap_or(u8::MAX));
                    }
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        });
        receiver
    }
}

/// Ends the processes that are left after the command: SIGTERM, then SIGKILL. Returns their number.
pub async fn end_the_rest(group: Group, polite: Duration) -> usize {
    let start = Instant::now();
    let mut signalled: Vec<i32> = Vec::new();
    let mut ended = 0;
    // Children of a killed process become ours only after its end, so this takes a few rounds; each is bounded.
    while start.elapsed() < polite + Duration::from_secs(5) {
        let children = children();
        if children.is_empty() {
            break;
        }
        let force = start.elapsed() >= polite;
        for child in children {
            let first = !signalled.contains(&child);
            if first {
                signalled.push(child);
                ended += 1;
            }
            if (first || force)
                && let Some(pid) = Pid::from_raw(child)
            {
                let _ = rustix::process::kill_process(pid, if force { Signal::KILL } else { Signal::TERM });
            }
        }
        if force {
            group.signal(Signal::KILL);
        }
        tokio::time::sleep(POLL).await;
    }
    ended
}

/// Children of this process, without zombies.
fn children() -> Vec<i32> {
    let us = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            // "pid (name) state ppid …"; the name may contain anything, so parse after its last parenthesis.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse::<i32>().ok()));
            parent == Some(us) && state != Some("Z")
        })
        .collect()
}
