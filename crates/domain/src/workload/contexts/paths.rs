//! Valid paths of contexts.
//!
//! Inside the workspace every path is valid. Outside of it, a directory such as `/home/agent/.config` or `/opt/guides`
//! is: an empty volume is mounted over the directory that receives a file, and hides the files of the image there. So
//! directories of the system, of the kernel and of the platform are refused.

use super::ContextError;
use crate::contract::paths;

/// Directories of the system, of the kernel and of the platform.
const REFUSED: [&str; 21] = [
    "/bin",
    "/boot",
    paths::CONTEXT_FILES,
    "/data",
    "/dev",
    "/etc",
    paths::GIT,
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/lost+found",
    paths::PLUGINS,
    "/proc",
    "/run",
    "/sbin",
    paths::SKILLS,
    "/sys",
    paths::TOOLS,
    "/usr",
    "/var",
];

/// Why a path is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// It contains `..`.
    #[error("contains `..`; write it without")]
    Parent,
    /// It is in a reserved directory.
    #[error(
        "lies in {0}, which belongs to the system; use a path in the workspace, in a home directory or in a directory of its own"
    )]
    System(String),
    /// It is directly in `/`.
    #[error("lies directly in `/`, which would be hidden; put it into a directory")]
    TopLevel,
    /// It contains a colon, so Kubernetes cannot mount it.
    #[error("contains `:`, which Kubernetes refuses in the path of a mount; write it without")]
    Colon,
    /// It is the workspace.
    #[error("is the workspace itself; name a file or directory in it")]
    Workspace,
    /// It contains the workspace.
    #[error("holds the workspace {0}; use a path in the workspace or beside it")]
    HoldsWorkspace(String),
}

/// What is placed at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Directory,
    /// A repository that may be merged into the workspace itself.
    Repository,
}

/// The normalised path, without `//`, `/./` and a trailing `/`. A relative path starts at `base`.
pub(super) fn absolute(base: &str, path: &str) -> Result<String, BadPath> {
    let mut segments: Vec<&str> = Vec::new();
    let start = if path.starts_with('/') { "" } else { base };
    for segment in start.split('/').chain(path.split('/')) {
        match segment {
            "" | "." => {}
            ".." => return Err(BadPath::Parent),
            segment => segments.push(segment),
        }
    }
    Ok(format!("/{}", segments.join("/")))
}

/// A relative path without leading or trailing `/`; `None` if it is empty.
pub(super) fn relative(path: &str) -> Result<Option<String>, BadPath> {
    let path = absolute("", path)?;
    Ok(Some(path.trim_start_matches('/').to_owned()).filter(|path| !path.is_empty()))
}

/// Whether `path` is `directory` or inside of it.
pub(crate) fn within(path: &str, directory: &str) -> bool {
    path == directory || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/') || directory == "/")
}

/// The parent directory of `path`.
pub(super) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// The absolute path of a context, if it is valid.
pub(super) fn place(workspace: &str, mount_path: &str, shape: Shape) -> Result<String, BadPath> {
    let path = absolute(workspace, mount_path)?;
    if path == workspace {
        return if shape == Shape::Repository { Ok(path) } else { Err(BadPath::Workspace) };
    }
    // A volume is mounted at or around it.
    let mounted = shape == Shape::Repository || !within(&path, workspace);
    if mounted && path.contains(':') {
        return Err(BadPath::Colon);
    }
    if within(&path, workspace) {
        return Ok(path);
    }
    if within(workspace, &path) {
        return Err(BadPath::HoldsWorkspace(workspace.to_owned()));
    }
    if let Some(tree) = refused_tree(&path) {
        return Err(BadPath::System(tree));
    }
    if shape == Shape::File && parent(&path) == "/" {
        return Err(BadPath::TopLevel);
    }
    Ok(path)
}

