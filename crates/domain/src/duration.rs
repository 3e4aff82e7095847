//! Durations: addition without overflow, and text for people.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time after `span`, or the end of the calendar.
pub(crate) fn later(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// As jiff's type. A longer duration becomes the maximum.
pub(crate) fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

/// Text for people: `1h 30m`.
pub(crate) fn spoken(span: Duration) -> String {
    format!("{:#}", signed(span))
}
