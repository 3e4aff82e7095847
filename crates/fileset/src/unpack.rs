//! An archive becomes files.
//!
//! Since the manifest says where everything is, each frame is unpacked on its own: a thread decompresses it and writes
//! the files that lie in it. What crosses the border of frames is written in order by the calling thread.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, futimens, mkdirat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use zstd::bulk::Decompressor;

use crate::Limits;
use crate::archive::{END_BYTES, Layout, describe, headers_len, write_headers};
use crate::digest::{Digest, Hasher};
use crate::directories::{Directories, DirectoryError, open_root};
use crate::frames::{Pool, Slot, workers};
use crate::manifest::{Entry, FRAME_BYTES, Frame, Kind, Manifest, ManifestError, Modified};
use crate::name::Name;

/// Files that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of regular files.
    pub files: u64,
    /// Bytes of all files together.
    pub bytes: u64,
}

/// Why an archive is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the manifest is invalid: {0}")]
    Manifest(#[from] ManifestError),
    #[error("the file set has {files} entries of {bytes} bytes, and at most {} of {} are allowed", .limits.files, .limits.bytes)]
    TooMuch { files: u64, bytes: u64, limits: Limits },
    #[error("the archive ends after {found} of {expected} bytes")]
    Short { expected: u64, found: u64 },
    #[error("the archive is longer than the {expected} bytes of its manifest")]
    Long { expected: u64 },
    #[error("the archive cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error("frame {frame} of the archive cannot be decompressed: {source}")]
    Frame { frame: u64, source: io::Error },
    #[error("frame {frame} of the archive has {found} bytes of tar, and {expected} in the manifest")]
    FrameLength { frame: u64, expected: u64, found: u64 },
    #[error("the archive has {found} where its manifest has \"{path}\"")]
    Foreign { path: Name, found: String },
    #[error("the archive has something behind its last file")]
    AfterEnd,
    #[error("the content of \"{path}\" has the SHA-256 {found}, and {expected} in the manifest")]
    Digest { path: Name, expected: Digest, found: Digest },
    #[error("{path:?} cannot be opened: {source}")]
    Target { path: PathBuf, source: io::Error },
    #[error("\"{0}\" is a symbolic link or a file where a directory is needed; nothing is written through links")]
    NotADirectory(Name),
    #[error("\"{0}\" is a directory where a file or a link is needed; remove it")]
    IsADirectory(Name),
    #[error("\"{path}\" cannot be written: {source}")]
    Write { path: Name, source: io::Error },
}

/// Writes the files of an archive below the existing directory `target`, and nowhere else.
///
/// The path of `target` itself is trusted: links in it are followed; see [`unpack_into`] for one that is not. Files and links that exist are replaced, other existing files stay. Every file is compared with its digest, so
/// `archive` may be a stream whose own digest is not known yet. After an error, the files that were complete remain.
pub fn unpack(archive: impl Read, manifest: &Manifest, target: &Path, limits: Limits) -> Result<Unpacked, UnpackError> {
    let root = open_root(target).map_err(|source| UnpackError::Target { path: target.to_owned(), source })?;
    unpack_into(archive, manifest, root.as_fd(), limits)
}

/// As [`unpack`], below an open directory.
pub fn unpack_into(
    mut archive: impl Read,
    manifest: &Manifest,
    root: BorrowedFd<'_>,
    limits: Limits,
) -> Result<Unpacked, UnpackError> {
    manifest.validate()?;
    let unpacked = Unpacked { files: manifest.files(), bytes: manifest.content_bytes() };
    if manifest.exceeds(limits) {
        return Err(UnpackError::TooMuch { files: manifest.entries.len() as u64, bytes: unpacked.bytes, limits });
    }
    let layout = Layout::of(manifest).ok_or(ManifestError::Overflow)?;
    let plan = Plan { manifest, layout: &layout };
    thread::scope(|scope| {
        let worker = || plan.worker(root);
        let mut pool = Pool::start(scope, workers(manifest.frames.len() as u64), worker).map_err(UnpackError::Read)?;
        let mut crossing = Crossing { plan, place: Place::new(root), open: None };
        let mut submitted = manifest.frames.iter();
        for frame in &manifest.frames {
            // All slots are filled before the oldest frame is waited for.
            while let Some(mut slot) = pool.free() {
                let Some(next) = submitted.next() else {
                    pool.release(slot);
                    break;
                };
                read_frame(&mut archive, plan.packed_len(next), next, &mut slot)?;
                pool.submit(slot);
            }
            let slot = match pool.oldest() {
                Some(done) => done?,
                None => return Err(UnpackError::Read(io::Error::other("a thread ended"))),
            };
            crossing.feed(frame.at, &slot.plain)?;
            pool.release(slot);
        }
        read_end(&mut archive, manifest.bytes)?;
        // After all files, so that no file is written through one.
        crossing.place.add_links_and_directories(&manifest.entries)
    })?;
    Ok(unpacked)
}

