//! Volumes in memory: file systems that are mounted on the machine and belong to one Pod.

use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::inside;

/// Mounts one of at most this many bytes, unless it is there already. Without a size the kernel allows half of the
/// machine's memory.
pub(crate) fn mount(path: &Path, size: Option<u64>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let parent = path.parent().unwrap_or(path);
    if mounted_below(parent)?.contains(&fs::canonicalize(path)?) {
        return Ok(());
    }
    let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
    let options = CString::new(format!("mode=0777{size}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("memory", path, "tmpfs", flags, Some(options.as_c_str()))?)
}

/// Gives back what is mounted in a directory. Containers that have it keep it to their end.
pub(crate) fn unmount_below(dir: &Path) -> io::Result<()> {
    for path in mounted_below(dir)?.iter().rev() {
        rustix::mount::unmount(path, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// What is mounted below a path, in the order of mounting.
fn mounted_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    // The kernel tells of paths without links.
    let dir = match fs::canonicalize(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(inside::mount_points(&table).into_iter().filter(|path| *path != dir && path.starts_with(&dir)).collect())
}
