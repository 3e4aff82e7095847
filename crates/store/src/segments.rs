//! The logs of a store. Lines are appended as rows of the database, so that an append and its precondition are one
//! transaction. When enough lines are there, and at the end, they move to a blob. Neither needs the other: while the
//! blobs cannot be written, the lines stay in the database.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::timeout;

use crate::{
    ArchivedLog, Chunk, End, Error, Expiry, ExpiryCause, Log, Owner, Run, Store, Stream, Usage,
    database::{Outcome, Statement, Value},
    store::now,
};

/// Lines move to a blob when they have this size.
const SEGMENT: u64 = 4 << 20;
/// A log consists of at least this many segments before parts of it are left out.
const SEGMENTS: u64 = 8;
/// Parts that one append removes at most, when the log is at its limit.
const REMOVED: i64 = 64;
/// Parts that one read looks at.
const READ: i64 = 256;
/// An append waits this long for its lines to be moved. Then, and while moves fail, they stay in the database.
const MOVE: Duration = Duration::from_secs(10);
/// After a move that failed, none is tried for this long: no append waits for blobs that cannot be written.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// Closed logs whose lines one cleaning moves.
const MOVED: i64 = 200;
/// A reader looks again if lines were moved meanwhile.
const ATTEMPTS: usize = 5;

/// Sizes that follow from the limit of a log.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The beginning that is always kept.
    head: u64,
    all: u64,
    segment: u64,
}

impl Limits {
    fn of(limit: u64) -> Self {
        Self { head: limit / 2, all: limit, segment: SEGMENT.min(limit / SEGMENTS).max(1) }
    }
}

/// When lines may be moved to blobs again, in milliseconds since 1970; 0 while nothing fails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moving(Arc<AtomicI64>);

