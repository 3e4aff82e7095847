//! Merging a checkout into the workspace root, once.
//!
//! The merge copies every file of the repository that the workspace does not have; existing files, `task.md` and
//! `.kubeopencode` are not changed. A record in the workspace marks the merge as done, so a restarted Pod on a retained
//! volume does not undo the agent's work. An interrupted merge is repeated: the agent starts only afterwards and cannot
//! have changed the files.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::checkout::{CheckoutError, Marker};
use super::settings::Settings;
use crate::place::{FileMode, PlaceError, Root};

/// Paths that are reserved for KubeOpenCode and never merged.
const OURS: [&str; 2] = ["task.md", ".kubeopencode"];

/// Keeps the platform's files out of commits of everything.
const IGNORED: &str = "/task.md\n/.kubeopencode/\n";

/// Why a merge failed.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file cannot be written.
    #[error("the repository cannot be merged into the workspace: {0}")]
    Place(#[from] PlaceError),
    /// A file cannot be read.
    #[error("the checkout cannot be read: {path:?}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// The repository has no such directory.
    #[error("the repository has no directory {0:?}; correct the context's git.path")]
    NoSubpath(PathBuf),
    /// The subpath is a file.
    #[error(
        "{0:?} is a file of the repository, and only a directory can be merged here; set the context's git.path to its directory"
    )]
    FileSubpath(PathBuf),
    /// The record cannot be written.
    #[error(transparent)]
    Marker(#[from] CheckoutError),
}

/// A finished merge.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Number of files written.
    pub written: usize,
    /// Existing paths that were not overwritten.
    pub kept: Vec<PathBuf>,
}

/// Path of the record of a finished merge.
pub fn marker_path(settings: &Settings, workspace: &Path) -> PathBuf {
    // FNV-1a: stable over versions of the program, as a record on a retained volume must be.
    let identity = format!("{}\n{}", settings.repository.url, settings.subpath.display());
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    workspace.join(".kubeopencode/git").join(format!("{hash:016x}.ok"))
}

/// Merges the checkout into `workspace` and records it.
pub fn merge(settings: &Settings, workspace: &Path, marker: &Marker) -> Result<Merged, MergeError> {
    let source = settings.checkout().join(&settings.subpath);
    let whole = settings.subpath.as_os_str().is_empty();
    if !is_plain_directory(&settings.checkout(), &settings.subpath) {
        if source.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(MergeError::FileSubpath(settings.subpath.clone()));
        }
        return Err(MergeError::NoSubpath(settings.subpath.clone()));
    }
    let root = Root::open(workspace)?;
    let mut files = Vec::new();
    list(&source, Path::new(""), &mut files)?;
    files.retain(|file| !OURS.iter().any(|ours| file.starts_with(ours)));

    let record = marker_path(settings, workspace);
    let journal = record.with_extension("merging");
    let kept = if let Some(kept) = read_journal(&journal) {
        kept
    } else {
        let mut kept = BTreeSet::new();
        for file in files.iter().chain(whole.then_some(&PathBuf::from(".git"))) {
            if root.occupied(file)? {
                kept.insert(file.clone());
            }
        }
        write_journal(&root, workspace, &journal, &kept)?;
        kept
    };

    let mut merged = Merged { written: 0, kept: kept.iter().cloned().collect() };
    if whole && !kept.contains(Path::new(".git")) {
        copy_git_directory(&source, workspace, &root)?;
    }
    for file in files.iter().filter(|file| !kept.contains(*file)) {
        copy(&source.join(file), &root, file)?;
        merged.written += 1;
    }
    marker.write(&record)?;
    let _ = std::fs::remove_file(&journal);
    Ok(merged)
}

