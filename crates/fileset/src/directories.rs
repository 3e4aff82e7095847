//! Opens directories below a root, component by component, so that no symbolic link is followed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

use crate::name::Name;

/// Opens a root. Its own path is trusted: links in it are followed.
pub(crate) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a file to read it, without waiting for whatever may have replaced it.
pub(crate) fn open_file(parent: BorrowedFd<'_>, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map(File::from)
}

/// The directories on the way to the last opened one, so that files of one directory cost one walk: entries are sorted.
pub(crate) struct Directories<'root> {
    root: BorrowedFd<'root>,
    /// Whether missing directories are created.
    create: bool,
    opened: Vec<(Box<[u8]>, OwnedFd)>,
}

/// Why a directory cannot be opened.
pub(crate) struct DirectoryError {
    /// Length of its path: that many bytes of the path that was asked for.
    pub length: usize,
    pub errno: Errno,
}

impl<'root> Directories<'root> {
    pub(crate) fn existing(root: BorrowedFd<'root>) -> Self {
        Self { root, create: false, opened: Vec::new() }
    }

    pub(crate) fn created(root: BorrowedFd<'root>) -> Self {
        Self { root, create: true, opened: Vec::new() }
    }

    /// The open parent of `path`, and the last component. `NOTDIR` means that a link or a file is in the way.
    pub(crate) fn parent<'name>(&mut self, path: &'name Name) -> Result<(BorrowedFd<'_>, &'name [u8]), DirectoryError> {
        let bytes = path.as_bytes();
        let mut depth = 0;
        let mut start = 0;
        while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'/') {
            let component = &bytes[start..start + length];
            if self.opened.get(depth).is_none_or(|(name, _)| **name != *component) {
                self.opened.truncate(depth);
                let opened = self.open(component).map_err(|errno| DirectoryError { length: start + length, errno })?;
                self.opened.push((component.into(), opened));
            }
            depth += 1;
            start += length + 1;
        }
        // Deeper ones are kept only as long as they are of use: they are the ones that a sorted list has left.
        self.opened.truncate(depth);
        Ok((self.last(), &bytes[start..]))
    }

    fn last(&self) -> BorrowedFd<'_> {
        self.opened.last().map_or(self.root, |(_, opened)| opened.as_fd())
    }

    fn open(&self, component: &[u8]) -> Result<OwnedFd, Errno> {
        let above = self.last();
        if self.create {
            // Most are missing, and if not, this is cheaper than an attempt to open a missing one.
            match mkdirat(above, component, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        openat(above, component, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }
}