impl Moving {
    /// Whether a move may be tried. After a failure, one caller tries for all.
    fn may_begin(&self, now: Timestamp) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until == 0 || (until <= now.as_millisecond() && self.pause(until, now))
    }

    fn ended(&self, well: bool, now: Timestamp) {
        if well {
            self.0.store(0, Ordering::Relaxed);
        } else {
            self.pause(self.0.load(Ordering::Relaxed), now);
        }
    }

    fn pause(&self, known: i64, now: Timestamp) -> bool {
        let until = (now + PAUSE).as_millisecond();
        self.0.compare_exchange(known, until, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Consecutive lines of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    start: u64,
    bytes: u64,
    /// The lines; `None` once they are in a blob.
    lines: Option<Vec<u8>>,
}

impl Part {
    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

impl Log {
    /// The key columns of the log.
    pub(crate) fn key(&self) -> Vec<Value> {
        let stream = match self.stream {
            Stream::Text => "text",
            Stream::Records => "records",
        };
        [self.run.key(), vec![stream.into()]].concat()
    }

    pub(crate) fn statement(&self, sql: &'static str, others: Vec<Value>) -> Statement {
        Statement::new(sql, [self.key(), others].concat())
    }

    /// Makes the row of the log, unless it exists.
    fn row(&self) -> Statement {
        self.statement(
            "INSERT INTO logs (namespace, uid, epoch, stream, bytes, kept, tail, changed)
             VALUES ($1, $2, $3, $4, 0, 0, 0, $5) ON CONFLICT DO NOTHING",
            vec![now().as_millisecond().into()],
        )
    }
}

impl Store {
    pub(crate) async fn append_lines(&self, log: &Log, at: u64, lines: &[u8]) -> Result<(), Error> {
        let limits = Limits::of(self.log_limit);
        let added = lines.len() as u64;
        let grow = log.statement(
            "UPDATE logs SET bytes = bytes + $5, kept = kept + $5, tail = tail + $5, changed = $6
             WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND bytes = $7 AND ending IS NULL
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.namespace = logs.namespace AND runs.uid = logs.uid
                             AND runs.epoch = logs.epoch AND expired IS NOT NULL)
             RETURNING kept, tail",
            vec![added.into(), now().as_millisecond().into(), at.into()],
        );
        let mut batch = vec![log.run.row(), log.row(), grow.requires(1)];
        batch.extend(split(at, lines, limits).into_iter().map(|(start, lines)| {
            let values = vec![start.into(), (lines.len() as u64).into(), lines.to_vec().into()];
            log.statement(
                "INSERT INTO log_parts (namespace, uid, epoch, stream, start, bytes, lines)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                values,
            )
        }));
        let Outcome::Done(mut answers) = self.write(batch).await? else {
            return Err(match self.find_log(log).await? {
                Some(found) if found.end.is_none() && found.expired.is_none() => {
                    Error::Moved { log: log.clone(), expected: at, found: found.bytes }
                }
                None => Error::Moved { log: log.clone(), expected: at, found: 0 },
                Some(_) => Error::Closed(log.clone()),
            });
        };
        let Some(mut sizes) = answers.get_mut(2).and_then(Vec::pop) else {
            return Err(Error::Damaged(format!("log {log} has no size")));
        };
        let (kept, tail) = (sizes.size()?, sizes.size()?);
        // The lines are durable: what follows may fail, and is done with the next lines.
        if tail >= limits.segment {
            self.try_to_move(log, limits).await;
        }
        if kept > limits.all {
            self.drop_middle(log, kept - limits.all, limits).await.unwrap_or_else(|error| {
                tracing::warn!(%log, %error, "a log is longer than its limit");
            });
        }
        Ok(())
    }

    pub(crate) async fn close_log(&self, log: &Log, end: End) -> Result<End, Error> {
        let first = Statement::new(
            "UPDATE logs SET ending = coalesce(ending, $1)
             WHERE namespace = $2 AND uid = $3 AND epoch = $4 AND stream = $5 RETURNING ending, tail",
            [vec![serde_json::to_vec(&end).map_err(damaged)?.into()], log.key()].concat(),
        );
        let Outcome::Done(mut answers) = self.write(vec![log.run.row(), log.row(), first.requires(1)]).await? else {
            return Err(Error::Damaged(format!("log {log} cannot be closed")));
        };
        let row = answers.pop().and_then(|mut rows| rows.pop());
        let mut row = row.ok_or_else(|| Error::Damaged(format!("log {log} cannot be closed")))?;
        let recorded = row.optional_bytes()?.unwrap_or_default();
        // If this fails, a cleaning moves them.
        if row.size()? > 0 {
            self.try_to_move(log, Limits::of(self.log_limit)).await;
        }
        serde_json::from_slice(&recorded).map_err(damaged)
    }

    /// Moves lines from the database to blobs, unless that failed a moment ago.
    async fn try_to_move(&self, log: &Log, limits: Limits) {
        if !self.moving.may_begin(now()) {
            return;
        }
        let moved = match timeout(MOVE, self.move_tail(log, limits)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%log, %error, "the lines of a log stay in the database");
                false
            }
            Err(_) => {
                tracing::warn!(%log, "the lines of a log stay in the database: the blobs do not answer in time");
                false
            }
        };
        self.moving.ended(moved, now());
    }

    /// Moves the lines of closed logs that could not be moved when they were closed.
    pub(crate) async fn move_rest(&self) -> Result<(), Error> {
        let sql = "SELECT namespace, uid, epoch, stream FROM logs WHERE ending IS NOT NULL AND tail > 0 LIMIT $1";
        for mut row in self.read_rows(sql, vec![MOVED.into()]).await? {
            let task = Owner::new(&row.text()?, &row.text()?);
            let task = task.ok_or_else(|| damaged("a log has no valid owner"))?;
            let run = Run { task, epoch: row.int()? };
            let stream = if row.text()? == "records" { Stream::Records } else { Stream::Text };
            self.move_tail(&Log { run, stream }, Limits::of(self.log_limit)).await?;
        }
        Ok(())
    }

    /// Moves lines from the database to blobs, one segment after the other: what is in memory does not depend on how many
    /// lines are left.
    async fn move_tail(&self, log: &Log, limits: Limits) -> Result<(), Error> {
        loop {
            let rows = self
                .read_rows(
                    "SELECT start, bytes, lines FROM log_parts
                     WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND blob IS NULL
                     AND start < $5 + (SELECT min(start) FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3
                                       AND stream = $4 AND blob IS NULL) ORDER BY start",
                    [log.key(), vec![limits.segment.into()]].concat(),
                )
                .await?;
            let parts = rows
                .into_iter()
                .map(|mut row| Ok(Part { start: row.size()?, bytes: row.size()?, lines: row.optional_bytes()? }));
            let Some(group) = groups(parts.collect::<Result<_, Error>>()?, limits).into_iter().next() else {
                return Ok(());
            };
            let start = group.first().map_or(0, |part| part.start);
            let moved: Vec<u8> =
                group.iter().flat_map(|part| part.lines.as_deref().unwrap_or_default()).copied().collect();
            let bytes = moved.len() as u64;
            let blob = self.put_blob(moved.into()).await?;
            let range = vec![start.into(), (start + bytes).into()];
            // Another process may have moved or removed some of them.
            let taken = log.statement(
                "DELETE FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4
                 AND start >= $5 AND start < $6 AND blob IS NULL",
                range,
            );
            let named = log.statement(
                "INSERT INTO log_parts (namespace, uid, epoch, stream, start, bytes, blob)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                vec![start.into(), bytes.into(), blob.digest.as_str().into()],
            );
            let shrunk = Statement::new(
                "UPDATE logs SET tail = tail - $1 WHERE namespace = $2 AND uid = $3 AND epoch = $4 AND stream = $5",
                [vec![bytes.into()], log.key()].concat(),
            );
            let batch = vec![blob.in_use(), taken.requires(group.len()), named, shrunk.requires(1)];
            // If it is refused, the lines stay where they are until the next attempt.
            if !self.write(batch).await?.is_done() {
                return Ok(());
            }
        }
    }

    /// Removes the oldest lines after the beginning of a log that is too long.
    async fn drop_middle(&self, log: &Log, excess: u64, limits: Limits) -> Result<(), Error> {
        let rows = self
            .read_rows(
                "SELECT start, bytes, blob FROM log_parts
                 WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND start >= $5 ORDER BY start LIMIT $6",
                [log.key(), vec![limits.head.into(), REMOVED.into()]].concat(),
            )
            .await?;
        let mut parts = Vec::with_capacity(rows.len());
        for mut row in rows {
            parts.push((row.size()?, row.size()?, row.optional_text()?.is_some()));
        }
        // The last part is never removed.
        parts.pop();
        let mut removed = 0;
        for (start, bytes, in_blob) in parts {
            if removed >= excess {
                break;
            }
            let remove = if in_blob {
                "DELETE FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND start = $5
                 AND blob IS NOT NULL"
            } else {
                "DELETE FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4 AND start = $5
                 AND blob IS NULL"
            };
            let tail = if in_blob { 0 } else { bytes };
            let shrunk = Statement::new(
                "UPDATE logs SET kept = kept - $1, tail = tail - $2
                 WHERE namespace = $3 AND uid = $4 AND epoch = $5 AND stream = $6",
                [vec![bytes.into(), tail.into()], log.key()].concat(),
            );
            let batch = vec![log.statement(remove, vec![start.into()]).requires(1), shrunk.requires(1)];
            if !self.write(batch).await?.is_done() {
                break;
            }
            removed += bytes;
        }
        Ok(())
    }

    pub(crate) async fn find_log(&self, log: &Log) -> Result<Option<ArchivedLog>, Error> {
        let expiry = "SELECT expired, expiry_cause FROM runs WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let expired = match self.read_rows(expiry, log.run.key()).await?.pop() {
            Some(mut row) => {
                let (at, cause) = (row.optional_int()?, row.optional_text()?);
                at.map(|at| expiry_of(at, cause.as_deref())).transpose()?
            }
            None => None,
        };
        let sizes = "SELECT bytes, kept, ending FROM logs
                     WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4";
        let Some(mut row) = self.read_rows(sizes, log.key()).await?.pop() else {
            return Ok(expired.map(|expired| ArchivedLog {
                bytes: 0,
                left_out: 0,
                torn: 0,
                end: None,
                expired: Some(expired),
            }));
        };
        let (bytes, kept, ending) = (row.size()?, row.size()?, row.optional_bytes()?);
        let end = ending.map(|ending| serde_json::from_slice(&ending)).transpose().map_err(damaged)?;
        let (bytes, left_out) = if expired.is_some() { (0, 0) } else { (bytes, bytes.saturating_sub(kept)) };
        Ok(Some(ArchivedLog { bytes, left_out, torn: 0, end, expired }))
    }

    pub(crate) async fn read_log(&self, log: &Log, from: u64, limit: usize) -> Result<Chunk, Error> {
        for _ in 0..ATTEMPTS {
            if let Some(chunk) = self.try_read(log, from, limit).await? {
                return Ok(chunk);
            }
        }
        Err(Error::Damaged(format!("log {log} lacks lines at {from}")))
    }

    /// `None` if lines were moved or removed meanwhile.
    async fn try_read(&self, log: &Log, from: u64, limit: usize) -> Result<Option<Chunk>, Error> {
        // From the part that contains `from`, or the next one.
        let rows = self
            .read_rows(
                "SELECT start, log_parts.bytes, blob, name FROM log_parts LEFT JOIN blobs ON digest = blob
                 WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4
                 AND start >= coalesce((SELECT max(start) FROM log_parts WHERE namespace = $1 AND uid = $2
                                        AND epoch = $3 AND stream = $4 AND start <= $5), 0)
                 ORDER BY start LIMIT $6",
                [log.key(), vec![from.into(), READ.into()]].concat(),
            )
            .await?;
        let mut parts = Vec::with_capacity(rows.len());
        for mut row in rows {
            let (start, bytes) = (row.size()?, row.size()?);
            let place = (row.optional_text()?, row.optional_text()?);
            parts.push((start, start + bytes, place));
        }
        let mut parts = parts.into_iter().skip_while(|(_, end, _)| *end <= from).peekable();
        let Some((start, mut end, place)) = parts.next() else {
            return Ok(Some(Chunk { at: from, bytes: Vec::new() }));
        };
        let at = from.max(start);
        let wanted = at.saturating_add(limit as u64);
        let bytes = match place {
            (Some(_), Some(name)) => self.blobs.get(&name, at - start..wanted.min(end) - start).await?.into(),
            (Some(digest), None) => return Err(Error::Damaged(format!("blob {digest} of log {log} is not recorded"))),
            (None, _) => {
                while end < wanted
                    && let Some((_, next, _)) = parts.next_if(|part| part.0 == end && part.2.0.is_none())
                {
                    end = next;
                }
                let Some(lines) = self.lines_between(log, start, end).await? else { return Ok(None) };
                let offset = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
                lines.get(offset(at)..offset(wanted.min(end))).unwrap_or_default().to_vec()
            }
        };
        Ok(Some(Chunk { at, bytes }))
    }

    /// Lines that are in the database; `None` if some are not.
    async fn lines_between(&self, log: &Log, start: u64, end: u64) -> Result<Option<Vec<u8>>, Error> {
        let rows = self
            .read_rows(
                "SELECT lines FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3 AND stream = $4
                 AND start >= $5 AND start < $6 AND blob IS NULL ORDER BY start",
                [log.key(), vec![start.into(), end.into()]].concat(),
            )
            .await?;
        let mut lines = Vec::new();
        for mut row in rows {
            lines.extend(row.optional_bytes()?.unwrap_or_default());
        }
        Ok((lines.len() as u64 == end - start).then_some(lines))
    }

    pub(crate) async fn log_usage(&self) -> Result<Vec<Usage>, Error> {
        let sql = "SELECT namespace, uid, epoch, kept, changed FROM logs WHERE kept > 0 ORDER BY namespace, uid, epoch";
        let mut all: Vec<Usage> = Vec::new();
        for mut row in self.read_rows(sql, Vec::new()).await? {
            let task = Owner::new(&row.text()?, &row.text()?);
            let task = task.ok_or_else(|| Error::Damaged("a log has no valid owner".to_owned()))?;
            let (run, bytes) = (Run { task, epoch: row.int()? }, row.size()?);
            let changed = Timestamp::from_millisecond(row.int()?).unwrap_or(Timestamp::MIN);
            match all.last_mut().filter(|last| last.run == run) {
                Some(last) => {
                    last.bytes += bytes;
                    last.changed = last.changed.max(changed);
                }
                None => all.push(Usage { run, bytes, changed }),
            }
        }
        Ok(all)
    }

    pub(crate) async fn expire_logs(&self, run: &Run, expiry: Expiry, record: Option<Vec<u8>>) -> Result<(), Error> {
        let cause = match expiry.cause {
            ExpiryCause::Age => "age",
            ExpiryCause::Space => "space",
        };
        let noted = Statement::new(
            "UPDATE runs SET record = coalesce($1, record), expiry_cause = coalesce(expiry_cause, $2),
             expired = coalesce(expired, $3) WHERE namespace = $4 AND uid = $5 AND epoch = $6",
            [vec![record.into(), cause.into(), expiry.at.as_millisecond().into()], run.key()].concat(),
        );
        let parts = "DELETE FROM log_parts WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let sizes = "UPDATE logs SET kept = 0, tail = 0 WHERE namespace = $1 AND uid = $2 AND epoch = $3";
        let batch = vec![run.row(), noted, Statement::new(parts, run.key()), Statement::new(sizes, run.key())];
        self.write(batch).await.map(drop)
    }
}

