//! Durations: parsed and written as Go does (`1h30m`), and ages as `kubectl` shows them (`5m30s`, `2d4h`).

use std::time::Duration;

const SECOND: i128 = 1_000_000_000;
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // The micro sign and the Greek letter look alike, and both are in use.
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];
/// Digits of a fraction that are read: an hour has 3.6e12 nanoseconds.
const FRACTION: usize = 18;

/// The nanoseconds of a duration such as `90s`, `-1.5h` or `1h30m`; `0` needs no unit. None if the text is not a
/// duration or its value does not fit.
pub fn parse_nanos(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if unsigned == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (unsigned, 0_i128);
    loop {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        // `m` is a prefix of `ms`, so the unit ends where the next number begins.
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(scaled(number, factor)?)?;
        if after.is_empty() {
            return Some(if negative { -total } else { total });
        }
        rest = after;
    }
}

/// A decimal number times `factor`, rounded down.
fn scaled(number: &str, factor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    let fraction = &fraction[..fraction.len().min(FRACTION)];
    let parts = parse(fraction)? * factor / 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    parse(whole)?.checked_mul(factor)?.checked_add(parts)
}

/// A duration that is not negative, such as `90s` or `1h30m`.
pub fn parse(text: &str) -> Option<Duration> {
    let nanos = u128::try_from(parse_nanos(text)?).ok()?;
    let second = SECOND.unsigned_abs();
    Some(Duration::new(u64::try_from(nanos / second).ok()?, u32::try_from(nanos % second).ok()?))
}

/// As [`parse`], where a number without a unit means seconds.
pub fn parse_or_seconds(text: &str) -> Option<Duration> {
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => parse(text),
    }
}

/// Whole seconds as Go writes them: `5s`, `1m0s`, `1h30m0s`.
pub fn go_format(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// Whole seconds as people write them in a manifest, without parts that are zero: `1h30m`.
pub fn short_format(seconds: u64) -> String {
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let given = parts.into_iter().filter(|(count, _)| *count > 0);
    let text = given.fold(String::new(), |text, (count, unit)| format!("{text}{count}{unit}"));
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// An age in seconds as `kubectl` shows it: two units while the smaller one matters, then one.
pub fn age(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |large: i64, large_unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        // Clocks of two machines may differ by a second.
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_duration_or_refused() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0s", Some(0)),
            ("90s", Some(90 * SECOND)),
            ("1h30m", Some(5400 * SECOND)),
            ("1.5h", Some(5400 * SECOND)),
            (".5s", Some(SECOND / 2)),
            ("5.s", Some(5 * SECOND)),
            ("+5s", Some(5 * SECOND)),
            ("-5m", Some(-300 * SECOND)),
            ("500ms", Some(SECOND / 2)),
            ("3us", Some(3_000)),
            ("3µs", Some(3_000)),
            ("3μs", Some(3_000)),
            ("1m1ms", Some(60 * SECOND + 1_000_000)),
            ("0.3333333333333333333333333h", Some(1_199_999_999_999)),
            ("999999999h", Some(999_999_999 * 3600 * SECOND)),
            ("", None),
            ("+", None),
            ("5", None),
            (".s", None),
            ("1.2.3s", None),
            ("--5s", None),
            ("1h-5m", None),
            ("5 s", None),
            ("5d", None),
            ("1e3s", None),
            ("soon", None),
            ("99999999999999999999999999999999999999999h", None),
            ("170141183460469231731687303715884105727h", None),
        ] {
            assert_eq!(parse_nanos(text), nanos, "{text}");
        }
        assert_eq!(parse("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse("-5m"), None);
        assert_eq!(parse("9999999999999999999999h"), None);
        assert_eq!(parse_or_seconds("30"), Some(Duration::from_secs(30)));
        assert_eq!(parse_or_seconds("30ms"), Some(Duration::from_millis(30)));
        assert_eq!(parse_or_seconds("99999999999999999999"), None);
    }

    #[test]
    fn seconds_have_two_forms() {
        for (seconds, go, short) in [
            (0, "0s", "0s"),
            (65, "1m5s", "1m5s"),
            (3600, "1h0m0s", "1h"),
            (5400, "1h30m0s", "1h30m"),
            (90_061, "25h1m1s", "25h1m1s"),
        ] {
            assert_eq!((go_format(seconds).as_str(), short_format(seconds).as_str()), (go, short));
        }
    }

    #[test]
    fn ages_are_those_of_kubectl() {
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
            assert_eq!(age(seconds), expected, "{seconds} seconds");
        }
    }
}
