//! run, logs, explain, stop, rerun, approve.

use std::{
    fs,
    io::Read as _,
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::{check, world::World};

const FINISHED: &str = "2026-01-01T00:01:05Z";

fn ended(phase: &str, reason: &str, stopped: bool) -> Value {
    let conditions = if stopped {
        json!([{"type": "Stopped", "status": "True", "reason": reason, "message": "", "lastTransitionTime": FINISHED}])
    } else {
        json!([])
    };
    json!({"phase": phase, "reason": reason, "message": "as the test says", "runEpoch": 1,
        "startTime": "2026-01-01T00:00:00Z", "completionTime": FINISHED, "conditions": conditions,
        "usage": {"tokens": {"input": 1000, "output": 200}, "cost": "0.0100"}})
}

fn spawn(world: &World, args: &[&str]) -> Child {
    world.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finish(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    let code = child.wait().unwrap().code();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (code, stderr)
}

#[tokio::test]
async fn run_ends_as_the_task_ends() {
    for (phase, reason, stopped, code, result) in [
        ("Completed", "Succeeded", false, 0, "succeeded after 65s, 1,200 tokens, cost $0.0100"),
        (
            "Failed",
            "ModelError",
            false,
            1,
            "failed after 65s, 1,200 tokens, cost $0.0100\nModelError: as the test says",
        ),
        ("Completed", "UserStopped", true, 3, "was stopped after 65s"),
        ("Completed", "Timeout", true, 4, "reached its timeout after 65s"),
    ] {
        let world = World::start().await;
        world.create("Agent", "dev", json!({}), Value::Null).await;
        let child = spawn(&world, &["run", "do this", "--agent", "dev", "--wait"]);
        let name = world.only_task().await;
        world.status("Task", &name, json!({"phase": "Running", "runEpoch": 1})).await;
        world.status("Task", &name, ended(phase, reason, stopped)).await;
        let (found, stderr) = finish(child);
        assert_eq!(found, Some(code), "{stderr}");
        assert!(stderr.contains(&format!("task {name} {result}")), "{stderr}");
    }
}

#[tokio::test]
async fn run_makes_the_task_that_was_asked_for() {
    let world = World::start().await;
    let notes = world.directory().join("notes.md");
    fs::write(&notes, "know this").unwrap();
    let notes = notes.display().to_string();
    let placed = format!("{notes}:docs/notes.md");
    let args = [
        "run",
        "fix it",
        "-t",
        "base",
        "--name",
        "fix",
        "-c",
        &notes,
        "-c",
        &placed,
        "--timeout",
        "30m",
        "--priority",
        "-5",
        "--label",
        "team=a",
    ];
    world.create("AgentTemplate", "base", json!({}), Value::Null).await;
    check!("run-dry-run", world.run(&[&args[..], &["--dry-run"]].concat()));
    check!("run-detached", world.run(&[&args[..], &["--detach"]].concat()));
    check!("run-taken-name", world.run(&[&args[..], &["--detach"]].concat()));
    let task = world.tasks().get("fix").await.unwrap();
    assert_eq!(task.spec.priority, -5);
    assert_eq!(task.spec.contexts.map(|all| all.len()), Some(2));
}

#[tokio::test]
async fn run_chooses_the_only_agent_and_asks_when_there_are_more() {
    let world = World::start().await;
    check!("run-nobody", world.run(&["run", "do this"]));
    check!("run-nothing", world.run(&["run", "--agent", "dev"]));
    check!("run-wrong-context", world.run(&["run", "x", "--agent", "dev", "--context", "prod"]));
    world.create("Agent", "dev", json!({}), Value::Null).await;
    check!("run-only-agent", world.run(&["run", "do this", "--name", "first", "--detach"]));
    world.create("AgentTemplate", "base", json!({}), Value::Null).await;
    world.create("Agent", "ops", json!({}), Value::Null).await;
    check!("run-which", world.run(&["run", "do this"]));
}

#[tokio::test]
async fn a_mistyped_name_fails_at_once_with_what_was_meant() {
    let world = World::start().await;
    world.create("AgentTemplate", "python", json!({}), Value::Null).await;
    world.create("Agent", "developer", json!({}), json!({"ready": true})).await;
    let spec = json!({"description": "x", "agentRef": {"name": "developer"}});
    world.create("Task", "fix-tests", spec, json!({"phase": "Running", "runEpoch": 1})).await;
    check!("run-mistyped-template", world.run(&["run", "x", "--template", "pyhton"]));
    check!("run-unknown-template", world.run(&["run", "x", "--template", "nope"]));
    check!("run-mistyped-agent", world.run(&["run", "x", "--agent", "developr"]));
    check!("run-agent-as-template", world.run(&["run", "x", "--template", "developer"]));
    check!("get-mistyped", world.run(&["get", "task", "fix-test"]));
    check!("stop-mistyped", world.run(&["stop", "fx-tests"]));
    check!("logs-mistyped", world.run(&["logs", "fix-tests-"]));
    check!("explain-mistyped", world.run(&["explain", "fix-tsets"]));
    check!("attach-mistyped", world.run(&["agent", "attach", "devloper"]));
    // None of them created a Task.
    assert_eq!(world.only_task().await, "fix-tests");
    let elsewhere = world.run(&["logs", "fix-tests", "-n", "default"]);
    let hint = format!("hint: Task 'fix-tests' exists in namespace '{0}': use -n {0}\n", world.namespace);
    assert!(elsewhere.stderr().ends_with(&hint), "{}", elsewhere.stderr());
}

#[tokio::test]
async fn an_interrupt_leaves_the_task_running_unless_asked_to_stop_it() {
    let interrupt = |child: &Child| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    };
    let world = World::start().await;
    world.create("Agent", "dev", json!({}), Value::Null).await;
    let mut child = spawn(&world, &["run", "do this", "--agent", "dev", "--name", "goes-on"]);
    world.only_task().await;
    // Its signal handlers are installed once it reports the Task.
    wait_for(&mut child, "was accepted");
    interrupt(&child);
    let (code, stderr) = finish(child);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("task goes-on continues; stop it with: kubeopencode stop goes-on"), "{stderr}");
    assert!(world.tasks().get("goes-on").await.unwrap().metadata.annotations.is_none());

    let world = World::start().await;
    world.create("Agent", "dev", json!({}), Value::Null).await;
    let mut child = spawn(&world, &["run", "x", "--agent", "dev", "--name", "stops", "--wait", "--stop-on-interrupt"]);
    world.only_task().await;
    wait_for(&mut child, "was accepted");
    interrupt(&child);
    wait_for(&mut child, "stopping task");
    let started = std::time::Instant::now();
    while world.tasks().get("stops").await.unwrap().metadata.annotations.is_none() {
        assert!(started.elapsed() < crate::world::LIMIT, "no stop was requested");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.status("Task", "stops", ended("Completed", "UserStopped", true)).await;
    assert_eq!(finish(child).0, Some(3));
}

/// Reads the error output of a command until it contains `text`.
fn wait_for(child: &mut Child, text: &str) {
    let mut printed = Vec::new();
    let stderr = child.stderr.as_mut().unwrap();
    while !String::from_utf8_lossy(&printed).contains(text) {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "ended after {}", String::from_utf8_lossy(&printed));
        printed.push(byte[0]);
    }
}

