//! Regular expressions with the syntax of Go.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// Maximum number of cached patterns: more than all definitions of a large cluster have. A full cache is cleared.
const MAX_STORED: usize = 4096;

/// Cache of compiled patterns: compiling one takes longer than a thousand matches.
static STORED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);

/// Whether `text` matches anywhere; `None` if the pattern is invalid.
pub fn matches(pattern: &str, text: &str) -> Option<bool> {
    let mut stored = STORED.lock().unwrap_or_else(PoisonError::into_inner);
    if stored.len() >= MAX_STORED {
        stored.clear();
    }
    let found = stored.entry(pattern.to_owned()).or_insert_with(|| compile(pattern));
    // A clone is a reference count; the match itself must not hold the lock.
    let regex = found.clone();
    drop(stored);
    regex.map(|regex| regex.is_match(text))
}

fn compile(pattern: &str) -> Option<Regex> {
    // Go limits repetitions, not the size of the program.
    RegexBuilder::new(&translate(pattern)).size_limit(64 << 20).build().ok()
}

/// Translates a Go pattern for the regex crate: in Go `\d`, `\w`, `\s` and `\b` are ASCII only, and in a class
/// brackets, `&` and `~` are literal.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    while let Some(letter) = letters.next() {
        let first_in_class = std::mem::take(&mut class_start);
        match letter {
            '\\' => match letters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\x0c\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\x0c\\r ]"),
                Some('b') if !in_class => out.push_str("(?-u:\\b)"),
                Some('B') if !in_class => out.push_str("(?-u:\\B)"),
                Some('Q') if !in_class => {
                    let mut literal = String::new();
                    while let Some(letter) = letters.next() {
                        if letter == '\\' && letters.peek() == Some(&'E') {
                            letters.next();
                            break;
                        }
                        literal.push(letter);
                    }
                    out.push_str(&regex::escape(&literal));
                }
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if in_class => {
                // Only classes like `[:alpha:]` are special here.
                let named = letters.peek() == Some(&':');
                out.push_str(if named { "[" } else { "\\[" });
                if named {
                    for letter in letters.by_ref() {
                        out.push(letter);
                        if letter == ']' {
                            break;
                        }
                    }
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if letters.peek() == Some(&'^') {
                    letters.next();
                    out.push('^');
                }
                class_start = true;
            }
            ']' if in_class && first_in_class => out.push_str("\\]"),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_means_in_go() {
        for (pattern, text, expected) in [
            ("^a$", "a\n", Some(false)),
            (r"^\d+$", "12", Some(true)),
            (r"^\d+$", "١٢", Some(false)),
            (r"^[\d.]+$", "1.2", Some(true)),
            (r"^[^\x00\s]+$", "a b", Some(false)),
            (r"^[^\x00\s]+$", "ä\u{a0}", Some(true)),
            (r"^\w+$", "é", Some(false)),
            (r"\bx\b", "éxé", Some(true)),
            ("^[[]$", "[", Some(true)),
            ("^[]]$", "]", Some(true)),
            ("^[^]]$", "]", Some(false)),
            ("^[&&~~]$", "&", Some(true)),
            ("^[[:alpha:]&]+$", "a&", Some(true)),
            (r"^\Qa.b\E$", "a.b", Some(true)),
            (r"^\Qa.b\E$", "axb", Some(false)),
            ("b", "abc", Some(true)),
            ("(", "a", None),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
        }
    }
}
