//! The string formats that kube-apiserver validates in custom objects. Others are only documentation.

use std::net::{IpAddr, Ipv4Addr};

use super::pattern::matches;

const UUID: &str = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID3: &str = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const UUID4: &str = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const UUID5: &str = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
const HOSTNAME: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
const BASE64: &str = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
const TIME: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";
const SHORT_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LONG_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const HEX_COLOR: &str = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
const RGB_COLOR: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";
const SSN: &str = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
const CARD: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";

/// Whether `text` has this format; `None` if the format is not validated. Dashes in the name are ignored.
pub fn has_format(format: &str, text: &str) -> Option<bool> {
    let fits = |pattern: &str| matches(pattern, text) == Some(true);
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => fits(HOSTNAME) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63),
        "ipv4" => text.contains('.') && parse_ip(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => fits(UUID),
        "uuid3" => fits(UUID3),
        "uuid4" => fits(UUID4),
        "uuid5" => fits(UUID5),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_card(text),
        "ssn" => fits(SSN),
        "hexcolor" => fits(HEX_COLOR),
        "rgbcolor" => fits(RGB_COLOR),
        "byte" => fits(BASE64),
        "password" => true,
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => text.len() <= 63 && fits(SHORT_NAME),
        "k8slongname" => text.len() <= 253 && fits(LONG_NAME),
        _ => return None,
    })
}

/// Whether kube-apiserver validates this format.
pub fn is_known(format: &str) -> bool {
    has_format(format, "").is_some()
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    let rest = match matches("^[a-zA-Z][a-zA-Z0-9+.-]*:", text) {
        Some(true) => text.split_once(':').map_or(text, |(_, rest)| rest),
        _ if text.starts_with('/') || text == "*" => text,
        _ => return false,
    };
    let Some(after) = rest.strip_prefix("//").filter(|_| rest.len() < text.len()) else {
        // A path must have valid escapes; an opaque part can be anything.
        return !rest.starts_with('/') || escapes_are_whole(rest.split('?').next().unwrap_or_default());
    };
    let (host, path) = after.find('/').map_or((after, ""), |at| after.split_at(at));
    let host = host.split('?').next().unwrap_or_default();
    let host_only = host.rsplit('@').next().unwrap_or_default();
    let port_is_number = host_only.rsplit_once(':').is_none_or(|(before, port)| {
        (before.starts_with('[') && !before.ends_with(']')) || port.bytes().all(|byte| byte.is_ascii_digit())
    });
    !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        && port_is_number
        && escapes_are_whole(path.split('?').next().unwrap_or_default())
}

fn escapes_are_whole(path: &str) -> bool {
    path.split('%').skip(1).all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(named) => named.rsplit_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    matches(
        r#"^[^\s@<>()\[\],;:"\\.]+(\.[^\s@<>()\[\],;:"\\.]+)*@([^\s@<>()\[\],;:"\\.]+(\.[^\s@<>()\[\],;:"\\.]+)*|\[[^\]\s]+\])$"#,
        address,
    ) == Some(true)
}

/// Parses an address; leading zeros in IPv4 are accepted, as in Go before 1.17.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let parts = text.split('.').map(|part| {
        let plausible = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u8>().ok().filter(|_| plausible)
    });
    let octets = parts.collect::<Option<Vec<u8>>>()?;
    <[u8; 4]>::try_from(octets).ok().map(|octets| Ipv4Addr::from(octets).into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match parse_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let fits = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts = text.split(separator).collect::<Vec<_>>();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    fits(':', 2, [6, 8, 20]) || fits('-', 2, [6, 8, 20]) || fits('.', 4, [3, 4, 10])
}

/// The digits of a number with spaces and dashes; empty if it contains other characters.
fn digits_of(text: &str) -> Vec<u32> {
    text.chars().filter_map(|letter| letter.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain = text.replace(|letter: char| letter.is_ascii_whitespace() || letter == '-', "");
    if matches("^(?:[0-9]{9}X|[0-9]{10})$", &plain) != Some(true) {
        return false;
    }
    let values = plain.chars().map(|letter| letter.to_digit(10).unwrap_or(10));
    values.zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let plain = text.replace(|letter: char| letter.is_ascii_whitespace() || letter == '-', "");
    let digits = digits_of(&plain);
    if digits.len() != 13 || plain.len() != 13 {
        return false;
    }
    let sum = digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum::<u32>();
    sum % 10 == 0
}

fn is_card(text: &str) -> bool {
    let plain = text.chars().filter(char::is_ascii_digit).collect::<String>();
    if matches(CARD, &plain) != Some(true) {
        return false;
    }
    let weighted = digits_of(&plain).into_iter().rev().enumerate().map(|(index, digit)| match (index % 2, digit * 2) {
        (0, _) => digit,
        (_, double) => double % 10 + double / 10,
    });
    weighted.sum::<u32>() % 10 == 0
}

fn is_date(text: &str) -> bool {
    if matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", text) != Some(true) {
        return false;
    }
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (date, time) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    is_date(date) && matches(TIME, time) == Some(true)
}

fn is_duration(text: &str) -> bool {
    duration(text).is_some()
}

/// Nanoseconds of a duration in Go's format (`1h30m`), or with words as in Scala (`2 days`).
pub fn duration(text: &str) -> Option<i64> {
    go_duration(text).or_else(|| word_duration(text))
}

/// Go counts nanoseconds in 64 bits, which is 292 years. More saturates.
fn go_duration(text: &str) -> Option<i64> {
    let nanos = units::duration::parse_nanos(text)?;
    Some(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }))
}

/// Every number followed by a unit counts; the rest is ignored.
fn word_duration(text: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 24 * 3600 * SECOND),
        (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
    ];
    let mut total = None;
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let amount = rest[..end].parse::<i64>().ok()?;
        rest = &rest[end..];
        let word = rest.trim_start();
        let end = word.find(|letter: char| !letter.is_ascii_alphabetic() && letter != 'µ').unwrap_or(word.len());
        let unit = word[..end].to_lowercase();
        let is =
            |names: &[&str]| names.contains(&unit.as_str()) || names.last().is_some_and(|last| unit.starts_with(last));
        if let Some((_, factor)) = UNITS.into_iter().find(|(names, _)| is(names)) {
            total = Some(amount.saturating_mul(factor).saturating_add(total.unwrap_or(0)));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_what_go_takes() {
        for (format, good, bad) in [
            ("date-time", "2026-01-01T00:00:00Z", "2026-13-01T00:00:00Z"),
            ("date-time", "2026-01-01t10:20:30.5+02:00", "2026-01-01"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "1x"),
            ("duration", "2 days", "days"),
            ("byte", "YWI=", "YWI"),
            ("uri", "https://example.com/a%20b?c", "example.com"),
            ("uri", "/path", "https://a b/"),
            ("email", "a.b@example.com", "a@"),
            ("hostname", "a-b.example", "a_b"),
            ("ipv4", "010.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23:45"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("isbn10", "0-321-75104-3", "0-321-75104-4"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "123-45-6789", "123-456-789"),
            ("hexcolor", "#fff", "#ffff"),
            ("rgbcolor", "rgb(1, 2,3)", "rgb(1,2,256)"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "A"),
        ] {
            assert_eq!(
                (has_format(format, good), has_format(format, bad)),
                (Some(true), Some(false)),
                "{format} {good}"
            );
        }
        assert_eq!((has_format("int32", "x"), has_format("password", "")), (None, Some(true)));
    }
}
