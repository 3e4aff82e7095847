//! Container logs: written to files of limited size, read and followed from there.
//!
//! A run of a container writes `<run>-<part>.log`. A full file is followed by the next part, and only the last few
//! parts are kept. Files are never renamed, so a reader simply continues with the next number.
//!
//! `<run>.lost` exists if output of the run could not be written. A reader then gets a message at the end of the log,
//! without a timestamp, so that an archive never takes the log for complete.

mod line;
mod read;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::watch,
};

pub(crate) use line::Source;
use line::Writing;
pub(crate) use read::{end_of, last_lines, stream};

/// Rotation limits: the defaults of the kubelet's `containerLogMaxSize` and `containerLogMaxFiles`.
const MAX_FILE_BYTES: u64 = 10 << 20;
const MAX_FILES: u32 = 5;
/// Longer lines are stored in parts.
const MAX_LINE: usize = 16 << 10;

/// The parameters of a log request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Continue with new lines until the container exits.
    pub follow: bool,
    /// Return the log of the previous run.
    pub previous: bool,
    /// Only lines that are not older.
    pub since: Option<Timestamp>,
    /// Only so many lines from the end.
    pub tail: Option<usize>,
    /// Prefix each line with its timestamp.
    pub timestamps: bool,
    /// Maximum length of the response.
    pub limit_bytes: Option<u64>,
}

/// The end of a log, for followers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    run: u32,
    bytes: u64,
    ended: bool,
    /// Whether output was lost.
    lost: bool,
}

/// The log of one container over all its runs.
#[derive(Debug)]
pub(crate) struct Log {
    dir: PathBuf,
    full: u64,
    progress: watch::Sender<Progress>,
}

impl Log {
    pub(crate) fn new(dir: PathBuf) -> Arc<Self> {
        Arc::new(Self::with_size(dir, MAX_FILE_BYTES))
    }

    /// A log that no run writes to yet. Following what an earlier node left does not wait for more.
    fn with_size(dir: PathBuf, full: u64) -> Self {
        Self { dir, full, progress: watch::Sender::new(Progress { ended: true, ..Progress::default() }) }
    }

    fn part(&self, run: u32, part: u32) -> PathBuf {
        self.dir.join(format!("{run}-{part}.log"))
    }

    /// The file that marks a run whose output was lost in part.
    fn lost(&self, run: u32) -> PathBuf {
        self.dir.join(format!("{run}.lost"))
    }

    /// The part numbers of a run, in order.
    fn parts(&self, run: u32) -> Vec<u32> {
        let mut parts: Vec<u32> = names(&self.dir).filter(|(of, _)| *of == run).map(|(_, part)| part).collect();
        parts.sort_unstable();
        parts
    }

    /// Starts the log of a run. Logs before the previous run are removed.
    pub(crate) fn begin(self: &Arc<Self>, run: u32) -> io::Result<LogWriter> {
        fs::create_dir_all(&self.dir)?;
        for (old, part) in names(&self.dir).filter(|(old, _)| old + 1 < run) {
            fs::remove_file(self.part(old, part))?;
            // Usually there is none.
            let _ = fs::remove_file(self.lost(old));
        }
        let part = self.parts(run).last().map_or(0, |last| last + 1);
        let file = File::options().create_new(true).append(true).open(self.part(run, part))?;
        self.progress.send_replace(Progress { run, ..Progress::default() });
        let open = Open { log: Arc::clone(self), run, part, file, size: 0, lost: false };
        Ok(LogWriter(Arc::new(Mutex::new(open))))
    }

    pub(crate) fn last_run(&self) -> Option<u32> {
        names(&self.dir).map(|(run, _)| run).max()
    }
}

fn names(dir: &Path) -> impl Iterator<Item = (u32, u32)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let (run, part) = name.to_str()?.strip_suffix(".log")?.split_once('-')?;
        Some((run.parse().ok()?, part.parse().ok()?))
    })
}

/// Writes the log of one run. Clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    log: Arc<Log>,
    run: u32,
    part: u32,
    file: File,
    size: u64,
    lost: bool,
}

impl LogWriter {
    /// Writes everything from a pipe, line by line, until it is closed.
    pub(crate) async fn copy(self, source: Source, mut from: impl AsyncRead + Unpin) {
        let mut pending: Vec<u8> = Vec::new();
        let mut chunk = vec![0; MAX_LINE];
        loop {
            // Treat a read error as the end of the pipe.
            let count = from.read(&mut chunk).await.unwrap_or(0);
            if count == 0 {
                break;
            }
            pending.extend_from_slice(&chunk[..count]);
            let rest = self.write_lines(source, &pending);
            pending.drain(..rest);
        }
        if !pending.is_empty() {
            let mut last = Writing::new(Timestamp::now(), source);
            last.line(&pending, true);
            self.write(&last.lines);
        }
    }

