//! Sizes and times in lines of the log.

use std::time::Duration;

use units::duration::short_format;

/// As `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1024, unit + 1);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// As `2.5 s`.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f32())
}

/// A limit as people write it in a manifest; a part of a second counts as one.
pub fn duration(time: Duration) -> String {
    short_format(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// As `1 file` or `3 files`.
pub fn files(number: u64) -> String {
    if number == 1 { "1 file".to_owned() } else { format!("{number} files") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536 << 10, "1.5 MiB"),
            (16 << 30, "16.0 GiB"),
            (u64::MAX, "1677721.5 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!((files(1), files(0)), ("1 file".to_owned(), "0 files".to_owned()));
        assert_eq!(seconds(Duration::from_millis(2540)), "2.5 s");
        assert_eq!(
            (duration(Duration::from_mins(10)), duration(Duration::from_millis(300))),
            ("10m".to_owned(), "1s".to_owned())
        );
    }
}
