//! Plans which directories of the machine are bind-mounted into a container's root.
//!
//! The root is an empty file system into which the machine's directories are bind-mounted. A mount point that the
//! machine does not have cannot be created in a read-only directory, so that directory and its parents become
//! directories of the root, and their entries are bind-mounted one by one.
//!
//! The same is done with the directory of a path that is hidden: the path itself is left out. Nothing that is created or
//! replaced there later becomes visible, as it would behind a mount that covers the path.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

/// Directories that every container has of its own.
pub(super) const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];

/// Limit of nested symbolic links, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file type on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Directory,
    File,
    Link(PathBuf),
}

/// Read access to the machine's file system; replaced in tests.
pub(super) trait Machine {
    /// The entry at a path, without following a link at its end.
    fn find(&self, path: &Path) -> Option<Found>;
    fn list(&self, path: &Path) -> Vec<(PathBuf, Found)>;
}

/// A step of building the root. Paths are those of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create a directory with owner and mode of the machine's.
    Make(PathBuf),
    Link(PathBuf, PathBuf),
    /// Bind-mount the machine's directory, or file, at this path.
    BindDirectory(PathBuf),
    BindFile(PathBuf),
}

/// The steps after which each of `targets` exists or can be created, and none of `hidden` exists.
pub(super) fn steps(targets: &[PathBuf], hidden: &[PathBuf], machine: &dyn Machine) -> Vec<Step> {
    let is_own = |path: &Path| OWN.iter().any(|own| path.starts_with(own));
    let is_hidden = |path: &Path| hidden.iter().any(|hidden| path.starts_with(hidden));
    let missing = targets.iter().filter(|target| {
        let below_another = targets.iter().any(|other| other != *target && target.starts_with(other));
        !below_another && machine.find(target).is_none()
    });
    let mut mirrored: BTreeSet<PathBuf> = [PathBuf::from("/")].into();
    for path in missing.chain(hidden).filter(|path| !is_own(path)) {
        let there = path.ancestors().skip(1).find(|path| machine.find(path) == Some(Found::Directory));
        let all = there.into_iter().flat_map(Path::ancestors).filter(|path| !is_hidden(path));
        mirrored.extend(all.map(Path::to_path_buf));
    }
    let mut steps = Vec::new();
    for directory in &mirrored {
        if directory != Path::new("/") {
            steps.push(Step::Make(directory.clone()));
        }
        for (path, found) in machine.list(directory) {
            if mirrored.contains(&path) || is_hidden(&path) || OWN.iter().any(|own| path == Path::new(own)) {
                continue;
            }
            steps.push(match found {
                Found::Link(to) => Step::Link(path, to),
                Found::Directory => Step::BindDirectory(path),
                Found::File => Step::BindFile(path),
            });
        }
    }
    steps
}

/// Resolves the symbolic links of a path in the container, which are those of the machine.
pub(super) fn settle(path: &Path, machine: &dyn Machine) -> PathBuf {
    let mut pending: Vec<PathBuf> = names(path);
    pending.reverse();
    let mut settled = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name == Path::new("..") {
            settled.pop();
            continue;
        }
        let next = settled.join(&name);
        match machine.find(&next) {
            Some(Found::Link(to)) if links < MAX_LINKS && !OWN.iter().any(|own| next.starts_with(own)) => {
                links += 1;
                if to.is_absolute() {
                    settled = PathBuf::from("/");
                }
                pending.extend(names(&to).into_iter().rev());
            }
            _ => settled = next,
        }
    }
    settled
}

fn names(path: &Path) -> Vec<PathBuf> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(PathBuf::from(name)),
            Component::ParentDir => Some(PathBuf::from("..")),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Tree(BTreeMap<PathBuf, Found>);

    impl Machine for Tree {
        fn find(&self, path: &Path) -> Option<Found> {
            if path == Path::new("/") { Some(Found::Directory) } else { self.0.get(path).cloned() }
        }

        fn list(&self, path: &Path) -> Vec<(PathBuf, Found)> {
            let children = self.0.iter().filter(|(child, _)| child.parent() == Some(path));
            children.map(|(path, found)| (path.clone(), found.clone())).collect()
        }
    }

    fn tree() -> Tree {
        let directories = ["/etc", "/etc/ssl", "/proc", "/usr", "/usr/bin", "/var"];
        let mut all: BTreeMap<PathBuf, Found> =
            directories.iter().map(|path| (PathBuf::from(path), Found::Directory)).collect();
        all.insert("/etc/hosts".into(), Found::File);
        all.insert("/bin".into(), Found::Link("usr/bin".into()));
        all.insert("/var/run".into(), Found::Link("/run".into()));
        Tree(all)
    }

    #[track_caller]
    fn check(targets: &[&str], expected: &str) {
        check_hidden(targets, &[], expected);
    }

    #[track_caller]
    fn check_hidden(targets: &[&str], hidden: &[&str], expected: &str) {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let shown: Vec<String> = steps(&paths(targets), &paths(hidden), &tree())
            .iter()
            .map(|step| match step {
                Step::Make(path) => format!("+{}", path.display()),
                Step::Link(path, to) => format!("{}->{}", path.display(), to.display()),
                Step::BindDirectory(path) | Step::BindFile(path) => path.display().to_string(),
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn only_directories_with_a_missing_mount_point_are_taken_apart() {
        check(&["/workspace", "/etc/hosts", "/tmp/x"], "/bin->usr/bin /etc /usr /var");
        check(&["/etc/ssl/mine"], "/bin->usr/bin /usr /var +/etc /etc/hosts +/etc/ssl");
        check(&["/usr/bin/new", "/usr/bin/new/below"], "/bin->usr/bin /etc /var +/usr +/usr/bin");
        check(&["/workspace", "/workspace/etc/deep"], "/bin->usr/bin /etc /usr /var");
    }

    #[test]
    fn a_hidden_path_is_left_out_also_if_it_does_not_exist_yet() {
        check_hidden(&[], &["/etc/hosts"], "/bin->usr/bin /usr /var +/etc /etc/ssl");
        check_hidden(&[], &["/etc/ssl"], "/bin->usr/bin /usr /var +/etc /etc/hosts");
        check_hidden(&[], &["/etc/later"], "/bin->usr/bin /usr /var +/etc /etc/hosts /etc/ssl");
        check_hidden(&[], &["/etc/ssl/later/key"], "/bin->usr/bin /usr /var +/etc /etc/hosts +/etc/ssl");
        check_hidden(&[], &["/tmp/x", "/run/x", "/bin"], "/etc /usr /var");
    }

    #[test]
    fn a_volume_in_a_hidden_directory_shows_nothing_else_of_it() {
        check_hidden(&["/etc/ssl/mine"], &["/etc/ssl"], "/bin->usr/bin /usr /var +/etc /etc/hosts");
        check_hidden(&["/etc/ssl"], &["/etc/ssl"], "/bin->usr/bin /usr /var +/etc /etc/hosts");
        check_hidden(&[], &["/etc", "/etc/ssl"], "/bin->usr/bin /usr /var");
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let check = |path: &str, expected: &str| assert_eq!(settle(Path::new(path), &tree()), Path::new(expected));
        check("/var/run/secrets/x", "/run/secrets/x");
        check("/bin/tool", "/usr/bin/tool");
        check("/nothing/here", "/nothing/here");
    }
}
