//! Quantities (`500m`, `1Gi`) in the one form in which Kubernetes writes them.

/// Billionths: nothing smaller is kept.
const NANO: i128 = 1_000_000_000;

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// The same quantity as Kubernetes writes it: no fraction, and the largest suffix that loses nothing. None if it is no
/// quantity, or larger than a quantity can be.
pub fn canonical(text: &str) -> Option<String> {
    let (nano, form) = parse(text)?;
    Some(match form {
        Form::Binary if nano.abs() >= 1024 * NANO => binary(nano),
        Form::Exponent => exponent(nano),
        Form::Binary | Form::Decimal => decimal(nano),
    })
}

/// The value in billionths; none if the text is no quantity. For comparisons.
pub fn nanos(text: &str) -> Option<i128> {
    parse(text).map(|(nano, _)| nano)
}

fn parse(text: &str) -> Option<(i128, Form)> {
    let text = text.trim();
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
    let (scaled, form) = if let Some(power) = BINARY.iter().position(|unit| !unit.is_empty() && *unit == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(power).ok()?)?;
        (shift(digits.checked_mul(factor)?, 9 - point)?, Form::Binary)
    } else if let Some((_, power)) = DECIMAL.iter().find(|(unit, _)| *unit == suffix) {
        (shift(digits, 9 + power - point)?, Form::Decimal)
    } else {
        let power = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
        (shift(digits, power.checked_add(9)?.checked_sub(point)?)?, Form::Exponent)
    };
    Some((if negative { -scaled } else { scaled }, form))
}

/// `number` times ten to the `power`; what is smaller than a billionth is rounded up.
fn shift(number: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 { number.checked_mul(factor) } else { Some(number / factor + i128::from(number % factor != 0)) }
}

fn decimal(nano: i128) -> String {
    let (mut number, mut power) = (nano, -9);
    while number != 0 && number % 1000 == 0 && power < 18 {
        number /= 1000;
        power += 3;
    }
    let unit = DECIMAL.iter().find(|(_, unit)| *unit == power).map_or("", |(name, _)| name);
    if number == 0 { "0".to_owned() } else { format!("{number}{unit}") }
}

fn binary(nano: i128) -> String {
    let mut number = nano / NANO + i128::from(nano % NANO != 0);
    let mut unit = 0;
    while number % 1024 == 0 && unit + 1 < BINARY.len() {
        number /= 1024;
        unit += 1;
    }
    format!("{number}{}", BINARY[unit])
}

fn exponent(nano: i128) -> String {
    let (mut number, mut power) = (nano, -9);
    while number != 0 && number % 1000 == 0 {
        number /= 1000;
        power += 3;
    }
    if number == 0 || power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_one_form() {
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
            ("-1.5", "-1500m"),
            ("100n", "100n"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(form), "{text}");
        }
        for text in ["", "x", "1.2.3", "1Kib", "1 Gi", "."] {
            assert_eq!(canonical(text), None, "{text}");
        }
        assert!(nanos("1Gi") > nanos("1G"));
    }
}
