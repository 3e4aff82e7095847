//! get, describe, apply, delete.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{check, world::World};

async fn sample() -> World {
    let world = World::start().await;
    world
        .create(
            "Agent",
            "dev",
            json!({"profile": "writes code", "maxConcurrentTasks": 1}),
            json!({"phase": "Running", "ready": true}),
        )
        .await;
    let spec = json!({"description": "fix the bug", "agentRef": {"name": "dev"}});
    let running = json!({"phase": "Running", "agentRef": {"name": "dev"}, "podName": "fix-pod", "runEpoch": 1});
    world.create("Task", "fix", spec.clone(), running).await;
    let waiting = json!({"phase": "Queued", "reason": "AgentAtCapacity", "message": "Agent 'dev' is busy", "queuePosition": 1,
        "conditions": [{"type": "Queued", "status": "True", "reason": "AgentAtCapacity", "message": "Agent 'dev' is busy",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    world.create("Task", "wait", spec, waiting).await;
    world
}

#[tokio::test]
async fn objects_are_shown_as_tables_and_as_data() {
    let world = sample().await;
    check!("get-tasks", world.run(&["get", "tasks"]));
    check!("get-tasks-wide", world.run(&["get", "tk", "-o", "wide"]));
    check!("get-all", world.run(&["get", "all"]));
    check!("get-names", world.run(&["get", "task/fix", "agent/dev", "-o", "name"]));
    check!("get-nothing", world.run(&["get", "crontasks"]));
    check!("get-missing", world.run(&["get", "task", "gone"]));
    check!("get-unknown-kind", world.run(&["get", "pods"]));
    check!("get-everywhere-by-label", world.run(&["get", "agents", "-A", "-l", "none=such"]));
    let data: Value = serde_json::from_str(&world.run(&["get", "task", "wait", "-o", "json"]).stdout()).unwrap();
    assert_eq!((&data["kind"], &data["status"]["queuePosition"]), (&json!("Task"), &json!(1)));
    assert!(data["metadata"].get("managedFields").is_none());
    let list: Value = serde_saphyr::from_str(&world.run(&["get", "tasks", "-o", "yaml"]).stdout()).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    // Flags may stand before the command, as upstream's did.
    let before = world.run(&["--namespace", "kube-system", "get", "tasks"]);
    assert_eq!(before.stderr(), "no tasks in namespace kube-system; --all-namespaces looks everywhere\n");
}

#[tokio::test]
async fn an_object_is_described_with_its_conditions() {
    let world = sample().await;
    check!("describe-task", world.run(&["describe", "task", "wait"]));
    check!("describe-missing", world.run(&["describe", "agent/gone"]));
}

#[tokio::test]
async fn a_watch_prints_what_changes() {
    let world = sample().await;
    let mut child = world.command(&["get", "task", "fix", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME"));
    assert!(next().contains("Running"));
    world.status("Task", "fix", json!({"phase": "Failed", "reason": "ModelError"})).await;
    let changed = next();
    assert!(changed.contains("Failed") && changed.contains("ModelError"), "{changed}");
    child.kill().unwrap();
    child.wait().unwrap();
}

const MANIFEST: &str = "\
apiVersion: kubeopencode.io/v1alpha1
kind: Agent
metadata:
  name: dev
spec:
  profile: first
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: notes
data:
  a: b
";

#[tokio::test]
async fn manifests_are_applied_changed_and_deleted() {
    let world = World::start().await;
    let directory = world.directory().join("manifests");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("all.yaml");
    fs::write(&file, MANIFEST).unwrap();
    let path = directory.display().to_string();
    check!("apply-dry-run", world.run(&["apply", "-f", &path, "--dry-run"]));
    check!("apply-first", world.run(&["apply", "-f", &path]));
    check!("apply-again", world.run(&["apply", "-f", &path]));
    fs::write(&file, MANIFEST.replace("first", "second")).unwrap();
    check!("apply-changed", world.run(&["apply", "-f", &path]));
    check!("delete-of-files", world.run(&["delete", "-f", &path]));
    check!("delete-missing", world.run(&["delete", "agent", "dev"]));
    check!("delete-missing-ignored", world.run(&["delete", "agent/dev", "--ignore-not-found"]));
    check!("delete-what", world.run(&["delete", "tasks"]));
}

#[tokio::test]
async fn one_bad_object_does_not_keep_the_others_from_being_applied() {
    let world = World::start().await;
    let text = "\
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: wrong}
spec: {description: x}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: misspelt}
spec: {descripton: x, agentRef: {name: a}}
---
apiVersion: example.org/v1
kind: Nothing
metadata: {name: unknown}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: right}
spec: {description: x, agentRef: {name: a}}
";
    let mut child = world
        .command(&["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(
        "apply-some-bad",
        format!("{}----- stderr\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    );
}

#[tokio::test]
async fn objects_are_deleted_by_label_or_all_at_once() {
    let world = sample().await;
    check!("delete-all", world.run(&["delete", "tasks", "--all"]));
    assert_eq!(world.run(&["get", "tasks", "-o", "name"]).stdout(), "");
    assert_eq!(world.run(&["delete", "agents", "-l", "no=such"]).stdout(), "");
    assert_eq!(world.run(&["get", "agents", "-o", "name"]).stdout(), "agent.kubeopencode.io/dev\n");
}
