//! The root file system of a container: the machine's files, read-only, with the container's volumes mounted.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags},
    mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_move,
        mount_remount,
    },
};

use super::{
    in_root::{self, Leaf},
    protocol::{Mount, Root},
    root_plan::{self, Found, Machine, Step},
};

#[derive(Debug, thiserror::Error)]
#[error("cannot {step} {}: {source}", path.display())]
pub(super) struct Error {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn fails<E: Into<io::Error>>(step: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
    let path = path.to_path_buf();
    move |source| Error { step, path, source: source.into() }
}

const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// Entries that a root user could use to change the whole machine, even without capabilities.
const READ_ONLY_PROC: [&str; 4] = ["bus", "irq", "sys", "sysrq-trigger"];

/// Where a volume is mounted before it is moved to its place; not a name that a container could ask for.
const STAGED: &str = "..kubeopencode-staged";

/// Builds the root file system in this process's mount namespace and pivots into it.
pub(super) fn enter(root: &Root) -> Result<(), Error> {
    let slash = Path::new("/");
    let propagation = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change(slash, propagation).map_err(fails("make mounts private at", slash))?;
    // Open volumes before everything becomes read-only.
    let mounts = settled(&root.mounts);
    let sources: Vec<OwnedFd> = mounts.iter().map(open_source).collect::<Result<_, _>>()?;
    freeze()?;

    let scratch = root.scratch.as_path();
    let options = Some(c"mode=0755");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("container", scratch, "tmpfs", flags, options).map_err(fails("mount a file system at", scratch))?;
    let top = open_directory(scratch)?;
    let targets: Vec<PathBuf> = mounts.iter().map(|mount| mount.target.clone()).collect();
    let hidden: Vec<PathBuf> = root.hidden.iter().map(|path| root_plan::settle(path, &Real)).collect();
    for step in root_plan::steps(&targets, &hidden, &Real) {
        take(&step, scratch)?;
    }
    own(scratch)?;
    resolver(scratch)?;
    for (mount, source) in mounts.iter().zip(&sources) {
        put(mount, source, &top, scratch)?;
    }
    move_into(scratch)
}

/// Mounts with symbolic links resolved, parents first.
fn settled(mounts: &[Mount]) -> Vec<Mount> {
    let settle = |mount: &Mount| Mount { target: root_plan::settle(&mount.target, &Real), ..mount.clone() };
    let mut mounts: Vec<Mount> = mounts.iter().map(settle).collect();
    mounts.sort_by_key(|mount| mount.target.components().count());
    mounts
}

fn open_directory(path: &Path) -> Result<OwnedFd, Error> {
    Ok(fs::File::open(path).map_err(fails("open", path))?.into())
}

/// The path of a volume on the machine, with its sub-path created and links resolved: for an engine, which needs paths.
pub(crate) fn source(mount: &Mount) -> io::Result<PathBuf> {
    let opened = open_source(mount).map_err(io::Error::other)?;
    fs::read_link(by_descriptor(&opened))
}

fn open_source(mount: &Mount) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let volume = rustix::fs::open(&mount.source, flags, Mode::empty()).map_err(fails("open", &mount.source))?;
    match &mount.part {
        Some(part) => {
            // With the mode of the volume itself, or its group could not use it.
            let mode = rustix::fs::fstat(&volume).map_err(fails("open", &mount.source))?.st_mode & 0o7777;
            let opened = in_root::open_or_make(&volume, part, Leaf::Directory, Mode::from_raw_mode(mode));
            opened.map_err(fails("open the subPath", part))
        }
        None => Ok(volume),
    }
}

/// Makes every file system read-only in this mount namespace. Later bind mounts inherit it.
fn freeze() -> Result<(), Error> {
    let table = Path::new("/proc/self/mountinfo");
    let text = fs::read(table).map_err(fails("read", table))?;
    for path in mount_points(&text) {
        if ["/proc", "/dev"].iter().any(|own| path.starts_with(own)) {
            continue;
        }
        match remount(&path, true) {
            Ok(()) => {}
            // A file system that is not accessible is not writable either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            // Covered by another mount.
            Err(_) if !is_mount_point(&path) => {}
            Err(error) => return Err(fails("make read-only", &path)(error)),
        }
    }
    Ok(())
}