fn read_frame(archive: &mut impl Read, length: u64, frame: &Frame, slot: &mut Slot) -> Result<(), UnpackError> {
    slot.packed.clear();
    slot.packed.reserve_exact(usize::try_from(length).unwrap_or_default());
    let read = archive.by_ref().take(length).read_to_end(&mut slot.packed).map_err(UnpackError::Read)? as u64;
    if read < length {
        return Err(UnpackError::Short { expected: frame.offset + length, found: frame.offset + read });
    }
    Ok(())
}

fn read_end(archive: &mut impl Read, expected: u64) -> Result<(), UnpackError> {
    match io::copy(&mut archive.take(1), &mut io::sink()) {
        Ok(0) => Ok(()),
        Ok(_) => Err(UnpackError::Long { expected }),
        Err(error) => Err(UnpackError::Read(error)),
    }
}

#[derive(Clone, Copy)]
struct Plan<'a> {
    manifest: &'a Manifest,
    layout: &'a Layout,
}

impl<'a> Plan<'a> {
    fn packed_len(self, frame: &Frame) -> u64 {
        let next = self.manifest.frames.partition_point(|other| other.offset <= frame.offset);
        self.manifest.frames.get(next).map_or(self.manifest.bytes, |next| next.offset) - frame.offset
    }

    /// `None` for the end of the tar.
    fn entry(self, item: usize) -> Option<&'a Entry> {
        self.manifest.entries.get(item)
    }

    /// What a thread does with a frame.
    fn worker(
        self,
        root: BorrowedFd<'a>,
    ) -> io::Result<impl FnMut(u64, &mut Slot) -> Result<(), UnpackError> + Send + 'a> {
        let mut decompressor = Decompressor::new()?;
        let mut place = Place::new(root);
        Ok(move |frame: u64, slot: &mut Slot| {
            let frames = &self.manifest.frames;
            let index = usize::try_from(frame).unwrap_or(usize::MAX);
            let Some(Frame { at, .. }) = frames.get(index) else { return Ok(()) };
            let expected = frames.get(index + 1).map_or(self.layout.len(), |next| next.at) - at;
            slot.plain.clear();
            slot.plain.reserve_exact(usize::try_from(expected).unwrap_or(FRAME_BYTES));
            decompressor
                .decompress_to_buffer(&slot.packed, &mut slot.plain)
                .map_err(|source| UnpackError::Frame { frame, source })?;
            let found = slot.plain.len() as u64;
            if found != expected {
                return Err(UnpackError::FrameLength { frame, expected, found });
            }
            let mut bytes = &slot.plain[..];
            let first = self.layout.first_from(*at);
            let skipped = self.layout.start(first).saturating_sub(*at);
            bytes = bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default();
            for item in first..self.layout.items() {
                let length = self.layout.end(item) - self.layout.start(item);
                let Some((span, rest)) = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length))
                else {
                    break;
                };
                place.add(self.entry(item), span)?;
                bytes = rest;
            }
            Ok(())
        })
    }
}

/// Writes below a root.
struct Place<'a> {
    directories: Directories<'a>,
    /// The headers that an entry must have; kept for its memory.
    expected: Vec<u8>,
}

impl<'a> Place<'a> {
    fn new(root: BorrowedFd<'a>) -> Self {
        Self { directories: Directories::created(root), expected: Vec::new() }
    }

