//! Spans of time as people write them: `1h2m3s`.

use std::time::Duration;

use crate::error::ApiError;

/// A span in whole seconds, such as `1m5s`.
pub fn seconds_text(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// As [`seconds_text`].
pub fn text(span: Duration) -> String {
    seconds_text(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

/// Reads `90s`, `30m`, `1h30m`.
pub fn parse(field: &str, text: &str) -> Result<Duration, ApiError> {
    serde_json::from_value::<api::Duration>(text.into()).map(api::Duration::to_std).map_err(|_| {
        ApiError::invalid(field, format!("'{text}' is no span of time; write something like 90s, 30m or 24h"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (seconds, expected) in [(0, "0s"), (65, "1m5s"), (3600, "1h0m0s"), (90_061, "25h1m1s")] {
            assert_eq!(seconds_text(seconds), expected);
        }
        assert_eq!(parse("expiresIn", "1h30m").unwrap(), Duration::from_mins(90));
        assert!(parse("expiresIn", "soon").is_err());
    }
}