fn is_mount_point(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The mount points of a mount table, in which special characters are octal escapes.
pub(crate) fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields.map(|field| PathBuf::from(OsStr::from_bytes(&unescape(field)))).collect()
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let number = (byte == b'\\').then(|| after.get(..3)).flatten();
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(number) = number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(number);
            rest = &after[3..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    plain
}

/// Changes the read-only flag of a mount. The other flags are kept: a user namespace may not clear them.
fn remount(path: &Path, read_only: bool) -> io::Result<()> {
    let now = rustix::fs::statvfs(path)?.f_flag;
    let mut flags = MountFlags::BIND;
    for (is, keep) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if now.contains(is) {
            flags |= keep;
        }
    }
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    Ok(mount_remount(path, flags, c"")?)
}

fn inside(scratch: &Path, path: &Path) -> PathBuf {
    scratch.join(path.strip_prefix("/").unwrap_or(path))
}

fn take(step: &Step, scratch: &Path) -> Result<(), Error> {
    match step {
        Step::Make(path) => {
            let target = inside(scratch, path);
            fs::create_dir(&target).and_then(|()| copy_access(path, &target)).map_err(fails("make", path))
        }
        Step::Link(path, to) => symlink(to, inside(scratch, path)).map_err(fails("link", path)),
        Step::BindDirectory(path) => {
            let target = inside(scratch, path);
            fs::create_dir(&target).map_err(fails("make", path))?;
            bind_if_allowed(path, &target)
        }
        Step::BindFile(path) => {
            let target = inside(scratch, path);
            fs::File::create(&target).map_err(fails("make", path))?;
            bind_if_allowed(path, &target)
        }
    }
}

/// Gives a directory the owner and mode of another one: the entries of a private directory stay private.
fn copy_access(from: &Path, to: &Path) -> io::Result<()> {
    let found = fs::metadata(from)?;
    let mode = found.mode() & 0o7777;
    let mode = match chown(to, Some(found.uid()), Some(found.gid())) {
        Ok(()) => mode,
        // In a user namespace, only the user of the node exists. Of other users' directories it is in the group, or
        // neither owner nor in the group.
        Err(_) if fs::metadata(to)?.uid() == found.uid() => mode,
        Err(_) => (((mode >> 3) | mode) & 0o7) * 0o111,
    };
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}

