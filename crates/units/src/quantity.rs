//! Quantities: a decimal number with a decimal suffix (`500m`), a binary suffix (`1Gi`) or an exponent (`1e3`).

use std::{cmp::Ordering, fmt, str::FromStr};

/// The precision of a quantity. Smaller fractions are rounded away from zero.
const NANO: i128 = 1_000_000_000;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The notation of a quantity, which is kept when it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

/// An amount of a resource. Two quantities are equal if their values are, whatever the notation.
///
/// Displayed in the canonical form of Kubernetes: no fraction, and the largest suffix that loses no precision.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

/// The text is not a quantity, or its value does not fit into 128 bits of billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidQuantity;

impl fmt::Display for InvalidQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a quantity such as 500m, 2 or 1Gi")
    }
}

impl std::error::Error for InvalidQuantity {}

impl Quantity {
    /// The value in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The value in thousandths, rounded up: the unit of CPU limits.
    pub fn millis(self) -> i128 {
        ceil(self.nanos, 1_000_000)
    }

    /// The quotient, rounded up, as `resourceFieldRef` reports it. None unless the divisor is positive.
    pub fn divided_by(self, divisor: Self) -> Option<i128> {
        (divisor.nanos > 0).then(|| ceil(self.nanos, divisor.nanos))
    }

    /// The value rounded up to a whole number: the unit of memory and storage is the byte.
    pub fn ceil(self) -> i128 {
        ceil(self.nanos, NANO)
    }
}

fn ceil(number: i128, divisor: i128) -> i128 {
    number / divisor + i128::from(number % divisor > 0)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        parse(text.trim()).ok_or(InvalidQuantity)
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let point = i32::try_from(fraction.len()).ok()?;
    let (nanos, notation) = if let Some(power) = BINARY.iter().position(|unit| !unit.is_empty() && *unit == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(power).ok()?)?;
        (shift(digits.checked_mul(factor)?, 9 - point)?, Notation::Binary)
    } else if let Some((_, power)) = DECIMAL.iter().find(|(unit, _)| *unit == suffix) {
        (shift(digits, 9 + power - point)?, Notation::Decimal)
    } else {
        // `E` alone is the suffix for 10^18; followed by digits it starts an exponent.
        let power = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
        (shift(digits, power.checked_add(9)?.checked_sub(point)?)?, Notation::Exponent)
    };
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, notation })
}

/// `number` times ten to the `power`, rounded up.
fn shift(number: i128, power: i32) -> Option<i128> {
    if power >= 0 {
        return if number == 0 { Some(0) } else { number.checked_mul(10_i128.checked_pow(power.unsigned_abs())?) };
    }
    match 10_i128.checked_pow(power.unsigned_abs()) {
        Some(divisor) => Some(ceil(number, divisor)),
        // The divisor is larger than any number.
        None => Some(i128::from(number > 0)),
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.notation {
            Notation::Binary if self.nanos.abs() >= 1024 * NANO => binary(self.nanos, f),
            Notation::Exponent => exponent(self.nanos, f),
            Notation::Binary | Notation::Decimal => decimal(self.nanos, f),
        }
    }
}

fn decimal(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, power) = reduce(nanos, 18);
    let unit = DECIMAL.iter().find(|(_, unit)| *unit == power).map_or("", |(name, _)| name);
    if number == 0 { f.write_str("0") } else { write!(f, "{number}{unit}") }
}

fn binary(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut number = nanos / NANO + i128::from(nanos % NANO != 0);
    let mut unit = 0;
    while number % 1024 == 0 && unit + 1 < BINARY.len() {
        number /= 1024;
        unit += 1;
    }
    write!(f, "{number}{}", BINARY[unit])
}

fn exponent(nanos: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (number, power) = reduce(nanos, i32::MAX);
    if number == 0 || power == 0 { write!(f, "{number}") } else { write!(f, "{number}e{power}") }
}

/// The number without its trailing groups of three zeros, and the power of ten that they stand for.
fn reduce(nanos: i128, highest: i32) -> (i128, i32) {
    let (mut number, mut power) = (nanos, -9);
    while number != 0 && number % 1000 == 0 && power < highest {
        number /= 1000;
        power += 3;
    }
    (number, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_quantity_or_refused() {
        for (text, nanos) in [
            ("1e3", Some(1_000 * NANO)),
            ("1E3", Some(1_000 * NANO)),
            ("1e+3", Some(1_000 * NANO)),
            ("1e-3", Some(NANO / 1_000)),
            ("5E", Some(5 * NANO * 10_i128.pow(18))),
            ("5Ei", Some(5 * NANO * 1024_i128.pow(6))),
            ("0.5", Some(NANO / 2)),
            (".5", Some(NANO / 2)),
            ("5.", Some(5 * NANO)),
            ("+1", Some(NANO)),
            ("-1", Some(-NANO)),
            (" 1 ", Some(NANO)),
            ("100m", Some(NANO / 10)),
            ("1u", Some(1_000)),
            ("1.5Gi", Some(1_610_612_736 * NANO)),
            // Rounded away from zero.
            ("0.1n", Some(1)),
            ("-0.1n", Some(-1)),
            ("1e-40", Some(1)),
            ("0e-40", Some(0)),
            ("0e40", Some(0)),
            // Too large.
            ("1e40", None),
            ("1e99999999999", None),
            ("999999999999999999999999999999Ei", None),
            ("1234567890123456789012345678901234567890", None),
            // Not quantities.
            ("", None),
            ("much", None),
            (".", None),
            ("-", None),
            ("--1", None),
            ("1.2.3", None),
            ("1 Gi", None),
            ("1Kib", None),
            ("1ki", None),
            ("1K", None),
            ("1e", None),
            ("1e1.5", None),
            ("Gi", None),
            ("１", None),
        ] {
            assert_eq!(text.parse().ok().map(Quantity::nanos), nanos, "{text}");
        }
    }

    #[test]
    fn a_quantity_has_one_canonical_form() {
        for (text, form) in [
            ("1", "1"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("1024", "1024"),
            ("100Ki", "100Ki"),
            ("0", "0"),
            ("0Gi", "0"),
            ("1k", "1k"),
            ("1000000", "1M"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("-1.5", "-1500m"),
            ("100n", "100n"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), form, "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_value() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        for (one, other) in [("1", "1000m"), ("2Gi", "2048Mi"), ("1.5", "1500m"), ("0.5Gi", "512Mi"), ("1Pi", "1024Ti")]
        {
            assert_eq!(quantity(one), quantity(other), "{one} {other}");
        }
        assert!(quantity("2G") < quantity("2Gi"));
        assert!(quantity("1E") < quantity("1Ei"));
    }

    #[test]
    fn divisions_round_up() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("500m").ceil(), 1);
        assert_eq!(quantity("1u").millis(), 1);
        assert_eq!(quantity("0.25").millis(), 250);
        assert_eq!(quantity("500m").divided_by(quantity("1m")), Some(500));
        assert_eq!(quantity("4Gi").divided_by(quantity("1Mi")), Some(4096));
        assert_eq!(quantity("4Gi").divided_by(quantity("0")), None);
        assert_eq!(quantity("4Gi").divided_by(quantity("-1")), None);
    }
}
