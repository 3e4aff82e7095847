//! The state directory of the platform.
//!
//! | entry | content |
//! | --- | --- |
//! | `kubeopencode.json` | marks the directory as ours |
//! | `lock` | locked while a platform runs on the directory; contains its process id |
//! | `kubeconfig` | for kubectl |
//! | `api` | the objects of the API server |
//! | `node` | logs, volumes and claims of Pods |
//! | `store` | records and logs of Tasks, which outlive their Pods |
//! | `logs` | logs of Tasks that an earlier version left |
//! | `reserve` | space for a start on a full disk |
//! | `login.sock`, `login.html` | for `kubeopencode login` |
//!
//! Invariants: one platform at a time uses a directory; nothing is removed from a directory that is not ours; no other
//! user has access to a directory in use.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::{
    fs::OFlags,
    process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal},
};
use serde_json::{Value, json};

use crate::{login_socket, reserve, shell::quoted};

const MARKER: &str = "kubeopencode.json";
const LOCK: &str = "lock";
/// The marker while it is written.
const DRAFT: &str = "kubeopencode.json.draft";
/// Everything else that a platform creates in its directory.
const OTHERS: [&str; 11] = [
    "api",
    "definitions.sha256",
    "kubeconfig",
    "kubeconfig.new",
    LOGIN_PAGE,
    login_socket::FILE,
    "logs",
    "node",
    reserve::FILE,
    "store",
    "tools",
];
/// A page that leads to a login link.
pub const LOGIN_PAGE: &str = "login.html";
/// Mode of the directory: it contains the Secrets and the private keys of the platform.
const PRIVATE: u32 = 0o700;
/// Increased when older programs cannot read the directory any more.
const FORMAT: u64 = 1;

/// Errors of a state directory. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not empty and was not created by kubeopencode: choose another directory with --state-dir", .0.display())]
    NotOurs(PathBuf),
    #[error("{} is not a state directory of kubeopencode; nothing was removed", .0.display())]
    NothingToPurge(PathBuf),
    #[error("{} was written by a newer kubeopencode (format {format}): use that version, or another directory with --state-dir", dir.display())]
    Newer { dir: PathBuf, format: u64 },
    #[error("kubeopencode already runs on {}{}: stop it with `kubeopencode down --state-dir {}`", dir.display(), process(*pid), quoted(dir))]
    Running {
        dir: PathBuf,
        /// The process id in the lock file.
        pid: Option<i32>,
    },
    /// The lock is held by a process that is not a platform.
    #[error("{} is locked by a process that is not a running kubeopencode{}; stop that process first", dir.display(), process(*pid))]
    Stranger {
        dir: PathBuf,
        /// The process id in the lock file.
        pid: Option<i32>,
    },
    #[error(
        "process {pid} did not exit within {seconds} s: its Pods may still be terminating; `kill -9 {pid}` stops it at once"
    )]
    StillRunning { pid: i32, seconds: u64 },
    #[error("{} belongs to user {owner}, who could read the Secrets in it: choose another directory with --state-dir, or take it over with `chown -R`", dir.display())]
    OtherOwner { dir: PathBuf, owner: u32 },
    #[error("{what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn process(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

/// A state directory locked by this process. Dropping the value releases the lock.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Locked until the value is dropped or the process exits.
    _lock: File,
    full: Option<u64>,
}