/// Bind-mounts a path of the machine. A directory without permission stays empty.
fn bind_if_allowed(path: &Path, target: &Path) -> Result<(), Error> {
    match mount_bind_recursive(path, target) {
        Ok(()) | Err(rustix::io::Errno::ACCESS | rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(fails("bind", path)(error)),
    }
}

/// Mounts /dev, /proc and the other file systems that every container has of its own.
fn own(scratch: &Path) -> Result<(), Error> {
    for path in root_plan::OWN {
        fs::create_dir_all(inside(scratch, Path::new(path))).map_err(fails("make", Path::new(path)))?;
    }
    let nothing_special = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let proc = scratch.join("proc");
    mount("proc", &proc, "proc", nothing_special, None).map_err(fails("mount", Path::new("/proc")))?;
    for name in READ_ONLY_PROC {
        let path = proc.join(name);
        if path.exists() {
            mount_bind_recursive(&path, &path).map_err(fails("bind", &path))?;
            remount(&path, true).map_err(fails("make read-only", &path))?;
        }
    }
    let sys = scratch.join("sys");
    mount_bind_recursive("/sys", &sys).map_err(fails("bind", Path::new("/sys")))?;

    let dev = scratch.join("dev");
    for name in DEVICES {
        let (device, target) = (Path::new("/dev").join(name), dev.join(name));
        fs::File::create(&target).map_err(fails("make", &device))?;
        mount_bind_recursive(&device, &target).map_err(fails("bind", &device))?;
    }
    for (name, to) in DEVICE_LINKS {
        symlink(to, dev.join(name)).map_err(fails("link", &dev.join(name)))?;
    }
    let (shm, pts) = (dev.join("shm"), dev.join("pts"));
    for path in [&shm, &pts] {
        fs::create_dir(path).map_err(fails("make", path))?;
    }
    mount("shm", &shm, "tmpfs", nothing_special, Some(c"mode=1777")).map_err(fails("mount", Path::new("/dev/shm")))?;
    // Some kernels refuse it in a user namespace; then programs cannot open ptys.
    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    let _ = mount("devpts", &pts, "devpts", terminals, Some(c"newinstance,ptmxmode=0666,mode=0620"));
    Ok(())
}

/// Name resolution works as on the machine, also where /etc/resolv.conf is a link into /run.
fn resolver(scratch: &Path) -> Result<(), Error> {
    let Ok(path) = fs::canonicalize("/etc/resolv.conf") else { return Ok(()) };
    if !path.starts_with("/run") {
        return Ok(());
    }
    let target = inside(scratch, &path);
    let make = || {
        fs::create_dir_all(target.parent().unwrap_or(scratch))?;
        fs::File::create(&target)?;
        Ok::<_, io::Error>(mount_bind_recursive(&path, &target)?)
    };
    make().map_err(fails("bind", &path))
}

/// Mounts a volume. It gets its access before it is at its place: a place below another volume can be replaced by the
/// containers that share that volume, and the access of what they put there must not change.
fn put(mount: &Mount, source: &OwnedFd, top: impl AsFd, scratch: &Path) -> Result<(), Error> {
    let target = mount.target.as_path();
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(source).map_err(fails("open", target))?.st_mode);
    let leaf = if kind.is_dir() { Leaf::Directory } else { Leaf::File };
    let place = in_root::open_or_make(top, target, leaf, Mode::from_raw_mode(0o755));
    let place = place.map_err(fails("create a mount point at", target))?;
    let staged = scratch.join(STAGED);
    let stage = || match leaf {
        Leaf::Directory => fs::create_dir(&staged),
        Leaf::File => fs::File::create_new(&staged).map(drop),
    };
    stage().map_err(fails("create a mount point for", target))?;
    mount_bind_recursive(by_descriptor(source), &staged).map_err(fails("bind the volume at", target))?;
    remount(&staged, mount.read_only).map_err(fails("set the access of the volume at", target))?;
    mount_move(&staged, by_descriptor(&place)).map_err(fails("move the volume to", target))?;
    let remove = || match leaf {
        Leaf::Directory => fs::remove_dir(&staged),
        Leaf::File => fs::remove_file(&staged),
    };
    remove().map_err(fails("remove the mount point for", target))
}

fn by_descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn move_into(scratch: &Path) -> Result<(), Error> {
    remount(scratch, true).map_err(fails("make read-only", scratch))?;
    let pivot = || {
        std::env::set_current_dir(scratch)?;
        rustix::process::pivot_root(".", ".")?;
        // The old root now covers the new one.
        rustix::mount::unmount(".", UnmountFlags::DETACH)?;
        std::env::set_current_dir("/")
    };
    pivot().map_err(fails("move into", scratch))
}

/// The file system of the real machine.
struct Real;

impl Real {
    fn found(path: &Path, kind: fs::FileType) -> Option<Found> {
        if kind.is_symlink() {
            return fs::read_link(path).ok().map(Found::Link);
        }
        Some(if kind.is_dir() { Found::Directory } else { Found::File })
    }
}

impl Machine for Real {
    fn find(&self, path: &Path) -> Option<Found> {
        Self::found(path, fs::symlink_metadata(path).ok()?.file_type())
    }

    fn list(&self, path: &Path) -> Vec<(PathBuf, Found)> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let path = entry.path();
            let found = Self::found(&path, entry.file_type().ok()?)?;
            Some((path, found))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_taken_apart_stays_as_private_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for path in [&from, &to] {
            fs::create_dir(path).unwrap();
        }
        let owner = rustix::process::geteuid().is_root().then_some(1234);
        chown(&from, owner, owner).unwrap();
        for mode in [0o700, 0o1777, 0o2750] {
            fs::set_permissions(&from, fs::Permissions::from_mode(mode)).unwrap();
            copy_access(&from, &to).unwrap();
            let shown = |path| fs::metadata(path).map(|found| (found.mode(), found.uid(), found.gid())).unwrap();
            assert_eq!(shown(&to), shown(&from));
        }
    }

    #[test]
    fn mount_points_with_spaces_are_read() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 0:5 / /mnt/my\\040disk rw - tmpfs x rw\n";
        assert_eq!(mount_points(table), [PathBuf::from("/"), PathBuf::from("/mnt/my disk")]);
    }
}