pub(crate) fn expiry_of(at: i64, cause: Option<&str>) -> Result<Expiry, Error> {
    let cause = match cause {
        Some("space") => ExpiryCause::Space,
        _ => ExpiryCause::Age,
    };
    Ok(Expiry { at: Timestamp::from_millisecond(at).map_err(damaged)?, cause })
}

#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn damaged(error: impl ToString) -> Error {
    Error::Damaged(error.to_string())
}

/// Cuts lines into parts: no part is longer than a segment, and one ends where the beginning of the log ends. A part has
/// at least one line.
fn split(at: u64, mut lines: &[u8], limits: Limits) -> Vec<(u64, &[u8])> {
    let (mut start, mut parts) = (at, Vec::new());
    while !lines.is_empty() {
        let to_boundary = if start < limits.head { limits.head - start } else { u64::MAX };
        let room = usize::try_from(limits.segment.min(to_boundary)).unwrap_or(usize::MAX);
        let within = &lines[..room.min(lines.len())];
        let fitting = within.iter().rposition(|byte| *byte == b'\n');
        let length =
            fitting.or_else(|| lines.iter().position(|byte| *byte == b'\n')).map_or(lines.len(), |end| end + 1);
        let (part, rest) = lines.split_at(length);
        parts.push((start, part));
        start += length as u64;
        lines = rest;
    }
    parts
}

