//! Formats values as Go does: our messages must equal those of kube-apiserver.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Printable characters in Go: letters, marks, numbers, punctuation, symbols and the ASCII space.
static PRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A[\p{L}\p{M}\p{N}\p{P}\p{S} ]\z").ok());

fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return matches!(letter, ' '..='~');
    }
    let mut buffer = [0; 4];
    PRINTABLE.as_ref().is_some_and(|printable| printable.is_match(letter.encode_utf8(&mut buffer)))
}

/// A string in double quotes, as `%q` prints it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            _ if is_printable(letter) => out.push(letter),
            _ => escape(&mut out, letter),
        }
    }
    out.push('"');
    out
}

fn escape(out: &mut String, letter: char) {
    let code = u32::from(letter);
    // Writing into a String cannot fail.
    let _ = if code < 0x80 {
        write!(out, "\\x{code:02x}")
    } else if code < 0x1_0000 {
        write!(out, "\\u{code:04x}")
    } else {
        write!(out, "\\U{code:08x}")
    };
}

/// The name of a JSON type in Go's decoding errors.
pub fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The shortest digits that parse as `number`, and the power of ten of the first one.
fn digits(number: f64) -> (String, i32) {
    let text = format!("{:e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1.min(digits.len()));
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.abs())
}

/// A float as `%v` prints it: with an exponent from a million up.
pub fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let (digits, exponent) = digits(number);
    if number == 0.0 || (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    format!("{sign}{}", with_exponent(&digits, exponent))
}

/// A float as Go writes it into JSON: with an exponent only from 1e21 up and below 1e-6.
fn json_float(number: f64) -> String {
    let (digits, exponent) = digits(number);
    if number == 0.0 || (-6..21).contains(&exponent) {
        return number.to_string();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    // Go writes 1e-7 where Rust and C write 1e-07.
    let text = with_exponent(&digits, exponent);
    let text = if exponent < 0 && exponent > -10 { text.replace("e-0", "e-") } else { text };
    format!("{sign}{text}")
}

/// A value as `%v` prints it: `map[a:[1 2]]`.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut entries = fields.iter().collect::<Vec<_>>();
            entries.sort_by_key(|(name, _)| *name);
            let entries = entries.into_iter().map(|(name, field)| format!("{name}:{}", go_value(field)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A value as Go writes it into JSON: keys sorted, `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) if number.is_f64() => out.push_str(&json_float(number.as_f64().unwrap_or_default())),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => write_json_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut names = fields.iter().collect::<Vec<_>>();
            names.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, field)) in names.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json_text(name, out);
                out.push(':');
                write_json(field, out);
            }
            out.push('}');
        }
    }
}

fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn a_text_is_quoted_as_go_quotes_it() {
        assert_eq!(
            quoted("a\0b\n\"\\é\u{a0}\u{1f600}\u{e000}\u{10ffff}"),
            r#""a\x00b\n\"\\é\u00a0😀\ue000\U0010ffff""#
        );
        assert_eq!(quoted("\x7f\x1b"), r#""\x7f\x1b""#);
    }

    #[test]
    fn a_float_gets_an_exponent_where_go_gives_it_one() {
        for (number, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (-0.5, "-0.5"),
            (100.0, "100"),
            (123_456.0, "123456"),
            (1_000_000.0, "1e+06"),
            (2_147_483_647.0, "2.147483647e+09"),
            (3.689_348_814_741_910_3e19, "3.6893488147419103e+19"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn json_has_sorted_keys_and_escapes_what_html_would_misread() {
        let written = json(&value!({"b": [1, 2.5, null], "a": "<&>\u{1}", "c": {"y": true, "x": 1e21, "z": 1e-7}}));
        assert_eq!(written, r#"{"a":"\u003c\u0026\u003e\u0001","b":[1,2.5,null],"c":{"x":1e+21,"y":true,"z":1e-7}}"#);
    }
}