    /// An item that lies in one frame: its file is compared before it is written.
    fn add(&mut self, entry: Option<&Entry>, span: &[u8]) -> Result<(), UnpackError> {
        let Some(entry) = entry else {
            return if all_zero(span) { Ok(()) } else { Err(UnpackError::AfterEnd) };
        };
        self.expected.clear();
        write_headers(entry, &mut self.expected);
        let foreign = || UnpackError::Foreign { path: entry.path.clone(), found: describe(span) };
        let content = span.strip_prefix(&self.expected[..]).ok_or_else(foreign)?;
        let Kind::File { bytes, sha256, executable, .. } = &entry.kind else { return Ok(()) };
        let (content, padding) =
            usize::try_from(*bytes).ok().and_then(|bytes| content.split_at_checked(bytes)).ok_or_else(foreign)?;
        if !all_zero(padding) {
            return Err(foreign());
        }
        check(entry, *sha256, Digest::of(content))?;
        let mut file = self.create(entry, *executable)?;
        file.write_all(content)
            .and_then(|()| set_modified(&file, entry.modified))
            .map_err(|source| UnpackError::Write { path: entry.path.clone(), source })
    }

    fn create(&mut self, entry: &Entry, executable: bool) -> Result<File, UnpackError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        self.replace(&entry.path, |parent, name| openat(parent, name, flags, mode)).map(File::from)
    }

    /// Creates something, if need be after the removal of a file or link that is in its place.
    fn replace<T>(
        &mut self,
        path: &Name,
        create: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, UnpackError> {
        let (parent, name) = self.parent(path)?;
        let mut created = create(parent, name);
        if matches!(created, Err(Errno::EXIST)) {
            created = match unlinkat(parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => create(parent, name),
                Err(Errno::ISDIR) => return Err(UnpackError::IsADirectory(path.clone())),
                Err(errno) => Err(errno),
            };
        }
        created.map_err(|errno| UnpackError::Write { path: path.clone(), source: errno.into() })
    }

    fn parent<'name>(&mut self, path: &'name Name) -> Result<(BorrowedFd<'_>, &'name [u8]), UnpackError> {
        self.directories.parent(path).map_err(|DirectoryError { length, errno }| {
            let directory = Name::new(&path.as_bytes()[..length]).unwrap_or_else(|_| path.clone());
            match errno {
                Errno::NOTDIR | Errno::LOOP => UnpackError::NotADirectory(directory),
                errno => UnpackError::Write { path: directory, source: errno.into() },
            }
        })
    }

    fn add_links_and_directories(&mut self, entries: &[Entry]) -> Result<(), UnpackError> {
        for entry in entries {
            let Entry { path, modified, kind } = entry;
            match kind {
                Kind::File { .. } => {}
                Kind::Link { target } => self.replace(path, |parent, name| {
                    symlinkat(target.as_bytes(), parent, name)?;
                    utimensat(parent, name, &timestamps(*modified), AtFlags::SYMLINK_NOFOLLOW)
                })?,
                Kind::Directory => self.add_directory(path, *modified)?,
            }
        }
        Ok(())
    }

    fn add_directory(&mut self, path: &Name, modified: Modified) -> Result<(), UnpackError> {
        let (parent, name) = self.parent(path)?;
        let created = mkdirat(parent, name, Mode::from_raw_mode(0o755))
            .and_then(|()| utimensat(parent, name, &timestamps(modified), AtFlags::SYMLINK_NOFOLLOW));
        match created {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(parent, name, flags, Mode::empty()) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(UnpackError::NotADirectory(path.clone())),
                }
            }
            Err(errno) => Err(UnpackError::Write { path: path.clone(), source: errno.into() }),
        }
    }
}

/// Writes what crosses the border of frames.
struct Crossing<'a> {
    plan: Plan<'a>,
    place: Place<'a>,
    open: Option<Open<'a>>,
}

impl Crossing<'_> {
    /// Takes the frames in their order.
    fn feed(&mut self, at: u64, frame: &[u8]) -> Result<(), UnpackError> {
        let end = at + frame.len() as u64;
        let slice = |from: u64, to: u64| {
            let index = |position: u64| usize::try_from(position - at).unwrap_or(usize::MAX);
            frame.get(index(from)..index(to)).unwrap_or_default()
        };
        if let Some(mut open) = self.open.take() {
            let to = open.end.min(end);
            open.feed(slice(at, to))?;
            if to < open.end {
                self.open = Some(open);
                return Ok(());
            }
            open.finish()?;
        }
        // The last item that starts in this frame.
        let layout = self.plan.layout;
        let Some(item) = layout.first_from(end).checked_sub(1) else { return Ok(()) };
        let (from, to) = (layout.start(item), layout.end(item));
        if from >= at && to > end {
            let mut open = Open::new(self.plan.entry(item), to, &mut self.place)?;
            open.feed(slice(from, end))?;
            self.open = Some(open);
        }
        Ok(())
    }
}

