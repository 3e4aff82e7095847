//! Finds the cgroup hierarchies of this machine in `/proc/self`.

use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// cgroup v2. `own` is the cgroup of this process.
    V2 { root: PathBuf, own: PathBuf },
    /// cgroup v1: one hierarchy per resource, each optional.
    V1 { memory: Option<PathBuf>, cpu: Option<PathBuf>, pids: Option<PathBuf> },
}

/// Parses `/proc/self/mountinfo` and `/proc/self/cgroup`. `None` if cgroups are not mounted.
pub(super) fn hierarchies(mounts: &str, groups: &str) -> Option<Found> {
    let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
    let of = |name: &str| {
        let found = mounts.iter().find(|mount| mount.kind == "cgroup" && mount.options.split(',').any(|o| o == name));
        found.map(|mount| PathBuf::from(mount.path))
    };
    let (memory, cpu, pids) = (of("memory"), of("cpu"), of("pids"));
    // If the resources have v1 hierarchies, a v2 mount beside them controls none of them.
    if memory.is_some() || cpu.is_some() || pids.is_some() {
        return Some(Found::V1 { memory, cpu, pids });
    }
    let mount = mounts.iter().find(|mount| mount.kind == "cgroup2")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(own).strip_prefix(mount.root).ok()?;
    let root = PathBuf::from(mount.path);
    Some(Found::V2 { own: root.join(below), root })
}

/// A line of the mount table.
struct Mount<'a> {
    /// The mounted subtree of the file system.
    root: &'a str,
    path: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, path) = (place.next()?, place.next()?);
        let mut system = system.split(' ');
        Some(Self { root, path, kind: system.next()?, options: system.nth(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hierarchy_for_everything_is_found_with_our_own_group() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/a rw\n\
                      30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = hierarchies(mounts, "0::/user.slice/app.scope\n");
        let (root, own) = ("/sys/fs/cgroup".into(), "/sys/fs/cgroup/user.slice/app.scope".into());
        assert_eq!(found, Some(Found::V2 { root, own }));
    }

    #[test]
    fn a_mount_that_shows_a_part_shows_our_group_below_it() {
        let mounts = "30 22 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = hierarchies(mounts, "0::/box/inner\n");
        assert_eq!(found, Some(Found::V2 { root: "/sys/fs/cgroup".into(), own: "/sys/fs/cgroup/inner".into() }));
        assert_eq!(hierarchies(mounts, "0::/elsewhere\n"), None);
    }

    #[test]
    fn hierarchies_of_single_resources_come_before_a_second_version_that_controls_none() {
        let mounts = "31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = hierarchies(mounts, "4:memory:/x\n0::/\n");
        let (memory, cpu) = (Some("/sys/fs/cgroup/memory".into()), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(found, Some(Found::V1 { memory, cpu, pids: None }));
    }

    #[test]
    fn a_machine_without_control_groups_has_none() {
        assert_eq!(hierarchies("22 1 8:1 / / rw - ext4 /dev/a rw\n", "0::/\n"), None);
    }
}
