//! Opens and creates paths inside a directory, with symbolic links resolved as if that directory were the root, so that
//! no link in a volume leads out of it.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path},
    thread,
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags},
    io::Errno,
    thread::UnshareFlags,
};

/// The kernel gives up on `..` when anything on the machine is renamed meanwhile. This many attempts are not all
/// disturbed, unless the system is attacked.
const ATTEMPTS: u32 = 200;

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
    let attempt = || rustix::fs::openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how);
    let mut opened = attempt();
    for _ in 1..ATTEMPTS {
        if !matches!(opened, Err(Errno::AGAIN)) {
            break;
        }
        thread::yield_now();
        opened = attempt();
    }
    opened
}

/// Opens `path` inside `root` and creates missing components, directories with this mode.
///
/// Other containers may change the tree at the same time. A component that they replace is used as it is.
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
        let created = if leaf == Leaf::File && index + 1 == names.len() {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(parent, *name, flags, Mode::from_raw_mode(0o644)).map(drop).map_err(io::Error::from)
        } else {
            make_directory(&parent, name, mode)
        };
        match created {
            // A link without a target, or created by another container since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    Ok(open(root, path)?)
}

/// Creates a directory with this mode, whatever the umask. The mode is not set afterwards: by then, another container
/// may have put a link in its place. The group bit is inherited from the parent.
fn make_directory(parent: impl AsFd, name: &OsStr, mode: Mode) -> io::Result<()> {
    let parent = parent.as_fd();
    // A thread with a umask of its own: the node has others.
    let created = thread::scope(|scope| {
        let make = || -> io::Result<()> {
            #[expect(deprecated, reason = "its danger is unsharing the table of files, which stays shared here")]
            rustix::thread::unshare(UnshareFlags::FS)?;
            rustix::process::umask(Mode::empty());
            Ok(rustix::fs::mkdirat(parent, name, mode)?)
        };
        thread::Builder::new().spawn_scoped(scope, make).map(thread::ScopedJoinHandle::join)
    })?;
    created.unwrap_or_else(|_| Err(io::Error::other("cannot create a directory: its thread failed")))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    use rustix::fs::{CWD, RenameFlags};

    use super::*;

    /// Rounds of a race. Changing the mode after the creation loses most of them.
    const ROUNDS: u32 = 600;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// Creates a sub-path again and again while another thread swaps `bait` into its place.
    fn race(volume: &Path, bait: &Path) {
        let made = volume.join("sub");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if rustix::fs::renameat_with(CWD, bait, CWD, &made, RenameFlags::EXCHANGE).is_err() {
                        thread::yield_now();
                    }
                }
            });
            let root = fs::File::open(volume).unwrap();
            for _ in 0..ROUNDS {
                // A start may fail in this race. It must not change anything else.
                let _ = open_or_make(&root, Path::new("sub"), Leaf::Directory, Mode::from_raw_mode(0o777));
                // One of the two is the directory of this round; the other one is the bait.
                for path in [bait, &made] {
                    let _ = fs::remove_dir(path);
                }
                let _ = fs::rename(&made, bait);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_link_that_is_swapped_in_does_not_pass_the_mode_to_its_target() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, outside) = (dir.path().join("volume"), dir.path().join("outside"));
        for path in [&volume, &outside] {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        symlink(&outside, volume.join("bait")).unwrap();
        race(&volume, &volume.join("bait"));
        assert_eq!(mode_of(&outside), 0o700);
    }

    #[test]
    fn a_directory_that_is_swapped_in_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let bait = dir.path().join("bait");
        fs::create_dir(&bait).unwrap();
        fs::write(bait.join("private"), "of another container").unwrap();
        fs::set_permissions(&bait, fs::Permissions::from_mode(0o700)).unwrap();
        race(dir.path(), &bait);
        let found = [bait, dir.path().join("sub")].into_iter().find(|path| path.join("private").exists());
        assert_eq!(mode_of(&found.unwrap()), 0o700);
    }

    #[test]
    fn two_containers_create_the_same_sub_path_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        for round in 0..200 {
            let path = std::path::PathBuf::from(format!("a{round}/b/c"));
            let make = || open_or_make(&root, &path, Leaf::Directory, Mode::from_raw_mode(0o777));
            thread::scope(|scope| {
                let other = scope.spawn(make);
                make().unwrap();
                other.join().unwrap().unwrap();
            });
        }
    }

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
    fn renames_elsewhere_do_not_disturb() {
        let dir = tempfile::tempdir().unwrap();
        let [volume, one, other] = ["volume", "one", "other"].map(|name| dir.path().join(name));
        for path in [&volume, &one, &other] {
            fs::create_dir(path).unwrap();
        }
        symlink("..", volume.join("upwards")).unwrap();
        let root = fs::File::open(&volume).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let opened: Vec<_> = (0..5000).map(|_| open(&root, Path::new("upwards/upwards"))).collect();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(opened.into_iter().find_map(Result::err), None);
        });
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
