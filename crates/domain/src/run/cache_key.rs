//! Keys of caches: text with placeholders `{{ hash "go.sum" }}`, which the hash of files replaces.

/// Characters of a key after expansion.
pub const MOST_CHARACTERS: usize = 1024;
/// Placeholders in a key.
pub const MOST_PLACEHOLDERS: usize = 5;
/// Characters of a pattern.
pub const MOST_PATTERN: usize = 255;

/// A key with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey(Vec<Piece>);

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// The hash of the files that match this pattern, which is relative to the workspace.
    Hash(String),
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("`{{{{` has no `}}}}`; write {{{{ hash \"FILE\" }}}}")]
    Unclosed,
    #[error("`{{{{{0}}}}}` is not a placeholder; write {{{{ hash \"FILE\" }}}}")]
    NotAPlaceholder(String),
    #[error("the pattern {0:?} is absolute or contains `..`; write a path below the workspace")]
    Outside(String),
    #[error("the pattern of a hash is longer than {MOST_PATTERN} characters")]
    LongPattern,
    #[error("it has more than {MOST_PLACEHOLDERS} placeholders")]
    ManyPlaceholders,
    #[error("it is longer than {MOST_CHARACTERS} characters")]
    Long,
    #[error("it is empty or contains control characters")]
    BadCharacters,
}

impl CacheKey {
    /// Reads a key as written in a cache.
    pub fn parse(key: &str) -> Result<Self, KeyError> {
        let mut pieces = Vec::new();
        let mut rest = key;
        while let Some((text, after)) = rest.split_once("{{") {
            let (inside, after) = after.split_once("}}").ok_or(KeyError::Unclosed)?;
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
            pieces.push(Piece::Hash(pattern(inside)?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if pieces.iter().filter(|piece| matches!(piece, Piece::Hash(_))).count() > MOST_PLACEHOLDERS {
            return Err(KeyError::ManyPlaceholders);
        }
        Ok(Self(pieces))
    }

    /// The parts in their order.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }
}

/// The key that the expanded parts make.
pub fn join(parts: &[String]) -> Result<String, KeyError> {
    let key = parts.concat();
    match key.chars().count() {
        0 => Err(KeyError::BadCharacters),
        _ if key.chars().any(char::is_control) => Err(KeyError::BadCharacters),
        1..=MOST_CHARACTERS => Ok(key),
        _ => Err(KeyError::Long),
    }
}

/// The pattern in a placeholder, without its braces.
fn pattern(inside: &str) -> Result<String, KeyError> {
    let quoted = inside.trim().strip_prefix("hash").filter(|rest| rest.starts_with([' ', '\t', '"']));
    let pattern = quoted.and_then(|rest| rest.trim().strip_prefix('"')?.strip_suffix('"'));
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty() && !pattern.contains('"')) else {
        return Err(KeyError::NotAPlaceholder(inside.chars().take(MOST_PATTERN).collect()));
    };
    if pattern.chars().count() > MOST_PATTERN {
        return Err(KeyError::LongPattern);
    }
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(KeyError::Outside(pattern.to_owned()));
    }
    Ok(pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn hash(pattern: &str) -> Piece {
        Piece::Hash(pattern.to_owned())
    }

    #[test]
    fn a_key_is_text_and_hashes_of_files() {
        let check = |key: &str, expected: &[Piece]| {
            assert_eq!(CacheKey::parse(key).map(|key| key.0), Ok(expected.to_vec()), "{key}");
        };
        check("go", &[text("go")]);
        check(r#"go-{{ hash "go.sum" }}"#, &[text("go-"), hash("go.sum")]);
        check(r#"{{hash "**/*.lock"}}-v1"#, &[hash("**/*.lock"), text("-v1")]);
        check(r#"{{ hash "a" }}{{	hash"b"	}}"#, &[hash("a"), hash("b")]);
        check("a}}b{c}", &[text("a}}b{c}")]);
        check(r#"{{ hash "a..b/c" }}"#, &[hash("a..b/c")]);
        check("", &[]);
    }

    #[test]
    fn anything_else_in_braces_is_refused() {
        let check = |key: &str, expected: KeyError| assert_eq!(CacheKey::parse(key), Err(expected), "{key}");
        check("go-{{ hash \"go.sum\"", KeyError::Unclosed);
        for inside in ["", "hash", " hash ", "hash go.sum", "hash \"\"", "hash \"a\" \"b\"", "hash \"", "hashed \"a\""]
        {
            check(&format!("{{{{{inside}}}}}"), KeyError::NotAPlaceholder(inside.to_owned()));
        }
        check("{{ env \"HOME\" }}", KeyError::NotAPlaceholder(" env \"HOME\" ".to_owned()));
        for pattern in ["/etc/passwd", "..", "../x", "a/../../x", "a/.."] {
            check(&format!("{{{{ hash \"{pattern}\" }}}}"), KeyError::Outside(pattern.to_owned()));
        }
    }

    #[test]
    fn a_key_has_limits() {
        let placeholders = |number: usize| CacheKey::parse(&"{{ hash \"a\" }}".repeat(number));
        assert!(placeholders(MOST_PLACEHOLDERS).is_ok());
        assert_eq!(placeholders(MOST_PLACEHOLDERS + 1), Err(KeyError::ManyPlaceholders));
        let pattern = |length: usize| CacheKey::parse(&format!("{{{{ hash \"{}\" }}}}", "é".repeat(length)));
        assert!(pattern(MOST_PATTERN).is_ok());
        assert_eq!(pattern(MOST_PATTERN + 1), Err(KeyError::LongPattern));
        let joined = |text: &str| join(&["k".to_owned(), text.to_owned()]);
        assert_eq!(joined("-1"), Ok("k-1".to_owned()));
        assert!(joined(&"é".repeat(MOST_CHARACTERS - 1)).is_ok());
        assert_eq!(joined(&"é".repeat(MOST_CHARACTERS)), Err(KeyError::Long));
        assert_eq!(joined("\n"), Err(KeyError::BadCharacters));
        assert_eq!(join(&[]), Err(KeyError::BadCharacters));
    }

    #[test]
    fn an_error_says_what_to_write() {
        let error = CacheKey::parse("a-{{ env }}").unwrap_err().to_string();
        assert_eq!(error, "`{{ env }}` is not a placeholder; write {{ hash \"FILE\" }}");
        assert_eq!(KeyError::Unclosed.to_string(), "`{{` has no `}}`; write {{ hash \"FILE\" }}");
    }
}
