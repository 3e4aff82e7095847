//! Memory volumes: a tmpfs per volume, mounted on the machine.

use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::process::helper;

/// Mounts a tmpfs of at most `size` bytes, unless it is mounted already. Without a size the kernel permits half of the
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

/// Unmounts everything below a directory. Running containers keep their mounts.
pub(crate) fn unmount_below(dir: &Path) -> io::Result<()> {
    for path in mounted_below(dir)?.iter().rev() {
        rustix::mount::unmount(path, UnmountFlags::DETACH)?;
    }
    Ok(())
}

/// The mount points below a path, in the order of mounting.
fn mounted_below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    // The kernel reports paths without symbolic links.
    let dir = match fs::canonicalize(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(helper::mount_points(&table).into_iter().filter(|path| *path != dir && path.starts_with(&dir)).collect())
}