    /// Writes the complete lines, and returns the offset of the incomplete one.
    fn write_lines(&self, source: Source, text: &[u8]) -> usize {
        let mut writing = Writing::new(Timestamp::now(), source);
        let mut start = 0;
        loop {
            let rest = &text[start..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            match end {
                Some(end) if end <= MAX_LINE => {
                    writing.line(&rest[..end], true);
                    start += end + 1;
                }
                _ if rest.len() > MAX_LINE => {
                    writing.line(&rest[..MAX_LINE], false);
                    start += MAX_LINE;
                }
                _ => break,
            }
        }
        if !writing.lines.is_empty() {
            self.write(&writing.lines);
        }
        start
    }

    fn write(&self, lines: &[u8]) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = open.write(lines) {
            tracing::warn!(%error, "container output lost");
            open.lost = true;
            open.record_loss();
        }
    }

    /// Marks the log as complete.
    pub(crate) fn end(&self) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.record_loss();
        open.log.progress.send_modify(|progress| progress.ended = true);
    }
}

impl Open {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let size = self.size + lines.len() as u64;
        if self.size > 0
            && size > self.log.full
            && let Err(error) = self.next_part()
            // The part grows until the next one can be created, within a limit.
            && size > self.log.full * 2
        {
            return Err(error);
        }
        if let Err(error) = self.file.write_all(lines) {
            // The next line must not be appended to a part of this one. If this fails, only that line is damaged.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += lines.len() as u64;
        self.log.progress.send_modify(|progress| progress.bytes += lines.len() as u64);
        Ok(())
    }

    fn next_part(&mut self) -> io::Result<()> {
        let part = self.part + 1;
        let file = File::options().create_new(true).append(true).open(self.log.part(self.run, part))?;
        (self.part, self.file, self.size) = (part, file, 0);
        for old in self.log.parts(self.run).into_iter().filter(|old| old + MAX_FILES <= part) {
            // Tried again with the next part.
            let _ = fs::remove_file(self.log.part(self.run, old));
        }
        Ok(())
    }

    /// Records that output was lost: for followers, and on disk for readers after a restart of the node.
    fn record_loss(&self) {
        if self.lost {
            self.log.progress.send_modify(|progress| progress.lost = true);
            // The disk may be full. It is tried again at the next loss and at the end.
            let _ = File::create(self.log.lost(self.run));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    async fn shown(log: &Arc<Log>, run: u32, options: LogOptions) -> String {
        let mut stream = Box::pin(stream(Arc::clone(log), run, options));
        let mut all = Vec::new();
        while let Some(chunk) = stream.next().await {
            all.extend_from_slice(&chunk.unwrap());
        }
        String::from_utf8(all).unwrap()
    }

    fn small(dir: &Path, full: u64) -> Arc<Log> {
        Arc::new(Log::with_size(dir.to_owned(), full))
    }

    #[tokio::test]
    async fn lines_come_back_whole_in_part_and_without_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = small(dir.path(), MAX_FILE_BYTES);
        let writer = log.begin(0).unwrap();
        let endless = "x".repeat(MAX_LINE * 2 + 5);
        let text = format!("one\n\n{endless}\nend");
        writer.clone().copy(Source::Stdout, text.as_bytes()).await;
        writer.end();
        assert_eq!(shown(&log, 0, LogOptions::default()).await, format!("{text}\n"));
        assert_eq!(shown(&log, 0, LogOptions { tail: Some(1), ..LogOptions::default() }).await, "end\n");
        let limited = LogOptions { limit_bytes: Some(6), ..LogOptions::default() };
        assert_eq!(shown(&log, 0, limited).await, "one\n\nx");
        assert!(last_lines(&log, 0, 80, 8).ends_with("end\n"));
    }

    #[tokio::test]
    async fn the_last_lines_are_whole_lines_of_a_long_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = small(dir.path(), MAX_FILE_BYTES);
        let writer = log.begin(0).unwrap();
        for number in 0..5000 {
            writer.clone().copy(Source::Stdout, format!("line {number}\n").as_bytes()).await;
        }
        let shown = last_lines(&log, 0, 80, 2048);
        assert!(shown.starts_with("line 4920\n") && shown.ends_with("line 4999\n"), "{shown}");
        let shown = last_lines(&log, 0, usize::MAX, usize::MAX);
        assert!(shown.lines().all(|line| line.starts_with("line ")), "{shown}");
    }

