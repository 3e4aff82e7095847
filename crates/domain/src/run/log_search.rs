//! Full-text search in a log: plain text within one line, as people see the line. The page searches the lines that it has
//! by the same rules (`ui/src/lib/ansi.ts`, `ui/src/logs/lines.ts`).

use std::borrow::Cow;

use crate::contract::record;

/// Characters of the longest text that can be searched for.
pub const MOST_CHARACTERS: usize = 200;
/// Characters of an excerpt.
const EXCERPT: usize = 300;
/// Characters of an excerpt before the match.
const BEFORE: usize = 60;
/// Stands in an excerpt for what was cut.
const CUT: char = '…';

/// A text to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    text: String,
    match_case: bool,
}

/// Why a text cannot be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSearchable {
    #[error("the text to search for is empty")]
    Empty,
    #[error("the text to search for has {0} characters; at most {MOST_CHARACTERS} are allowed")]
    TooLong(usize),
    #[error("the text to search for has several lines; a match is within one line")]
    Lines,
}

impl Wanted {
    pub fn new(text: &str, match_case: bool) -> Result<Self, NotSearchable> {
        let length = text.chars().count();
        if text.trim().is_empty() {
            return Err(NotSearchable::Empty);
        }
        if length > MOST_CHARACTERS {
            return Err(NotSearchable::TooLong(length));
        }
        if text.contains(['\n', '\r']) {
            return Err(NotSearchable::Lines);
        }
        let text = if match_case { text.to_owned() } else { lower(text) };
        Ok(Self { text, match_case })
    }

    /// Where the first match in a shown line begins, in bytes.
    pub fn find(&self, shown: &str) -> Option<usize> {
        if self.match_case {
            return shown.find(&self.text);
        }
        if shown.is_ascii() {
            // Lower case keeps the length.
            return shown.to_ascii_lowercase().find(&self.text);
        }
        let at = lower(shown).find(&self.text)?;
        let mut length = 0;
        let before = shown.char_indices().find(|(_, character)| {
            let is_behind = length >= at;
            length += character.to_lowercase().map(char::len_utf8).sum::<usize>();
            is_behind
        });
        Some(before.map_or(shown.len(), |(start, _)| start))
    }
}

/// Character by character: the form of a letter must not depend on its place in a word.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A line as a terminal shows it: without records, escape sequences, control characters and what a carriage return
/// overwrites. Invalid bytes are replaced.
pub fn shown(line: &[u8]) -> Cow<'_, str> {
    match record::visible(line) {
        Cow::Borrowed(line) => printed(String::from_utf8_lossy(line)),
        Cow::Owned(line) => Cow::Owned(printed(String::from_utf8_lossy(&line)).into_owned()),
    }
}