impl StateDir {
    /// Locks a directory, and creates it if necessary.
    pub fn open(path: &Path) -> Result<Self, Error> {
        fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(path).map_err(io_error("cannot create", path))?;
        let path = fs::canonicalize(path).map_err(io_error("cannot find", path))?;
        let is_marked = match read_marker(&path)? {
            Marker::Format(FORMAT) => true,
            Marker::Format(format) => return Err(Error::Newer { dir: path, format }),
            marker if is_usable(&path, marker)? => false,
            Marker::Damaged | Marker::Absent => return Err(Error::NotOurs(path)),
        };
        make_private(&path)?;
        let mut lock = open_lock(&path, true)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Running { pid: read_pid(&mut lock), dir: path }),
            Err(TryLockError::Error(error)) => return Err(io_error("cannot lock", &path.join(LOCK))(error)),
        }
        let full = reserve::adjust(&path);
        // Of the same length each time: overwriting the file needs no space on the disk.
        let pid = format!("{:<20}\n", std::process::id());
        let noted = lock.write_all_at(pid.as_bytes(), 0);
        let noted = noted.map_err(io_error("cannot write", &path.join(LOCK)));
        let marker = if is_marked { Ok(()) } else { write_marker(&path) };
        let marker = marker.map_err(io_error("cannot write", &path.join(MARKER)));
        // Neither keeps a platform from its data. An empty directory of a full disk is of no use.
        if entries(&path)?.iter().any(|name| name == "api") {
            for error in [noted.err(), marker.err()].into_iter().flatten() {
                tracing::warn!("{error}");
            }
        } else {
            noted.and(marker)?;
        }
        Ok(Self { path, _lock: lock, full })
    }

    /// Free bytes at the start, if the disk was almost full.
    pub fn full(&self) -> Option<u64> {
        self.full
    }

    /// The canonical path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory and everything in it.
    pub fn purge(self) -> Result<(), Error> {
        let node = self.path.join("node");
        node::clean_up(&node).map_err(io_error("cannot unmount what is in", &node))?;
        fs::remove_dir_all(&self.path).map_err(io_error("cannot remove", &self.path))
    }
}

/// Stops the platform that runs on a directory, and waits until it exits. Returns its process id, if one was running.
pub fn stop(path: &Path, limit: Duration) -> Result<Option<i32>, Error> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(None) };
    if !path.join(LOCK).exists() {
        return Ok(None);
    }
    let mut lock = open_lock(&path, false)?;
    match lock.try_lock() {
        Ok(()) => return Ok(None),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(io_error("cannot lock", &path.join(LOCK))(error)),
    }
    let pid = read_pid(&mut lock);
    let stranger = || Error::Stranger { dir: path.clone(), pid };
    // The pidfd refers to the process that has the number now; that it has our lock file open proves that it is the
    // right one.
    let target = pid.and_then(Pid::from_raw).ok_or_else(stranger)?;
    let handle = pidfd_open(target, PidfdFlags::empty()).map_err(|_| stranger())?;
    if !has_open(target, &lock) {
        return Err(stranger());
    }
    pidfd_send_signal(&handle, Signal::TERM)
        .map_err(|error| io_error("cannot stop the process of", &path)(error.into()))?;
    let (ended, end) = mpsc::channel();
    // The lock is released when the process exits.
    thread::spawn(move || ended.send(lock.lock()));
    match end.recv_timeout(limit) {
        Ok(_) => Ok(pid),
        Err(_) => Err(Error::StillRunning { pid: target.as_raw_nonzero().get(), seconds: limit.as_secs() }),
    }
}

/// Removes a state directory that is not in use.
pub fn purge(path: &Path) -> Result<(), Error> {
    let Ok(path) = fs::canonicalize(path) else { return Err(Error::NothingToPurge(path.to_owned())) };
    if !is_state_dir(&path) {
        return Err(Error::NothingToPurge(path));
    }
    StateDir::open(&path)?.purge()
}

/// Takes all access from other users. The files below have other modes, some of them for the users of containers.
fn make_private(dir: &Path) -> Result<(), Error> {
    let open = || {
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(dir)?;
        let found = opened.metadata()?;
        Ok((opened, found))
    };
    let (opened, found) = open().map_err(io_error("cannot open", dir))?;
    if found.uid() != geteuid().as_raw() {
        return Err(Error::OtherOwner { dir: dir.to_owned(), owner: found.uid() });
    }
    if found.mode() & 0o7777 == PRIVATE {
        return Ok(());
    }
    opened.set_permissions(Permissions::from_mode(PRIVATE)).map_err(io_error("cannot take access from others to", dir))
}

fn open_lock(dir: &Path, create: bool) -> Result<File, Error> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600);
    options.open(&path).map_err(io_error("cannot open", &path))
}

