//! A log line by line, and the place of each line in it.

use std::{io, sync::Arc};

use futures::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, Stream, StreamExt as _, TryStreamExt as _, stream,
};
use jiff::Timestamp;

use crate::{Archive, Run};

/// A line that is longer is told, and kept, as several lines of the same moment: what a container prints must not fill
/// the memory of whoever reads it.
pub const LONGEST_LINE: usize = 1 << 20;
/// How much is read from an archive at once.
const CHUNK: usize = 256 << 10;
/// A moment in front of a line is shorter than this.
const LONGEST_MOMENT: usize = 64;
/// What was cut when it was kept is not cut again, so that lines have the same places wherever they are read from: a
/// part of a line is kept with a moment and an end of its own.
const LONGEST_KEPT: usize = LONGEST_LINE + LONGEST_MOMENT + 1;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the node got it. One without is no line of the container but a word of the node about its log.
    pub time: Option<Timestamp>,
    /// What it says, without its end.
    pub text: Vec<u8>,
    /// Whether its end was seen. The last one of a log may have none.
    pub ended: bool,
}

impl Line {
    fn parse(line: &[u8]) -> Self {
        let ended = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let moment = line.iter().take(LONGEST_MOMENT).position(|byte| *byte == b' ');
        let time = moment.and_then(|end| str::from_utf8(&line[..end]).ok()?.parse().ok());
        let start = moment.filter(|_| time.is_some()).map_or(0, |end| end + 1);
        Self { time, text: line[start..].to_vec(), ended }
    }

    /// What it says, for people.
    pub fn words(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.text)
    }

    /// The line as an archive keeps it, if it is one of the container's.
    pub fn write(&self, to: &mut Vec<u8>) {
        if let Some(time) = self.time {
            to.extend_from_slice(format!("{time} ").as_bytes());
            to.extend_from_slice(&self.text);
            to.push(b'\n');
        }
    }
}

/// The lines of a log that comes with moments. Anything that was not read to the end of its line when the reader fails
/// is left out.
pub fn lines<R>(reader: R) -> impl Stream<Item = io::Result<Line>> + Send
where
    R: AsyncBufRead + Unpin + Send,
{
    cut_lines(reader, LONGEST_LINE)
}

fn cut_lines<R>(reader: R, longest: usize) -> impl Stream<Item = io::Result<Line>> + Send
where
    R: AsyncBufRead + Unpin + Send,
{
    stream::try_unfold((reader, None), move |(mut reader, going_on): (R, Option<Timestamp>)| async move {
        let mut bytes = Vec::new();
        (&mut reader).take(longest as u64).read_until(b'\n', &mut bytes).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let cut = bytes.len() == longest && !bytes.ends_with(b"\n");
        let mut line = match going_on {
            None => Line::parse(&bytes),
            Some(time) => {
                let ended = bytes.ends_with(b"\n");
                Line { time: Some(time), text: bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec(), ended }
            }
        };
        line.ended |= cut;
        let going_on = line.time.filter(|_| cut);
        Ok(Some((line, (reader, going_on))))
    })
}

/// The place of a line in the log of a run: the moment at which the node got it, and its number among the lines of that
/// moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The moment.
    pub time: Timestamp,
    /// The number, 0 being the first.
    pub index: u32,
}

/// Gives each line its place, and tells those that are known already from those that are new.
///
/// Nodes go on at a whole second only, so that lines come again; the reader goes on after the last one that it knows.
#[derive(Clone, Debug, Default)]
pub struct Places {
    known: Option<Place>,
    last: Option<Place>,
    gap: bool,
}

impl Places {
    /// For a log that is read from before `known` on, or from its beginning.
    pub fn after(known: Option<Place>) -> Self {
        Self { known, ..Self::default() }
    }

    /// The place of the next line; nothing if it is known already.
    pub fn take(&mut self, time: Timestamp) -> Option<Place> {
        let index = match self.last {
            Some(last) if last.time == time => last.index.saturating_add(1),
            _ => 0,
        };
        let place = Place { time, index };
        self.last = Some(place);
        let Some(known) = self.known else { return Some(place) };
        if place >= known {
            self.known = None;
            self.gap = place > known;
        }
        self.gap.then_some(place)
    }

    /// Whether newer lines came without the last one that was known, so that others in between may be missing too.
    pub fn has_gap(&self) -> bool {
        self.gap
    }

    /// Whether neither the last line that was known nor a newer one came so far.
    pub fn is_behind(&self) -> bool {
        self.known.is_some()
    }
}

