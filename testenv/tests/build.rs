//! How binaries get into the cache, with a stand-in for Go.
#![allow(clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Notes each call and takes a moment, as the real one does.
const GO: &str = r#"#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo "$2" >> "$XDG_CACHE_HOME/calls"
sleep 0.1
echo binary > "$2"
"#;

fn testenv(cache: &Path, path: &str, command: &str) -> Command {
    let mut testenv = Command::new(env!("CARGO_BIN_EXE_testenv"));
    testenv.arg(command).env("XDG_CACHE_HOME", cache).env("PATH", path).env_remove("KUBEBUILDER_ASSETS");
    testenv.env("RUST_BACKTRACE", "0");
    testenv
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn two_processes_build_each_binary_once() {
    let cache = tempfile::tempdir().unwrap();
    let go = cache.path().join("go");
    fs::write(&go, GO).unwrap();
    fs::set_permissions(&go, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", cache.path().display());

    let mut builds = [(); 2].map(|()| testenv(cache.path(), &path, "build").spawn().unwrap());
    assert!(builds.iter_mut().all(|build| build.wait().unwrap().success()));
    let calls = fs::read_to_string(cache.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 6, "{calls}");
    assert!(calls.lines().all(|file| file.ends_with(".unfinished")), "{calls}");

    let again = testenv(cache.path(), "", "build").output().unwrap();
    assert!(again.status.success(), "the cache is complete, so Go is not needed: {}", stderr(&again));
    let shown = testenv(cache.path(), "", "env").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("bin/kube-apiserver\n") && shown.contains("kubelet: not built yet\n"), "{shown}");
}

#[test]
fn without_go_the_error_says_how_to_get_it() {
    let cache = tempfile::tempdir().unwrap();
    let output = testenv(cache.path(), "/nowhere", "build").output().unwrap();
    assert!(!output.status.success());
    assert!(stderr(&output).contains("Error: `go` is not installed: install Go"), "{}", stderr(&output));
}
