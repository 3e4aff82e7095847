//! Recursive removal of directories.

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

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
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Symbolic links are not followed.
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
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
}
