//! Writes files below a directory, and nowhere else.
//!
//! A workspace contains untrusted files: a repository may contain a symbolic link `docs -> /etc`. So every path is
//! walked component by component from an open directory, no link is followed, and files appear by rename. That works on
//! any kernel and under gVisor; `openat2` would not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The path is empty or contains `..`.
    #[error("{0:?} is not a path below the directory; remove `..` and give a file name")]
    Outside(PathBuf),
    /// A parent directory is a link or a file.
    #[error("{0:?} is a symbolic link or a file where a directory is needed; nothing is written through links")]
    NotADirectory(PathBuf),
    /// A system call failed.
    #[error("{path:?} cannot be written: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Mode of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    Exactly(u32),
    /// The mode of the replaced file, otherwise this one: a replaced private file stays private.
    KeepOr(u32),
}

/// A directory below which files are written.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The components of a path below a root: only plain names, at least one.
pub fn plain_names(relative: &Path) -> Result<Vec<&OsStr>, PlaceError> {
    let mut names = Vec::new();
    for component in relative.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(PlaceError::Outside(relative.to_owned())),
        }
    }
    Ok(names)
}

impl Root {
    /// Opens a root and creates it if it is missing. The root's own path is trusted and may contain links.
    pub fn open(path: &Path) -> Result<Self, PlaceError> {
        let fail = |source: io::Error| PlaceError::Io { path: path.to_owned(), source };
        std::fs::create_dir_all(path).map_err(fail)?;
        let directory = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(|errno| fail(errno.into()))?;
        Ok(Self { path: path.to_owned(), directory })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory below the root, and creates missing directories with mode 0755.
    pub fn directory(&self, relative: &Path) -> Result<OwnedFd, PlaceError> {
        let mut walked = self.path.clone();
        let mut current = self.directory.try_clone().map_err(|source| self.failed(relative, source))?;
        for name in plain_names(relative)? {
            walked.push(name);
            match rustix::fs::mkdirat(&current, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(PlaceError::Io { path: walked, source: errno.into() }),
            }
            current = match rustix::fs::openat(&current, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => next,
                Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                    return Err(PlaceError::NotADirectory(walked));
                }
                Err(errno) => return Err(PlaceError::Io { path: walked, source: errno.into() }),
            };
        }
        Ok(current)
    }

    /// Writes a file below the root atomically.
    pub fn write(&self, relative: &Path, content: &mut dyn Read, mode: FileMode) -> Result<u64, PlaceError> {
        self.write_limited(relative, content, mode, u64::MAX)?.ok_or_else(|| PlaceError::Outside(relative.to_owned()))
    }

    /// As [`Root::write`]; returns `None` and changes nothing if the content is longer than `limit`.
    pub fn write_limited(
        &self,
        relative: &Path,
        content: &mut dyn Read,
        mode: FileMode,
        limit: u64,
    ) -> Result<Option<u64>, PlaceError> {
        let mut pending = self.begin(relative, mode)?;
        let written = io::copy(&mut content.take(limit.saturating_add(1)), &mut pending.file)
            .map_err(|source| self.failed(relative, source))?;
        if written > limit {
            return Ok(None);
        }
        pending.commit().map_err(|source| self.failed(relative, source))?;
        Ok(Some(written))
    }

    /// Starts a file that becomes visible with [`Pending::commit`].
    pub fn begin(&self, relative: &Path, mode: FileMode) -> Result<Pending, PlaceError> {
        let (parent, name) = self.parent(relative)?;
        let existing = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let replaced = existing.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let mode = match (mode, replaced) {
            (FileMode::KeepOr(_), Some(stat)) => stat.st_mode & 0o777,
            (FileMode::Exactly(mode) | FileMode::KeepOr(mode), _) => mode,
        };
        let temporary = temporary_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| self.failed(relative, errno.into()))?;
        Ok(Pending { file: File::from(file), parent, temporary, name: name.to_owned(), mode, committed: false })
    }

    /// Creates a symbolic link below the root. Its target is not followed or checked.
    pub fn symlink(&self, relative: &Path, target: &Path) -> Result<(), PlaceError> {
        let (parent, name) = self.parent(relative)?;
        let temporary = temporary_name();
        rustix::fs::symlinkat(target, &parent, &temporary)
            .and_then(|()| {
                rustix::fs::renameat(&parent, &temporary, &parent, name).inspect_err(|_| {
                    let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
                })
            })
            .map_err(|errno| self.failed(relative, errno.into()))
    }

    /// Whether the path exists, also as a dangling link. A link among the parent directories counts as existing.
    pub fn occupied(&self, relative: &Path) -> Result<bool, PlaceError> {
        let mut current = self.directory.try_clone().map_err(|source| self.failed(relative, source))?;
        let names = plain_names(relative)?;
        for (at, name) in names.iter().enumerate() {
            let Ok(stat) = rustix::fs::statat(&current, *name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(false) };
            if at + 1 == names.len() || FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                return Ok(true);
            }
            current = rustix::fs::openat(&current, *name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| self.failed(relative, errno.into()))?;
        }
        Ok(true)
    }

    fn parent<'a>(&self, relative: &'a Path) -> Result<(OwnedFd, &'a OsStr), PlaceError> {
        let names = plain_names(relative)?;
        let Some((name, parents)) = names.split_last() else { return Err(PlaceError::Outside(relative.to_owned())) };
        let parents: PathBuf = parents.iter().collect();
        Ok((self.directory(&parents)?, name))
    }

    fn failed(&self, relative: &Path, source: io::Error) -> PlaceError {
        PlaceError::Io { path: self.path.join(relative), source }
    }
}

