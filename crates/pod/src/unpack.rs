//! unpack: receives a delivery, next to an Agent's server.
//!
//! `attach` delivers a directory of its own Pod to the Pod of the agent. OpenCode's API can only run a command there,
//! so the directory is sent as a tar in pieces, each an argument of this program. Arguments contain only letters,
//! digits, `-` and `_`, so that no shell interprets them.
//!
//! Invariants: nothing is written outside of the directory or through a link, whatever the workspace or the tar
//! contains; files are written atomically; a piece that arrives twice is processed once; an earlier delivery is
//! removed. A delivery of zero bytes removes the directory: so a delivery is removed with its Task.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::fs::{Mode, OFlags};

use crate::place::{FileMode, PlaceError, Root, plain_names};

/// Maximum size of a delivery. A larger tree belongs in a repository or an image: every byte passes through the Agent's
/// session store.
pub const MOST_BYTES: u64 = 16 << 20;
/// Maximum number of entries. A tree with more is a checkout that should be a context of the Agent.
pub const MOST_ENTRIES: usize = 20_000;

/// Prefix of the files with received pieces.
const SPOOLED: &str = "kubeopencode-delivery-";
/// How long received pieces are kept. A piece is repeated within a few minutes, or never.
const REPEATED: Duration = Duration::from_hours(1);

/// Why a piece is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are invalid.
    #[error("the arguments of unpack are not what attach sends")]
    Arguments,
    /// The delivery is too large.
    #[error("the delivery is larger than {MOST_BYTES} bytes or {MOST_ENTRIES} files")]
    TooMuch,
    /// A piece is missing.
    #[error("a piece is missing: {have} bytes are here, the next piece begins at {at}")]
    Gap {
        /// Bytes received so far.
        have: u64,
        /// Offset of the piece.
        at: u64,
    },
    /// The received pieces cannot be written or read.
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The workspace. Its path is trusted, its content is not.
    pub root: PathBuf,
    /// Relative to `root`.
    pub directory: PathBuf,
    /// Identifies the delivery.
    pub id: String,
    /// Offset of the piece in bytes.
    pub at: u64,
    /// Length of the tar in bytes.
    pub total: u64,
    pub bytes: Vec<u8>,
}

impl Piece {
    /// The piece as arguments.
    pub fn to_words(&self) -> [String; 6] {
        let path = |path: &Path| BASE64.encode(path.as_os_str().as_encoded_bytes());
        [
            path(&self.root),
            path(&self.directory),
            self.id.clone(),
            self.at.to_string(),
            self.total.to_string(),
            // Empty arguments vanish in a command line.
            format!("_{}", BASE64.encode(&self.bytes)),
        ]
    }

    /// Parses the arguments of [`Piece::to_words`].
    pub fn from_words(words: &[String]) -> Result<Self, Error> {
        let [root, directory, id, at, total, bytes] = words else { return Err(Error::Arguments) };
        let decode = |text: &str| BASE64.decode(text).map_err(|_| Error::Arguments);
        let path = |text: &str| -> Result<PathBuf, Error> {
            Ok(String::from_utf8(decode(text)?).map_err(|_| Error::Arguments)?.into())
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| Error::Arguments);
        let plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if id.is_empty() || id.len() > 100 || !id.chars().all(plain) {
            return Err(Error::Arguments);
        }
        let piece = Self {
            root: path(root)?,
            directory: path(directory)?,
            id: id.clone(),
            at: number(at)?,
            total: number(total)?,
            bytes: decode(bytes.strip_prefix('_').ok_or(Error::Arguments)?)?,
        };
        let end = piece.at.checked_add(piece.bytes.len() as u64).ok_or(Error::Arguments)?;
        if !piece.root.is_absolute() || plain_names(&piece.directory)?.is_empty() || end > piece.total {
            return Err(Error::Arguments);
        }
        if piece.total > MOST_BYTES {
            return Err(Error::TooMuch);
        }
        Ok(piece)
    }
}

/// Result of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Stored; this many bytes are received.
    Kept(u64),
    /// The delivery is complete; this many files were written.
    Delivered(usize),
    /// The directory was removed.
    Removed,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kept(bytes) => write!(formatter, "kept {bytes}"),
            Self::Delivered(files) => write!(formatter, "delivered {files}"),
            Self::Removed => formatter.write_str("removed"),
        }
    }
}

