//! agent, crontask, top, completion, version, help.

use std::{collections::BTreeMap, os::unix::fs::symlink, process::Command};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::{Value, json};

use crate::{check, world::World};

#[tokio::test]
async fn agents_are_suspended_resumed_and_shared() {
    let world = World::start().await;
    world.create("Agent", "dev", json!({"maxConcurrentTasks": 2}), json!({"phase": "Running", "ready": true})).await;
    let secret = Secret {
        metadata: ObjectMeta { name: Some("dev-share".into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("token".to_owned(), ByteString(b"abc".to_vec()))])),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let spec = async || world.api("Agent").get("dev").await.unwrap().data["spec"].clone();

    check!("agent-list", world.run(&["agent", "list"]));
    check!("agent-suspend", world.run(&["agent", "suspend", "dev"]));
    assert_eq!(spec().await["suspend"], json!(true));
    check!("agent-suspend-again", world.run(&["agent", "suspend", "dev"]));
    check!("agent-resume", world.run(&["agent", "resume", "dev"]));
    assert_eq!(spec().await["suspend"], json!(false));
    check!("agent-share-not-yet", world.run(&["agent", "share", "dev", "--show"]));
    check!(
        "agent-share",
        world.run(&["agent", "share", "dev", "--expires-in", "24h", "--allowed-ips", "10.0.0.0/8,::1"])
    );
    assert_eq!(spec().await["share"]["allowedIPs"], json!(["10.0.0.0/8", "::1"]));
    check!("agent-share-for-ever", world.run(&["agent", "share", "dev"]));
    assert_eq!(spec().await["share"], json!({"enabled": true}));
    check!("agent-unshare", world.run(&["agent", "unshare", "dev"]));
    check!("agent-missing", world.run(&["agent", "attach", "gone"]));
    check!("agent-attach-not-ready", {
        world.status("Agent", "dev", json!({"ready": false})).await;
        world.run(&["agent", "attach", "dev", "--timeout", "1s"])
    });
    let annotations = world.api("Agent").get("dev").await.unwrap().metadata.annotations.unwrap_or_default();
    assert!(annotations.contains_key("kubeopencode.io/last-connection-active"), "{annotations:?}");
}

#[tokio::test]
async fn crontasks_are_triggered_suspended_and_resumed() {
    let world = World::start().await;
    let spec = json!({"schedule": "@daily", "taskTemplate": {"spec": {"agentRef": {"name": "dev"}}}});
    world.create("CronTask", "nightly", spec, Value::Null).await;
    check!("crontask-trigger", world.run(&["crontask", "trigger", "nightly"]));
    check!("crontask-suspend", world.run(&["ct", "suspend", "nightly"]));
    check!("crontask-resume", world.run(&["ct", "resume", "nightly"]));
    check!("crontask-missing", world.run(&["ct", "trigger", "gone"]));
    let stored = world.api("CronTask").get("nightly").await.unwrap();
    assert_eq!(stored.metadata.annotations.unwrap_or_default()["kubeopencode.io/trigger"], "true");
    assert_eq!(stored.data["spec"]["suspend"], json!(false));
}

#[tokio::test]
async fn a_crontask_with_as_many_tasks_as_it_may_have_is_not_triggered() {
    let world = World::start().await;
    let template = json!({"spec": {"agentRef": {"name": "dev"}}});
    let spec = json!({"schedule": "@daily", "maxRetainedTasks": 1, "taskTemplate": template});
    let why =
        "no run starts, because the CronTask has as many Tasks as maxRetainedTasks (1) allows; delete finished Tasks";
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "MaxRetainedTasksReached", "message": why,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = json!([condition("Ready", "False"), condition("Blocked", "True")]);
    world.create("CronTask", "nightly", spec, json!({ "conditions": conditions })).await;
    let stopped = json!({"type": "Stopped", "status": "True", "reason": "UserStopped", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"phase": "Completed", "reason": "UserStopped", "conditions": [stopped]});
    world.create("Task", "by-hand", json!({"agentRef": {"name": "dev"}}), status).await;
    let label = json!({"metadata": {"labels": {"kubeopencode.io/crontask": "nightly"}}});
    world.api("Task").patch("by-hand", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();

    let ran = world.run(&["crontask", "trigger", "nightly"]);
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.text());
    check!("crontask-trigger-blocked", ran);
    // To a person in another namespace, a command is suggested that works there.
    let args = ["crontask", "trigger", "nightly", "-n", &world.namespace];
    let elsewhere = world.finish(world.command(&args).env("KUBECONFIG", world.cluster.kubeconfig_path())).stderr();
    assert!(elsewhere.ends_with(&format!("=nightly -n {}\n", world.namespace)), "{elsewhere}");
    assert_eq!(world.api("CronTask").get("nightly").await.unwrap().metadata.annotations, None);
    let explained = world.run(&["explain", "crontask/nightly"]).text();
    assert!(explained.contains("/nightly: Blocked (MaxRetainedTasksReached)"), "{explained}");
    assert!(explained.contains("delete finished Tasks of the CronTask, or raise spec.maxRetainedTasks"), "{explained}");
    let tasks = world.run(&["get", "tasks"]).text();
    assert!(tasks.contains("Stopped") && !tasks.contains("Completed"), "{tasks}");
}

