//! The lock that shows the housekeeper whether the agent's container runs: the kernel frees it, whatever ends the shim.

use std::io;
use std::os::fd::IntoRawFd as _;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};

/// Creates the file and holds its lock until this process ends. The file has its name once the lock is held, so that a
/// reader never finds it without the lock. The command does not inherit the lock.
pub fn hold(path: &Path) -> io::Result<()> {
    let mut pending = path.as_os_str().to_owned();
    pending.push(format!(".{}", std::process::id()));
    // Left by a shim that was killed at this moment.
    match std::fs::remove_file(&pending) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The housekeeper may have another UID.
    let file = rustix::fs::open(&pending, flags, Mode::from_raw_mode(0o644))?;
    let held = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
        .and_then(|()| std::fs::rename(&pending, path));
    if let Err(error) = held {
        let _ = std::fs::remove_file(&pending);
        return Err(error);
    }
    // Closed by the kernel at the end of the process.
    let _ = file.into_raw_fd();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_file_is_locked_when_it_appears() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        hold(&path).unwrap();
        let try_lock =
            |path: &Path| rustix::fs::flock(File::open(path).unwrap(), FlockOperation::NonBlockingLockShared).is_ok();
        assert!(!try_lock(&path));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        // A file of an earlier container is replaced.
        let old = directory.path().join("old");
        std::fs::write(&old, "").unwrap();
        assert!(try_lock(&old));
        hold(&old).unwrap();
        assert!(!try_lock(&old));
    }

    #[test]
    fn without_its_directory_there_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        assert!(hold(&directory.path().join("missing/lock")).is_err());
        std::fs::create_dir(directory.path().join("lock")).unwrap();
        assert!(hold(&directory.path().join("lock")).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
