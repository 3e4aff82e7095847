//! A JSON parser with the error messages of Go, detection of duplicate keys and a depth limit.
//!
//! `serde_json` silently keeps the last of two equal keys and stops at 128 levels; a Kubernetes server must report the
//! former and accepts up to 10,000 levels.

use serde_json::{Map, Number, Value};

use super::text::quoted;

/// The depth limit of kube-apiserver. A caller that parses this deep needs a large stack: dropping, comparing and
/// writing a [`Value`] takes one or more frames per level.
pub const MAX_DEPTH: usize = 10_000;

/// Maximum number of reported duplicates, as in kube-apiserver.
const MAX_DUPLICATES: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("{0}")]
    Syntax(String),
    /// A number that a 64-bit float cannot represent.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
}

/// A parsed body.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The value; the last of two equal keys wins.
    pub value: Value,
    /// The paths of duplicate fields, such as `spec.ports[0].name`.
    pub duplicates: Vec<String>,
}

/// Parses `bytes` down to `depth` levels. Invalid UTF-8 becomes U+FFFD, as in Go.
pub fn parse_strict(bytes: &[u8], depth: usize) -> Result<Parsed, JsonError> {
    let mut reader = Reader { bytes, at: 0, depth, open: Vec::new(), duplicates: Vec::new() };
    let value = reader.document()?;
    Ok(Parsed { value, duplicates: reader.duplicates })
}

/// A list or an object that is being parsed.
enum Open {
    List(Vec<Value>),
    Object { fields: Map<String, Value>, key: String },
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// Open lists and objects, outermost first: an explicit stack, so that depth costs heap and not stack.
    open: Vec<Open>,
    duplicates: Vec<String>,
}

/// The state after a value or an opening bracket.
enum Next {
    Value,
    Done(Value),
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Value, JsonError> {
        loop {
            let mut next = self.begin()?;
            while let Next::Done(value) = next {
                if self.open.is_empty() {
                    self.skip_space();
                    return match self.peek() {
                        None => Ok(value),
                        Some(byte) => Err(unexpected(byte, "after top-level value")),
                    };
                }
                next = self.after(value)?;
            }
        }
    }

