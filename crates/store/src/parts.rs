//! The files of one log. The first file holds the beginning. When it is full, the end of the log is kept in two further
//! files, each a quarter of the limit: when the newer one is full, the older one is removed. The name of a further file
//! contains the offset of its first line in the log.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::Chunk;

/// Bytes per read when looking for the last line end.
const STEP: u64 = 64 << 10;
/// The newest files that hold the end of a log.
const LAST_FILES: usize = 2;

/// A file of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    /// Offset of its first line in the log.
    pub start: u64,
    pub path: PathBuf,
}

impl Part {
    /// The files of the log whose first file is `log`, in order. None if the log does not exist.
    pub fn list(log: &Path) -> io::Result<Vec<Self>> {
        let (Some(dir), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
            return Ok(Vec::new());
        };
        let mut parts = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = entry.file_name();
            let Some(rest) = found.to_str().and_then(|found| found.strip_prefix(name)) else { continue };
            let start = if rest.is_empty() { Some(0) } else { rest.strip_prefix('.').and_then(|at| at.parse().ok()) };
            parts.extend(start.map(|start| Self { start, path: entry.path() }));
        }
        parts.sort();
        Ok(parts)
    }

    /// The epoch of the run to whose logs a file belongs: `k8s-3.log`, `k8s-3.log.4096`, `k8s-3.records.log`.
    pub fn epoch_of(name: &str) -> Option<i64> {
        let (epoch, rest) = name.strip_prefix("k8s-")?.split_once('.')?;
        let rest = rest.strip_prefix("records.").unwrap_or(rest).strip_prefix("log")?;
        let is_part = rest.is_empty() || rest.strip_prefix('.').is_some_and(|at| at.parse::<u64>().is_ok());
        epoch.parse().ok().filter(|_| is_part)
    }

    /// The file that continues the log whose first file is `log`.
    fn starting_at(log: &Path, start: u64) -> Self {
        let mut name = log.as_os_str().to_owned();
        name.push(format!(".{start}"));
        Self { start, path: name.into() }
    }
}

/// Appends lines to the last of `parts`, which is `file` and has `length` bytes, and to new parts when it is full. A
/// part has at least one line. Everything is durable at the end, except the entries of the directory.
pub(crate) fn write(
    parts: &mut Vec<Part>,
    mut file: File,
    mut length: u64,
    mut lines: &[u8],
    limit: u64,
    create: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<()> {
    let Some(first) = parts.first().map(|first| first.path.clone()) else { return Ok(()) };
    while !lines.is_empty() {
        let size = if parts.len() == 1 { limit / 2 } else { limit / 4 };
        let room = usize::try_from(size.saturating_sub(length)).unwrap_or(usize::MAX);
        let mut fitting = whole_lines(lines, room);
        if fitting == 0 {
            if length > 0 {
                file.sync_data()?;
                let end = parts.last().map_or(0, |last| last.start) + length;
                let next = Part::starting_at(&first, end);
                file = create(&next.path)?;
                parts.push(next);
                length = 0;
                continue;
            }
            fitting = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| end + 1);
        }
        let (now, rest) = lines.split_at(fitting);
        file.write_all_at(now, length)?;
        length += now.len() as u64;
        lines = rest;
    }
    file.sync_data()
}

/// Removes the files between the beginning and the end of a log, the oldest first, so that there is one gap.
pub(crate) fn drop_middle(parts: &[Part]) -> io::Result<()> {
    let ends = parts.get(1..).unwrap_or_default();
    for part in &ends[..ends.len().saturating_sub(LAST_FILES)] {
        match fs::remove_file(&part.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The size of a log.
pub(crate) struct Measured {
    /// Offset of the end of the last whole line.
    pub bytes: u64,
    pub left_out: u64,
    pub torn: u64,
}

/// Measures a log; `None` if it does not exist.
pub(crate) fn measure(parts: &[Part]) -> io::Result<Option<Measured>> {
    let Some((last, before)) = parts.split_last() else { return Ok(None) };
    let Sizes { whole, torn } = sizes(&File::open(&last.path)?)?;
    let mut kept = whole;
    for part in before {
        kept += fs::metadata(&part.path)?.len();
    }
    let bytes = last.start + whole;
    Ok(Some(Measured { bytes, left_out: bytes.saturating_sub(kept), torn }))
}

/// Up to `limit` bytes of the first part that contains `from` or begins after it; `None` at the end of the log.
pub(crate) fn read(parts: &[Part], from: u64, limit: usize) -> io::Result<Option<Chunk>> {
    for (index, part) in parts.iter().enumerate() {
        // Parts whose end is before `from` need not be opened.
        if parts.get(index + 1).is_some_and(|next| next.start <= from) {
            continue;
        }
        let file = File::open(&part.path)?;
        let end = part.start + sizes(&file)?.whole;
        let at = from.max(part.start);
        if at < end {
            let mut bytes = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX).min(limit)];
            file.read_exact_at(&mut bytes, at - part.start)?;
            return Ok(Some(Chunk { at, bytes }));
        }
    }
    Ok(None)
}

/// Length of the whole lines within the first `room` bytes.
fn whole_lines(lines: &[u8], room: usize) -> usize {
    let within = &lines[..room.min(lines.len())];
    within.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

pub(crate) struct Sizes {
    pub whole: u64,
    pub torn: u64,
}

/// The length of the whole lines of a file, and of the rest.
pub(crate) fn sizes(file: &File) -> io::Result<Sizes> {
    let size = file.metadata()?.len();
    let mut end = size;
    while end > 0 {
        // Usually the last byte ends a line.
        let step = if end == size { 1 } else { STEP };
        let start = end.saturating_sub(step);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let whole = start + at as u64 + 1;
            return Ok(Sizes { whole, torn: size - whole });
        }
        end = start;
    }
    Ok(Sizes { whole: 0, torn: size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_logs_belong_to_a_run() {
        for name in ["k8s-3.log", "k8s-3.log.4096", "k8s-3.records.log", "k8s-3.records.log.1"] {
            assert_eq!(Part::epoch_of(name), Some(3), "{name}");
        }
        for name in ["k8s-3.run.json", "k8s-3.end.json", "k8s-3.log.draft", "k8s-x.log", "k8s-3.expired.json", "log"] {
            assert_eq!(Part::epoch_of(name), None, "{name}");
        }
    }
}