/// Which parts become one blob: consecutive ones, up to the size of a segment, on the same side of the end of the
/// beginning.
fn groups(parts: Vec<Part>, limits: Limits) -> Vec<Vec<Part>> {
    let mut groups: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        let fits = |group: &&mut Vec<Part>| {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { return false };
            let same_side = (first.start < limits.head) == (part.start < limits.head);
            last.end() == part.start && same_side && part.end() - first.start <= limits.segment
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { head: 10, all: 20, segment: 6 };

    #[test]
    fn parts_are_whole_lines_and_end_with_the_beginning_of_the_log() {
        let cut = |at, lines: &'static str| -> Vec<(u64, &str)> {
            let parts = split(at, lines.as_bytes(), LIMITS).into_iter();
            parts.map(|(start, part)| (start, str::from_utf8(part).unwrap())).collect()
        };
        assert_eq!(cut(0, ""), []);
        assert_eq!(cut(0, "a\nb\nc\nd\n"), [(0, "a\nb\nc\n"), (6, "d\n")]);
        assert_eq!(cut(8, "a\nb\nc\nd\n"), [(8, "a\n"), (10, "b\nc\nd\n")]);
        // A line is never cut.
        assert_eq!(cut(8, "abcdefghij\nb\n"), [(8, "abcdefghij\n"), (19, "b\n")]);
        assert_eq!(cut(12, "abcdefghij\nb\n"), [(12, "abcdefghij\n"), (23, "b\n")]);
    }

    #[test]
    fn after_a_failed_move_one_caller_tries_again_each_minute() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let moving = Moving::default();
        assert!(moving.may_begin(at(0)) && moving.may_begin(at(0)));
        moving.ended(false, at(0));
        assert!(!moving.may_begin(at(59)));
        assert!(moving.may_begin(at(60)) && !moving.may_begin(at(60)), "the others do not wait for the first");
        moving.ended(false, at(70));
        assert!(!moving.may_begin(at(129)) && moving.may_begin(at(130)));
        moving.ended(true, at(131));
        assert!(moving.may_begin(at(131)) && moving.may_begin(at(131)));
    }

    #[test]
    fn consecutive_parts_become_one_blob() {
        let part = |start, bytes| Part { start, bytes, lines: None };
        let grouped = |parts: &[(u64, u64)]| -> Vec<Vec<u64>> {
            let parts = parts.iter().map(|(start, bytes)| part(*start, *bytes)).collect();
            groups(parts, LIMITS).iter().map(|group| group.iter().map(|part| part.start).collect()).collect()
        };
        assert_eq!(grouped(&[(0, 2), (2, 2), (4, 2), (6, 2)]), [vec![0, 2, 4], vec![6]]);
        assert_eq!(grouped(&[(6, 4), (10, 2)]), [[6], [10]], "the end of the beginning");
        assert_eq!(grouped(&[(10, 2), (14, 2)]), [[10], [14]], "lines between them are left out");
    }
}