/// Receives a piece; `spool` is a directory for received pieces.
pub fn run(piece: &Piece, spool: &Path) -> Result<Taken, Error> {
    if piece.total == 0 {
        clear(&Root::open(&piece.root)?, &piece.directory)?;
        return Ok(Taken::Removed);
    }
    let path = spool.join(format!("{SPOOLED}{}", piece.id));
    let done = path.with_extension("done");
    if let Some(files) = std::fs::read_to_string(&done).ok().and_then(|text| text.parse().ok()) {
        // The answer to the last piece was lost. The delivered files may be in use already.
        return Ok(Taken::Delivered(files));
    }
    let failed = |source: io::Error| Error::Io { path: path.clone(), source };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file: File =
        rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).map_err(|errno| failed(errno.into()))?.into();
    let have = file.metadata().map_err(failed)?.len();
    if have < piece.at {
        return Err(Error::Gap { have, at: piece.at });
    }
    // A piece whose answer was lost is repeated: the same bytes at the same offset.
    file.seek(SeekFrom::Start(piece.at)).and_then(|_| file.write_all(&piece.bytes)).map_err(failed)?;
    let end = piece.at + piece.bytes.len() as u64;
    if end < piece.total {
        return Ok(Taken::Kept(end));
    }
    file.rewind().map_err(failed)?;
    let root = Root::open(&piece.root)?;
    clear(&root, &piece.directory)?;
    let files = place(&root, &piece.directory, &mut file.take(piece.total), &failed)?;
    std::fs::write(&done, files.to_string()).and_then(|()| std::fs::remove_file(&path)).map_err(failed)?;
    remove_old(spool, &done);
    Ok(Taken::Delivered(files))
}

/// Removes files of deliveries that are too old to be repeated. A failure is harmless.
fn remove_old(spool: &Path, newest: &Path) {
    for entry in std::fs::read_dir(spool).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let old = || entry.metadata().ok()?.modified().ok()?.elapsed().ok().filter(|age| *age > REPEATED);
        if name.starts_with(SPOOLED) && entry.path() != newest && old().is_some() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes the directory, or whatever is at its path.
fn clear(root: &Root, directory: &Path) -> Result<(), Error> {
    let (parent, name) = (directory.parent().unwrap_or(Path::new("")), directory.file_name().unwrap_or_default());
    let parent = root.directory(parent)?;
    // By the open parent, so that no link in the path can redirect it; the removal itself follows none.
    let path = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name);
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(&path),
        Ok(_) => std::fs::remove_file(&path),
        Err(_) => return Ok(()),
    };
    removed.map_err(|source| Error::Io { path: root.path().join(directory), source })
}