#[tokio::test]
async fn explain_lists_the_tasks_ahead() {
    let world = World::start().await;
    world.create("Agent", "dev", json!({"maxConcurrentTasks": 1}), json!({"ready": true})).await;
    let spec = json!({"agentRef": {"name": "dev"}, "timeout": "5m"});
    world.create("Task", "first", spec.clone(), json!({"phase": "Running", "runEpoch": 1})).await;
    world.create("Task", "mine", spec, json!({"phase": "Queued"})).await;
    check!("explain-waiting", world.run(&["explain", "mine"]));
    check!("explain-missing", world.run(&["explain", "gone"]));
    let data: Value = serde_json::from_str(&world.run(&["task", "explain", "mine", "-o", "json"]).stdout()).unwrap();
    assert_eq!((&data["queue"]["position"], &data["reason"]), (&json!(1), &json!("AgentAtCapacity")));
}

#[tokio::test]
async fn logs_that_cannot_be_shown_are_explained() {
    let world = World::start().await;
    world.create("Task", "waits", json!({"agentRef": {"name": "dev"}}), json!({"phase": "Queued"})).await;
    let done = json!({"phase": "Failed", "reason": "PodLost", "runEpoch": 2, "podName": "done-pod-2"});
    world.create("Task", "done", json!({"agentRef": {"name": "dev"}}), done).await;
    check!("logs-waiting", world.run(&["logs", "waits"]));
    check!("logs-missing", world.run(&["logs", "gone"]));
    check!("logs-pod-gone", world.run(&["logs", "done"]));
    check!("logs-no-such-run", world.run(&["logs", "done", "--run", "7"]));
    check!("logs-previous-gone", world.run(&["task", "logs", "done", "--previous"]));
    check!("logs-bad-span", world.run(&["logs", "done", "--since", "soon"]));
    check!("logs-of-nobody", world.run(&["logs", "agent/gone"]));
}

#[tokio::test]
async fn stop_and_rerun_ask_only_what_makes_sense() {
    let world = World::start().await;
    world
        .create("Task", "runs", json!({"agentRef": {"name": "dev"}}), json!({"phase": "Running", "runEpoch": 1}))
        .await;
    world.create("Task", "done", json!({"agentRef": {"name": "dev"}}), ended("Completed", "Succeeded", false)).await;
    check!("stop", world.run(&["stop", "runs"]));
    check!("stop-some", world.run(&["stop", "runs", "done", "gone"]));
    check!("rerun-too-early", world.run(&["rerun", "runs"]));
    check!("rerun", world.run(&["rerun", "done"]));
    let annotations = |task: api::Task| task.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations(world.tasks().get("runs").await.unwrap())["kubeopencode.io/stop"], "true");
    assert!(annotations(world.tasks().get("done").await.unwrap()).contains_key("kubeopencode.io/rerun"));
}

#[tokio::test]
async fn permissions_that_nobody_can_answer_are_explained() {
    let world = World::start().await;
    world.create("Agent", "dev", json!({"server": {"auth": "None"}}), Value::Null).await;
    world
        .create("Task", "own", json!({"templateRef": {"name": "base"}}), json!({"phase": "Running", "runEpoch": 1}))
        .await;
    world
        .create("Task", "on-agent", json!({"agentRef": {"name": "dev"}}), json!({"phase": "Running", "runEpoch": 1}))
        .await;
    world.create("Task", "done", json!({"agentRef": {"name": "dev"}}), ended("Completed", "Succeeded", false)).await;
    check!("approve-template", world.run(&["approve", "own"]));
    check!("approve-no-pod", world.run(&["approve", "on-agent", "--list"]));
    check!("deny-done", world.run(&["deny", "done", "--message", "no"]));
}
