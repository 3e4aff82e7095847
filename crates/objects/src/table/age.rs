//! How long ago something was, in two or three figures.

use jiff::Timestamp;
use serde_json::Value;

/// The time between two moments as `kubectl` shows it: `5m30s`, `3h`, `2d4h`.
pub fn human_duration(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    // Clocks of two machines may differ by a second.
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// How long ago the time in a field was.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> String {
    match moment(time) {
        Some(time) => human_duration(time, now),
        None => "<unknown>".to_owned(),
    }
}

/// The time in a field.
pub(super) fn moment(time: Option<&Value>) -> Option<Timestamp> {
    time?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_figures() {
        let second = 1;
        let (minute, hour) = (60 * second, 3600 * second);
        let (day, year) = (24 * hour, 365 * 24 * hour);
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 1, "2m1s"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 59, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (8 * hour + minute, "8h"),
            (47 * hour, "47h"),
            (48 * hour, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year + day, "8y"),
        ] {
            let start = Timestamp::UNIX_EPOCH;
            let end = Timestamp::from_second(seconds).unwrap();
            assert_eq!(human_duration(start, end), expected, "{seconds} seconds");
        }
    }
}