#[tokio::test]
async fn top_prints_one_frame_where_nobody_watches() {
    let world = World::start().await;
    world.create("Agent", "dev", json!({"maxConcurrentTasks": 1}), json!({"ready": true})).await;
    world
        .create("Task", "runs", json!({"agentRef": {"name": "dev"}}), json!({"phase": "Running", "runEpoch": 1}))
        .await;
    let text = world.run(&["top"]).text();
    assert!(text.contains("1/1 agents ready, 1 running, 0 waiting"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[tokio::test]
async fn versions_are_printed_even_without_a_cluster() {
    let world = World::start().await;
    check!("version", world.run(&["version"]));
    let mut alone = world.command(&["version"]);
    check!("version-alone", world.finish(alone.env_remove("KUBECONFIG")));
    check!("version-client", world.run(&["version", "--client", "-o", "json"]));
}

#[test]
fn every_shell_gets_a_script_for_the_name_that_was_called() {
    let directory = tempfile::tempdir().unwrap();
    let kubeoc = directory.path().join("kubeoc");
    symlink(env!("CARGO_BIN_EXE_kubeopencode"), &kubeoc).unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = Command::new(&kubeoc).args(["completion", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("kubeoc") && script.contains("explain"), "{shell}");
    }
    let help = Command::new(&kubeoc).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: kubeoc ") && help.contains("Exit codes:"), "{help}");
}

#[test]
fn it_is_installed_with_completions_and_manual_pages_and_removed_again() {
    let directory = tempfile::tempdir().unwrap();
    let (prefix, root) = (directory.path().join("prefix"), directory.path().join("root"));
    let installer = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install");
    let run = |what: &str| {
        let output = Command::new(installer).arg(what).arg(&prefix).env("DESTDIR", &root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let at = |path: &str| root.join(prefix.strip_prefix("/").unwrap()).join(path);
    let files = [
        "bin/kubeopencode",
        "bin/kubeoc",
        "share/bash-completion/completions/kubeopencode",
        "share/zsh/site-functions/_kubeopencode",
        "share/fish/vendor_completions.d/kubeopencode.fish",
        "share/man/man1/kubeopencode.1",
        "share/man/man1/kubeopencode-run.1",
    ];
    for _ in 0..2 {
        let said = run(env!("CARGO_BIN_EXE_kubeopencode"));
        // The prefix is not on the PATH, so it says what to do.
        assert!(said.contains("export PATH=\""), "{said}");
        for file in files {
            assert!(at(file).metadata().unwrap().len() > 100, "{file}");
        }
    }
    let manual = std::fs::read_to_string(at("share/man/man1/kubeopencode-run.1")).unwrap();
    assert!(manual.contains("context\\-file") && manual.contains("Examples"), "{manual}");
    // Helpers of Pods are not for people.
    assert!(!at("share/man/man1/kubeopencode-git-init.1").exists());
    run("--remove");
    for file in files {
        assert!(!at(file).exists(), "{file}");
    }
}

/// The help that most people read. The other pages are in docs/reference/cli.md, which a check compares with the code.
#[test]
fn the_help_lists_the_commands_for_people() {
    for (name, args) in [("help", &["-h"][..]), ("help-run", &["run", "-h"]), ("help-get", &["get", "-h"])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubeopencode"));
        let output = command.args(args).env_clear().env("COLUMNS", "100").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, help) });
    }
}

#[test]
fn a_task_is_submitted_only_to_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("task.md");
    std::fs::write(&file, "say hello").unwrap();
    let mut submit = Command::new(env!("CARGO_BIN_EXE_kubeopencode"));
    submit.args(["task-submit", "--url", "ftp://here", "--task-file"]).arg(file);
    let output = submit.env("OUTCOME_FILE", directory.path().join("outcome")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && stdout.contains("must start with http:// or https://"), "{stdout}");
}
