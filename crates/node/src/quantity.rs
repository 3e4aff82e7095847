//! Amounts as Kubernetes writes them: `500m`, `4Gi`, `1e3`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// In thousandths, which is as exact as an amount of processors gets. None if it is no amount.
pub(crate) fn thousandths(quantity: &Quantity) -> Option<i128> {
    let text = quantity.0.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let whole: i128 = match whole.trim_start_matches(['+', '-']) {
        "" if part.is_empty() => return None,
        "" => 0,
        digits => digits.parse().ok()?,
    };
    // Nine digits behind the point are kept, then the unit is applied, and thousandths are rounded up.
    let billionths: i128 = format!("{part:0<9}").get(..9)?.parse().ok()?;
    let exact = whole.checked_mul(1_000_000_000)?.checked_add(billionths)?;
    let (times, by): (i128, i128) = match unit {
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "" => (1, 1),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        exponent => {
            let power: u32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(power)?, 1)
        }
    };
    let divisor = by.checked_mul(1_000_000)?;
    let value = exact.checked_mul(times)?;
    let rounded = value / divisor + i128::from(value % divisor > 0);
    Some(if negative { -rounded } else { rounded })
}

/// How many times `divisor` goes into the amount, rounded up; as `resourceFieldRef` gives it.
pub(crate) fn divided(amount: &Quantity, divisor: Option<&Quantity>) -> Option<i128> {
    let divisor = match divisor.filter(|quantity| !matches!(quantity.0.as_str(), "" | "0")) {
        Some(divisor) => thousandths(divisor)?,
        None => 1_000,
    };
    let amount = thousandths(amount)?;
    (divisor > 0).then(|| amount / divisor + i128::from(amount % divisor > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        let check =
            |text: &str, expected: Option<i128>| assert_eq!(thousandths(&Quantity(text.into())), expected, "{text}");
        check("500m", Some(500));
        check("1", Some(1_000));
        check("0.25", Some(250));
        check("1.5Gi", Some(1_610_612_736_000));
        check("1e3", Some(1_000_000));
        check("1u", Some(1));
        check("", None);
        check("many", None);
    }

    #[test]
    fn a_divisor_rounds_up() {
        let q = |text: &str| Quantity(text.into());
        assert_eq!(divided(&q("500m"), None), Some(1));
        assert_eq!(divided(&q("500m"), Some(&q("1m"))), Some(500));
        assert_eq!(divided(&q("4Gi"), Some(&q("1Mi"))), Some(4096));
        assert_eq!(divided(&q("4Gi"), Some(&q("0"))), Some(4_294_967_296));
    }
}
