//! Spans of time: added without overflow, and in words.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time after `span`, or the end of the calendar.
pub(crate) fn later(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// As jiff's type; what does not fit is for ever.
pub(crate) fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

/// Seconds as people write them in a field: `1h30m`.
pub(crate) fn written(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let given = parts.into_iter().filter(|(count, _)| *count > 0);
    let text = given.fold(String::new(), |text, (count, unit)| format!("{text}{count}{unit}"));
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// As people write it: `1h 30m`.
pub(crate) fn spoken(span: Duration) -> String {
    format!("{:#}", signed(span))
}
