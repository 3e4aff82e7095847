//! Cgroups: resource limits of containers, and detection of OOM kills.
//!
//! Each run of a container has its own cgroup below one of the node. With cgroup v2 the node's cgroup is created as
//! close to the process's own as the kernel permits: a user who is not root gets limits only in a delegated subtree.
//! With cgroup v1 only root gets limits.

mod hierarchy;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal};
use sha2::{Digest as _, Sha256};

use crate::process::limits::{CPU_PERIOD, Limits};
use hierarchy::Found;

/// The controllers in use, with their v2 names.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];
/// Prefix of the cgroups of nodes.
const PREFIX: &str = "kubeopencode-";
/// In the directory of a node: the paths of its cgroups, one per line.
const RECORD: &str = "cgroups";
/// Processes leave a cgroup shortly after the exit of their container was seen.
const TRIES: u32 = 50;
/// Processes that were killed may have to wait for a processor first.
const KILLED_TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(2);
/// Attempts to take the lock of a hierarchy. A node creates its cgroups within milliseconds, unless the machine is busy or
/// processes of a killed node have to be waited for.
const TURNS: u32 = 5000;

/// The node's own cgroups, the parents of those of containers. Each is locked while this value or a clone lives, so
/// that other nodes can recognize the cgroups of a killed node.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups {
    version: Version,
    _locks: Arc<Vec<File>>,
}

#[derive(Clone, Debug)]
enum Version {
    V1 { memory: Option<PathBuf>, cpu: Option<PathBuf>, pids: Option<PathBuf> },
    V2(PathBuf),
}

/// The limits that can be enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enforced {
    pub(crate) memory: bool,
    pub(crate) cpu: bool,
    pub(crate) processes: bool,
}

impl Cgroups {
    /// Creates the cgroups of the node on this directory. `None` where the machine does not permit it.
    pub(crate) fn open(root: &Path) -> Option<Self> {
        remove_leftovers(root);
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = hierarchy::hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))?;
        let made = Self::at(found, &name(root))?;
        let paths: Vec<String> = made.paths().into_iter().map(|path| path.display().to_string()).collect();
        if let Err(error) = fs::write(root.join(RECORD), paths.join("\n")) {
            tracing::warn!(%error, "cannot record the cgroups of the node: they may remain if it is killed");
        }
        Some(made)
    }

    fn paths(&self) -> Vec<&PathBuf> {
        match &self.version {
            Version::V1 { memory, cpu, pids } => memory.iter().chain(cpu).chain(pids).collect(),
            Version::V2(path) => vec![path],
        }
    }

    fn at(found: Found, name: &str) -> Option<Self> {
        match found {
            Found::V1 { memory, cpu, pids } => {
                let mut locks = Vec::new();
                let mut create = |hierarchy: Option<PathBuf>| {
                    let hierarchy = hierarchy?;
                    with_turn(&hierarchy, || {
                        sweep(&hierarchy);
                        let group = hierarchy.join(name);
                        create_empty(&group).ok()?;
                        locks.extend(lock(&group));
                        Some(group)
                    })
                };
                let (memory, cpu, pids) = (create(memory), create(cpu), create(pids));
                (!locks.is_empty())
                    .then(|| Self { version: Version::V1 { memory, cpu, pids }, _locks: Arc::new(locks) })
            }
            Found::V2 { root, own } => {
                let mut places = own.ancestors().take_while(|place| place.starts_with(&root));
                let mut locks = Vec::new();
                let group = places.find_map(|place| {
                    with_turn(place, || {
                        let group = delegated(&place.join(name)).ok()?;
                        locks.extend(lock(&group));
                        Some(group)
                    })
                })?;
                Some(Self { version: Version::V2(group), _locks: Arc::new(locks) })
            }
        }
    }

    pub(crate) fn enforced(&self) -> Enforced {
        match &self.version {
            Version::V1 { memory, cpu, pids } => {
                Enforced { memory: memory.is_some(), cpu: cpu.is_some(), processes: pids.is_some() }
            }
            Version::V2(group) => {
                let given = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
                let has = |name: &str| given.split_whitespace().any(|word| word == name);
                Enforced { memory: has("memory"), cpu: has("cpu"), processes: has("pids") }
            }
        }
    }

    /// Creates the cgroup of a container.
    pub(crate) fn make(&self, name: &str, limits: &Limits) -> io::Result<Cgroup> {
        let (group, settings) = match &self.version {
            Version::V1 { memory, cpu, pids } => {
                let below = |parent: &Option<PathBuf>| parent.as_ref().map(|parent| parent.join(name));
                // A container without a limit stays in the cgroup of the node, so that external accounting still counts
                // it.
                let memory = below(memory).filter(|_| limits.memory.is_some());
                let cpu = below(cpu).filter(|_| limits.cpu_request.is_some());
                let pids = below(pids);
                let group = Cgroup {
                    paths: memory.iter().chain(&cpu).chain(&pids).cloned().collect(),
                    kills: memory.as_ref().map(|memory| memory.join("memory.oom_control")),
                };
                (group, settings_v1(limits, memory.as_deref(), cpu.as_deref(), pids.as_deref()))
            }
            Version::V2(parent) => {
                let path = parent.join(name);
                let settings = settings_v2(limits, &path, self.enforced());
                (Cgroup { kills: Some(path.join("memory.events")), paths: vec![path] }, settings)
            }
        };
        let named =
            |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        for path in &group.paths {
            create_empty(path).map_err(|error| named(path, error))?;
        }
        for (file, value, needed) in settings {
            match fs::write(&file, value) {
                Err(error) if needed => {
                    group.remove();
                    return Err(named(&file, error));
                }
                _ => {}
            }
        }
        Ok(group)
    }

    /// Removes all cgroups of the node. A cgroup with processes is kept.
    pub(crate) fn remove(&self) {
        for path in self.paths() {
            let _ = empty(path);
            let _ = remove(path, TRIES);
        }
    }
}