/// Copies `.git` under another name and renames it: half of a `.git` is worse than none.
fn copy_git_directory(source: &Path, workspace: &Path, root: &Root) -> Result<(), MergeError> {
    let partial = Path::new(".git.kubeopencode-partial");
    let failed = |path: &Path, source: std::io::Error| MergeError::Read { path: path.to_owned(), source };
    if workspace.join(partial).symlink_metadata().is_ok() {
        std::fs::remove_dir_all(workspace.join(partial)).map_err(|error| failed(partial, error))?;
    }
    let git = source.join(".git");
    let mut files = Vec::new();
    list_all(&git, Path::new(""), &mut files)?;
    for file in &files {
        copy(&git.join(file), root, &partial.join(file))?;
    }
    let exclude = Path::new("info/exclude");
    let known = std::fs::read_to_string(git.join(exclude)).unwrap_or_default();
    root.write(&partial.join(exclude), &mut format!("{known}{IGNORED}").as_bytes(), FileMode::Exactly(0o644))?;
    // Empty directories matter: git does not take a directory without `refs` and `objects` for a repository.
    for directory in ["refs", "objects"] {
        root.directory(&partial.join(directory))?;
    }
    let target = workspace.join(".git");
    if target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        // Left by an interrupted merge: the journal does not list it as existing before.
        std::fs::remove_dir_all(&target).map_err(|error| failed(&target, error))?;
    }
    std::fs::rename(workspace.join(partial), &target).map_err(|error| failed(&target, error))
}

fn copy(from: &Path, root: &Root, to: &Path) -> Result<(), MergeError> {
    use std::os::unix::fs::PermissionsExt as _;
    let read = |source: std::io::Error| MergeError::Read { path: from.to_owned(), source };
    let metadata = from.symlink_metadata().map_err(read)?;
    if metadata.is_symlink() {
        root.symlink(to, &std::fs::read_link(from).map_err(read)?)?;
    } else {
        let mode = FileMode::Exactly(metadata.permissions().mode() & 0o777);
        root.write(to, &mut File::open(from).map_err(read)?, mode)?;
    }
    Ok(())
}