fn place(
    root: &Root,
    directory: &Path,
    tar: &mut dyn Read,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<usize, Error> {
    root.directory(directory)?;
    let mut archive = tar::Archive::new(tar);
    let mut files = 0;
    for (index, entry) in archive.entries().map_err(failed)?.enumerate() {
        let mut entry = entry.map_err(failed)?;
        if index >= MOST_ENTRIES {
            return Err(Error::TooMuch);
        }
        let name = entry.path().map_err(failed)?.into_owned();
        let names = plain_names(&name)?;
        let target = directory.join(names.iter().collect::<PathBuf>());
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            root.directory(&target)?;
        } else if kind.is_symlink() {
            let link = entry.link_name().map_err(failed)?.unwrap_or_default().into_owned();
            root.symlink(&target, &link)?;
            files += 1;
        } else if kind.is_file() {
            let mode = entry.header().mode().map_err(failed)? & 0o777;
            root.write(&target, &mut entry, FileMode::Exactly(mode))?;
            files += 1;
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o640);
            header.set_entry_type(tar::EntryType::Regular);
            // Written by hand: the library refuses the names that a hostile sender would use.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    struct Case(tempfile::TempDir);

    impl Case {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            for name in ["ws", "spool", "outside"] {
                std::fs::create_dir(base.path().join(name)).unwrap();
            }
            Self(base)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn deliver(&self, id: &str, tar: &[u8], size: usize) -> Result<Taken, Error> {
            let mut taken = Taken::Kept(0);
            for (index, bytes) in tar.chunks(size).enumerate() {
                let piece = Piece {
                    root: self.path("ws"),
                    directory: ".kubeopencode/tasks/it's $(here)".into(),
                    id: id.to_owned(),
                    at: (index * size) as u64,
                    total: tar.len() as u64,
                    bytes: bytes.to_vec(),
                };
                let words = piece.to_words().to_vec();
                assert!(words.concat().chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char)));
                assert_eq!(Piece::from_words(&words).unwrap(), piece);
                let first = run(&piece, &self.path("spool"))?;
                // A piece whose answer was lost arrives twice, also the last one.
                taken = run(&piece, &self.path("spool"))?;
                assert_eq!(taken, first);
            }
            Ok(taken)
        }
    }

    #[test]
    fn pieces_become_files_and_a_second_delivery_replaces_the_first() {
        let case = Case::new();
        let taken = case.deliver("ses_1", &archive(&[("a.md", "A"), ("sub/b.md", &"B".repeat(5000))]), 700).unwrap();
        assert_eq!(taken, Taken::Delivered(2));
        let here = case.path("ws/.kubeopencode/tasks/it's $(here)");
        assert_eq!(std::fs::read_to_string(here.join("a.md")).unwrap(), "A");
        assert_eq!(std::fs::read_to_string(here.join("sub/b.md")).unwrap().len(), 5000);
        assert_eq!(here.join("a.md").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        case.deliver("ses_2", &archive(&[("c.md", "C")]), 700).unwrap();
        assert_eq!(std::fs::read_dir(&here).unwrap().count(), 1);
        let spooled = |end: &str| {
            let entries = std::fs::read_dir(case.path("spool")).unwrap();
            entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(end)).count()
        };
        assert_eq!((spooled(".done"), spooled("")), (2, 2), "only what was delivered is noted");
        let long_ago = std::time::SystemTime::now() - REPEATED * 2;
        let note = File::options().write(true).open(case.path("spool/kubeopencode-delivery-ses_1.done")).unwrap();
        note.set_modified(long_ago).unwrap();
        case.deliver("ses_3", &archive(&[("c.md", "C")]), 700).unwrap();
        assert_eq!(spooled("ses_1.done"), 0);
    }

    #[test]
    fn a_delivery_of_nothing_removes_the_directory_and_nothing_behind_a_link() {
        let case = Case::new();
        let removal = |directory: &str| {
            let words = Piece {
                root: case.path("ws"),
                directory: directory.into(),
                id: "removal".to_owned(),
                at: 0,
                total: 0,
                bytes: Vec::new(),
            };
            run(&Piece::from_words(&words.to_words()).unwrap(), &case.path("spool"))
        };
        case.deliver("ses_1", &archive(&[("a.md", "A")]), 700).unwrap();
        std::fs::write(case.path("outside/keep"), "mine").unwrap();
        symlink(case.path("outside"), case.path("ws/.kubeopencode/tasks/link")).unwrap();
        for name in ["it's $(here)", "link", "never-there"] {
            assert_eq!(removal(&format!(".kubeopencode/tasks/{name}")).unwrap(), Taken::Removed, "{name}");
        }
        assert_eq!(std::fs::read_dir(case.path("ws/.kubeopencode/tasks")).unwrap().count(), 0);
        assert!(case.path("outside/keep").exists());
        symlink(case.path("outside"), case.path("ws/elsewhere")).unwrap();
        assert!(removal("elsewhere/keep").is_err());
        assert!(case.path("outside/keep").exists());
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let case = Case::new();
        for name in ["../x", "a/../../../../x", "/etc/x"] {
            let outcome = case.deliver("ses_1", &archive(&[(name, "x")]), 1 << 20);
            assert!(outcome.is_err(), "{name}: {outcome:?}");
        }
        std::fs::remove_dir_all(case.path("ws/.kubeopencode")).unwrap();
        symlink(case.path("outside"), case.path("ws/.kubeopencode")).unwrap();
        assert!(case.deliver("ses_1", &archive(&[("x", "x")]), 1 << 20).is_err());
        assert_eq!(std::fs::read_dir(case.path("outside")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(case.path("ws")).unwrap().count(), 1);
    }

    #[test]
    fn a_gap_and_a_flood_are_refused() {
        let case = Case::new();
        let piece = |at, total| Piece {
            root: case.path("ws"),
            directory: "d".into(),
            id: "ses_1".to_owned(),
            at,
            total,
            bytes: vec![1],
        };
        assert!(matches!(run(&piece(5, 9), &case.path("spool")), Err(Error::Gap { have: 0, at: 5 })));
        let flood = Piece::from_words(&piece(0, MOST_BYTES + 1).to_words());
        assert!(matches!(flood, Err(Error::TooMuch)));
        let outside = Piece { directory: "../d".into(), ..piece(0, 9) };
        assert!(Piece::from_words(&outside.to_words()).is_err());
    }
}