/// An item of which a part is written.
struct Open<'a> {
    /// `None` for the end of the tar.
    entry: Option<&'a Entry>,
    /// Its end in the tar.
    end: u64,
    /// The headers that are still to come.
    headers: Vec<u8>,
    /// Content that is still to come.
    left: u64,
    hasher: Hasher,
    file: Option<Partial>,
}

/// A file that is removed unless it becomes complete.
struct Partial {
    file: File,
    parent: OwnedFd,
    name: Vec<u8>,
    complete: bool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.complete {
            // The unpacking fails with the reason for which the file is not complete.
            let _ = unlinkat(&self.parent, &self.name[..], AtFlags::empty());
        }
    }
}

impl<'a> Open<'a> {
    fn new(entry: Option<&'a Entry>, end: u64, place: &mut Place<'_>) -> Result<Self, UnpackError> {
        let mut open = Self { entry, end, headers: Vec::new(), left: 0, hasher: Hasher::default(), file: None };
        let Some(entry) = entry else { return Ok(open) };
        open.headers.reserve_exact(usize::try_from(headers_len(entry)).unwrap_or_default());
        write_headers(entry, &mut open.headers);
        if let Kind::File { bytes, executable, .. } = entry.kind {
            open.left = bytes;
            let file = place.create(entry, executable)?;
            let (parent, name) = place.parent(&entry.path)?;
            let failed = |source| UnpackError::Write { path: entry.path.clone(), source };
            let duplicate = parent.try_clone_to_owned();
            let parent = match duplicate {
                Ok(parent) => parent,
                Err(error) => {
                    let _ = unlinkat(parent, name, AtFlags::empty());
                    return Err(failed(error));
                }
            };
            open.file = Some(Partial { file, parent, name: name.to_vec(), complete: false });
        }
        Ok(open)
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), UnpackError> {
        let Some(entry) = self.entry else {
            return if all_zero(bytes) { Ok(()) } else { Err(UnpackError::AfterEnd) };
        };
        let foreign = || UnpackError::Foreign { path: entry.path.clone(), found: describe(bytes) };
        let (headers, bytes) = bytes.split_at(self.headers.len().min(bytes.len()));
        if !self.headers.starts_with(headers) {
            return Err(foreign());
        }
        self.headers.drain(..headers.len());
        let (content, padding) =
            bytes.split_at(usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len())));
        if !all_zero(padding) {
            return Err(foreign());
        }
        if let Some(partial) = &mut self.file {
            self.hasher.update(content);
            let failed = |source| UnpackError::Write { path: entry.path.clone(), source };
            partial.file.write_all(content).map_err(failed)?;
            self.left -= content.len() as u64;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), UnpackError> {
        if let (Some(entry), Some(mut partial)) = (self.entry, self.file)
            && let Kind::File { sha256, .. } = entry.kind
        {
            check(entry, sha256, self.hasher.finish().0)?;
            set_modified(&partial.file, entry.modified)
                .map_err(|source| UnpackError::Write { path: entry.path.clone(), source })?;
            partial.complete = true;
        }
        Ok(())
    }
}

fn check(entry: &Entry, expected: Digest, found: Digest) -> Result<(), UnpackError> {
    if expected == found { Ok(()) } else { Err(UnpackError::Digest { path: entry.path.clone(), expected, found }) }
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.len() <= END_BYTES && bytes.iter().all(|byte| *byte == 0)
}

fn set_modified(file: &File, modified: Modified) -> io::Result<()> {
    Ok(futimens(file, &timestamps(modified))?)
}

fn timestamps(Modified(seconds, nanoseconds): Modified) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: nanoseconds.into() },
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "sizes are small, and noise is cut to bytes")]
mod tests;
