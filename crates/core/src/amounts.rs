//! Amounts as Kubernetes writes them: `500m`, `2Gi`, `1.5`.

/// An amount in thousandths; `None` for what is none, or too large to compare.
pub fn thousandths(text: &str) -> Option<i128> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let unit: i128 = match unit {
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        "Pi" => 1000 << 50,
        "Ei" => 1000 << 60,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    digits.checked_mul(unit).map(|product| product / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_the_same_however_it_is_written() {
        for (one, other) in [("1", "1000m"), ("2Gi", "2048Mi"), ("1.5", "1500m"), ("0.5Gi", "512Mi"), ("1Pi", "1024Ti")]
        {
            assert_eq!(thousandths(one), thousandths(other), "{one} {other}");
        }
        assert!(thousandths("2G") < thousandths("2Gi"));
        assert_eq!(thousandths("much"), None);
    }
}
