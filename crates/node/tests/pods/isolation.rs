//! Isolation of containers.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use kubeopencode_node::NodeOptions;
use serde_json::json;
use testenv::{cases, runner::Case};

use crate::{
    restart::{Host, wait_for_line},
    world::{World, exit_code, is_root, once, processes, soon},
};

/// A user who owns nothing.
const NOBODY: u32 = 65534;

pub const CASES: &[Case] = cases![
    a_container_sees_the_machine_read_only_and_nothing_of_the_platform,
    hidden_files_are_not_visible_whenever_they_are_made,
    a_private_directory_stays_private_when_a_volume_is_mounted_in_it,
    the_isolation_is_described_in_a_sentence,
    system_calls_that_hardly_any_program_needs_are_refused,
    a_command_in_a_container_is_confined_before_the_container_sees_it,
    a_node_without_root_runs_pods_in_user_namespaces,
];

async fn a_container_sees_the_machine_read_only_and_nothing_of_the_platform() -> anyhow::Result<()> {
    let world = World::new().await?;
    std::fs::write("/tmp/kubeopencode-node-case", "of the machine")?;
    std::fs::write(world.root.join("secret-of-the-platform"), "x")?;
    let script = format!(
        "touch /usr/x /x /etc/x 2>&1 | grep -c Read-only
         ls /tmp | wc -l; touch /tmp/mine && echo private
         ls -A {root} 2>/dev/null | wc -l
         ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm
         ls /run | grep -c docker; (echo x > /proc/sys/kernel/hostname) 2>/dev/null || echo guarded
         ls /dev | tr '\\n' ' '; echo; echo via the link > /dev/stdout
         env | cut -d= -f1 | sort | tr '\\n' ' '",
        root = world.root.display(),
    );
    world.create("curious", once(&script)).await?;
    let pod = world.phase("curious", "Succeeded").await?;
    assert_eq!(exit_code(&pod, "main"), Some(0));
    let log = world.log("curious", "main").await?;
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(&lines[..4], ["3", "0", "private", "0"], "{log}");
    assert!(lines[4].parse::<u32>()? < 5 && lines[5] == "sh" && lines[6] == "0" && lines[7] == "guarded", "{log}");
    assert_eq!(
        lines[8].trim(),
        "fd full null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero"
    );
    assert_eq!(&lines[9..], ["via the link", "HOME HOSTNAME PATH PWD "], "{log}");
    std::fs::remove_file("/tmp/kubeopencode-node-case")?;
    world.end().await
}

/// A directory that containers see: their /tmp is private. Everyone may read it.
fn visible() -> anyhow::Result<tempfile::TempDir> {
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    Ok(tempfile::Builder::new().permissions(all).tempdir_in("/var/tmp")?)
}

async fn hidden_files_are_not_visible_whenever_they_are_made() -> anyhow::Result<()> {
    let home = visible()?;
    let path = |name: &str| home.path().join(name);
    std::fs::create_dir(path(".ssh"))?;
    std::fs::write(path(".ssh/id"), "key")?;
    std::fs::write(path(".netrc"), "password")?;
    std::fs::write(path("notes"), "for everyone")?;
    let hidden = [".ssh", ".netrc", ".aws", ".config/gh"].map(path).to_vec();
    let world = World::start(|options| NodeOptions { hidden, ..options }).await?;
    let shown = home.path().display();
    let mut spec = once(&format!("ls -A {shown} {shown}/.ssh; exec sleep 600"));
    spec["terminationGracePeriodSeconds"] = json!(0);
    spec["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": format!("{shown}/.ssh/own")}]);
    world.create("curious", spec).await?;
    world.ready("curious").await?;
    // While the container runs: new directories, and files that replace others, as programs save them.
    for name in [".aws", ".config/gh"] {
        std::fs::create_dir_all(path(name))?;
        std::fs::write(path(name).join("token"), "secret")?;
    }
    std::fs::write(path("new"), "another password")?;
    std::fs::rename(path("new"), path(".netrc"))?;
    let command = ["sh", "-c", &format!("cd {shown}; find . | sort; cat notes")].map(str::to_owned).to_vec();
    let mut exec = world.node.exec(&world.namespace, "curious", "main", command, false, false).await?;
    let mut output = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut exec.stdout, &mut output).await?;
    assert_eq!(output, ".\n./.ssh\n./.ssh/own\n./notes\nfor everyone");
    world.end().await
}

async fn a_private_directory_stays_private_when_a_volume_is_mounted_in_it() -> anyhow::Result<()> {
    if !is_root() {
        // Then there is only one user.
        return Ok(());
    }
    let dir = visible()?;
    let private = dir.path().join("private");
    std::fs::create_dir(&private)?;
    std::fs::write(private.join("file"), "readable by everyone who may enter")?;
    std::fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let world = World::new().await?;
    let mut spec = once(&format!("cat {}/file 2>/dev/null || echo refused", private.display()));
    spec["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": format!("{}/own", private.display())}]);
    world.create("curious", spec).await?;
    world.phase("curious", "Succeeded").await?;
    assert_eq!(world.log("curious", "main").await?, "refused\n");
    world.end().await
}