    /// Parses a scalar, or opens a list or an object.
    fn begin(&mut self) -> Result<Next, JsonError> {
        self.skip_space();
        match self.peek() {
            None => Err(ended()),
            Some(byte @ b'{') => {
                self.descend(byte)?;
                self.skip_space();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    return Ok(Next::Done(Value::Object(Map::new())));
                }
                let key = self.key()?;
                self.open.push(Open::Object { fields: Map::new(), key });
                Ok(Next::Value)
            }
            Some(byte @ b'[') => {
                self.descend(byte)?;
                self.skip_space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Ok(Next::Done(Value::Array(Vec::new())));
                }
                self.open.push(Open::List(Vec::new()));
                Ok(Next::Value)
            }
            Some(b'"') => Ok(Next::Done(Value::String(self.string()?))),
            Some(b'-' | b'0'..=b'9') => Ok(Next::Done(Value::Number(self.number()?))),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(byte) => Err(unexpected(byte, "looking for beginning of value")),
        }
    }

    fn descend(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.open.len() >= self.depth {
            return Err(unexpected(byte, "exceeded max depth"));
        }
        self.at += 1;
        Ok(())
    }

    /// Adds `value` to its container and parses the separator.
    fn after(&mut self, value: Value) -> Result<Next, JsonError> {
        let duplicate = match self.open.last_mut() {
            Some(Open::List(items)) => {
                items.push(value);
                false
            }
            Some(Open::Object { fields, key }) => fields.insert(key.clone(), value).is_some(),
            None => false,
        };
        if duplicate && self.duplicates.len() < MAX_DUPLICATES {
            let path = self.path();
            if !self.duplicates.contains(&path) {
                self.duplicates.push(path);
            }
        }
        self.skip_space();
        let in_list = matches!(self.open.last(), Some(Open::List(_)));
        match (self.peek(), in_list) {
            (None, _) => Err(ended()),
            (Some(b','), true) => {
                self.at += 1;
                Ok(Next::Value)
            }
            (Some(b','), false) => {
                self.at += 1;
                let next = self.key()?;
                if let Some(Open::Object { key, .. }) = self.open.last_mut() {
                    *key = next;
                }
                Ok(Next::Value)
            }
            (Some(b']'), true) | (Some(b'}'), false) => {
                self.at += 1;
                Ok(Next::Done(match self.open.pop() {
                    Some(Open::List(items)) => Value::Array(items),
                    Some(Open::Object { fields, .. }) => Value::Object(fields),
                    None => Value::Null,
                }))
            }
            (Some(byte), true) => Err(unexpected(byte, "after array element")),
            (Some(byte), false) => Err(unexpected(byte, "after object key:value pair")),
        }
    }

    /// The path of the field that was just parsed.
    fn path(&self) -> String {
        let steps = self.open.iter().enumerate().map(|(depth, open)| match open {
            Open::List(items) => format!("[{}]", items.len()),
            Open::Object { key, .. } if depth == 0 => key.clone(),
            Open::Object { key, .. } => format!(".{key}"),
        });
        steps.collect()
    }

    fn key(&mut self) -> Result<String, JsonError> {
        self.skip_space();
        match self.peek() {
            None => return Err(ended()),
            Some(b'"') => {}
            Some(byte) => return Err(unexpected(byte, "looking for beginning of object key string")),
        }
        let key = self.string()?;
        self.skip_space();
        match self.peek() {
            None => Err(ended()),
            Some(b':') => {
                self.at += 1;
                Ok(key)
            }
            Some(byte) => Err(unexpected(byte, "after object key")),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Next, JsonError> {
        for expected in word.bytes() {
            match self.peek() {
                None => return Err(ended()),
                Some(byte) if byte == expected => self.at += 1,
                Some(byte) => {
                    let context = format!("in literal {word} (expecting {})", shown(expected));
                    return Err(unexpected(byte, &context));
                }
            }
        }
        Ok(Next::Done(value))
    }

    fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
            match self.peek() {
                None => return Err(ended()),
                Some(b'0'..=b'9') => {}
                Some(byte) => return Err(unexpected(byte, "in numeric literal")),
            }
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.skip_digits();
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.bytes[start..self.at]);
        if whole && let Ok(number) = text.parse::<i64>() {
            return Ok(Number::from(number));
        }
        let number = text.parse::<f64>().ok().and_then(Number::from_f64);
        number.ok_or_else(|| JsonError::Number(text.into_owned()))
    }

    fn digits(&mut self, context: &str) -> Result<(), JsonError> {
        match self.peek() {
            None => Err(ended()),
            Some(b'0'..=b'9') => {
                self.skip_digits();
                Ok(())
            }
            Some(byte) => Err(unexpected(byte, context)),
        }
    }

    fn skip_digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = String::new();
        let mut start = self.at;
        loop {
            match self.peek() {
                None => return Err(ended()),
                Some(b'"') => {
                    text.push_str(&String::from_utf8_lossy(&self.bytes[start..self.at]));
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    text.push_str(&String::from_utf8_lossy(&self.bytes[start..self.at]));
                    self.at += 1;
                    text.push(self.escaped()?);
                    start = self.at;
                }
                Some(byte) if byte < 0x20 => return Err(unexpected(byte, "in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// The character of an escape sequence, after the backslash.
    fn escaped(&mut self) -> Result<char, JsonError> {
        let byte = self.peek().ok_or_else(ended)?;
        let letter = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(unexpected(byte, "in string escape code")),
        };
        self.at += 1;
        Ok(letter)
    }

    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.four_digits()?;
        if !(0xd800..0xe000).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // A low surrogate may follow; a lone surrogate is invalid.
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let start = self.at;
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = start;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.peek().ok_or_else(ended)?;
            let digit = char::from(byte).to_digit(16);
            code = code * 16 + digit.ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }
}

fn ended() -> JsonError {
    JsonError::Syntax("unexpected end of JSON input".to_owned())
}

fn unexpected(byte: u8, context: &str) -> JsonError {
    JsonError::Syntax(format!("invalid character {} {context}", shown(byte)))
}

fn shown(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = quoted(&char::from(byte).to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: &[u8], value: Value, duplicates: &[&str]) {
        let parsed = parse_strict(body, MAX_DEPTH).expect("it is JSON");
        assert_eq!((parsed.value, parsed.duplicates), (value, duplicates.iter().map(ToString::to_string).collect()));
    }

    fn check_error(body: &[u8], message: &str) {
        let error = parse_strict(body, MAX_DEPTH).expect_err("it is no JSON");
        assert_eq!(error.to_string(), message, "{}", String::from_utf8_lossy(body));
    }

    #[test]
    fn values_are_read_as_go_reads_them() {
        check(
            br#" {"a":[1,-2,1.0,1e3,true,false,null,"x"],"b":{},"c":[]} "#,
            json!({"a": [1, -2, 1.0, 1000.0, true, false, null, "x"], "b": {}, "c": []}),
            &[],
        );
        check(b"9223372036854775807", json!(i64::MAX), &[]);
        check(b"9223372036854775808", json!(9_223_372_036_854_775_808.0), &[]);
        check(
            br#""\u00e9\ud83d\ude00\ud800x\ud800\u0041\"\\\/\b\f\n\r\t""#,
            json!("é😀\u{fffd}x\u{fffd}A\"\\/\x08\x0c\n\r\t"),
            &[],
        );
        check(b"\"a\xffb\"", json!("a\u{fffd}b"), &[]);
    }

    #[test]
    fn keys_that_are_written_twice_are_named_and_the_last_wins() {
        check(
            br#"{"a":1,"a":2,"a":3,"b":{"c":[{"d":1},{"d":1,"d":2}]},"b":1}"#,
            json!({"a": 3, "b": 1}),
            &["a", "b.c[1].d", "b"],
        );
    }

    #[test]
    fn invalid_json_gets_the_message_of_go() {
        check_error(b"", "unexpected end of JSON input");
        check_error(b"{\"a\":", "unexpected end of JSON input");
        check_error(b"{}{}", "invalid character '{' after top-level value");
        check_error(b"\x7fELF", r"invalid character '\x7f' looking for beginning of value");
        check_error(b"{a:1}", "invalid character 'a' looking for beginning of object key string");
        check_error(b"{\"a\" 1}", "invalid character '1' after object key");
        check_error(b"{\"a\":1 1}", "invalid character '1' after object key:value pair");
        check_error(b"[1 1]", "invalid character '1' after array element");
        check_error(b"[1,]", "invalid character ']' looking for beginning of value");
        check_error(b"-x", "invalid character 'x' in numeric literal");
        check_error(b"01", "invalid character '1' after top-level value");
        check_error(b"1.x", "invalid character 'x' after decimal point in numeric literal");
        check_error(b"1ex", "invalid character 'x' in exponent of numeric literal");
        check_error(b"trux", "invalid character 'x' in literal true (expecting 'e')");
        check_error(b"\"\n\"", r"invalid character '\n' in string literal");
        check_error(b"\"\\x\"", "invalid character 'x' in string escape code");
        check_error(b"\"\\u00zz\"", r"invalid character 'z' in \u hexadecimal character escape");
        check_error(b"'", r"invalid character '\'' looking for beginning of value");
        check_error(b"1e400", "json: cannot unmarshal number 1e400 into Go value of type float64");
    }

    #[test]
    fn the_depth_of_kubernetes_can_be_read_and_dropped_with_eight_mebibytes_of_stack() {
        let nested = |levels: usize| [b"{\"a\":".repeat(levels), b"1".to_vec(), b"}".repeat(levels)].concat();
        let reading = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
            assert!(parse_strict(&nested(MAX_DEPTH), MAX_DEPTH).is_ok());
            assert!(parse_strict(&nested(MAX_DEPTH + 1), MAX_DEPTH).is_err());
        });
        reading.expect("a thread").join().expect("it does not overflow");
    }

    #[test]
    fn depth_is_bounded_without_using_the_stack() {
        let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
        let small_stack = std::thread::Builder::new().stack_size(256 * 1024);
        let reading = small_stack.spawn(move || {
            let error = parse_strict(&nested(20_000), 500).expect_err("too deep");
            assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
            assert!(parse_strict(&nested(500), 500).is_ok());
            assert!(parse_strict(&nested(501), 500).is_err());
        });
        reading.expect("a thread").join().expect("it does not overflow");
    }
}