/// A file, its value, and whether the container must not start without it.
type Setting = (PathBuf, String, bool);

fn settings_v1(limits: &Limits, memory: Option<&Path>, cpu: Option<&Path>, pids: Option<&Path>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let (Some(group), Some(bytes)) = (memory, limits.memory) {
        settings.push((group.join("memory.limit_in_bytes"), bytes.to_string(), true));
        // Memory plus swap. Not every kernel accounts swap.
        settings.push((group.join("memory.memsw.limit_in_bytes"), bytes.to_string(), false));
    }
    if let Some(group) = cpu {
        settings.push((group.join("cpu.shares"), limits.cpu_shares().to_string(), false));
        if let Some(quota) = limits.cpu_quota() {
            settings.push((group.join("cpu.cfs_period_us"), CPU_PERIOD.to_string(), false));
            settings.push((group.join("cpu.cfs_quota_us"), quota.to_string(), true));
        }
    }
    settings.extend(pids.map(|group| (group.join("pids.max"), limits.processes.to_string(), true)));
    settings
}

fn settings_v2(limits: &Limits, group: &Path, enforced: Enforced) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let (true, Some(bytes)) = (enforced.memory, limits.memory) {
        settings.push((group.join("memory.max"), bytes.to_string(), true));
        settings.push((group.join("memory.swap.max"), "0".to_owned(), false));
        // As on a cluster: an OOM kill terminates the whole container, not only its largest process.
        settings.push((group.join("memory.oom.group"), "1".to_owned(), false));
    }
    if enforced.cpu {
        settings.push((group.join("cpu.weight"), limits.cpu_weight().to_string(), false));
        if let Some(quota) = limits.cpu_quota() {
            settings.push((group.join("cpu.max"), format!("{quota} {CPU_PERIOD}"), true));
        }
    }
    if enforced.processes {
        settings.push((group.join("pids.max"), limits.processes.to_string(), true));
    }
    settings
}

/// The cgroup of a run of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// One path per hierarchy.
    pub(crate) paths: Vec<PathBuf>,
    /// The file with the counter of OOM kills.
    kills: Option<PathBuf>,
}

impl Cgroup {
    /// Whether the kernel killed a process because of the memory limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let text = self.kills.as_ref().and_then(|file| fs::read_to_string(file).ok());
        text.is_some_and(|text| kills(&text) > 0)
    }

    /// Removes the cgroup. Waits briefly while the last process is exiting.
    pub(crate) fn remove(&self) {
        for path in &self.paths {
            // The rest is removed with the node's own cgroup.
            let _ = remove(path, TRIES);
        }
    }
}

