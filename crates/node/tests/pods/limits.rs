//! Resource limits of containers. These cases read the control groups of the real kernel; where this machine does not
//! allow the node to make any, they check that the node reports it.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use testenv::{cases, runner::Case};
use tokio::io::AsyncReadExt as _;

use crate::world::{World, exit_code, once, reason, soon};

pub const CASES: &[Case] = cases![
    too_much_memory_ends_a_container_as_oom_killed,
    processors_and_processes_are_limited_and_commands_share_the_limits,
];

fn limited(script: &str, limits: &Value) -> Value {
    let mut spec = once(script);
    spec["containers"][0]["resources"] = json!({"limits": limits});
    spec
}

/// Whether memory and processors can be limited here, as the node reports it.
fn enforced(world: &World) -> bool {
    let description = world.node.isolation().to_string();
    let enforced = description.contains("memory and CPU limits are enforced");
    if !enforced {
        assert!(description.contains("no control groups"), "{description}");
        println!("limits are not looked at on this machine: {description}");
    }
    enforced
}

/// The directories of the control groups of a process, below those of the node.
fn groups(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().filter(|line| line.contains("kubeopencode-"));
    let found = lines.map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (hierarchy, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        PathBuf::from(format!("/sys/fs/cgroup/{hierarchy}{path}"))
    });
    found.collect()
}

async fn too_much_memory_ends_a_container_as_oom_killed() -> anyhow::Result<()> {
    let world = World::new().await?;
    if !enforced(&world) {
        return world.end().await;
    }
    // It looks for the last lines of something that has none, and keeps all of it.
    world.create("greedy", limited("exec tail /dev/zero", &json!({"memory": "24Mi"}))).await?;
    world.create("modest", limited("exec tail -c 1 /etc/hostname", &json!({"memory": "24Mi"}))).await?;
    let pod = world.phase("greedy", "Failed").await?;
    assert_eq!((exit_code(&pod, "main"), reason(&pod, "main").as_str()), (Some(137), "OOMKilled"));
    world.phase("modest", "Succeeded").await?;
    // A process that kills itself did not run out of memory.
    world.create("desperate", limited("sh -c 'kill -9 $$'; exit 137", &json!({"memory": "24Mi"}))).await?;
    let pod = world.phase("desperate", "Failed").await?;
    assert_eq!((exit_code(&pod, "main"), reason(&pod, "main").as_str()), (Some(137), "Error"));
    world.end().await
}

async fn processors_and_processes_are_limited_and_commands_share_the_limits() -> anyhow::Result<()> {
    let world = World::new().await?;
    if !enforced(&world) {
        return world.end().await;
    }
    let busy = "cat /proc/self/cgroup; echo done; while :; do :; done";
    world.create("busy", limited(busy, &json!({"cpu": "200m", "memory": "64Mi"}))).await?;
    world.ready("busy").await?;
    let log = || {
        let uid = fs::read_dir(world.root.join("pods")).ok()?.flatten().next()?.path();
        fs::read_to_string(uid.join("logs/main/0-0.log")).ok()
    };
    soon("it names its groups", || log().is_some_and(|log| log.contains(" done"))).await?;
    let text: String = log()
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.splitn(4, ' ').nth(3))
        .fold(String::new(), |all, line| all + line + "\n");
    let own = groups(&text);
    assert!(!own.is_empty(), "{text}");
    let read = |file: &str| own.iter().find_map(|group| fs::read_to_string(group.join(file)).ok());
    let first = |names: [&str; 2]| names.into_iter().find_map(read).unwrap_or_default().trim().to_owned();
    assert_eq!(first(["memory.limit_in_bytes", "memory.max"]), (64 << 20).to_string());
    assert!(["20000", "20000 100000"].contains(&first(["cpu.cfs_quota_us", "cpu.max"]).as_str()));
    assert_eq!(read("pids.max").unwrap_or_default().trim(), "16384");
    // Not at once: on a busy machine it may get less than its limit for a while.
    let throttled = || {
        let stat = read("cpu.stat").unwrap_or_default();
        stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")).is_some_and(|times| times != "0")
    };
    soon("it is held to its limit", throttled).await?;

    let args = vec!["cat".to_owned(), "/proc/self/cgroup".to_owned()];
    let mut exec = world.node.exec(&world.namespace, "busy", "main", args, false, false).await?;
    let mut stdout = String::new();
    exec.stdout.read_to_string(&mut stdout).await?;
    assert_eq!(groups(&stdout), own, "a command is limited with its container");
    exec.status.await?;

    let node = own[0].parent().map(PathBuf::from).unwrap_or_default();
    world.end().await?;
    assert!(!own.iter().any(|group| group.exists()) && !node.exists(), "nothing is left: {own:?}");
    Ok(())
}