fn refused_tree(path: &str) -> Option<String> {
    let top = path.split('/').nth(1).unwrap_or_default();
    // Each ConfigMap that is copied as a directory is mounted at /configmap-dir-N.
    if top.starts_with("configmap-dir-") {
        return Some(format!("/{top}"));
    }
    REFUSED.iter().find(|tree| within(path, tree)).map(|tree| (*tree).to_owned())
}

/// The workspace must not hide directories of the system or of the platform.
pub(super) fn check_workspace(workspace: &str) -> Result<(), ContextError> {
    let refused = |problem| ContextError::Workspace { path: workspace.to_owned(), problem };
    let clean = absolute("", workspace).map_err(refused)?;
    // A workspace deep in /var or /data is unusual but harmless; the directory itself is not.
    let harmless = ["/data/", "/var/", "/usr/src/", "/usr/local/", "/run/"].iter().any(|tree| clean.starts_with(tree));
    match refused_tree(&clean) {
        _ if clean == "/" => Err(refused(BadPath::TopLevel)),
        _ if clean.contains(':') => Err(refused(BadPath::Colon)),
        Some(tree) if !harmless => Err(refused(BadPath::System(tree))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mount_path: &str, shape: Shape, expected: Result<&str, &str>) {
        let placed = place("/workspace", mount_path, shape).map_err(|problem| problem.to_string());
        match (placed, expected) {
            (Ok(path), Ok(expected)) => assert_eq!(path, expected, "{mount_path}"),
            (Err(problem), Err(part)) => assert!(problem.contains(part), "{mount_path}: {problem}"),
            (placed, expected) => panic!("{mount_path}: {placed:?}, not {expected:?}"),
        }
    }

    #[test]
    fn paths_are_normalised() {
        check("docs/a.md", Shape::File, Ok("/workspace/docs/a.md"));
        check("./docs//a.md", Shape::File, Ok("/workspace/docs/a.md"));
        check("docs/", Shape::Directory, Ok("/workspace/docs"));
        check("/workspace/x", Shape::File, Ok("/workspace/x"));
        check("/home/agent/.config/x.md", Shape::File, Ok("/home/agent/.config/x.md"));
        check(".", Shape::Repository, Ok("/workspace"));
        check("/workspace/", Shape::Repository, Ok("/workspace"));
    }

    #[test]
    fn hostile_and_harmful_paths_are_refused() {
        check("../x", Shape::File, Err("`..`"));
        check("/workspace/../etc/passwd", Shape::File, Err("`..`"));
        check("/etc/passwd", Shape::File, Err("/etc"));
        check("/proc/1/mem", Shape::File, Err("/proc"));
        check("/tools/opencode", Shape::File, Err("/tools"));
        check("/configmap-dir-0/x", Shape::File, Err("/configmap-dir-0"));
        check("/x.md", Shape::File, Err("directly in `/`"));
        check("/", Shape::Directory, Err("holds the workspace"));
        check(".", Shape::File, Err("the workspace itself"));
        check("/opt/a:b/c", Shape::File, Err("`:`"));
        check("a:b", Shape::Repository, Err("`:`"));
        check("a:b", Shape::File, Ok("/workspace/a:b"));
    }

    #[test]
    fn a_directory_that_only_begins_like_a_refused_one_is_fine() {
        check("/etcetera/x", Shape::File, Ok("/etcetera/x"));
        check("/workspace2/x", Shape::File, Ok("/workspace2/x"));
    }

    #[test]
    fn a_repository_over_the_home_of_the_workspace_is_refused() {
        assert!(matches!(
            place("/home/agent/ws", "/home/agent", Shape::Repository),
            Err(BadPath::HoldsWorkspace(workspace)) if workspace == "/home/agent/ws"
        ));
    }

    #[test]
    fn a_workspace_over_the_system_is_refused() {
        for bad in ["/", "/etc", "/etc/x", "/tools", "/usr", "/var", "/proc/1"] {
            assert!(check_workspace(bad).is_err(), "{bad}");
        }
        for good in ["/workspace", "/home/agent/ws", "/var/lib/ws", "/data/ws"] {
            assert!(check_workspace(good).is_ok(), "{good}");
        }
    }
}