/// The number of OOM kills in `memory.events` (v2) or `memory.oom_control` (v1).
fn kills(text: &str) -> u64 {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The name of the node's cgroup; derived from the directory, so that the next node on it finds it again.
pub(crate) fn name(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    format!("{PREFIX}{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

/// Runs `work` under a lock of the hierarchy: between its creation and its own lock, a cgroup looks like one of a
/// killed node. A lock that is held too long is ignored.
fn with_turn<T>(hierarchy: &Path, work: impl FnOnce() -> T) -> T {
    let turn = File::open(hierarchy).ok();
    for _ in 0..TURNS {
        if turn.as_ref().is_none_or(|turn| turn.try_lock().is_ok()) {
            break;
        }
        thread::sleep(PAUSE);
    }
    work()
}

/// Removes the cgroups that a killed node on this directory recorded. With cgroup v2 they are below the cgroup from which
/// that node was started, where this one may not look.
pub(crate) fn remove_leftovers(root: &Path) {
    let record = fs::read_to_string(root.join(RECORD)).unwrap_or_default();
    let name = name(root);
    for group in record.lines().map(Path::new).filter(|group| group.file_name() == Some(name.as_ref())) {
        with_turn(group.parent().unwrap_or(group), || sweep_group(group));
    }
}

/// Removes the cgroups of killed nodes.
fn sweep(hierarchy: &Path) {
    for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            sweep_group(&entry.path());
        }
    }
}

/// Removes the cgroup of a node unless that node runs. Its processes, which end with their node, are killed: they may be
/// about to end, and until then the cgroup could neither be removed nor used.
fn sweep_group(group: &Path) {
    if lock(group).is_none() {
        return;
    }
    for container in children(group) {
        kill_all(&container);
    }
    let emptied = children(group).iter().try_for_each(|child| remove(child, KILLED_TRIES));
    if let Err(error) = emptied.and_then(|()| fs::remove_dir(group)) {
        tracing::warn!(group = %group.display(), %error, "cannot remove the cgroup of a killed node");
    }
}

fn kill_all(group: &Path) {
    // Only cgroup v2 has this file.
    let at_once = File::options().write(true).open(group.join("cgroup.kill"));
    if at_once.and_then(|mut file| file.write_all(b"1")).is_ok() {
        return;
    }
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        // It may be gone already.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Locks a cgroup. `None` if a running node holds the lock.
fn lock(group: &Path) -> Option<File> {
    let file = File::open(group).ok()?;
    file.try_lock().ok().map(|()| file)
}

/// A v2 cgroup in which containers can be limited; removed again if they cannot.
fn delegated(group: &Path) -> io::Result<PathBuf> {
    let parent = group.parent().unwrap_or(group);
    sweep(parent);
    create_empty(group)?;
    // Enable the controllers twice: in the parent for the node's cgroup, and there for those of containers.
    for place in [parent, group] {
        for controller in CONTROLLERS {
            // The controller may be enabled already, or not available.
            let _ = fs::write(place.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
    let given = fs::read_to_string(group.join("cgroup.subtree_control"))?;
    if given.split_whitespace().any(|word| word == "memory") && joinable(parent) {
        return Ok(group.to_owned());
    }
    let _ = remove(group, TRIES);
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether our processes may be moved below this cgroup, which needs write access here.
fn joinable(group: &Path) -> bool {
    rustix::fs::access(group.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok()
}

/// Creates a cgroup, or empties the one that a killed node left.
fn create_empty(group: &Path) -> io::Result<()> {
    match fs::create_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => empty(group),
        other => other,
    }
}

fn empty(group: &Path) -> io::Result<()> {
    children(group).iter().try_for_each(|child| remove(child, TRIES))
}

/// The cgroups of containers in the cgroup of a node.
fn children(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn remove(group: &Path, tries: u32) -> io::Result<()> {
    for _ in 1..tries {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
    fs::remove_dir(group)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use serde_json::json;

    use super::*;

    fn limits() -> Limits {
        let resources = json!({"limits": {"memory": "64Mi", "cpu": "500m"}});
        Limits::of(&serde_json::from_value(json!({"name": "c", "resources": resources})).unwrap())
    }

    fn shown(settings: Vec<Setting>) -> String {
        let line = |(file, value, needed): Setting| {
            format!("{}={value}{}", file.display(), if needed { "" } else { " if it can be" })
        };
        settings.into_iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn v2_gets_every_limit_in_one_hierarchy() {
        let all = Enforced { memory: true, cpu: true, processes: true };
        assert_eq!(
            shown(settings_v2(&limits(), Path::new("/g"), all)),
            "/g/memory.max=67108864; /g/memory.swap.max=0 if it can be; /g/memory.oom.group=1 if it can be; \
             /g/cpu.weight=20 if it can be; /g/cpu.max=50000 100000; /g/pids.max=16384"
        );
        assert_eq!(shown(settings_v2(&limits(), Path::new("/g"), Enforced::default())), "");
    }

    #[test]
    fn v1_gets_each_limit_in_its_hierarchy() {
        let path = Path::new;
        assert_eq!(
            shown(settings_v1(&limits(), Some(path("/m")), Some(path("/c")), Some(path("/p")))),
            "/m/memory.limit_in_bytes=67108864; /m/memory.memsw.limit_in_bytes=67108864 if it can be; \
             /c/cpu.shares=512 if it can be; /c/cpu.cfs_period_us=100000 if it can be; /c/cpu.cfs_quota_us=50000; \
             /p/pids.max=16384"
        );
    }

    #[test]
    fn groups_of_nodes_that_were_killed_are_removed_and_those_of_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kubeopencode-dead/run", "kubeopencode-lives", "of-another-program"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let lives = lock(&dir.path().join("kubeopencode-lives")).unwrap();
        sweep(dir.path());
        let left = |name: &str| dir.path().join(name).exists();
        assert!(!left("kubeopencode-dead") && left("kubeopencode-lives") && left("of-another-program"));
        drop(lives);
        sweep(dir.path());
        assert!(!left("kubeopencode-lives"));
    }

    /// The hierarchy of a machine on which this test may create cgroups.
    fn real_hierarchy() -> Option<PathBuf> {
        let hierarchy = PathBuf::from("/sys/fs/cgroup/pids");
        let probe = hierarchy.join(format!("probe-{}", std::process::id()));
        fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).ok().map(|()| hierarchy)
    }

    #[test]
    fn processes_and_groups_of_a_node_that_was_killed_are_gone_after_the_next_start() {
        let Some(hierarchy) = real_hierarchy() else { return };
        let name = format!("{PREFIX}case-{}", std::process::id());
        let start =
            || Cgroups::at(Found::V1 { memory: None, cpu: None, pids: Some(hierarchy.clone()) }, &name).unwrap();
        let killed = start();
        let mut running: Vec<_> = (0..3)
            .map(|number| {
                let group = killed.make(&format!("run-{number}"), &Limits::none()).unwrap();
                let mut sleep = std::process::Command::new("sleep");
                // Without our output: if the case fails, a process that stays must not keep it open.
                let process = sleep.arg("60").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                fs::write(group.paths[0].join("cgroup.procs"), process.id().to_string()).unwrap();
                process
            })
            .collect();
        drop(killed);
        // Another case that starts a process holds the lock for a moment.
        for _ in 0..KILLED_TRIES {
            if lock(&hierarchy.join(&name)).is_some() {
                break;
            }
            thread::sleep(PAUSE);
        }
        // A zombie has left its cgroup.
        let next = start();
        assert!(children(&hierarchy.join(&name)).is_empty());
        for process in &mut running {
            use std::os::unix::process::ExitStatusExt as _;
            assert_eq!(process.wait().unwrap().signal(), Some(9));
        }
        next.remove();
        assert!(!hierarchy.join(&name).exists());
    }

    #[test]
    fn groups_that_a_killed_node_recorded_are_removed_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (dir.path().join("node"), dir.path().join("session-2.scope"));
        let ours = elsewhere.join(name(&root));
        fs::create_dir_all(ours.join("run")).unwrap();
        let others = elsewhere.join("of-somebody-else");
        fs::create_dir_all(&others).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join(RECORD), format!("{}\n{}", others.display(), ours.display())).unwrap();
        let lives = lock(&ours).unwrap();
        remove_leftovers(&root);
        assert!(ours.join("run").exists());
        drop(lives);
        remove_leftovers(&root);
        assert!(!ours.exists() && others.exists());
    }

    #[test]
    fn nodes_that_start_at_once_do_not_sweep_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let start = |number: u32| {
            let found = Found::V1 { memory: Some(dir.path().to_owned()), cpu: None, pids: None };
            Cgroups::at(found, &format!("{PREFIX}{number}")).unwrap()
        };
        let started: Vec<Cgroups> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    scope.spawn(move || (0..50).map(|number| start(thread * 50 + number)).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), started.len());
    }

    #[test]
    fn the_kernels_count_of_kills_is_read_in_both_versions() {
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 1\n"), 2);
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), 1);
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\n"), 0);
    }
}
