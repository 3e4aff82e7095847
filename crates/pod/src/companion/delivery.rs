//! The directories of Tasks below the workspace: files are placed there, and removed with the Task.

use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use domain::contract::companion::{Delivered, MOST_DELIVERY_BYTES, MOST_DELIVERY_ENTRIES};

use crate::place::{FileMode, PlaceError, Root, plain_names};

/// Bytes that may follow the end of a tar, which is filled up to whole blocks.
const MOST_TRAILING: u64 = 1 << 20;

/// Why files cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The delivery is too large.
    #[error("the delivery is larger than {MOST_DELIVERY_BYTES} bytes or {MOST_DELIVERY_ENTRIES} files")]
    TooMuch,
    /// An entry that is neither a file nor a directory nor a symbolic link.
    #[error("{0:?} is neither a file nor a directory nor a symbolic link")]
    Kind(PathBuf),
    /// The tar ended early, or cannot be read.
    #[error("the delivery cannot be read: {0}")]
    Read(#[source] io::Error),
    /// Something cannot be removed.
    #[error("{path:?} cannot be removed: {source}")]
    Remove { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// Replaces a directory below `root` by the content of a tar. After an error, the directory is gone.
pub fn place(root: &Root, directory: &Path, tar: &mut dyn Read) -> Result<Delivered, Error> {
    clear(root, directory)?;
    let placed = place_all(root, directory, tar);
    if placed.is_err() {
        // The first error counts.
        let _ = clear(root, directory);
    }
    placed
}

fn place_all(root: &Root, directory: &Path, tar: &mut dyn Read) -> Result<Delivered, Error> {
    root.directory(directory)?;
    let mut delivered = Delivered { files: 0, bytes: 0 };
    let mut archive = tar::Archive::new(tar);
    let mut number = 0;
    for entry in archive.entries().map_err(Error::Read)? {
        let mut entry = entry.map_err(Error::Read)?;
        number += 1;
        delivered.bytes = delivered.bytes.saturating_add(entry.size());
        if number > MOST_DELIVERY_ENTRIES || delivered.bytes > MOST_DELIVERY_BYTES {
            return Err(Error::TooMuch);
        }
        let name = entry.path().map_err(Error::Read)?.into_owned();
        let names = plain_names(&name)?;
        let target = directory.join(names.iter().collect::<PathBuf>());
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            root.directory(&target)?;
            continue;
        }
        if names.is_empty() {
            return Err(PlaceError::Outside(name).into());
        }
        if kind.is_symlink() {
            let link = entry.link_name().map_err(Error::Read)?.unwrap_or_default().into_owned();
            root.symlink(&target, &link)?;
        } else if kind.is_file() {
            let mode = entry.header().mode().map_err(Error::Read)? & 0o777;
            root.write(&target, &mut entry, FileMode::Exactly(mode))?;
        } else {
            return Err(Error::Kind(name));
        }
        delivered.files += 1;
    }
    // The sender's end must arrive too: a tar without its last files looks like a whole one.
    let mut rest = archive.into_inner().take(MOST_TRAILING + 1);
    if io::copy(&mut rest, &mut io::sink()).map_err(Error::Read)? > MOST_TRAILING {
        return Err(Error::Read(io::Error::other("it does not end where its tar ends")));
    }
    Ok(delivered)
}

/// Removes a directory below `root`, or whatever is at its path.
pub fn clear(root: &Root, directory: &Path) -> Result<(), Error> {
    let (parent, name) = (directory.parent().unwrap_or(Path::new("")), directory.file_name().unwrap_or_default());
    let parent = root.directory(parent)?;
    // By the open parent, so that no link in the path can redirect it; the removal itself follows none.
    let path = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name);
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(&path),
        Ok(_) => std::fs::remove_file(&path),
        Err(_) => return Ok(()),
    };
    removed.map_err(|source| Error::Remove { path: root.path().join(directory), source })
}

