//! Costs as people read them. OpenCode reports costs in US dollars.

use super::{screen::line, task::stage::thousands};

/// Parses a decimal number such as `2.5` into millionths.
pub fn millionths(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Millionths of a dollar as `$1,234.5678`, rounded as in the log of a run.
pub fn dollars(millionths: i64) -> String {
    let rounded = millionths.saturating_add(50) / 100;
    format!("${}.{:04}", thousands(rounded / 10_000), rounded % 10_000)
}

/// The cost in a status as `$0.0123`; a text that is no number as it is.
pub fn cost(text: &str) -> String {
    millionths(text).map_or_else(|| line(text), dollars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up_exactly() {
        assert_eq!(millionths("0.1"), Some(100_000));
        assert_eq!(millionths("2"), Some(2_000_000));
        assert_eq!(millionths("0.1234567"), Some(123_456));
        assert_eq!(millionths("x"), None);
    }

    #[test]
    fn a_cost_has_its_currency() {
        assert_eq!(dollars(1_234_567_890), "$1,234.5679");
        assert_eq!(dollars(2_476), "$0.0025");
        assert_eq!(dollars(999_950), "$1.0000");
        assert_eq!(["0.012345", "3", "", "?"].map(cost), ["$0.0123", "$3.0000", "", "?"]);
    }
}
