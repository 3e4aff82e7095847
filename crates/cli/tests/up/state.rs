use std::time::Duration;

use crate::command::{Up, run};

#[test]
fn it_says_what_one_needs_and_down_stops_it() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a b");
    let up = Up::start(&state, &["--kubeconfig", dir.path().join("kube").to_str().unwrap()]);
    let text = up.greeting.join("\n");
    for word in ["https://127.0.0.1:", "export KUBECONFIG=", "a b", "OpenCode ", "Isolation"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(up.took < Duration::from_secs(20), "{:?}", up.took);
    let said = up.kubectl(&["get", "nodes"]);
    assert!(said.contains("local") && said.contains(" Ready "), "{said}");
    let said = up.kubectl(&["get", "crds", "-o", "name"]);
    assert!(said.contains("tasks.kubeopencode.io"), "{said}");
    let said = String::from_utf8(run(&["down", "--state-dir", state.to_str().unwrap()]).stdout).unwrap();
    assert!(said.contains("Stopped process"), "{said}");
    assert_eq!(up.ended(), Some(0));
    let said = String::from_utf8(run(&["down", "--purge", "--state-dir", state.to_str().unwrap()]).stdout).unwrap();
    assert!(said.contains("Nothing runs") && said.contains("Removed"), "{said}");
    assert!(!state.exists());
}

#[test]
fn what_was_acknowledged_survives_kill_minus_nine() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let up = Up::start(dir.path(), &[]);
        for earlier in 0..round {
            let said = up.kubectl(&["get", "configmap", &format!("round-{earlier}"), "-o", "jsonpath={.data.n}"]);
            assert_eq!(said, earlier.to_string());
        }
        up.kubectl(&["create", "configmap", &format!("round-{round}"), &format!("--from-literal=n={round}")]);
        up.kill();
    }
}

#[test]
fn nothing_is_left_of_a_platform_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--in-memory"]);
    up.kubectl(&["create", "configmap", "fleeting"]);
    up.kill();
    let up = Up::start(dir.path(), &["--in-memory"]);
    assert!(!up.try_kubectl(&["get", "configmap", "fleeting"]).status.success());
}