async fn the_isolation_is_described_in_a_sentence() -> anyhow::Result<()> {
    let world = World::new().await?;
    let description = world.node.isolation().to_string();
    assert!(
        description.contains("read-only view of this machine's files") && !description.contains('\n'),
        "{description}"
    );
    world.end().await
}

async fn system_calls_that_hardly_any_program_needs_are_refused() -> anyhow::Result<()> {
    let world = World::new().await?;
    // Making a namespace needs no privilege: it is the filter that refuses it, or nothing does.
    let script = "grep Seccomp: /proc/self/status; unshare --user true 2>/dev/null && echo allowed || echo refused";
    world.create("usual", once(script)).await?;
    let mut free = once(script);
    free["securityContext"] = json!({"seccompProfile": {"type": "Unconfined"}});
    world.create("free", free).await?;
    for (name, expected) in [("usual", "Seccomp:\t2\nrefused\n"), ("free", "Seccomp:\t0\nallowed\n")] {
        world.phase(name, "Succeeded").await?;
        assert_eq!(world.log(name, "main").await?, expected);
    }
    // Also commands that are started in a container later.
    let mut sleeps = once("exec sleep 600");
    sleeps["terminationGracePeriodSeconds"] = json!(0);
    world.create("sleeps", sleeps).await?;
    world.ready("sleeps").await?;
    let args = ["unshare", "--user", "true"].map(str::to_owned).to_vec();
    let exec = world.node.exec(&world.namespace, "sleeps", "main", args, false, false).await?;
    assert_eq!(exec.status.await?, 1);
    world.end().await
}

async fn a_command_in_a_container_is_confined_before_the_container_sees_it() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut spec = once("");
    spec["containers"][0]["command"] = json!(["/server", "watch-processes"]);
    spec["terminationGracePeriodSeconds"] = json!(0);
    world.create("watcher", spec).await?;
    world.ready("watcher").await?;
    for _ in 0..30 {
        let words = vec!["true".to_owned()];
        let exec = world.node.exec(&world.namespace, "watcher", "main", words, false, false).await?;
        assert_eq!(exec.status.await?, 0);
    }
    let words = ["touch", "/tmp/enough"].map(str::to_owned).to_vec();
    assert_eq!(world.node.exec(&world.namespace, "watcher", "main", words, false, false).await?.status.await?, 0);
    world.phase("watcher", "Succeeded").await?;
    let log = world.log("watcher", "main").await?;
    let seen: u32 = log.trim().strip_prefix("seen ").and_then(|count| count.parse().ok()).unwrap_or_default();
    assert!(seen > 5, "{log}");
    world.end().await
}

/// `watch-processes`: prints every process that appears in the container and is not confined, until `/tmp/enough`
/// exists; then the number of processes that were seen.
pub fn watch_processes() -> ExitCode {
    let mut seen = std::collections::BTreeSet::new();
    while !std::path::Path::new("/tmp/enough").exists() {
        for dir in processes() {
            let status = std::fs::read_to_string(dir.join("status")).unwrap_or_default();
            let is = |line: &str| status.lines().any(|found| found == line);
            // A process without a memory of its own has ended.
            if !status.contains("VmSize") {
                continue;
            }
            seen.insert(dir.clone());
            if !is("NoNewPrivs:\t1") || !is("Seccomp:\t2") {
                println!("{} is not confined:\n{status}", dir.display());
            }
        }
    }
    println!("seen {}", seen.len());
    ExitCode::SUCCESS
}

/// Cases run as root where a whole cluster needs it; a user's machine is the other case.
async fn a_node_without_root_runs_pods_in_user_namespaces() -> anyhow::Result<()> {
    if !is_root() {
        // Then every other case here shows it.
        return Ok(());
    }
    let world = World::new().await?;
    let dir = tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir()?;
    let root = dir.path().join("node");
    std::fs::create_dir(&root)?;
    std::os::unix::fs::chown(&root, Some(NOBODY), Some(NOBODY))?;
    let node_name = format!("{}-nobody", world.namespace);
    let host = Host::start(&node_name, &root, |command: &mut Command| {
        command.uid(NOBODY).gid(NOBODY);
    })
    .await?;
    let line = wait_for_line(&host, "isolation").await?;
    assert!(line.contains("processes run as your user"), "{line}");
    assert!(line.contains("no cgroups for them are delegated to your user"), "{line}");
    let mut spec = once(
        "id -u; touch /data/file && stat -c %u /data/file; touch /usr/x 2>/dev/null || echo guarded; touch /data/done; exec sleep 600",
    );
    spec["nodeName"] = json!(node_name);
    spec["securityContext"] = json!({"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": true});
    spec["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/data/done"]}, "periodSeconds": 1});
    let pod = json!({"metadata": {"name": "user"}, "spec": spec});
    world.pods().create(&kube::api::PostParams::default(), &serde_json::from_value(pod)?).await?;
    world.ready("user").await?;
    let uid = world.pods().get("user").await?.metadata.uid.unwrap_or_default();
    let path = root.join("pods").join(uid).join("logs/main/0-0.log");
    let log = || std::fs::read_to_string(&path).unwrap_or_default();
    // The log may follow the container by a moment.
    soon("the log has its last line", || log().contains("guarded")).await?;
    let log = log();
    let messages: Vec<&str> = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
    assert_eq!(messages, ["1000", "1000", "guarded"]);
    drop(host);
    world.end().await
}