fn printed(line: Cow<'_, str>) -> Cow<'_, str> {
    if !line.contains(is_control) {
        return line;
    }
    let mut text = String::with_capacity(line.len());
    let mut rest = &*line;
    while let Some(escape) = rest.find('\u{1b}') {
        text.push_str(&rest[..escape]);
        rest = after_sequence(&rest[escape + 1..]);
    }
    text.push_str(rest);
    let kept = text.trim_end_matches('\r');
    let kept = kept.rsplit_once('\r').map_or(kept, |(_, kept)| kept);
    Cow::Owned(kept.chars().filter(|character| !is_control(*character)).collect())
}

fn is_control(character: char) -> bool {
    character.is_ascii_control() && character != '\t'
}

/// What follows an escape sequence, of which the escape character is left out already.
fn after_sequence(text: &str) -> &str {
    let after = |at: usize| text.get(at..).unwrap_or_default();
    match text.bytes().next() {
        Some(b'[') => {
            let end = text.bytes().skip(1).position(|byte| (b'@'..=b'~').contains(&byte));
            end.map_or("", |end| after(end + 2))
        }
        Some(b']') => {
            let end = text.find(['\u{7}', '\u{1b}']).unwrap_or(text.len());
            let rest = after(end);
            rest.strip_prefix('\u{7}').or_else(|| rest.strip_prefix("\u{1b}\\")).unwrap_or(rest)
        }
        Some(b'@'..=b'Z' | b'\\'..=b'_') => after(1),
        _ => text,
    }
}

/// The part of a shown line around a match that begins at a byte of it.
pub fn excerpt(shown: &str, at: usize) -> String {
    let start = shown.get(..at).unwrap_or_default();
    let start = start.char_indices().rev().nth(BEFORE - 1).map_or(0, |(start, _)| start);
    // A long text that is found must fit in as well.
    let rest = shown.get(start..).unwrap_or_default();
    let end = rest.char_indices().nth(EXCERPT).map_or(rest.len(), |(end, _)| end);
    let mut text = String::with_capacity(end + 2 * CUT.len_utf8());
    text.extend((start > 0).then_some(CUT));
    text.push_str(rest.get(..end).unwrap_or_default());
    text.extend((end < rest.len()).then_some(CUT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_searched_as_people_see_it() {
        for (line, expected) in [
            ("plain", "plain"),
            ("\u{1b}[1;31mred\u{1b}[0m \u{1b}[Kend", "red end"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;https://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}[?25lhidden", "hidden"),
            ("\u{1b}Mup", "up"),
            ("10%\r50%\r100%\r", "100%"),
            ("\u{1b}[32m10%\r\u{1b}[32m20%", "20%"),
            ("a\u{8}\u{0}b\tc", "ab\tc"),
            ("\u{1b}[", ""),
            ("\u{1b}]unfinished", ""),
            ("end\u{1b}", "end"),
            ("\u{1b}é", "é"),
        ] {
            assert_eq!(shown(line.as_bytes()), expected, "{line:?}");
        }
        assert_eq!(shown(b"caf\xff"), "caf\u{fffd}");
        assert_eq!(shown(b"\x1b]5379;{\"type\":\"text\"}\x07[tool] bash"), "[tool] bash");
    }

    #[track_caller]
    fn check(text: &str, match_case: bool, line: &str, expected: Option<usize>) {
        assert_eq!(Wanted::new(text, match_case).unwrap().find(line), expected, "{text} in {line}");
    }

    #[test]
    fn a_text_is_found_in_any_case_unless_the_case_matters() {
        check("error", false, "an Error occurred", Some(3));
        check("ERROR", false, "an error", Some(3));
        check("error", true, "an Error", None);
        check("Error", true, "an Error", Some(3));
        check("a.b", false, "axb", None);
        check("  in", false, "a  indent", Some(1));
        check("äöü", false, "x ÄÖÜ", Some(2));
        check("ς", false, "ΟΔΟΣ", None);
        check("οδοσ", false, "x ΟΔΟΣ", Some(2));
        // A letter whose lower case is longer.
        check("x", false, "İİx", Some(4));
        check("error", false, "İ Error", Some(3));
    }

    #[test]
    fn what_cannot_be_found_is_refused_with_a_reason() {
        for (text, expected) in [
            ("", "the text to search for is empty"),
            ("  ", "the text to search for is empty"),
            ("a\nb", "the text to search for has several lines; a match is within one line"),
        ] {
            assert_eq!(Wanted::new(text, false).unwrap_err().to_string(), expected);
        }
        let long = "ä".repeat(MOST_CHARACTERS);
        assert!(Wanted::new(&long, false).is_ok());
        let refusal = Wanted::new(&format!("{long}ä"), false).unwrap_err().to_string();
        assert_eq!(refusal, "the text to search for has 201 characters; at most 200 are allowed");
    }

    #[test]
    fn an_excerpt_contains_the_whole_match() {
        assert_eq!(excerpt("short", 2), "short");
        let line = format!("{}needle{}", "ä".repeat(1000), "z".repeat(1000));
        let found = excerpt(&line, 2000);
        assert_eq!(found, format!("…{}needle{}…", "ä".repeat(BEFORE), "z".repeat(EXCERPT - BEFORE - 6)));
        assert_eq!(excerpt(&line, line.len()).chars().count(), BEFORE + 1);
        const { assert!(BEFORE + MOST_CHARACTERS <= EXCERPT) };
    }
}
