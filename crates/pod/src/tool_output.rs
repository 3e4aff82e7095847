//! What shell commands print, as lines for the log while the commands run.
//!
//! OpenCode reports the whole output again and again; of a long output, only its end. This finds what is new.

use std::collections::HashMap;

use domain::contract::record;
use domain::opencode::message::Part;

/// Bytes of a call's output in the log. The rest is in the session.
const LIMIT: usize = 64 << 10;
/// Longest line.
const LONGEST_LINE: usize = 4 << 10;
/// The end of the known output is looked up in the next one, if that does not begin with it.
const OVERLAP: usize = 256;
const INDENT: &str = "    ";

/// The output of the calls so far.
#[derive(Debug, Default)]
pub struct ToolOutput {
    calls: HashMap<String, Call>,
    /// The call whose lines are the last ones in the log.
    current: Option<String>,
}

#[derive(Debug, Default)]
struct Call {
    /// The output as last reported.
    known: String,
    /// The beginning of a line whose end is not printed yet.
    line: String,
    shown: usize,
    left_out: usize,
}

/// What is new in a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether this is the first that is known of the call.
    pub first: bool,
    /// Whether the lines of the call do not follow its other lines in the log.
    pub apart: bool,
    /// Indented lines for the log.
    pub lines: Vec<String>,
    /// The new output, as it was printed.
    pub text: String,
}

impl ToolOutput {
    /// Notes that another line is written to the log.
    pub fn interrupted(&mut self) {
        self.current = None;
    }

    /// Whether the call was shown while it ran.
    pub fn knows(&self, part: &Part) -> bool {
        self.calls.contains_key(&part.id)
    }

    /// What is new in the output of a call that runs or has `ended`. `output` contains no secrets.
    pub fn take(&mut self, part: &Part, output: &str, ended: bool) -> News {
        let first = !self.knows(part);
        let call = self.calls.entry(part.id.clone()).or_default();
        let mut news = News { first, ..News::default() };
        let (gap, new) = call.new_of(output);
        if gap {
            call.line.clear();
            news.lines.push(format!("{INDENT}… (output is missing here)"));
        }
        let room = LIMIT.saturating_sub(call.shown);
        let end = (0..=room.min(new.len())).rev().find(|end| new.is_char_boundary(*end)).unwrap_or(0);
        let (shown, rest) = new.split_at(end);
        call.shown += shown.len();
        call.left_out += rest.len();
        shown.clone_into(&mut news.text);
        call.line.push_str(shown);
        while let Some(end) = call.line.find('\n') {
            news.lines.push(format!("{INDENT}{}", clean(&call.line[..end])));
            call.line.drain(..=end);
        }
        // A line may never end: a progress bar, or binary data.
        if call.line.len() > LONGEST_LINE || (ended && !call.line.is_empty()) {
            news.lines.push(format!("{INDENT}{}", clean(&std::mem::take(&mut call.line))));
        }
        output.clone_into(&mut call.known);
        if ended && call.left_out > 0 {
            news.lines.push(format!("{INDENT}… ({} bytes more)", call.left_out));
        }
        news.apart = !news.lines.is_empty() && self.current.as_ref() != Some(&part.id);
        if !news.lines.is_empty() || first {
            self.current = Some(part.id.clone());
        }
        if ended {
            // A call ends once; what is printed later belongs to no call.
            self.calls.remove(&part.id);
        }
        news
    }
}

impl Call {
    /// The part of the output that is new, and whether something before it is missing.
    fn new_of<'a>(&self, output: &'a str) -> (bool, &'a str) {
        if let Some(new) = output.strip_prefix(self.known.as_str()) {
            return (false, new);
        }
        let start = self.known.len().saturating_sub(OVERLAP);
        let start = (start..=self.known.len()).find(|at| self.known.is_char_boundary(*at)).unwrap_or(0);
        let end = &self.known[start..];
        match output.rfind(end).filter(|_| !end.is_empty()) {
            Some(at) => (false, &output[at + end.len()..]),
            None => (true, output),
        }
    }
}

/// A line as it looks in a terminal, without colours and other control sequences.
fn clean(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                Some('[') => {
                    characters.by_ref().find(|end| ('@'..='~').contains(end));
                }
                Some(']') => {
                    characters.by_ref().find(|end| matches!(end, '\u{7}' | '\u{1b}'));
                }
                _ => {}
            },
            '\t' => text.push('\t'),
            control if control.is_control() => {}
            other => text.push(other),
        }
    }
    record::plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(id: &str) -> Part {
        Part { id: id.to_owned(), ..Part::default() }
    }

    #[test]
    fn each_line_is_shown_once_and_when_it_is_whole() {
        let mut all = ToolOutput::default();
        let mut take = |output: &str, ended| all.take(&part("a"), output, ended).lines;
        assert!(take("", false).is_empty());
        assert_eq!(take("one\ntw", false), ["    one"]);
        assert!(take("one\ntw", false).is_empty());
        assert_eq!(take("one\ntwo\n\nthree\n", false), ["    two", "    ", "    three"]);
        assert_eq!(take("one\ntwo\n\nthree\nfour", true), ["    four"]);
    }

    #[test]
    fn an_output_of_which_only_the_end_is_reported_goes_on() {
        let mut all = ToolOutput::default();
        let lines =
            |numbers: std::ops::Range<u32>| numbers.map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
        let mut take = |output: &str| all.take(&part("a"), output, false).lines;
        assert_eq!(take(&lines(0..1000)).len(), 1000);
        assert_eq!(take(&format!("...\n\n{}", lines(500..1003))), ["    1000", "    1001", "    1002"]);
        let jumped = take(&format!("...\n\n{}", lines(5000..5002)));
        assert_eq!(jumped[0], "    … (output is missing here)");
        assert_eq!(jumped.last().unwrap(), "    5001");
    }

    #[test]
    fn a_long_output_ends_with_how_much_more_there_is() {
        let mut all = ToolOutput::default();
        let output = "0123456789\n".repeat(10_000);
        let half = all.take(&part("a"), &output[..55_000], false);
        let rest = all.take(&part("a"), &output, true);
        let shown: usize = half.lines.iter().chain(&rest.lines).map(String::len).sum();
        assert!(shown < 2 * LIMIT, "{shown}");
        assert_eq!(rest.lines.last().unwrap(), &format!("    … ({} bytes more)", output.len() - LIMIT));
        assert_eq!(half.text.len() + rest.text.len(), LIMIT);
    }

    #[test]
    fn lines_of_two_calls_are_kept_apart() {
        let mut all = ToolOutput::default();
        let first = all.take(&part("a"), "1\n", false);
        assert!(first.first && first.apart);
        let more = all.take(&part("a"), "1\n2\n", false);
        assert!(!more.first && !more.apart);
        assert!(all.take(&part("b"), "x\n", false).apart);
        assert!(all.take(&part("a"), "1\n2\n3\n", false).apart);
        all.interrupted();
        assert!(all.take(&part("a"), "1\n2\n3\n4\n", true).apart);
        assert!(!all.knows(&part("a")));
    }

    #[test]
    fn control_sequences_and_progress_bars_are_cleaned() {
        let check = |line: &str, expected: &str| assert_eq!(clean(line), expected);
        check("\u{1b}[91m\u{1b}[1mError: \u{1b}[0mno\u{7}", "Error: no");
        check("10%\r 50%\r100%\r", "100%");
        check("a\tb\u{1b}]0;title\u{7}c", "a\tbc");
        check("\u{1b}]5379;{}\u{7}forged", "forged");
    }
}