/// Which lines of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Those after this one.
    pub after: Option<Place>,
    /// Those that are not older.
    pub since: Option<Timestamp>,
    /// So many from the end.
    pub tail: Option<u64>,
}

/// The lines that are wanted of a log in an archive, each with its place.
pub fn read(
    archive: Arc<dyn Archive>,
    run: Run,
    wanted: Selection,
) -> impl Stream<Item = io::Result<(Place, Line)>> + Send {
    let start = async move {
        let skip = match wanted.tail {
            None => 0,
            Some(tail) => {
                let all = select(Arc::clone(&archive), run.clone(), wanted);
                let count: u64 = all.try_fold(0, async |count, _| Ok(count + 1)).await?;
                count.saturating_sub(tail)
            }
        };
        Ok::<_, io::Error>(select(archive, run, wanted).skip(usize::try_from(skip).unwrap_or(usize::MAX)))
    };
    stream::once(start).try_flatten()
}

/// The lines that are wanted, however many.
fn select(
    archive: Arc<dyn Archive>,
    run: Run,
    wanted: Selection,
) -> impl Stream<Item = io::Result<(Place, Line)>> + Send {
    let chunks = stream::try_unfold(0, move |from: u64| {
        let (archive, run) = (Arc::clone(&archive), run.clone());
        async move {
            let chunk = archive.read(&run, from, CHUNK).await?;
            let next = from + chunk.len() as u64;
            Ok::<_, io::Error>((!chunk.is_empty()).then_some((chunk, next)))
        }
    });
    let mut places = Places::after(wanted.after);
    cut_lines(Box::pin(chunks).into_async_read(), LONGEST_KEPT).try_filter_map(move |line| {
        let new = line.time.and_then(|time| places.take(time)).map(|place| (place, line));
        let new = new.filter(|(place, _)| wanted.since.is_none_or(|since| place.time >= since));
        std::future::ready(Ok(new))
    })
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
    async fn a_line_is_its_moment_and_whatever_bytes_follow() {
        let log = b"1970-01-01T00:00:01Z a b\n1970-01-01T01:00:02+01:00 \n1970-01-01T00:00:03Z \xff\r\nno moment\n1970-01-01T00:00:04Z x";
        let found = all(log).await;
        let times: Vec<_> = found.iter().map(|line| line.time.map(Timestamp::as_second)).collect();
        assert_eq!(times, [Some(1), Some(2), Some(3), None, Some(4)]);
        let texts: Vec<_> = found.iter().map(|line| line.text.as_slice()).collect();
        assert_eq!(texts, [b"a b".as_slice(), b"", b"\xff\r", b"no moment", b"x"]);
        let ended: Vec<_> = found.iter().map(|line| line.ended).collect();
        assert_eq!(ended, [true, true, true, true, false]);
    }

    #[tokio::test]
    async fn a_line_without_end_becomes_several_of_the_same_moment() {
        let text = "y".repeat(LONGEST_LINE * 2);
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
        let again: Vec<Line> = cut_lines(kept.as_slice(), LONGEST_KEPT).try_collect().await.unwrap();
        assert!(again == found, "{} lines", again.len());
    }

    fn taken(known: Option<Place>, seconds: &[i64]) -> (Vec<Place>, bool) {
        let mut places = Places::after(known);
        let new = seconds.iter().filter_map(|second| places.take(at(*second))).collect();
        (new, places.has_gap())
    }

    #[test]
    fn whoever_comes_back_gets_exactly_the_rest() {
        let log = [1, 1, 1, 2, 3, 3, 7];
        let (whole, _) = taken(None, &log);
        assert_eq!(whole.len(), log.len());
        for (index, place) in whole.iter().enumerate() {
            // A node goes on at the beginning of the second.
            let start = log.iter().position(|second| *second == log[index]).unwrap();
            assert_eq!(taken(Some(*place), &log[start..]), (whole[index + 1..].to_vec(), false));
        }
    }

    #[test]
    fn lines_that_the_node_threw_away_meanwhile_are_noticed() {
        let known = Some(Place { time: at(3), index: 1 });
        assert_eq!(
            taken(known, &[5, 6]),
            (vec![Place { time: at(5), index: 0 }, Place { time: at(6), index: 0 }], true)
        );
        assert_eq!(taken(known, &[]), (Vec::new(), false));
        let mut places = Places::after(known);
        assert!(places.take(at(3)).is_none() && places.is_behind());
        assert!(places.take(at(3)).is_none() && !places.is_behind());
    }

    #[test]
    fn lines_after_a_clock_was_set_back_are_new_while_nothing_broke() {
        assert_eq!(taken(None, &[5, 4, 6]).0.len(), 3);
    }
}
