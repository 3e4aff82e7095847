//! Recursive removal of directories.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};

/// Opens a directory without a permission, and nothing else.
const UNOPENED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a directory tree, including read-only directories, which package caches often contain.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(dir)?;
            fs::remove_dir_all(dir)
        }
        other => other,
    }
}

fn unlock(dir: &Path) -> io::Result<()> {
    unlock_opened(&rustix::fs::open(dir, UNOPENED, Mode::empty())?)
}

/// By descriptor: a process of the Pod that is not gone yet may replace a directory by a link.
fn unlock_opened(dir: &OwnedFd) -> io::Result<()> {
    // A descriptor that needs no permission can only be changed through its path.
    let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(dir, ".", flags, Mode::empty())?;
    for entry in Dir::read_from(&dir)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::openat(&dir, entry.file_name(), UNOPENED, Mode::empty()) {
            Ok(below) => unlock_opened(&below)?,
            // A file, a link, or removed since.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_directories_are_unlocked_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("pod/cache");
        fs::create_dir_all(&cache).unwrap();
        fs::write(cache.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), cache.join("link")).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o500)).unwrap();
        unlock(&dir.path().join("pod")).unwrap();
        assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
        remove(&dir.path().join("pod")).unwrap();
        assert!(!dir.path().join("pod").exists() && outside.path().exists());
    }

    #[test]
    fn a_link_that_is_swapped_in_does_not_pass_the_mode_to_its_target() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};

        let outside = tempfile::tempdir().unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (pod, link) = (dir.path().join("pod"), dir.path().join("link"));
        for number in 0..50 {
            fs::create_dir_all(pod.join(format!("{number}"))).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in (0..50).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let below = pod.join(format!("{number}"));
                    for _ in 0..2 {
                        renameat_with(CWD, &link, CWD, &below, RenameFlags::EXCHANGE).unwrap();
                    }
                }
            });
            for _ in 0..200 {
                let _ = unlock(&pod);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::metadata(outside.path()).unwrap().permissions().mode() & 0o777, 0o755);
    }
}
