//! Finds the repositories of a workspace.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use domain::contract::paths;

/// Levels of directories below the workspace.
const DEPTH: usize = 4;
/// Directories to look into.
const DIRECTORIES: usize = 5_000;
/// Repositories to compare. Others count as part of none.
pub const REPOSITORIES: usize = 20;
/// Directories with many files and no repositories of interest.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".venv"];

/// The paths of the repositories below `root`, relative to it, the nearest first. Links are not followed.
pub fn repositories(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut queue = VecDeque::from([(PathBuf::new(), 0)]);
    let mut seen = 0;
    while let Some((path, depth)) = queue.pop_front() {
        seen += 1;
        if seen > DIRECTORIES || found.len() == REPOSITORIES {
            break;
        }
        let directory = root.join(&path);
        if is_repository(&directory) {
            found.push(path.clone());
        }
        if depth == DEPTH {
            continue;
        }
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.file_name())
            .filter(|name| !SKIPPED.iter().any(|skipped| name == skipped) && name != paths::PLATFORM_DIRECTORY)
            .map(|name| path.join(name))
            .collect();
        below.sort();
        queue.extend(below.into_iter().map(|path| (path, depth + 1)));
    }
    found
}

/// Whether a directory is the work tree of a repository. A linked work tree has a file instead of a directory.
fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    match std::fs::symlink_metadata(&git) {
        Ok(metadata) if metadata.is_dir() => git.join("HEAD").exists(),
        Ok(metadata) => metadata.is_file(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_found_at_any_place_but_not_through_links() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/b/.git", "c/.git", "node_modules/x/.git", "1/2/3/4/5/.git", "empty/.git"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        for path in ["a/b/.git/HEAD", "c/.git/HEAD", "node_modules/x/.git/HEAD", "1/2/3/4/5/.git/HEAD"] {
            std::fs::write(root.path().join(path), "").unwrap();
        }
        std::os::unix::fs::symlink("a", root.path().join("link")).unwrap();
        assert_eq!(repositories(root.path()), [Path::new("c"), Path::new("a/b")]);
        std::fs::write(root.path().join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(repositories(root.path())[0], Path::new(""));
        assert!(repositories(Path::new("/no/such/directory")).is_empty());
    }
}
