//! Resets ignored signals, so that containers receive them.
//!
//! Children inherit ignored signals, and a shell cannot trap them: a node started in the background of a script would
//! disable Ctrl-C in every terminal, one under `nohup` SIGHUP.

use std::fs;

use tokio::signal::unix::{SignalKind, signal};

/// Installs empty handlers for ignored signals: equivalent for this process, and reset to the default in its children.
/// SIGPIPE is skipped: Rust programs ignore it and reset it for children.
pub(crate) fn reset_ignored() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for number in ignored(&status).filter(|number| *number != libc::SIGPIPE) {
        // Signals that cannot be handled cannot be ignored either.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::debug!(number, %error, "cannot handle signal: containers may ignore it");
        }
    }
}

/// The ignored signals in a `/proc/PID/status`, without real-time signals.
fn ignored(status: &str) -> impl Iterator<Item = i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    (1..32).filter(move |number| mask & (1 << (number - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_a_status() {
        let status = "Name:\tx\nSigBlk:\t00000000000000ff\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000004\n";
        assert_eq!(ignored(status).collect::<Vec<_>>(), [libc::SIGHUP, libc::SIGINT, libc::SIGPIPE]);
        assert_eq!(ignored("").count(), 0);
    }
}
