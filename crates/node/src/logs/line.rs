//! A line of a log file in the CRI format: timestamp, stream, full or partial, text.

use jiff::Timestamp;

/// The stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdout,
    Stderr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) at: &'a str,
    /// Whether the container's line ends here; a long line is stored in parts.
    pub(crate) ends: bool,
    pub(crate) text: &'a [u8],
}

/// Formats lines that were received together from one stream.
#[derive(Debug)]
pub(crate) struct Writing {
    beginning: String,
    pub(crate) lines: Vec<u8>,
}

impl Writing {
    pub(crate) fn new(at: Timestamp, source: Source) -> Self {
        let source = match source {
            Source::Stdout => "stdout",
            Source::Stderr => "stderr",
        };
        Self { beginning: format!("{at:.9} {source} "), lines: Vec::new() }
    }

    /// Appends a line, or a part of a line.
    pub(crate) fn line(&mut self, text: &[u8], ends: bool) {
        self.lines.extend_from_slice(self.beginning.as_bytes());
        self.lines.extend_from_slice(if ends { b"F " } else { b"P " });
        self.lines.extend_from_slice(text);
        self.lines.push(b'\n');
    }
}

/// Parses a line without its line end. `None` if it is not in the CRI format.
pub(crate) fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let at = std::str::from_utf8(parts.next()?).ok()?;
    let _source = parts.next()?;
    let ends = parts.next()? == b"F";
    Some(Line { at, ends, text: parts.next().unwrap_or_default() })
}

impl Line<'_> {
    /// The line as `kubectl logs` shows it.
    pub(crate) fn show(&self, timestamps: bool) -> Vec<u8> {
        let mut shown = Vec::with_capacity(self.text.len() + 40);
        if timestamps {
            shown.extend_from_slice(self.at.as_bytes());
            shown.push(b' ');
        }
        shown.extend_from_slice(self.text);
        if self.ends {
            shown.push(b'\n');
        }
        shown
    }

    pub(crate) fn is_since(&self, since: Timestamp) -> bool {
        self.at.parse::<Timestamp>().is_ok_and(|at| at >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was() {
        let at: Timestamp = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
        let mut writing = Writing::new(at, Source::Stderr);
        writing.line(b"two  spaces \xff", true);
        let written = writing.lines;
        assert!(written.starts_with(b"2026-01-02T03:04:05.000000006Z stderr F two  spaces \xff\n"), "{written:?}");
        let line = parse(&written[..written.len() - 1]).unwrap();
        assert_eq!((line.ends, line.text), (true, b"two  spaces \xff".as_slice()));
        assert_eq!(line.show(false), b"two  spaces \xff\n");
        assert!(line.is_since(at) && !line.is_since(at + jiff::SignedDuration::from_nanos(1)));
    }

    #[test]
    fn a_part_of_a_line_has_no_end() {
        let mut writing = Writing::new(Timestamp::UNIX_EPOCH, Source::Stdout);
        writing.line(b"", false);
        let written = writing.lines;
        let line = parse(&written[..written.len() - 1]).unwrap();
        assert_eq!(line.show(true), b"1970-01-01T00:00:00.000000000Z ");
        assert_eq!(parse(b"rubbish"), None);
    }
}
