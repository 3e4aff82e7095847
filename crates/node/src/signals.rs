//! Containers hear every signal, whatever the node was started with.
//!
//! What a process ignores, everything that it starts ignores too, and a shell cannot even trap it: a node that was started
//! in the background of a script would take Ctrl-C from every terminal, one under `nohup` every SIGHUP.

use std::fs;

use tokio::signal::unix::{SignalKind, signal};

/// Replaces "ignored" by "handled, by doing nothing": for this process that is the same, for what it starts it is the
/// default. SIGPIPE is left alone: every program of Rust ignores it, and resets it for what it starts.
pub(crate) fn heed_ignored() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for number in ignored(&status).filter(|number| *number != libc::SIGPIPE) {
        // Those that cannot be handled cannot be ignored either.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::debug!(number, %error, "containers may ignore this signal");
        }
    }
}

/// The signals that a process with this status ignores, without those for real time.
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