fn read_pid(lock: &mut File) -> Option<i32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether a process has this file open.
fn has_open(pid: Pid, file: &File) -> bool {
    let Ok(ours) = file.metadata() else { return false };
    let Ok(open) = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else { return false };
    open.flatten().any(|entry| {
        fs::metadata(entry.path()).is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino()))
    })
}

/// Whether a directory is a state directory.
pub fn is_state_dir(path: &Path) -> bool {
    match read_marker(path) {
        Ok(Marker::Format(_)) => true,
        Ok(Marker::Damaged) => is_usable(path, Marker::Damaged).unwrap_or(false),
        Ok(Marker::Absent) | Err(_) => false,
    }
}

/// The content of the marker file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Absent,
    /// Empty or torn: earlier versions did not write it atomically.
    Damaged,
    Format(u64),
}

fn read_marker(dir: &Path) -> Result<Marker, Error> {
    let path = dir.join(MARKER);
    match fs::read(&path) {
        Ok(bytes) => {
            let marker: Option<Value> = serde_json::from_slice(&bytes).ok();
            let format = marker.and_then(|marker| marker["format"].as_u64());
            Ok(format.map_or(Marker::Damaged, Marker::Format))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Marker::Absent),
        Err(error) => Err(io_error("cannot read", &path)(error)),
    }
}

/// Writes the marker. After a crash it is there whole, or not at all.
fn write_marker(dir: &Path) -> io::Result<()> {
    let draft = dir.join(DRAFT);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{}", json!({ "format": FORMAT }))?;
    file.sync_all()?;
    fs::rename(&draft, dir.join(MARKER))?;
    File::open(dir)?.sync_all()
}

/// Whether a directory without a readable marker can be used: it was never used, or is a state directory all the same.
fn is_usable(dir: &Path, marker: Marker) -> Result<bool, Error> {
    let entries = entries(dir)?;
    let has = |wanted: &str| entries.iter().any(|name| name == wanted);
    let only = |known: &[&str]| entries.iter().all(|name| known.iter().any(|known| name == known));
    let has_data = has(LOCK) && (has("api") || has("node"));
    // A first start may have been killed before it wrote the marker.
    let is_unused = only(&[LOCK, DRAFT]);
    Ok(match marker {
        Marker::Absent => is_unused || (has_data && only(&[&[LOCK, DRAFT], &OTHERS[..]].concat())),
        Marker::Damaged => has_data || only(&[LOCK, DRAFT, MARKER]),
        Marker::Format(format) => format == FORMAT,
    })
}

