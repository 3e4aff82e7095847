//! Durations on the wire, in the form of Go: `1h2m3s`.

use std::time::Duration;

use units::duration;

use crate::error::ApiError;

/// Whole seconds, such as `1m5s`. A clock that was set back makes no negative durations.
pub fn seconds_text(seconds: i64) -> String {
    duration::go_format(seconds.try_into().unwrap_or(0))
}

/// The whole seconds of a duration, as [`seconds_text`].
pub fn text(duration: Duration) -> String {
    duration::go_format(duration.as_secs())
}

/// Parses `90s`, `30m` or `1h30m` in a field of a request.
pub fn parse(field: &str, text: &str) -> Result<Duration, ApiError> {
    duration::parse(text)
        .ok_or_else(|| ApiError::invalid(field, format!("'{text}' is not a duration; write it as 90s, 30m or 24h")))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn an_invalid_duration_is_an_error_of_its_field() {
        assert_eq!(parse("timeout", "1h30m").unwrap(), Duration::from_mins(90));
        for text in ["", "5", "soon", "-5m"] {
            let error = parse("timeout", text).unwrap_err();
            let problem = format!("'{text}' is not a duration; write it as 90s, 30m or 24h");
            assert_eq!(
                (error.status, error.message),
                (StatusCode::UNPROCESSABLE_ENTITY, format!("timeout: {problem}"))
            );
            let fields: Vec<_> = error.fields.into_iter().map(|wrong| (wrong.field, wrong.message)).collect();
            assert_eq!(fields, [("timeout".to_owned(), problem)]);
        }
    }
}
