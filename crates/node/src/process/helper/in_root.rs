//! Opens and creates paths inside a directory, with symbolic links resolved as if that directory were the root, so that
//! no link in a volume leads out of it.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// What to create at the end of a path that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Directory,
    File,
}

pub(super) fn open(root: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)
}

/// Opens `path` inside `root` and creates missing components, directories with this mode.
pub(super) fn open_or_make(root: impl AsFd, path: &Path, leaf: Leaf, mode: Mode) -> io::Result<OwnedFd> {
    match open(root.as_fd(), path) {
        Err(Errno::NOENT) => {}
        other => return Ok(other?),
    }
    let names: Vec<&OsStr> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let mut so_far = Path::new("").to_path_buf();
    for (index, name) in names.iter().enumerate() {
        let parent = open(root.as_fd(), &so_far)?;
        so_far.push(name);
        match open(root.as_fd(), &so_far) {
            Ok(_) => continue,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if leaf == Leaf::File && index + 1 == names.len() {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, *name, flags, Mode::from_raw_mode(0o644))?;
        } else {
            rustix::fs::mkdirat(&parent, *name, mode)?;
            // Independent of the umask.
            rustix::fs::chmodat(&parent, *name, mode, AtFlags::empty())?;
        }
    }
    Ok(open(root, path)?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_link_never_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir(&volume).unwrap();
        symlink("/etc", volume.join("absolute")).unwrap();
        symlink("../..", volume.join("upwards")).unwrap();
        let root = fs::File::open(&volume).unwrap();
        let mode = Mode::from_raw_mode(0o755);
        open_or_make(&root, Path::new("absolute/x"), Leaf::Directory, mode).unwrap_err();
        assert!(!Path::new("/etc/x").exists());
        open_or_make(&root, Path::new("upwards/made"), Leaf::Directory, mode).unwrap();
        assert!(volume.join("made").is_dir());
    }

    #[test]
    fn missing_components_are_created() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        let mode = Mode::from_raw_mode(0o777);
        open_or_make(&root, Path::new("/a/b/c"), Leaf::Directory, mode).unwrap();
        open_or_make(&root, Path::new("a/b/file"), Leaf::File, mode).unwrap();
        assert!(dir.path().join("a/b/c").is_dir() && dir.path().join("a/b/file").is_file());
        assert_eq!(fs::metadata(dir.path().join("a/b")).unwrap().permissions().mode() & 0o7777, 0o777);
    }
}