    #[test]
    fn a_file_of_any_size_is_read_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "short").unwrap();
        assert_eq!(end_of(&path, 4096).unwrap(), b"short");
        // As `truncate -s 4G` makes it. Reading all of it would take 4 GiB of memory.
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(4 << 30).unwrap();
        let end = end_of(&path, 4096).unwrap();
        assert!(end.len() == 4096 && end.capacity() < 1 << 20, "{} of {}", end.len(), end.capacity());
        // A container that writes while the node reads does not make it longer.
        assert_eq!(end_of(Path::new("/dev/zero"), 4096).unwrap().len(), 4096);
    }

    #[tokio::test]
    async fn full_parts_are_followed_by_new_ones_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let log = small(dir.path(), 200);
        let writer = log.begin(0).unwrap();
        for number in 0..100 {
            writer.clone().copy(Source::Stdout, format!("line {number}\n").as_bytes()).await;
        }
        writer.end();
        assert_eq!(log.parts(0).len(), MAX_FILES as usize);
        let all = shown(&log, 0, LogOptions::default()).await;
        assert!(all.ends_with("line 98\nline 99\n") && !all.contains("line 1\n"), "{all}");
        let tail = shown(&log, 0, LogOptions { tail: Some(7), ..LogOptions::default() }).await;
        assert_eq!(tail.lines().count(), 7);
        assert!(tail.starts_with("line 93\n"), "{tail}");
    }

    #[tokio::test]
    async fn no_line_is_lost_while_the_next_part_cannot_be_created() {
        let dir = tempfile::tempdir().unwrap();
        let (place, away) = (dir.path().join("log"), dir.path().join("away"));
        let log = small(&place, 400);
        let writer = log.begin(0).unwrap();
        let mut expected = String::new();
        for number in 0..30 {
            // No file can be created from the 5th to the 12th line.
            match number {
                5 => fs::rename(&place, &away).unwrap(),
                12 => fs::rename(&away, &place).unwrap(),
                _ => {}
            }
            let line = format!("line {number}\n");
            expected.push_str(&line);
            writer.clone().copy(Source::Stdout, line.as_bytes()).await;
        }
        writer.end();
        assert_eq!(shown(&log, 0, LogOptions::default()).await, expected);
    }

    #[tokio::test]
    async fn a_log_that_lost_lines_says_so_at_its_end_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (place, away) = (dir.path().join("log"), dir.path().join("away"));
        let log = small(&place, 200);
        let writer = log.begin(0).unwrap();
        for number in 0..40 {
            match number {
                5 => fs::rename(&place, &away).unwrap(),
                35 => fs::rename(&away, &place).unwrap(),
                _ => {}
            }
            writer.clone().copy(Source::Stdout, format!("line {number}\n").as_bytes()).await;
        }
        writer.end();
        let follow = LogOptions { follow: true, timestamps: true, ..LogOptions::default() };
        for log in [log, small(&place, 200)] {
            for options in [LogOptions::default(), follow.clone()] {
                let said = shown(&log, 0, options).await;
                assert!(
                    said.contains("line 4\n") && said.contains("line 39\n") && !said.contains("line 30\n"),
                    "{said}"
                );
                assert!(said.ends_with(read::LOST), "{said}");
            }
        }
        // Without a timestamp it is a message of the node, not output of the container.
        assert!(read::LOST.split(' ').next().is_some_and(|word| word.parse::<Timestamp>().is_err()));
    }

    #[tokio::test]
    async fn a_follower_gets_every_line_and_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = small(dir.path(), 1000);
        let writer = log.begin(3).unwrap();
        let reader = tokio::spawn({
            let log = Arc::clone(&log);
            async move { shown(&log, 3, LogOptions { follow: true, ..LogOptions::default() }).await }
        });
        for number in 0..60 {
            writer.clone().copy(Source::Stdout, format!("{number}\n").as_bytes()).await;
            tokio::task::yield_now().await;
        }
        writer.end();
        let seen = tokio::time::timeout(std::time::Duration::from_mins(1), reader).await.unwrap().unwrap();
        assert_eq!(seen.lines().count(), 60);
    }

    #[tokio::test]
    async fn the_run_before_is_kept_and_older_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let log = small(dir.path(), MAX_FILE_BYTES);
        for run in 0..3 {
            let writer = log.begin(run).unwrap();
            writer.clone().copy(Source::Stderr, format!("run {run}\n").as_bytes()).await;
            writer.end();
        }
        assert_eq!(shown(&log, 1, LogOptions::default()).await, "run 1\n");
        assert_eq!(shown(&log, 0, LogOptions::default()).await, "");
        assert_eq!(log.last_run(), Some(2));
    }
}
