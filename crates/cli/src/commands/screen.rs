//! The terminal: width, colours, and replacement of control characters.

use std::{
    env,
    io::{self, IsTerminal as _},
};

/// Properties of the terminal or file that receives the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Width in columns; `None` if unlimited, as in a file.
    pub width: Option<usize>,
    /// Whether to use colours.
    pub colour: bool,
    /// Whether the output is a terminal.
    pub terminal: bool,
}

/// The meaning of a text, shown as a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Default colour.
    #[default]
    Plain,
    /// A passed check.
    Good,
    /// Something is in progress or waiting.
    Busy,
    /// Something is wrong.
    Bad,
    /// Not important.
    Faint,
    /// A heading.
    Strong,
}

impl Screen {
    /// The standard output of this process.
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        Self { width: terminal.then(|| width(&io::stdout())).flatten(), colour: terminal && colours(), terminal }
    }

    /// The text in the colour of its tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Busy => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether colours are allowed: `NO_COLOR` (<https://no-color.org>) is unset or empty, and the terminal supports them.
fn colours() -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn width(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// One line of text from the cluster: line breaks become spaces, and control characters, which could rewrite the
/// screen, are replaced.
pub fn line(text: &str) -> String {
    let one = |char: char| match char {
        '\n' | '\r' | '\t' => ' ',
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    };
    text.trim().chars().map(one).collect()
}

/// Text of several lines from the cluster; control characters are replaced.
pub fn paragraph(text: &str) -> String {
    let one = |char: char| if char.is_control() && char != '\n' { char::REPLACEMENT_CHARACTER } else { char };
    text.replace("\r\n", "\n").replace('\t', "  ").chars().map(one).collect()
}

/// Breaks a text at spaces into lines of at most `width` columns. Longer words are not broken.
pub fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width.filter(|width| *width > 0) else { return text.lines().map(ToOwned::to_owned).collect() };
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut current = String::new();
        for word in paragraph.split(' ') {
            if !current.is_empty() && columns(&current) + 1 + columns(word) > width {
                lines.push(std::mem::take(&mut current));
            } else if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

/// The display width of a text.
pub fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// The beginning of a text in at most `most` columns, with an ellipsis if it is cut.
pub fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for char in text.chars() {
        if columns(&kept) + columns(char.encode_utf8(&mut [0; 4])) + 1 > most {
            break;
        }
        kept.push(char);
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_the_cluster_cannot_move_the_cursor() {
        assert_eq!(line("a\x1b[2Jb\nc\t\u{9b}d "), "a\u{fffd}[2Jb c \u{fffd}d");
        assert_eq!(paragraph("a\x1b[1m\r\nb\rc"), "a\u{fffd}[1m\nb\u{fffd}c");
    }

    #[test]
    fn wide_characters_count_double() {
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 7), "漢字漢…");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(cut("a b c", 4), "a b…");
        assert_eq!(cut("ab", 0), "…");
    }

    #[test]
    fn long_sentences_are_broken_at_spaces() {
        assert_eq!(wrap("one two three\nfour", Some(8)), ["one two", "three", "four"]);
        assert_eq!(wrap("a-very-long-word b", Some(4)), ["a-very-long-word", "b"]);
        assert_eq!(wrap("one two three", None), ["one two three"]);
    }

    #[test]
    fn colours_are_omitted_outside_of_terminals() {
        let plain = Screen::default();
        assert_eq!(plain.paint(Tone::Bad, "x"), "x");
        assert_eq!(Screen { colour: true, ..plain }.paint(Tone::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
