//! Finds the files of a set.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::Limits;
use crate::directories::open_root;
use crate::name::{MOST_DEPTH, MOST_NAME_BYTES, Name};
use crate::patterns::Patterns;

/// Names of skipped files that are returned; the others are only counted.
pub const MOST_SKIPPED: usize = 100;

/// What matches the patterns and is not part of the set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The first [`MOST_SKIPPED`].
    pub names: Vec<SkippedName>,
    /// Number of all.
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedName {
    pub path: Name,
    pub reason: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SkipReason {
    #[error("it is a socket, a named pipe or a device")]
    Special,
    #[error("it was removed or replaced while the files were read")]
    Vanished,
    #[error("it is a symbolic link that is absolute or leads out of the directory")]
    LinkOutside,
}

impl Skipped {
    pub(crate) fn add(&mut self, path: Name, reason: SkipReason) {
        self.count += 1;
        if self.names.len() < MOST_SKIPPED {
            self.names.push(SkippedName { path, reason });
        }
    }
}

/// Why the files of a set cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    #[error("{path:?} cannot be read: {source}")]
    Root { path: PathBuf, source: io::Error },
    #[error("\"{path}\" cannot be read: {source}")]
    Read { path: Name, source: io::Error },
    #[error("more than {limit} files match; select fewer")]
    TooManyFiles { limit: u64 },
    #[error("the files have more than {limit} bytes; select fewer")]
    TooManyBytes { limit: u64 },
    #[error("a path below \"{0}\" has more than {MOST_NAME_BYTES} bytes or {MOST_DEPTH} components")]
    TooDeep(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundKind {
    File,
    Link,
    Directory,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub path: Name,
    pub kind: FoundKind,
}

/// A directory that is being read.
struct Level {
    dir: Dir,
    /// Of its path.
    length: usize,
    empty: bool,
}

struct Walk<'a> {
    root: &'a Path,
    patterns: &'a Patterns,
    exclude: &'a [Name],
    limits: Limits,
    found: Vec<Found>,
    bytes: u64,
    skipped: Skipped,
}

/// An open root and the matching files below it, sorted by the bytes of their path.
pub(crate) struct Walked {
    pub root: OwnedFd,
    pub found: Vec<Found>,
    /// Of the files, as they were when they were found.
    pub bytes: u64,
    pub skipped: Skipped,
}

/// Keeps in memory only what matches, and one open directory for each level.
pub(crate) fn walk(root: &Path, patterns: &Patterns, exclude: &[Name], limits: Limits) -> Result<Walked, WalkError> {
    let failed = |source: io::Error| WalkError::Root { path: root.to_owned(), source };
    let opened = open_root(root).map_err(failed)?;
    let dir = Dir::read_from(&opened).map_err(|errno| failed(errno.into()))?;
    let mut walk = Walk { root, patterns, exclude, limits, found: Vec::new(), bytes: 0, skipped: Skipped::default() };
    walk.run(dir)?;
    let Walk { mut found, bytes, skipped, .. } = walk;
    found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    // A directory that changes while it is listed can show a name twice.
    found.dedup_by(|one, other| one.path == other.path);
    Ok(Walked { root: opened, found, bytes, skipped })
}

impl Walk<'_> {
    fn run(&mut self, root: Dir) -> Result<(), WalkError> {
        let mut path = Vec::new();
        let mut levels = vec![Level { dir: root, length: 0, empty: true }];
        while let Some(level) = levels.last_mut() {
            path.truncate(level.length);
            match level.dir.read() {
                Some(Ok(entry)) => {
                    let name = entry.file_name().to_bytes();
                    if matches!(name, b"." | b"..") {
                        continue;
                    }
                    level.empty = false;
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name);
                    if let Some(dir) = self.visit(level, &path, name, entry.file_type())? {
                        levels.push(Level { dir, length: path.len(), empty: true });
                    }
                }
                // A directory that was removed has no more entries.
                None | Some(Err(Errno::NOENT)) => {
                    if level.empty && !path.is_empty() && self.patterns.matches(&path) {
                        self.add(&path, FoundKind::Directory)?;
                    }
                    levels.pop();
                }
                Some(Err(errno)) => return Err(self.failed(&path, errno)),
            }
        }
        Ok(())
    }

    /// Returns the directory at `path` if it is one to read.
    fn visit(&mut self, level: &Level, path: &[u8], name: &[u8], kind: FileType) -> Result<Option<Dir>, WalkError> {
        if self.exclude.iter().any(|above| is_within(path, above.as_bytes())) {
            return Ok(None);
        }
        let matches = self.patterns.matches(path);
        if !matches && kind != FileType::Directory && kind != FileType::Unknown {
            return Ok(None);
        }
        let above = level.dir.fd().map_err(|errno| self.failed(path, errno))?;
        let mut kind = kind;
        if kind == FileType::Unknown || (matches && kind == FileType::RegularFile) {
            let stat = match statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(self.failed(path, errno)),
            };
            kind = FileType::from_raw_mode(stat.st_mode);
            if matches && kind == FileType::RegularFile {
                self.bytes = self.bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or_default());
                if self.bytes > self.limits.bytes {
                    return Err(WalkError::TooManyBytes { limit: self.limits.bytes });
                }
            }
        }
        match kind {
            FileType::Directory if self.patterns.enters(path) => self.enter(level, path, name),
            FileType::RegularFile if matches => self.add(path, FoundKind::File).map(|()| None),
            FileType::Symlink if matches => self.add(path, FoundKind::Link).map(|()| None),
            FileType::Directory | FileType::RegularFile | FileType::Symlink => Ok(None),
            _ if matches => {
                let path = self.name(path)?;
                self.skipped.add(path, SkipReason::Special);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn enter(&self, level: &Level, path: &[u8], name: &[u8]) -> Result<Option<Dir>, WalkError> {
        // Its files need names below it, and so do as many open directories.
        self.name(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = level.dir.fd().and_then(|above| openat(above, name, flags, Mode::empty()));
        match opened.and_then(Dir::new) {
            Ok(dir) => Ok(Some(dir)),
            // Removed or replaced meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(self.failed(path, errno)),
        }
    }

    fn add(&mut self, path: &[u8], kind: FoundKind) -> Result<(), WalkError> {
        if self.found.len() as u64 >= self.limits.files {
            return Err(WalkError::TooManyFiles { limit: self.limits.files });
        }
        let path = self.name(path)?;
        self.found.push(Found { path, kind });
        Ok(())
    }

    fn name(&self, path: &[u8]) -> Result<Name, WalkError> {
        // The kernel's names can only be too long or too many.
        Name::new(path).map_err(|_| {
            match Name::new(&path[..path.iter().position(|byte| *byte == b'/').unwrap_or(path.len())]) {
                Ok(top) => WalkError::TooDeep(top),
                Err(error) => WalkError::Root { path: self.root.to_owned(), source: io::Error::other(error) },
            }
        })
    }

    fn failed(&self, path: &[u8], errno: Errno) -> WalkError {
        match Name::new(path) {
            Ok(path) => WalkError::Read { path, source: errno.into() },
            Err(_) => WalkError::Root { path: self.root.to_owned(), source: errno.into() },
        }
    }
}

fn is_within(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    const LIMITS: Limits = Limits { files: 1000, bytes: 1 << 20 };

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        root
    }

    fn found(root: &Path, patterns: &[&str], exclude: &[&str]) -> Vec<(String, FoundKind)> {
        let exclude: Vec<_> = exclude.iter().map(|path| Name::new(*path).unwrap()).collect();
        let walked = walk(root, &Patterns::parse(patterns).unwrap(), &exclude, LIMITS).unwrap();
        walked.found.iter().map(|found| (found.path.to_string(), found.kind)).collect()
    }

    #[test]
    fn matches_are_sorted_by_bytes_and_links_are_not_entered() {
        let root = tree(&["a/z", "a-b", "a/b/c", "other/x"]);
        symlink(root.path().join("other"), root.path().join("a/link")).unwrap();
        std::fs::create_dir_all(root.path().join("a/empty/inner")).unwrap();
        std::fs::create_dir(root.path().join("empty")).unwrap();
        let expected = [
            ("a-b", FoundKind::File),
            ("a/b/c", FoundKind::File),
            ("a/empty/inner", FoundKind::Directory),
            ("a/link", FoundKind::Link),
            ("a/z", FoundKind::File),
        ];
        let expected = expected.map(|(path, kind)| (path.to_owned(), kind));
        assert_eq!(found(root.path(), &["a*"], &[]), expected);
        assert_eq!(
            found(root.path(), &["."], &["a", "empty"]),
            [&expected[..1], &[("other/x".into(), FoundKind::File)]].concat()
        );
        assert_eq!(found(root.path(), &["a/**/b", "a/link/x"], &[]), expected[1..2]);
        assert_eq!(found(root.path(), &["empty/**", "nothing"], &[]), []);
        assert_eq!(found(root.path(), &["empty"], &[]), [("empty".into(), FoundKind::Directory)]);
    }

    #[test]
    fn what_is_no_file_is_named() {
        let root = tree(&["a"]);
        let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
        for index in 0..=MOST_SKIPPED {
            let mode = Mode::from_raw_mode(0o600);
            let path = root.path().join(format!("fifo-{index}"));
            rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).unwrap();
        }
        let walked = walk(root.path(), &Patterns::parse(&["**", "!fifo-0"]).unwrap(), &[], LIMITS).unwrap();
        assert_eq!(walked.found.len(), 1);
        assert_eq!(walked.skipped.count, 1 + MOST_SKIPPED as u64);
        assert_eq!(walked.skipped.names.len(), MOST_SKIPPED);
        assert!(walked.skipped.names.iter().all(|skipped| skipped.reason == SkipReason::Special));
    }

    #[test]
    fn limits_end_the_walk() {
        let root = tree(&["a", "b", "c/d", "unmatched/e"]);
        let with = |files: u64, bytes: u64| {
            let patterns = Patterns::parse(&["?", "c"]).unwrap();
            walk(root.path(), &patterns, &[], Limits { files, bytes }).map(|walked| walked.found.len())
        };
        assert_eq!(with(3, 3).unwrap(), 3);
        assert!(matches!(with(2, 3), Err(WalkError::TooManyFiles { limit: 2 })));
        assert!(matches!(with(3, 2), Err(WalkError::TooManyBytes { limit: 2 })));
        let sparse = std::fs::File::create(root.path().join("f")).unwrap();
        sparse.set_len(1 << 42).unwrap();
        assert!(matches!(with(9, 1 << 40), Err(WalkError::TooManyBytes { .. })));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error_only_if_it_is_selected() {
        let root = tree(&["a"]);
        let mut below = open_root(root.path()).unwrap();
        for _ in 0..200 {
            rustix::fs::mkdirat(&below, "d", Mode::from_raw_mode(0o700)).unwrap();
            below = openat(&below, "d", OFlags::PATH, Mode::empty()).unwrap();
        }
        assert_eq!(found(root.path(), &["a"], &[]).len(), 1);
        let all = walk(root.path(), &Patterns::parse(&["."]).unwrap(), &[], LIMITS);
        assert!(matches!(all, Err(WalkError::TooDeep(name)) if name.as_bytes() == b"d"));
    }

    #[test]
    fn a_missing_root_is_an_error() {
        let root = tree(&["a"]);
        let missing = walk(&root.path().join("missing"), &Patterns::parse(&["."]).unwrap(), &[], LIMITS);
        assert!(matches!(missing, Err(WalkError::Root { .. })));
        let file = walk(&root.path().join("a"), &Patterns::parse(&["."]).unwrap(), &[], LIMITS);
        assert!(matches!(file, Err(WalkError::Root { .. })));
    }
}