fn entries(dir: &Path) -> Result<Vec<OsString>, Error> {
    let entries = fs::read_dir(dir).map_err(io_error("cannot list", dir))?;
    entries.map(|entry| Ok(entry.map_err(io_error("cannot list", dir))?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(outcome: Result<impl Sized, Error>) -> String {
        outcome.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_directory_serves_one_platform_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("new/state");
        let held = StateDir::open(&dir).unwrap();
        let error = text(StateDir::open(&dir));
        assert!(error.contains(&format!("(process {})", std::process::id())) && error.contains("down"), "{error}");
        drop(held);
        StateDir::open(&dir).unwrap();
    }

    #[test]
    fn a_foreign_directory_is_neither_used_nor_removed() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.txt"), "years of work").unwrap();
        assert!(text(StateDir::open(temp.path())).contains("was not created by kubeopencode"));
        assert!(text(purge(temp.path())).contains("nothing was removed"));
        assert!(temp.path().join("thesis.txt").exists());
        assert!(text(purge(&temp.path().join("absent"))).contains("nothing was removed"));
    }

    #[test]
    fn other_users_have_no_access_to_a_directory_that_existed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("state");
        let mode = || fs::metadata(&dir).unwrap().mode() & 0o7777;
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        drop(StateDir::open(&dir).unwrap());
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
        drop(StateDir::open(&dir).unwrap());
        assert_eq!(mode(), 0o700);
        // Not of a directory that is not ours.
        fs::set_permissions(temp.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(text(StateDir::open(temp.path())).contains("was not created by kubeopencode"));
        assert_eq!(fs::metadata(temp.path()).unwrap().mode() & 0o7777, 0o755);
    }

    #[test]
    fn a_directory_of_another_user_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(temp.path(), Some(65534), None).unwrap();
            let error = text(StateDir::open(temp.path()));
            assert!(error.contains("belongs to user 65534") && error.contains("--state-dir"), "{error}");
        }
    }

    #[test]
    fn a_state_directory_can_be_removed_unless_it_is_in_use() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("state");
        let held = StateDir::open(&dir).unwrap();
        assert!(text(purge(&dir)).contains("already runs"));
        drop(held);
        purge(&dir).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn a_format_of_the_future_is_named() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(MARKER), r#"{"format": 99}"#).unwrap();
        assert!(text(StateDir::open(temp.path())).contains("newer kubeopencode (format 99)"));
    }

    #[test]
    fn a_damaged_marker_is_repaired_and_the_data_stay() {
        for damaged in [Some(""), Some("{"), Some("\0\0\0"), None] {
            let temp = tempfile::tempdir().unwrap();
            let (marker, data) = (temp.path().join(MARKER), temp.path().join("api/objects"));
            drop(StateDir::open(temp.path()).unwrap());
            fs::create_dir(temp.path().join("api")).unwrap();
            fs::write(&data, "years of work").unwrap();
            match damaged {
                Some(text) => fs::write(&marker, text).unwrap(),
                None => fs::remove_file(&marker).unwrap(),
            }
            assert_eq!(is_state_dir(temp.path()), damaged.is_some(), "{damaged:?}");
            drop(StateDir::open(temp.path()).unwrap());
            assert_eq!(read_marker(temp.path()).unwrap(), Marker::Format(FORMAT), "{damaged:?}");
            assert!(data.exists() && !temp.path().join(DRAFT).exists());
        }
    }

    #[test]
    fn a_damaged_marker_of_a_start_that_was_killed_is_repaired() {
        let temp = tempfile::tempdir().unwrap();
        for name in [LOCK, DRAFT, MARKER] {
            fs::write(temp.path().join(name), "").unwrap();
        }
        drop(StateDir::open(temp.path()).unwrap());
        assert!(is_state_dir(temp.path()));
    }

    #[test]
    fn a_file_with_the_name_of_the_marker_does_not_make_a_directory_ours() {
        let temp = tempfile::tempdir().unwrap();
        for name in [MARKER, LOCK, "thesis.txt"] {
            fs::write(temp.path().join(name), "years of work").unwrap();
        }
        assert!(text(StateDir::open(temp.path())).contains("was not created by kubeopencode"));
        assert!(text(purge(temp.path())).contains("nothing was removed"));
        assert_eq!(fs::read_to_string(temp.path().join(MARKER)).unwrap(), "years of work");
    }

    #[test]
    fn a_lock_of_an_earlier_process_is_overwritten_whole() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(LOCK), "4194304\n").unwrap();
        let held = StateDir::open(temp.path()).unwrap();
        let mut lock = open_lock(held.path(), false).unwrap();
        assert_eq!(read_pid(&mut lock), i32::try_from(std::process::id()).ok());
    }

    #[test]
    fn the_marker_is_written_once() {
        let temp = tempfile::tempdir().unwrap();
        drop(StateDir::open(temp.path()).unwrap());
        let inode = || fs::metadata(temp.path().join(MARKER)).map(|found| (found.ino(), found.mtime_nsec())).unwrap();
        let before = inode();
        drop(StateDir::open(temp.path()).unwrap());
        assert_eq!(inode(), before);
    }

    #[test]
    fn nothing_runs_on_a_directory_that_is_free_or_absent() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(stop(&temp.path().join("absent"), Duration::ZERO).unwrap(), None);
        drop(StateDir::open(temp.path()).unwrap());
        assert_eq!(stop(temp.path(), Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn a_process_that_does_not_hold_the_lock_is_not_stopped() {
        let temp = tempfile::tempdir().unwrap();
        let _held = StateDir::open(temp.path()).unwrap();
        // A process id written by a platform that exited, now reused by another process.
        fs::write(temp.path().join(LOCK), "1\n").unwrap();
        assert!(text(stop(temp.path(), Duration::ZERO)).contains("not a running kubeopencode (process 1)"));
    }
}
