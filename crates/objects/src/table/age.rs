//! Ages in the format of kubectl.

use jiff::Timestamp;
use serde_json::Value;
use units::duration::age;

/// The time between two timestamps in the format of kubectl: `5m30s`, `3h`, `2d4h`.
pub(super) fn human_duration(from: Timestamp, to: Timestamp) -> String {
    age(to.duration_since(from).as_secs())
}

/// The age of the timestamp in a field.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> String {
    match moment(time) {
        Some(time) => human_duration(time, now),
        None => "<unknown>".to_owned(),
    }
}

/// The timestamp in a field.
pub(super) fn moment(time: Option<&Value>) -> Option<Timestamp> {
    time?.as_str()?.parse().ok()
}
