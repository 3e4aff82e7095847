//! JSON that nests too deeply for our reader, made readable.
//!
//! A field without a type takes any depth, and the reader gives up at 128 levels: not only on the object, but on every
//! list that has it in it. So what lies deeper than [`MOST`] is cut out of the text before it is read, and only the
//! object that it came from suffers (I9). [`is_deeper`] finds out where it matters.

use std::borrow::Cow;

use serde_json::Value;

/// Levels of a text that are read; the rest becomes null.
pub const MOST: u32 = 100;

/// Cuts a text that comes in pieces. One value a text: it remembers where it is.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Cut {
    /// The next piece of the text, without what lies too deep.
    pub fn pass<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        // Almost every text is shallow: it is only looked at, not copied.
        let mut kept: Option<Vec<u8>> = (self.depth > MOST).then(Vec::new);
        for (at, &byte) in piece.iter().enumerate() {
            let was_deep = self.depth > MOST;
            self.step(byte);
            let is_deep = self.depth > MOST;
            if is_deep && !was_deep {
                let kept = kept.get_or_insert_with(|| piece[..at].to_vec());
                kept.extend_from_slice(b"null");
            } else if !is_deep
                && !was_deep
                && let Some(kept) = &mut kept
            {
                kept.push(byte);
            }
        }
        kept.map_or(Cow::Borrowed(piece), Cow::Owned)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Whether a value nests deeper than `levels`.
pub fn is_deeper(value: &Value, levels: u32) -> bool {
    let Some(below) = levels.checked_sub(1) else { return value.is_object() || value.is_array() };
    match value {
        Value::Object(map) => map.values().any(|value| is_deeper(value, below)),
        Value::Array(list) => list.iter().any(|value| is_deeper(value, below)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, piece: usize) -> String {
        let mut cut = Cut::default();
        let pieces = text.as_bytes().chunks(piece).map(|piece| cut.pass(piece).into_owned());
        String::from_utf8(pieces.collect::<Vec<_>>().concat()).unwrap()
    }

    fn nested(levels: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn what_is_shallow_passes_as_it_is() {
        let text = r#"{"a": ["}]\"[[[", {"b": "\\"}]}"#;
        for piece in 1..text.len() {
            assert_eq!(cut(text, piece), text);
        }
        assert!(matches!(Cut::default().pass(text.as_bytes()), Cow::Borrowed(_)));
        assert_eq!(cut(&nested(100), 7), nested(100));
    }

    #[test]
    fn what_is_deep_becomes_null_and_all_around_it_stays() {
        let text = format!("{{\"x\": 1, \"deep\": {}, \"y\": [2]}}\n{{\"next\": 3}}", nested(5000));
        for piece in [1, 2, 3, 1000, text.len()] {
            let read = cut(&text, piece);
            let mut values = serde_json::Deserializer::from_str(&read).into_iter::<Value>();
            let first = values.next().unwrap().unwrap();
            assert_eq!((&first["x"], &first["y"]), (&serde_json::json!(1), &serde_json::json!([2])));
            assert_eq!(values.next().unwrap().unwrap(), serde_json::json!({"next": 3}));
        }
        assert!(read_depth_is_found(&text));
    }

    fn read_depth_is_found(text: &str) -> bool {
        let read = cut(text, 64);
        let first = serde_json::Deserializer::from_str(&read).into_iter::<Value>().next().unwrap().unwrap();
        is_deeper(&first, 64) && !is_deeper(&first, MOST)
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in r#"[\[\]{}"\\,:a1]{0,400}"#, piece in 1_usize..50) {
            prop_assert_eq!(cut(&text, piece), cut(&text, text.len().max(1)));
        }
    }
}
