//! workspace-clean: removes the directories of deleted Tasks from a workspace that runs share, and lists those of other
//! Tasks.
//!
//! Only real directories whose names are ours are removed, and no link is followed: an agent may have written anything
//! there. A directory that cannot be removed does not keep the others.

use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use domain::{
    contract::{
        paths,
        workspace::{CleanReport, LONGEST_PROBLEM, MOST_LISTED, MOST_PROBLEMS},
    },
    run::workspace::task_of_directory,
};
use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};

use crate::{
    env::{self, Lookup},
    outcome::write_termination_message,
};

/// Opens a directory without a permission, and nothing else.
const UNOPENED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The rights that a removal needs.
const OWNER_ALL: u32 = 0o700;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Mount of the whole volume.
    pub root: PathBuf,
    /// UIDs of the Tasks whose directories are removed.
    pub tasks: BTreeSet<String>,
    /// UIDs of Tasks that exist. They are not listed.
    pub known: BTreeSet<String>,
    /// The UID after which other Tasks are listed; empty for all.
    pub list_after: String,
    /// Where the report goes.
    pub outcome: PathBuf,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Self {
        let uids = |name| {
            let list = env::text(env, name).unwrap_or_default();
            list.split(',').filter(|uid| task_of_directory(uid).is_some()).map(str::to_owned).collect()
        };
        Self {
            root: env::path(env, env::WORKSPACES_DIR, paths::WORKSPACES),
            tasks: uids(env::REMOVED_TASKS),
            known: uids(env::KNOWN_TASKS),
            list_after: env::text(env, env::LIST_AFTER).unwrap_or_default(),
            outcome: crate::outcome::file(env),
        }
    }
}

/// The workspace cannot be read, or the report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the shared workspace {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the report to {}: {source}", path.display())]
    Report { path: PathBuf, source: io::Error },
}

/// Removes the directories, and leaves the report as the termination message.
pub fn run(settings: &Settings) -> Result<CleanReport, Error> {
    let report = clean(&settings.root, &settings.tasks, &settings.known, &settings.list_after)?;
    let text = serde_json::to_string(&report).unwrap_or_default();
    write_termination_message(&settings.outcome, &text)
        .map_err(|source| Error::Report { path: settings.outcome.clone(), source })?;
    Ok(report)
}

fn clean(
    root: &Path,
    tasks: &BTreeSet<String>,
    known: &BTreeSet<String>,
    list_after: &str,
) -> Result<CleanReport, Error> {
    let unreadable = |source| Error::Read { path: root.to_owned(), source };
    let mut report = CleanReport::default();
    let (mut others, mut removed, mut failed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(root).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(task) = name.to_str().and_then(task_of_directory) else { continue };
        if !tasks.contains(task) {
            if task > list_after && !known.contains(task) {
                others.insert(task.to_owned());
            }
            // The next Pod lists the rest.
            if others.len() > MOST_LISTED {
                others.pop_last();
            }
            continue;
        }
        match remove(&root.join(&name)) {
            Ok(()) => drop(removed.insert(task.to_owned())),
            Err(error) => {
                failed.insert(task.to_owned());
                if report.problems.len() < MOST_PROBLEMS {
                    let problem = format!("{}: {error}", name.display());
                    report.problems.push(problem.chars().take(LONGEST_PROBLEM).collect());
                }
            }
        }
    }
    report.removed = u64::try_from(removed.difference(&failed).count()).unwrap_or(u64::MAX);
    (report.others, report.failed) = (others.into_iter().collect(), failed.into_iter().collect());
    Ok(report)
}