/// The names of the directories in a directory below `root`.
pub fn directories(root: &Root, directory: &Path) -> Result<Vec<String>, Error> {
    let opened = root.directory(directory)?;
    let failed = |source| Error::Place(PlaceError::Io { path: root.path().join(directory), source });
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd())).map_err(failed)?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const PLACE: &str = ".kubeopencode/tasks/it's $(here)";

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
            for name in ["ws", "outside"] {
                std::fs::create_dir(base.path().join(name)).unwrap();
            }
            Self(base)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn root(&self) -> Root {
            Root::open(&self.path("ws")).unwrap()
        }

        fn place(&self, tar: &[u8]) -> Result<Delivered, Error> {
            place(&self.root(), Path::new(PLACE), &mut &*tar)
        }
    }

    #[test]
    fn a_second_delivery_replaces_the_first() {
        let case = Case::new();
        let delivered = case.place(&archive(&[("a.md", "A"), ("sub/b.md", &"B".repeat(5000))])).unwrap();
        assert_eq!(delivered, Delivered { files: 2, bytes: 5001 });
        let here = case.path("ws").join(PLACE);
        assert_eq!(std::fs::read_to_string(here.join("sub/b.md")).unwrap().len(), 5000);
        assert_eq!(here.join("a.md").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        case.place(&archive(&[("c.md", "C")])).unwrap();
        assert_eq!(std::fs::read_dir(&here).unwrap().count(), 1);
    }

    #[test]
    fn what_is_cut_off_leaves_nothing() {
        let case = Case::new();
        let tar = archive(&[("a.md", "A"), ("b.md", "B")]);
        assert!(case.place(&tar[..1100]).is_err());
        assert!(!case.path("ws").join(PLACE).exists());
        assert!(case.place(&[&tar[..], &vec![1; 2 << 20]].concat()).is_err());
        assert!(!case.path("ws").join(PLACE).exists());
    }

    #[test]
    fn a_removal_removes_the_directory_and_nothing_behind_a_link() {
        let case = Case::new();
        case.place(&archive(&[("a.md", "A")])).unwrap();
        std::fs::write(case.path("outside/keep"), "mine").unwrap();
        symlink(case.path("outside"), case.path("ws/.kubeopencode/tasks/link")).unwrap();
        assert_eq!(directories(&case.root(), Path::new(".kubeopencode/tasks")).unwrap(), ["it's $(here)"]);
        for name in ["it's $(here)", "link", "never-there"] {
            clear(&case.root(), &Path::new(".kubeopencode/tasks").join(name)).unwrap();
        }
        assert_eq!(std::fs::read_dir(case.path("ws/.kubeopencode/tasks")).unwrap().count(), 0);
        assert!(case.path("outside/keep").exists());
        symlink(case.path("outside"), case.path("ws/elsewhere")).unwrap();
        assert!(clear(&case.root(), Path::new("elsewhere/keep")).is_err());
        assert!(directories(&case.root(), Path::new("elsewhere")).is_err());
        assert!(case.path("outside/keep").exists());
    }

    #[test]
    fn nothing_is_written_elsewhere() {
        let case = Case::new();
        for name in ["../x", "a/../../../../x", "/etc/x", "."] {
            assert!(case.place(&archive(&[(name, "x")])).is_err(), "{name}");
        }
        std::fs::remove_dir_all(case.path("ws/.kubeopencode")).unwrap();
        symlink(case.path("outside"), case.path("ws/.kubeopencode")).unwrap();
        assert!(case.place(&archive(&[("x", "x")])).is_err());
        assert_eq!(std::fs::read_dir(case.path("outside")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(case.path("ws")).unwrap().count(), 1);
    }

    #[test]
    fn devices_hard_links_and_floods_are_refused() {
        let case = Case::new();
        let entry = |kind: tar::EntryType, size: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_path("x").unwrap();
            header.set_entry_type(kind);
            header.set_size(size);
            header.set_mode(0o644);
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        for kind in [tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo] {
            assert!(matches!(case.place(&entry(kind, 0)), Err(Error::Kind(_))), "{kind:?}");
        }
        let flood = case.place(&entry(tar::EntryType::Regular, MOST_DELIVERY_BYTES + 1));
        assert!(matches!(flood, Err(Error::TooMuch)));
    }
}
