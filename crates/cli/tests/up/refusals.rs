use std::{fs, net::TcpListener};

use crate::command::{Up, refusal, run};

#[test]
fn a_port_in_use_is_named_and_nothing_stays() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let message = refusal(&["up", "--state-dir", state.to_str().unwrap(), "--api-port", &port]);
    assert!(message.contains(&format!("port {port}")) && message.contains("--api-port"), "{message}");
    assert!(!state.join("api").exists());
    let output = run(&["down", "--state-dir", state.to_str().unwrap()]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("Nothing runs"));
}

#[test]
fn a_directory_serves_one_platform_and_the_second_is_told_which() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().to_str().unwrap();
    let up = Up::start(dir.path(), &[]);
    let message = refusal(&["up", "--state-dir", state, "--api-port", "0"]);
    assert!(message.contains("already runs on") && message.contains("kubeopencode down --state-dir"), "{message}");
    // The first one does not notice.
    assert!(up.kubectl(&["get", "namespaces"]).contains("default"));
}

#[test]
fn a_directory_or_a_kubeconfig_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let thesis = dir.path().join("thesis.txt");
    fs::write(&thesis, "years of work").unwrap();
    let state = dir.path().to_str().unwrap();
    let message = refusal(&["up", "--state-dir", state]);
    assert!(message.contains("was not created by kubeopencode"), "{message}");
    let message = refusal(&["down", "--purge", "--state-dir", state]);
    assert!(message.contains("nothing was removed"), "{message}");
    let other = tempfile::tempdir().unwrap();
    let message =
        refusal(&["up", "--state-dir", other.path().to_str().unwrap(), "--kubeconfig", thesis.to_str().unwrap()]);
    assert!(message.contains("--kubeconfig"), "{message}");
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "years of work");
}

#[test]
fn a_state_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    Up::start(dir.path(), &[]).kill();
    let mut broken = 0;
    for entry in fs::read_dir(dir.path().join("api")).unwrap().flatten() {
        // The objects, with the files that belong to them.
        if entry.file_name().to_string_lossy().starts_with("objects") {
            fs::write(entry.path(), "not what it was".repeat(1000)).unwrap();
            broken += 1;
        }
    }
    assert!(broken > 0, "{:?}", fs::read_dir(dir.path().join("api")).unwrap().collect::<Vec<_>>());
    let message = refusal(&["up", "--state-dir", dir.path().to_str().unwrap(), "--api-port", "0"]);
    assert!(message.contains(dir.path().to_str().unwrap()), "{message}");
}
