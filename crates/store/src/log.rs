//! Splits a log into lines and assigns each line a position.

use std::{io, sync::Arc};

use futures::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, Stream, StreamExt as _, TryStreamExt as _, stream,
};
use jiff::Timestamp;

use crate::{Archive, Chunk, Log};

/// Maximum length of a line in bytes. A longer line is split into several lines with the same timestamp, so that the
/// output of a container cannot exhaust the memory of a reader.
pub const MAX_LINE: usize = 1 << 20;
/// Bytes per read from an archive.
const CHUNK: usize = 256 << 10;
/// Maximum length of a timestamp prefix, in bytes.
const MAX_TIMESTAMP: usize = 64;
/// Maximum length of an archived line. A part of a split line is archived with its own timestamp and line end; it must
/// not be split again, so that lines have the same positions in every source.
const MAX_ARCHIVED_LINE: usize = MAX_LINE + MAX_TIMESTAMP + 1;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the node received the line. A line without a timestamp is not output of the container but a message of the
    /// node about the log.
    pub time: Option<Timestamp>,
    /// The line without timestamp and line end.
    pub text: Vec<u8>,
    /// Whether the line end was read. Only the last line of a log may lack it.
    pub ended: bool,
}

impl Line {
    fn parse(line: &[u8]) -> Self {
        let ended = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let timestamp = line.iter().take(MAX_TIMESTAMP).position(|byte| *byte == b' ');
        let time = timestamp.and_then(|end| str::from_utf8(&line[..end]).ok()?.parse().ok());
        let start = timestamp.filter(|_| time.is_some()).map_or(0, |end| end + 1);
        Self { time, text: line[start..].to_vec(), ended }
    }

    /// The text as UTF-8, with invalid bytes replaced.
    pub fn lossy_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// Appends the line in archive format, unless it is a message of the node.
    pub fn write(&self, to: &mut Vec<u8>) {
        if let Some(time) = self.time {
            to.extend_from_slice(format!("{time} ").as_bytes());
            to.extend_from_slice(&self.text);
            to.push(b'\n');
        }
    }
}

/// The lines of a log with timestamps. An incomplete line is dropped when the reader fails.
pub fn lines<R>(reader: R) -> impl Stream<Item = io::Result<Line>> + Send
where
    R: AsyncBufRead + Unpin + Send,
{
    cut_lines(reader, MAX_LINE)
}

fn cut_lines<R>(reader: R, longest: usize) -> impl Stream<Item = io::Result<Line>> + Send
where
    R: AsyncBufRead + Unpin + Send,
{
    stream::try_unfold((reader, None), move |(mut reader, continued): (R, Option<Timestamp>)| async move {
        let mut bytes = Vec::new();
        (&mut reader).take(longest as u64).read_until(b'\n', &mut bytes).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let cut = bytes.len() == longest && !bytes.ends_with(b"\n");
        let mut line = match continued {
            None => Line::parse(&bytes),
            Some(time) => {
                let ended = bytes.ends_with(b"\n");
                Line { time: Some(time), text: bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec(), ended }
            }
        };
        line.ended |= cut;
        let continued = line.time.filter(|_| cut);
        Ok(Some((line, (reader, continued))))
    })
}

/// The position of a line in the log of a run: its timestamp, and its index among the lines with the same timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub time: Timestamp,
    /// Starts at 0.
    pub index: u32,
}

/// Assigns positions to lines, and skips lines that the reader already has.
///
/// Nodes resume a log at whole seconds only and repeat lines; this skips everything up to the last known position.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    known: Option<Position>,
    last: Option<Position>,
    gap: bool,
}

impl Positions {
    /// For a log that is read from before `known`, or from its beginning.
    pub fn after(known: Option<Position>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The position of the next line; `None` if the reader already has the line.
    pub fn take(&mut self, time: Timestamp) -> Option<Position> {
        let index = match self.last {
            Some(last) if last.time == time => last.index.saturating_add(1),
            _ => 0,
        };
        let position = Position { time, index };
        self.last = Some(position);
        let Some(known) = self.known else { return Some(position) };
        if position >= known {
            self.known = None;
            self.gap = position > known;
        }
        self.gap.then_some(position)
    }

    /// Whether newer lines arrived without the last known one, so that lines in between may be missing.
    pub fn has_gap(&self) -> bool {
        self.gap
    }

    /// Whether neither the last known line nor a newer one has arrived yet.
    pub fn is_behind(&self) -> bool {
        self.known.is_some()
    }
}

/// Which lines of a log to return.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Only lines after this position.
    pub after: Option<Position>,
    /// Only lines that are not older.
    pub since: Option<Timestamp>,
    /// Only this many lines from the end.
    pub tail: Option<u64>,
}

/// The selected lines of an archived log, each with its position. In place of lines that were left out is one line that
/// says so; it has no position.
pub fn read(
    archive: Arc<dyn Archive>,
    log: Log,
    wanted: Selection,
) -> impl Stream<Item = io::Result<(Option<Position>, Line)>> + Send {
    let start = async move {
        let skip = match wanted.tail {
            None => 0,
            Some(tail) => {
                let all = select(Arc::clone(&archive), log.clone(), wanted);
                let count: u64 = all.try_fold(0, async |count, _| Ok(count + 1)).await?;
                count.saturating_sub(tail)
            }
        };
        Ok::<_, io::Error>(select(archive, log, wanted).skip(usize::try_from(skip).unwrap_or(usize::MAX)))
    };
    stream::once(start).try_flatten()
}

