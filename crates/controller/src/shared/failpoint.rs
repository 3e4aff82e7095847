//! Failpoints: where a test kills the process, to check that nothing is lost or done twice.
//!
//! `KUBEOPENCODE_FAILPOINT=claimed` ends a debug build at once, as `kill -9` would, when it reaches that place. Release
//! builds have no such places.

/// The name of the place at which to die.
#[cfg(debug_assertions)]
const VARIABLE: &str = "KUBEOPENCODE_FAILPOINT";

/// A place at which the process may die: `start-recorded`, `labelled`, `claimed`, `contexts-made`, `pod-made`,
/// `told-to-end`, `run-ended`, `run-recorded`, `retry-decided`, `put-back`, `finished`, `stop-taken-back`,
/// `rerun-noted`.
#[cfg(debug_assertions)]
pub fn reach(place: &str) {
    if std::env::var(VARIABLE).is_ok_and(|wanted| wanted == place) {
        tracing::error!(place, "failpoint");
        std::process::abort();
    }
}

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
pub fn reach(_place: &str) {}
