//! Reading and following a log.

use std::{
    fs,
    io::{self, Read as _, Seek as _},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use futures::Stream;
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _},
    sync::watch,
};

use super::{Log, LogOptions, Progress, line};

const CHUNK: usize = 64 << 10;
/// The last line of a log that is not complete.
pub(super) const LOST: &str = "some output of this container was lost: the node could not write it to the log\n";
/// Bytes that are read for the last lines of a log.
const END: u64 = 64 << 10;

/// The log of a run; with `follow`, until the container exits.
pub(crate) fn stream(log: Arc<Log>, run: u32, options: LogOptions) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let left = options.limit_bytes.unwrap_or(u64::MAX);
    let progress = log.progress.subscribe();
    let reader = Reader { log, run, options, progress, place: None, pending: Vec::new(), left, told: false };
    futures::stream::unfold(Some(reader), async |reader| {
        let mut reader = reader?;
        match reader.next().await {
            Ok(Some(chunk)) => Some((Ok(chunk), Some(reader))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
}

struct Reader {
    log: Arc<Log>,
    run: u32,
    options: LogOptions,
    progress: watch::Receiver<Progress>,
    place: Option<(u32, File)>,
    pending: Vec<u8>,
    left: u64,
    /// Whether the message about lost output was returned.
    told: bool,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.place.is_none() {
            self.place = self.begin().await?;
        }
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            // Before reading: a later write wakes the reader.
            let progress = *self.progress.borrow_and_update();
            let over = !self.options.follow || progress.run != self.run || progress.ended;
            let mut chunk = vec![0; CHUNK];
            let count = match &mut self.place {
                Some((_, file)) => file.read(&mut chunk).await?,
                None => 0,
            };
            if count > 0 {
                self.pending.extend_from_slice(&chunk[..count]);
                let shown = self.show();
                if !shown.is_empty() {
                    return Ok(Some(shown));
                }
            } else if let Some(place) = self.next_part().await? {
                self.place = Some(place);
            } else if over || self.progress.changed().await.is_err() {
                return Ok(self.loss());
            }
        }
    }

    /// The message at the end of a log that lost output, once.
    fn loss(&mut self) -> Option<Bytes> {
        let progress = *self.progress.borrow();
        let lost = (progress.run == self.run && progress.lost) || self.log.lost(self.run).exists();
        let untold = lost && !std::mem::replace(&mut self.told, true);
        untold.then(|| Bytes::from_static(LOST.as_bytes()))
    }

    /// The first position: in the oldest part, or where the requested tail begins.
    async fn begin(&self) -> io::Result<Option<(u32, File)>> {
        let parts = self.log.parts(self.run);
        let Some(tail) = self.options.tail else {
            return self.open(parts.first().copied(), 0).await;
        };
        let mut wanted = tail;
        for part in parts.iter().rev() {
            let text = match tokio::fs::read(self.log.part(self.run, *part)).await {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            match start_of_last(&text, wanted) {
                Ok(offset) => return self.open(Some(*part), offset).await,
                Err(lines) => wanted -= lines,
            }
        }
        self.open(self.log.parts(self.run).first().copied(), 0).await
    }

    async fn open(&self, part: Option<u32>, offset: usize) -> io::Result<Option<(u32, File)>> {
        let Some(part) = part else { return Ok(None) };
        match File::open(self.log.part(self.run, part)).await {
            Ok(mut file) => {
                file.seek(io::SeekFrom::Start(offset as u64)).await?;
                Ok(Some((part, file)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn next_part(&self) -> io::Result<Option<(u32, File)>> {
        let after = self.place.as_ref().map(|(part, _)| *part);
        let next = self.log.parts(self.run).into_iter().find(|part| after.is_none_or(|after| *part > after));
        self.open(next, 0).await
    }

    /// Formats and filters the lines in the buffer.
    fn show(&mut self) -> Bytes {
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'\n') else { return Bytes::new() };
        let rest = self.pending.split_off(end + 1);
        let whole = std::mem::replace(&mut self.pending, rest);
        let mut shown = Vec::with_capacity(whole.len());
        for line in whole[..end].split(|byte| *byte == b'\n').filter_map(line::parse) {
            if self.options.since.is_none_or(|since| line.is_since(since)) {
                shown.extend(line.show(self.options.timestamps));
            }
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(shown.len());
        shown.truncate(length);
        self.left -= length as u64;
        Bytes::from(shown)
    }
}

/// The offset of the last `wanted` lines of a part, or `Err` with the number of lines if there are fewer.
fn start_of_last(text: &[u8], wanted: usize) -> Result<usize, usize> {
    if wanted == 0 {
        return Ok(text.len());
    }
    let mut lines = 0;
    let mut end = text.len();
    while end > 0 {
        let start = text[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if line::parse(&text[start..end - 1]).is_none_or(|line| line.ends) {
            if lines == wanted {
                return Ok(end);
            }
            lines += 1;
        }
        end = start;
    }
    Err(lines)
}

/// The last lines of a log, limited in lines and bytes, out of the last [`END`] bytes.
pub(crate) fn last_lines(log: &Log, run: u32, lines: usize, bytes: usize) -> String {
    let Some(part) = log.parts(run).last().copied() else { return String::new() };
    let mut text = end_of(&log.part(run, part), END).unwrap_or_default();
    if text.len() as u64 == END {
        // The first line is probably cut.
        let cut = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
        text.drain(..cut);
    }
    let start = start_of_last(&text, lines).unwrap_or(0);
    let shown: Vec<u8> =
        text[start..].split(|byte| *byte == b'\n').filter_map(line::parse).flat_map(|line| line.show(false)).collect();
    String::from_utf8_lossy(&shown[shown.len().saturating_sub(bytes)..]).into_owned()
}

/// At most the last `limit` bytes of a file, however long it is: a container decides about the length of its files.
pub(crate) fn end_of(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(io::SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut end = Vec::new();
    file.take(limit).read_to_end(&mut end)?;
    Ok(end)
}
