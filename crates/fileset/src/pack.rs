//! Files become an archive.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;

use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::Limits;
use crate::archive::{BLOCK, END_BYTES, headers_len, write_headers};
use crate::digest::{Digest, Hasher, HashingWriter};
use crate::directories::{Directories, DirectoryError, open_file};
use crate::frames::{Pool, Slot, workers};
use crate::manifest::{Entry, FRAME_BYTES, Frame, Kind, Manifest, ManifestError, Modified, VERSION, most_packed_bytes};
use crate::name::{LinkTarget, Name};
use crate::patterns::Patterns;
use crate::walk::{Found, FoundKind, SkipReason, Skipped, WalkError, Walked, walk};

const LEVEL: i32 = 3;
/// Read and hashed at once: small enough for the processor's cache.
const READ_BYTES: usize = 256 << 10;

/// An archive that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    pub manifest: Manifest,
    /// Of the archive.
    pub digest: Digest,
    /// Length of the archive.
    pub bytes: u64,
    /// Number of regular files. If nothing matched, `manifest.entries` is empty.
    pub files: u64,
    /// Bytes of all files together.
    pub content_bytes: u64,
    pub skipped: Skipped,
}

/// Why files cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error("\"{path}\" cannot be read: {source}")]
    Read { path: Name, source: io::Error },
    #[error(
        "\"{path}\" shrank from {expected} to {found} bytes while it was read; keep files that are still written out of the patterns"
    )]
    Shrank { path: Name, expected: u64, found: u64 },
    #[error("files were moved while they were read: {0}")]
    Moved(#[source] ManifestError),
    #[error("the archive cannot be written: {0}")]
    Write(#[source] io::Error),
    #[error("the files cannot be compressed: {0}")]
    Compress(#[source] io::Error),
}

/// Writes the files below `root` that match, except those at or below a path of `exclude`, as an archive to `out`.
///
/// The path of `root` itself is trusted: links in it are followed. Not a snapshot: a file that vanishes is skipped, one that grows is cut at the size that it had when it was opened, and
/// one that shrinks is an error. After an error, what was written to `out` is of no use.
pub fn pack(
    root: &Path,
    patterns: &Patterns,
    exclude: &[Name],
    limits: Limits,
    out: impl Write,
) -> Result<Packed, PackError> {
    let walked = walk(root, patterns, exclude, limits)?;
    let frames = walked.bytes / FRAME_BYTES as u64 + walked.found.len() as u64 / (FRAME_BYTES as u64 / 1024) + 1;
    pack_walked(walked, limits, out, workers(frames))
}

fn pack_walked(walked: Walked, limits: Limits, out: impl Write, workers: usize) -> Result<Packed, PackError> {
    let Walked { root, found, skipped, .. } = walked;
    thread::scope(|scope| {
        let pool = Pool::start(scope, workers, compressor).map_err(PackError::Compress)?;
        let mut packer = Packer {
            directories: Directories::existing(root.as_fd()),
            tar: Tar {
                pool,
                out: HashingWriter::new(out),
                current: None,
                at: 0,
                frames: Vec::new(),
                starts: 0,
                offset: 0,
            },
            limits,
            entries: Vec::with_capacity(found.len()),
            content_bytes: 0,
            headers: Vec::new(),
            skipped,
        };
        for found in found {
            packer.add(found)?;
        }
        packer.finish()
    })
}

/// What a thread does with a frame.
fn compressor() -> io::Result<impl FnMut(u64, &mut Slot) -> Result<(), PackError> + Send> {
    let mut compressor = Compressor::new(LEVEL)?;
    // `zstd -t` finds damage without a manifest.
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(move |_, slot: &mut Slot| {
        slot.packed.clear();
        slot.packed.reserve(most_packed_bytes());
        compressor.compress_to_buffer(&slot.plain, &mut slot.packed).map(|_| ()).map_err(PackError::Compress)
    })
}

struct Packer<'root, W> {
    directories: Directories<'root>,
    tar: Tar<W>,
    limits: Limits,
    entries: Vec<Entry>,
    content_bytes: u64,
    /// Of the current entry; kept for its memory.
    headers: Vec<u8>,
    skipped: Skipped,
}

impl<W: Write> Packer<'_, W> {
    fn add(&mut self, found: Found) -> Result<(), PackError> {
        let Found { path, kind } = found;
        let (parent, name) = match self.directories.parent(&path) {
            Ok(parent) => parent,
            Err(DirectoryError { errno, .. }) => return self.unreadable(path, errno),
        };
        match kind {
            FoundKind::File => match open_file(parent, name) {
                Ok(file) => self.add_file(path, file),
                Err(errno) => self.unreadable(path, errno),
            },
            FoundKind::Link => match readlinkat(parent, name, Vec::new()) {
                Ok(target) => {
                    let modified = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| modified_of(&stat));
                    match LinkTarget::new(target.into_bytes()) {
                        Ok(target) if target.stays_within(&path) => {
                            let kind = Kind::Link { target };
                            self.add_entry(Entry { path, modified: modified.unwrap_or_default(), kind })
                        }
                        _ => {
                            self.skipped.add(path, SkipReason::LinkOutside);
                            Ok(())
                        }
                    }
                }
                Err(errno) => self.unreadable(path, errno),
            },
            FoundKind::Directory => match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                    self.unreadable(path, Errno::NOTDIR)
                }
                Ok(stat) => self.add_entry(Entry { path, modified: modified_of(&stat), kind: Kind::Directory }),
                Err(errno) => self.unreadable(path, errno),
            },
        }
    }

    /// An error, unless the file was removed or replaced since it was found.
    fn unreadable(&mut self, path: Name, errno: Errno) -> Result<(), PackError> {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::NXIO => {
                self.skipped.add(path, SkipReason::Vanished);
                Ok(())
            }
            errno => Err(PackError::Read { path, source: errno.into() }),
        }
    }

    fn add_file(&mut self, path: Name, mut file: File) -> Result<(), PackError> {
        let failed = |source: io::Error| PackError::Read { path: path.clone(), source };
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            self.skipped.add(path, SkipReason::Vanished);
            return Ok(());
        }
        let bytes = metadata.len();
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if self.content_bytes > self.limits.bytes {
            return Err(WalkError::TooManyBytes { limit: self.limits.bytes }.into());
        }
        let executable = metadata.mode() & 0o100 != 0;
        let kind = Kind::File { bytes, sha256: Digest([0; 32]), executable, at: 0 };
        let modified = modified(metadata.mtime(), metadata.mtime_nsec());
        let mut entry = Entry { path: path.clone(), modified, kind };
        self.write_headers(&entry)?;
        let at = self.tar.at;
        let mut hasher = Hasher::default();
        let mut left = bytes;
        while left > 0 {
            let buffer = self.tar.buffer()?;
            let room = buffer.len().min(READ_BYTES).min(usize::try_from(left).unwrap_or(READ_BYTES));
            let read = match file.read(&mut buffer[..room]) {
                Ok(0) => return Err(PackError::Shrank { path, expected: bytes, found: bytes - left }),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            hasher.update(&buffer[..read]);
            self.tar.filled(read);
            left -= read as u64;
        }
        self.tar.pad()?;
        entry.kind = Kind::File { bytes, sha256: hasher.finish().0, executable, at };
        self.entries.push(entry);
        Ok(())
    }

    /// An entry without content.
    fn add_entry(&mut self, entry: Entry) -> Result<(), PackError> {
        self.write_headers(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn write_headers(&mut self, entry: &Entry) -> Result<(), PackError> {
        self.headers.clear();
        write_headers(entry, &mut self.headers);
        debug_assert_eq!(self.headers.len() as u64, headers_len(entry));
        self.tar.write(&self.headers)
    }

    fn finish(mut self) -> Result<Packed, PackError> {
        self.tar.write(&[0; END_BYTES])?;
        let (digest, bytes, frames) = self.tar.finish()?;
        let manifest = Manifest { version: VERSION, bytes, entries: self.entries, frames };
        // A directory that changes while it is listed can show a name twice, as a file and as a directory.
        manifest.validate().map_err(PackError::Moved)?;
        let files = manifest.files();
        let Self { content_bytes, skipped, .. } = self;
        Ok(Packed { manifest, digest, bytes, files, content_bytes, skipped })
    }
}

/// The tar, cut into frames, which are written in their order.
struct Tar<W> {
    pool: Pool<PackError>,
    out: HashingWriter<W>,
    /// The frame that is being filled, and how many of its bytes are.
    current: Option<(Slot, usize)>,
    /// Length so far.
    at: u64,
    frames: Vec<Frame>,
    /// Where the next frame to be written starts in the tar.
    starts: u64,
    /// Where it starts in the archive.
    offset: u64,
}

impl<W: Write> Tar<W> {
    /// Room for the next bytes; never empty. Call [`Tar::filled`] afterwards.
    fn buffer(&mut self) -> Result<&mut [u8], PackError> {
        if self.current.as_ref().is_some_and(|(_, filled)| *filled == FRAME_BYTES) {
            self.submit();
        }
        if self.current.is_none() {
            let mut slot = match self.pool.free() {
                Some(slot) => slot,
                None => self.write_oldest()?.ok_or_else(thread_ended)?,
            };
            // Fresh zeros cost no memory before they are written over.
            if slot.plain.capacity() == 0 {
                slot.plain = vec![0; FRAME_BYTES];
            }
            slot.plain.resize(FRAME_BYTES, 0);
            self.current = Some((slot, 0));
        }
        let empty: &mut [u8] = &mut [];
        Ok(self.current.as_mut().map_or(empty, |(slot, filled)| &mut slot.plain[*filled..]))
    }

    fn filled(&mut self, bytes: usize) {
        if let Some((_, filled)) = &mut self.current {
            *filled += bytes;
        }
        self.at += bytes as u64;
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PackError> {
        while !bytes.is_empty() {
            let buffer = self.buffer()?;
            let length = buffer.len().min(bytes.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            self.filled(length);
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Fills up the last block.
    fn pad(&mut self) -> Result<(), PackError> {
        let padding = self.at.next_multiple_of(BLOCK as u64) - self.at;
        self.write(&[0; BLOCK][..usize::try_from(padding).unwrap_or_default()])
    }

    fn submit(&mut self) {
        if let Some((mut slot, filled)) = self.current.take() {
            slot.plain.truncate(filled);
            self.pool.submit(slot);
        }
    }

    /// Writes the oldest frame, and returns its slot.
    fn write_oldest(&mut self) -> Result<Option<Slot>, PackError> {
        let Some(slot) = self.pool.oldest().transpose()? else { return Ok(None) };
        self.out.write_all(&slot.packed).map_err(PackError::Write)?;
        self.frames.push(Frame { at: self.starts, offset: self.offset });
        self.starts += slot.plain.len() as u64;
        self.offset += slot.packed.len() as u64;
        Ok(Some(slot))
    }

    fn finish(mut self) -> Result<(Digest, u64, Vec<Frame>), PackError> {
        self.submit();
        while let Some(slot) = self.write_oldest()? {
            self.pool.release(slot);
        }
        if self.starts != self.at {
            return Err(thread_ended());
        }
        self.out.flush().map_err(PackError::Write)?;
        let (digest, bytes) = self.out.finish();
        Ok((digest, bytes, self.frames))
    }
}

fn thread_ended() -> PackError {
    PackError::Compress(io::Error::other("a thread ended"))
}

fn modified(seconds: i64, nanoseconds: i64) -> Modified {
    match (u64::try_from(seconds), u32::try_from(nanoseconds)) {
        (Ok(seconds), Ok(nanoseconds)) => Modified(seconds, nanoseconds),
        _ => Modified::default(),
    }
}

// The types of the fields differ between architectures.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast, clippy::cast_possible_wrap)]
fn modified_of(stat: &rustix::fs::Stat) -> Modified {
    modified(stat.st_mtime as i64, stat.st_mtime_nsec as i64)
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "sizes are small, and noise is cut to bytes")]
mod tests;