/// Files and links of a checkout, without its `.git` directory (but with the `.git` files of submodules).
fn list(base: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<(), MergeError> {
    list_all(base, below, files)?;
    if below.as_os_str().is_empty() {
        files.retain(|file| !file.starts_with(".git"));
    }
    Ok(())
}

fn list_all(base: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<(), MergeError> {
    let directory = base.join(below);
    let read = |source: std::io::Error| MergeError::Read { path: directory.clone(), source };
    for entry in std::fs::read_dir(&directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = below.join(entry.file_name());
        if entry.file_type().map_err(read)?.is_dir() {
            list_all(base, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// A directory below `base` that is reached without a link: a repository must not lead the merge elsewhere.
fn is_plain_directory(base: &Path, below: &Path) -> bool {
    let mut path = base.to_owned();
    below.components().all(|component| {
        path.push(component);
        path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
    }) && base.is_dir()
}

fn read_journal(path: &Path) -> Option<BTreeSet<PathBuf>> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write_journal(root: &Root, workspace: &Path, path: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), MergeError> {
    let failed = |source: std::io::Error| MergeError::Read { path: path.to_owned(), source };
    let bytes = serde_json::to_vec(kept).map_err(|error| failed(error.into()))?;
    let relative = path.strip_prefix(workspace).unwrap_or(path);
    root.write(relative, &mut bytes.as_slice(), FileMode::Exactly(0o644))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{self, tests::of};
    use std::os::unix::fs::symlink;

    struct Case {
        base: tempfile::TempDir,
    }

    impl Case {
        fn new(repository: &[(&str, &str)], workspace: &[(&str, &str)]) -> Self {
            let base = tempfile::tempdir().unwrap();
            let case = Self { base };
            for (area, files) in [("git/repo", repository), ("ws", workspace)] {
                std::fs::create_dir_all(case.base.path().join(area)).unwrap();
                for (path, content) in files {
                    case.put(&format!("{area}/{path}"), content);
                }
            }
            case
        }

        fn put(&self, path: &str, content: &str) {
            let path = self.base.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        fn workspace(&self) -> PathBuf {
            self.base.path().join("ws")
        }

        fn settings(&self, subpath: &str) -> Settings {
            let root = self.base.path().join("git").display().to_string();
            let pairs =
                [(env::GIT_REPO, "https://h/r"), (env::GIT_ROOT, root.as_str()), (env::GIT_REPO_SUBPATH, subpath)];
            Settings::from_env(&of(&pairs)).unwrap()
        }

        fn merge(&self, subpath: &str) -> Result<Merged, MergeError> {
            let marker = Marker { repository: "r".into(), reference: "HEAD".into(), commit: "c".into() };
            merge(&self.settings(subpath), &self.workspace(), &marker)
        }

        fn read(&self, path: &str) -> String {
            std::fs::read_to_string(self.workspace().join(path)).unwrap()
        }
    }

    #[test]
    fn what_is_in_the_workspace_stays_and_our_paths_are_never_touched() {
        let case = Case::new(
            &[
                ("task.md", "evil"),
                (".kubeopencode/context.md", "evil"),
                (".kubeopencode/other", "evil"),
                ("README.md", "theirs"),
                ("src/a.rs", "a"),
                (".git/HEAD", "ref: refs/heads/main"),
            ],
            &[("task.md", "prompt"), (".kubeopencode/context.md", "context"), ("README.md", "mine")],
        );
        let merged = case.merge("").unwrap();
        assert_eq!(merged, Merged { written: 1, kept: vec![PathBuf::from("README.md")] });
        assert_eq!(case.read("task.md"), "prompt");
        assert_eq!(case.read(".kubeopencode/context.md"), "context");
        assert_eq!(case.read("README.md"), "mine");
        assert_eq!(case.read("src/a.rs"), "a");
        assert_eq!(case.read(".git/HEAD"), "ref: refs/heads/main");
        assert!(!case.workspace().join(".kubeopencode/other").exists());
        assert!(marker_path(&case.settings(""), &case.workspace()).exists());
    }

    #[test]
    fn an_interrupted_merge_is_repeated_but_keeps_what_was_there_before_it() {
        let case = Case::new(&[("a", "new a"), ("b", "new b"), (".git/HEAD", "new")], &[("b", "mine")]);
        let settings = case.settings("");
        let journal = marker_path(&settings, &case.workspace()).with_extension("merging");
        std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
        std::fs::write(&journal, r#"["b"]"#).unwrap();
        case.put("ws/a", "half of an older commit");
        case.put("ws/.git/HEAD", "old");
        case.merge("").unwrap();
        assert_eq!(case.read("a"), "new a");
        assert_eq!(case.read("b"), "mine");
        assert_eq!(case.read(".git/HEAD"), "new");
        assert!(!journal.exists());
    }

    #[test]
    fn a_subpath_is_merged_without_git_and_links_do_not_lead_away() {
        let case = Case::new(&[("docs/a.md", "a"), (".git/HEAD", "x"), ("other", "o")], &[]);
        symlink("/etc", case.base.path().join("git/repo/link")).unwrap();
        symlink("/etc/hostname", case.base.path().join("git/repo/docs/host")).unwrap();
        assert_eq!(case.merge("docs").unwrap().written, 2);
        assert_eq!(case.read("a.md"), "a");
        assert!(case.workspace().join("host").symlink_metadata().unwrap().is_symlink());
        assert!(!case.workspace().join(".git").exists());
        assert!(matches!(case.merge("link"), Err(MergeError::NoSubpath(_))));
        assert!(matches!(case.merge("missing"), Err(MergeError::NoSubpath(_))));
        assert!(matches!(case.merge("other"), Err(MergeError::FileSubpath(_))));
    }

    #[test]
    fn a_link_in_the_workspace_is_kept_and_not_written_through() {
        let case = Case::new(&[("docs/a.md", "a"), (".git/HEAD", "x")], &[]);
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), case.workspace().join("docs")).unwrap();
        assert_eq!(case.merge("").unwrap().kept, [PathBuf::from("docs/a.md")]);
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
