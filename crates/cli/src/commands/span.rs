//! Spans of time as people read and write them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A span in seconds as kubectl writes ages: two units while they matter, then one.
pub fn age(seconds: i64) -> String {
    let (s, m, h, d) = (seconds, seconds / MINUTE, seconds / HOUR, seconds / DAY);
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match s {
        ..0 => "0s".to_owned(),
        _ if s < 2 * MINUTE => format!("{s}s"),
        _ if s < 10 * MINUTE => two(m, 'm', s % MINUTE, 's'),
        _ if s < 3 * HOUR => format!("{m}m"),
        _ if s < 8 * HOUR => two(h, 'h', m % 60, 'm'),
        _ if s < 2 * DAY => format!("{h}h"),
        _ if s < 8 * DAY => two(d, 'd', h % 24, 'h'),
        _ if s < 2 * YEAR => format!("{d}d"),
        _ => two(s / YEAR, 'y', d % 365, 'd'),
    }
}

/// How long ago something was.
pub fn since(time: Option<&Time>, now: Timestamp) -> Option<String> {
    time.map(|time| age(now.as_second() - time.0.as_second()))
}

/// From one moment to another, if both are known.
pub fn between(from: Option<&Time>, to: Option<&Time>) -> Option<String> {
    Some(age(to?.0.as_second() - from?.0.as_second()))
}

/// Reads a span such as `90s`, `5m`, `1h30m`, as arguments give it.
pub fn read(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no span of time; write it as 90s, 5m or 1h30m");
    let span: api::Duration = serde_json::from_value(text.into()).map_err(|_| wrong())?;
    let span = span.to_std();
    if span.is_zero() || text.starts_with('-') { Err(wrong()) } else { Ok(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR, "8h"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR + DAY, "2y1d"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
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
