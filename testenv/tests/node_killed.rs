//! A killed process leaves nothing of its node behind. Needs root.
#![allow(clippy::unwrap_used)]

mod up;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use up::Up;

/// Everything that a node changes outside its namespaces.
fn machine() -> String {
    let stdout_of = |program: &str, args: &[&str]| {
        String::from_utf8(Command::new(program).args(args).output().unwrap().stdout).unwrap()
    };
    let sysctls = ["kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory"];
    [
        stdout_of("ip", &["-oneline", "link", "show", "type", "veth"]),
        stdout_of("ip", &["route"]),
        // Its own, and the kubelet's defaults. A platform on the same machine has others.
        stdout_of("find", &["/sys/fs/cgroup", "-maxdepth", "2", "-name", "testenv-*", "-o", "-name", "kubepods*"]),
        sysctls.map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap()).concat(),
    ]
    .join("\n")
}

#[test]
fn sigkill_returns_the_machine_to_how_it_was() {
    // A node of an earlier test may be on its way out.
    let lock = fs::File::create("/run/kubeopencode-testenv-node.lock").unwrap();
    lock.lock().unwrap();
    let before = machine();
    drop(lock);
    let mut up = Up::start(&["--node"]);
    assert_ne!(machine(), before);
    up.kill();
    up.is_gone_within(Duration::from_secs(30));
    assert_eq!(machine(), before);
}

#[test]
fn without_root_the_error_says_so() {
    // In a new user namespace no user is root, not even root.
    let mut unshare = Command::new("unshare");
    let output = unshare.args(["--user", env!("CARGO_BIN_EXE_testenv"), "up", "--node"]).output().unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("Error: a node needs root"), "{stderr}");
}
