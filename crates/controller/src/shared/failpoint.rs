//! Failpoints: a test kills the process at one of them, to check that nothing is lost or done twice.
//!
//! `KUBEOPENCODE_FAILPOINT=claimed` aborts a debug build when it reaches the failpoint `claimed`, as `kill -9` would.
//! Release builds have no failpoints.

/// Names the failpoint at which to abort.
#[cfg(debug_assertions)]
const VARIABLE: &str = "KUBEOPENCODE_FAILPOINT";

/// Aborts the process here if `place` is the wanted failpoint: `start-recorded`, `labelled`, `claimed`,
/// `contexts-made`, `pod-made`, `told-to-end`, `run-ended`, `run-recorded`, `retry-decided`, `put-back`, `finished`,
/// `stop-taken-back`, `rerun-noted`.
#[cfg(debug_assertions)]
pub fn reach(place: &str) {
    if std::env::var(VARIABLE).is_ok_and(|wanted| wanted == place) {
        tracing::error!(place, "failpoint");
        std::process::abort();
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn reach(_place: &str) {}
