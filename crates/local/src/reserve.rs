//! Space that is set aside in the state directory, so that a platform starts on a full disk: only a running platform can
//! delete what fills it.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

pub(crate) const FILE: &str = "reserve";
/// Enough for the journal of the API server and the directories of the node.
const SIZE: u64 = 8 << 20;
/// Below this many free bytes the disk counts as full.
const FULL: u64 = 4 << 20;

/// What to do with the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The disk is full: free the reserve.
    Release,
    /// There is enough space for a reserve.
    Create,
    Nothing,
}

fn step(free: u64, exists: bool) -> Step {
    match (free, exists) {
        (..FULL, true) => Step::Release,
        (free, false) if free > 2 * SIZE => Step::Create,
        _ => Step::Nothing,
    }
}

/// Frees the reserve on a full disk, or sets it aside while there is space. Returns the number of free bytes if the disk
/// is too full for a reserve.
pub(crate) fn adjust(dir: &Path) -> Option<u64> {
    let free = free(dir)?;
    let file = dir.join(FILE);
    let exists = file.exists();
    let step = step(free, exists);
    let done = match step {
        Step::Release => fs::remove_file(&file),
        Step::Create => create(&file),
        Step::Nothing => Ok(()),
    };
    if let Err(error) = done {
        tracing::info!(%error, "the reserve of the state directory could not be adjusted");
    }
    (step == Step::Release || (step == Step::Nothing && !exists)).then_some(free)
}

/// Bytes that this user may still write.
fn free(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn create(file: &Path) -> io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    fallocate(&created, FallocateFlags::empty(), 0, SIZE).map_err(|error| {
        // Not every file system can set space aside. The error that counts is the first one.
        let _ = fs::remove_file(file);
        error.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_freed_on_a_full_disk_and_set_aside_while_there_is_space() {
        assert_eq!(step(0, true), Step::Release);
        assert_eq!(step(FULL - 1, true), Step::Release);
        assert_eq!(step(FULL - 1, false), Step::Nothing);
        assert_eq!(step(FULL, true), Step::Nothing);
        assert_eq!(step(2 * SIZE, false), Step::Nothing);
        assert_eq!(step(2 * SIZE + 1, false), Step::Create);
        assert_eq!(step(2 * SIZE + 1, true), Step::Nothing);
    }

    #[test]
    fn a_reserve_occupies_space() {
        let dir = tempfile::tempdir().unwrap();
        create(&dir.path().join(FILE)).unwrap();
        assert_eq!(fs::metadata(dir.path().join(FILE)).unwrap().len(), SIZE);
        assert!(free(dir.path()).is_some());
    }
}
