//! A program and everything that it started, which end with the value that stands for them.

use rustix::process::{Pid, Signal, kill_process_group};

/// Kills a process group when it is dropped: git has helpers (ssh, remote-https), and npm has node.
#[derive(Debug)]
pub(crate) struct Group(Option<u32>);

impl Group {
    /// The group of a program that was started as the first of a group of its own.
    pub(crate) fn of(child: &tokio::process::Child) -> Self {
        Self(child.id())
    }

    /// The program has ended by itself.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}