/// The selected lines, ignoring `tail`.
fn select(
    archive: Arc<dyn Archive>,
    log: Log,
    wanted: Selection,
) -> impl Stream<Item = io::Result<(Option<Position>, Line)>> + Send {
    let chunks = stream::try_unfold((0, true), move |(from, at_line): (u64, bool)| {
        let (archive, log) = (Arc::clone(&archive), log.clone());
        async move {
            let Chunk { at, bytes } = archive.read(&log, from, CHUNK).await?;
            let Some(last) = bytes.last() else { return Ok::<_, io::Error>(None) };
            let next = (at + bytes.len() as u64, *last == b'\n');
            let gap = at.checked_sub(from).filter(|gap| *gap > 0).map(|gap| {
                // The lines may be removed while they are read.
                let line_end = if at_line { "" } else { "\n" };
                format!("{line_end}{}", gap_line(gap)).into_bytes()
            });
            Ok(Some(([gap.unwrap_or_default(), bytes].concat(), next)))
        }
    });
    let mut positions = Positions::after(wanted.after);
    // A gap before the first selected line does not concern the reader.
    let mut selected = false;
    cut_lines(Box::pin(chunks).into_async_read(), MAX_ARCHIVED_LINE).try_filter_map(move |line| {
        let new = match line.time {
            Some(time) => {
                let position = positions.take(time);
                position.filter(|position| wanted.since.is_none_or(|since| position.time >= since)).map(Some)
            }
            None => selected.then_some(None),
        };
        selected |= new.is_some();
        std::future::ready(Ok(new.map(|position| (position, line))))
    })
}

/// The line in place of lines that were left out. It has no timestamp: the container did not print it.
fn gap_line(bytes: u64) -> String {
    format!("[log] {bytes} bytes are left out here: of a long log, the first and the last part are kept\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(log: &[u8]) -> Vec<Line> {
        lines(log).try_collect().await.unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn a_line_is_a_timestamp_and_any_bytes() {
        let log = b"1970-01-01T00:00:01Z a b\n1970-01-01T01:00:02+01:00 \n1970-01-01T00:00:03Z \xff\r\nno timestamp\n1970-01-01T00:00:04Z x";
        let found = all(log).await;
        let times: Vec<_> = found.iter().map(|line| line.time.map(Timestamp::as_second)).collect();
        assert_eq!(times, [Some(1), Some(2), Some(3), None, Some(4)]);
        let texts: Vec<_> = found.iter().map(|line| line.text.as_slice()).collect();
        assert_eq!(texts, [b"a b".as_slice(), b"", b"\xff\r", b"no timestamp", b"x"]);
        let ended: Vec<_> = found.iter().map(|line| line.ended).collect();
        assert_eq!(ended, [true, true, true, true, false]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_split_into_several_with_the_same_timestamp() {
        let text = "y".repeat(MAX_LINE * 2);
        let log = format!("1970-01-01T00:00:01Z {text}\n1970-01-01T00:00:02Z z\n");
        let found = all(log.as_bytes()).await;
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|line| line.ended));
        let joined: Vec<u8> = found[..3].iter().flat_map(|line| line.text.clone()).collect();
        assert!(joined == text.as_bytes());
        assert!(found[..3].iter().all(|line| line.time == Some(at(1))));
        let mut kept = Vec::new();
        for line in &found {
            line.write(&mut kept);
        }
        let again: Vec<Line> = cut_lines(kept.as_slice(), MAX_ARCHIVED_LINE).try_collect().await.unwrap();
        assert!(again == found, "{} lines", again.len());
    }

    fn taken(known: Option<Position>, seconds: &[i64]) -> (Vec<Position>, bool) {
        let mut positions = Positions::after(known);
        let new = seconds.iter().filter_map(|second| positions.take(at(*second))).collect();
        (new, positions.has_gap())
    }

    #[test]
    fn a_reader_that_resumes_gets_exactly_the_rest() {
        let log = [1, 1, 1, 2, 3, 3, 7];
        let (whole, _) = taken(None, &log);
        assert_eq!(whole.len(), log.len());
        for (index, position) in whole.iter().enumerate() {
            // A node resumes at the beginning of the second.
            let start = log.iter().position(|second| *second == log[index]).unwrap();
            assert_eq!(taken(Some(*position), &log[start..]), (whole[index + 1..].to_vec(), false));
        }
    }

    #[test]
    fn lines_that_the_node_rotated_away_are_detected() {
        let known = Some(Position { time: at(3), index: 1 });
        assert_eq!(
            taken(known, &[5, 6]),
            (vec![Position { time: at(5), index: 0 }, Position { time: at(6), index: 0 }], true)
        );
        assert_eq!(taken(known, &[]), (Vec::new(), false));
        let mut positions = Positions::after(known);
        assert!(positions.take(at(3)).is_none() && positions.is_behind());
        assert!(positions.take(at(3)).is_none() && !positions.is_behind());
    }

    #[test]
    fn lines_after_a_clock_step_backwards_are_new() {
        assert_eq!(taken(None, &[5, 4, 6]).0.len(), 3);
    }
}
