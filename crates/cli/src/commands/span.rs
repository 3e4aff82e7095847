//! Durations in arguments and tables.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// An age in the format of `kubectl`. A negative age, caused by clock skew, is shown as zero.
pub fn age(seconds: i64) -> String {
    units::duration::age(seconds.max(0))
}

/// The age of a time.
pub fn since(time: Option<&Time>, now: Timestamp) -> Option<String> {
    time.map(|time| age(now.as_second() - time.0.as_second()))
}

/// The duration between two times; `None` unless both are set.
pub fn between(from: Option<&Time>, to: Option<&Time>) -> Option<String> {
    Some(age(to?.0.as_second() - from?.0.as_second()))
}

/// Parses a positive duration of an argument, such as `90s`, `5m` or `1h30m`.
pub fn read(text: &str) -> Result<Duration, String> {
    let parsed = units::duration::parse(text).filter(|duration| !duration.is_zero());
    parsed.ok_or_else(|| format!("'{text}' is not a duration; write it as 90s, 5m or 1h30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_makes_no_negative_age() {
        assert_eq!((age(-5), age(5)), ("0s".to_owned(), "5s".to_owned()));
        let (earlier, later) = (Time(Timestamp::UNIX_EPOCH), Time(Timestamp::from_second(5).unwrap()));
        assert_eq!(since(Some(&later), Timestamp::UNIX_EPOCH).as_deref(), Some("0s"));
        assert_eq!(between(Some(&later), Some(&earlier)).as_deref(), Some("0s"));
    }

    #[test]
    fn spans_are_read_and_nonsense_is_not() {
        assert_eq!(read("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(read("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "0s", "5", "soon", "-5m"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
