//! Limits the nesting depth of JSON before it is parsed.
//!
//! An untyped field accepts any depth, and serde_json gives up at 128 levels: not only on the object, but on every list
//! that contains it. Values below [`MAX_DEPTH`] are replaced by null in the byte stream, so that only the object that
//! contains them is affected (I9).

use std::borrow::Cow;

/// Levels that are kept; deeper values become null.
pub const MAX_DEPTH: u32 = 100;

/// Filters one JSON text that arrives in chunks. Keeps the position between chunks.
#[derive(Clone, Debug, Default)]
pub struct DepthLimiter {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl DepthLimiter {
    /// Returns the next chunk without the values that are too deep.
    pub fn pass<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        // Almost every text is shallow: it is scanned, not copied.
        let mut kept: Option<Vec<u8>> = (self.depth > MAX_DEPTH).then(Vec::new);
        for (at, &byte) in piece.iter().enumerate() {
            let was_deep = self.depth > MAX_DEPTH;
            self.step(byte);
            let is_deep = self.depth > MAX_DEPTH;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn cut(text: &str, piece: usize) -> String {
        let mut cut = DepthLimiter::default();
        let pieces = text.as_bytes().chunks(piece).map(|piece| cut.pass(piece).into_owned());
        String::from_utf8(pieces.collect::<Vec<_>>().concat()).unwrap()
    }

    fn nested(levels: usize) -> String {
        format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn shallow_json_passes_unchanged() {
        let text = r#"{"a": ["}]\"[[[", {"b": "\\"}]}"#;
        for piece in 1..text.len() {
            assert_eq!(cut(text, piece), text);
        }
        assert!(matches!(DepthLimiter::default().pass(text.as_bytes()), Cow::Borrowed(_)));
        assert_eq!(cut(&nested(100), 7), nested(100));
    }

    #[test]
    fn deep_values_become_null_and_the_rest_stays() {
        let text = format!("{{\"x\": 1, \"deep\": {}, \"y\": [2]}}\n{{\"next\": 3}}", nested(5000));
        for piece in [1, 2, 3, 1000, text.len()] {
            let read = cut(&text, piece);
            let mut values = serde_json::Deserializer::from_str(&read).into_iter::<Value>();
            let first = values.next().unwrap().unwrap();
            assert_eq!((&first["x"], &first["y"]), (&serde_json::json!(1), &serde_json::json!([2])));
            let (mut deepest, mut levels) = (&first["deep"], 0);
            while let Some(inner) = deepest.get("a") {
                (deepest, levels) = (inner, levels + 1);
            }
            // The object around is a level, too.
            assert_eq!((deepest, levels), (&Value::Null, MAX_DEPTH - 1));
            assert_eq!(values.next().unwrap().unwrap(), serde_json::json!({"next": 3}));
        }
    }

    proptest! {
        #[test]
        fn chunk_boundaries_make_no_difference(text in r#"[\[\]{}"\\,:a1]{0,400}"#, piece in 1_usize..50) {
            prop_assert_eq!(cut(&text, piece), cut(&text, text.len().max(1)));
        }
    }
}