/// A file that is being written. Dropped without a commit it leaves nothing behind.
#[derive(Debug)]
pub struct Pending {
    file: File,
    parent: OwnedFd,
    temporary: String,
    name: std::ffi::OsString,
    mode: u32,
    committed: bool,
}

impl Pending {
    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Makes the file visible under its name.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        // The mode is set before the name exists, so other users can never read the content of a private file.
        rustix::fs::fchmod(self.file.as_fd(), Mode::from_raw_mode(self.mode))?;
        rustix::fs::renameat(&self.parent, &self.temporary, &self.parent, &self.name)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.committed {
            let _ = rustix::fs::unlinkat(&self.parent, &self.temporary, AtFlags::empty());
        }
    }
}

fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".kubeopencode-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path()).unwrap();
        (directory, root)
    }

    #[test]
    fn a_file_appears_with_its_parents_and_its_mode() {
        let (directory, root) = root();
        root.write(Path::new("a/b/c.txt"), &mut &b"hello"[..], FileMode::Exactly(0o640)).unwrap();
        let file = directory.path().join("a/b/c.txt");
        assert_eq!(std::fs::read(&file).unwrap(), b"hello");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(directory.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_through_a_link_or_above_the_root() {
        let outside = tempfile::tempdir().unwrap();
        let (directory, root) = root();
        symlink(outside.path(), directory.path().join("docs")).unwrap();
        let write = |path: &str| root.write(Path::new(path), &mut &b"x"[..], FileMode::KeepOr(0o644));
        assert!(matches!(write("docs/x"), Err(PlaceError::NotADirectory(_))));
        assert!(matches!(write("../x"), Err(PlaceError::Outside(_))));
        assert!(matches!(write("a/../../x"), Err(PlaceError::Outside(_))));
        assert!(matches!(write("."), Err(PlaceError::Outside(_))));
        assert!(matches!(write("/etc/x"), Err(PlaceError::Outside(_))));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_at_the_end_is_replaced_not_followed() {
        let (directory, root) = root();
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "old").unwrap();
        symlink(&victim, directory.path().join("task.md")).unwrap();
        root.write(Path::new("task.md"), &mut &b"new"[..], FileMode::KeepOr(0o644)).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"old");
        assert_eq!(std::fs::read(directory.path().join("task.md")).unwrap(), b"new");
    }

    #[test]
    fn a_replaced_private_file_stays_private() {
        let (directory, root) = root();
        let file = directory.path().join("key");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        root.write(Path::new("key"), &mut &b"new"[..], FileMode::KeepOr(0o644)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn too_long_content_leaves_the_old_file() {
        let (directory, root) = root();
        std::fs::write(directory.path().join("f"), "old").unwrap();
        let result = root.write_limited(Path::new("f"), &mut &b"12345"[..], FileMode::KeepOr(0o644), 4).unwrap();
        assert_eq!(result, None);
        assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn occupied_sees_dangling_links_and_links_on_the_way() {
        let (directory, root) = root();
        symlink("/nowhere", directory.path().join("dangling")).unwrap();
        std::fs::create_dir(directory.path().join("dir")).unwrap();
        let occupied = |path: &str| root.occupied(Path::new(path)).unwrap();
        assert!(occupied("dangling"));
        assert!(occupied("dangling/below"));
        assert!(occupied("dir"));
        assert!(!occupied("dir/missing"));
        assert!(!occupied("missing"));
    }
}
