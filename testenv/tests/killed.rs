//! A killed process leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Ids of the processes that have `needle` as their working directory.
fn processes_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let inside =
        entries.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir)));
    inside.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn sigkill_ends_every_process_and_removes_the_directory() {
    let mut up = Command::new(env!("CARGO_BIN_EXE_testenv")).arg("up").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let kubeconfig = line.strip_prefix("export KUBECONFIG=").and_then(|rest| rest.split(' ').next()).unwrap();
    let dir = Path::new(kubeconfig).parent().unwrap();
    assert_eq!(processes_in(dir).len(), 4, "etcd, API server, controller manager, scheduler");

    up.kill().unwrap(); // SIGKILL
    up.wait().unwrap();
    let killed = Instant::now();
    while dir.exists() || !processes_in(dir).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(15), "left: {dir:?} {:?}", processes_in(dir));
        std::thread::sleep(Duration::from_millis(20));
    }
}