/// Removes a directory tree, including read-only directories, which package caches often contain. A link or a file is
/// removed itself.
fn remove(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(&rustix::fs::open(path, UNOPENED, Mode::empty())?)?;
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// By descriptor: another run may replace a directory by a link.
fn unlock(directory: &OwnedFd) -> io::Result<()> {
    let directory = open_fully(directory)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::openat(&directory, entry.file_name(), UNOPENED, Mode::empty()) {
            Ok(below) => unlock(&below)?,
            // A file, a link, or removed since.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Gives the owner all rights to a directory unless it has them, and opens it.
fn open_fully(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let mode = rustix::fs::fstat(directory)?.st_mode;
    if mode & OWNER_ALL != OWNER_ALL {
        // A descriptor that needs no permission can only be changed through its path.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        match fs::set_permissions(path, fs::Permissions::from_mode(mode | OWNER_ALL)) {
            // Of another user, such as the kubelet: its group may have the rights.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, ".", flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const GONE: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";
    const ALSO_GONE: &str = "1a2b3c4d-1111-2222-3333-0123456789ac";
    const KEPT: &str = "1a2b3c4d-1111-2222-3333-0123456789ad";

    fn tree(root: &Path, name: &str) {
        let directory = root.join(name).join("1/src");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("main.go"), "package main").unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn tasks<const N: usize>(uids: [&str; N]) -> BTreeSet<String> {
        uids.map(str::to_owned).into()
    }

    #[test]
    fn only_the_directories_of_deleted_tasks_go_in_either_layout() {
        let root = tempfile::tempdir().unwrap();
        let fix = format!("fix.{ALSO_GONE}");
        for name in [GONE, &fix, KEPT, "node_modules", "lost+found", &format!(".{GONE}")] {
            tree(root.path(), name);
        }
        let report = clean(root.path(), &tasks([GONE, ALSO_GONE]), &BTreeSet::new(), "").unwrap();
        assert_eq!(names(root.path()), [&format!(".{GONE}"), KEPT, "lost+found", "node_modules"]);
        assert_eq!((report.removed, report.others), (2, vec![KEPT.to_owned()]));
        assert!(report.failed.is_empty() && report.problems.is_empty());
    }

    #[test]
    fn what_a_link_leads_to_stays() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "x").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path(), root.path().join(format!("fix.{GONE}"))).unwrap();
        tree(root.path(), GONE);
        symlink(outside.path(), root.path().join(GONE).join("1/link")).unwrap();
        // A read-only directory, as module caches contain.
        fs::set_permissions(root.path().join(GONE).join("1"), fs::Permissions::from_mode(0o500)).unwrap();
        let report = clean(root.path(), &tasks([GONE]), &BTreeSet::new(), "").unwrap();
        assert_eq!((report.removed, names(root.path()).len()), (1, 0), "{report:?}");
        assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "x");
    }

    #[test]
    fn directories_without_any_permission_are_unlocked_and_links_are_not() {
        let outside = tempfile::tempdir().unwrap();
        fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = tempfile::tempdir().unwrap();
        let locked = root.path().join("a/b");
        fs::create_dir_all(&locked).unwrap();
        symlink(outside.path(), locked.join("link")).unwrap();
        for directory in [&locked, &root.path().join("a")] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o000)).unwrap();
        }
        unlock(&rustix::fs::open(root.path().join("a"), UNOPENED, Mode::empty()).unwrap()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&locked), mode(outside.path())), (0o700, 0o755));
    }

    #[test]
    fn a_report_lists_unknown_tasks_and_only_as_many_as_fit() {
        let root = tempfile::tempdir().unwrap();
        let uid = |number: u32| format!("1a2b3c4d-1111-2222-3333-{number:012x}");
        for number in 0..100 {
            fs::create_dir(root.path().join(uid(number))).unwrap();
        }
        let report = |known: u32, after: &str| {
            let known = (0..known).map(uid).collect();
            clean(root.path(), &BTreeSet::new(), &known, after).unwrap()
        };
        assert_eq!(report(98, "").others, [uid(98), uid(99)]);
        // Report by report, every directory is listed once.
        let (mut listed, mut after) = (Vec::new(), String::new());
        loop {
            let next = report(0, &after);
            listed.extend(next.others.clone());
            match next.continues_after() {
                Some(last) => last.clone_into(&mut after),
                None => break,
            }
        }
        assert_eq!(listed, (0..100).map(uid).collect::<Vec<_>>());
    }

    #[test]
    fn the_settings_name_tasks_and_nothing_else() {
        let list = format!("{GONE},,../..,fix,{KEPT}");
        let env = |name: &str| (name == env::REMOVED_TASKS).then(|| list.clone());
        let settings = Settings::from_env(&env);
        assert_eq!(settings.tasks, tasks([GONE, KEPT]));
        assert_eq!(settings.root, Path::new("/workspaces"));
        let nowhere = Settings { root: "/no/such/place".into(), ..settings };
        assert!(run(&nowhere).unwrap_err().to_string().starts_with("cannot read the shared workspace /no/such/place"));
    }
}
