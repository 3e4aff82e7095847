//! What a Task on an Agent's server takes and leaves, on a platform that was started with `up`.

use std::{fs, net::Ipv4Addr, path::Path};

use blackbox::git_server::GitServer;
use demo::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::command::{Up, run_with};

fn apply(up: &Up, dir: &Path, kind: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let file = dir.join(format!("{kind}-{name}.json"));
    fs::write(&file, object.to_string()).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

fn start(up: &Up, dir: &Path, name: &str, mut spec: Value) {
    spec["agentRef"] = json!({"name": "dev"});
    apply(up, dir, "Task", name, &spec);
}

fn ended(up: &Up, dir: &Path, name: &str, spec: Value) -> Value {
    start(up, dir, name, spec);
    end_of(up, name)
}

/// The status of a Task at its end.
fn end_of(up: &Up, name: &str) -> Value {
    let over = |phase: &str| phase == "Completed" || phase == "Failed";
    up.until(&["get", "task", name, "-o", "jsonpath={.status.phase}"], over);
    let task: Value = serde_json::from_str(&up.kubectl(&["get", "task", name, "-o", "json"])).unwrap();
    task["status"].clone()
}

#[track_caller]
fn succeeded(up: &Up, name: &str, status: &Value) {
    let log = || up.try_kubectl(&["logs", &format!("{name}-pod"), "--all-containers"]);
    let log = || String::from_utf8_lossy(&log().stdout).into_owned();
    assert_eq!(status["reason"], "Succeeded", "{status:#}\n{}", log());
}

fn cli(up: &Up, args: &[&str]) -> String {
    let output = run_with(args, &[("KUBECONFIG", up.kubeconfig.to_str().unwrap())]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_on_an_agent_leaves_artifacts_and_outputs_and_takes_inputs() {
    let model = ScriptedModel::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    apply(&up, dir.path(), "Agent", "dev", &json!({"config": model.opencode_config().to_string()}));
    up.kubectl(&["wait", "agent/dev", "--for=jsonpath={.status.ready}=true", "--timeout=2m"]);

    let script = r#"[[bash cmd="mkdir -p dist/sub && echo built > dist/app.txt && head -c 100000 /dev/urandom > dist/sub/noise && echo verdict=good > .kubeopencode/tasks/build/.outputs"]]"#;
    let spec = json!({
        "description": script, "outputs": ["verdict"],
        "artifacts": [{"name": "dist", "paths": ["dist"]}, {"name": "logs", "paths": ["*.log"], "optional": true}],
    });
    let status = ended(&up, dir.path(), "build", spec);
    succeeded(&up, "build", &status);
    assert_eq!(status["result"]["outputs"], json!({"verdict": "good"}), "{status:#}");
    assert_eq!((&status["artifacts"][0]["name"], &status["artifacts"][0]["files"]), (&json!("dist"), &json!(2)));
    let requests: Vec<String> = model.requests().iter().map(Value::to_string).collect();
    assert!(requests.iter().any(|request| request.contains("/workspace/.kubeopencode/tasks/build/.outputs")));

    let out = dir.path().join("out");
    cli(&up, &["artifacts", "build", "get", "dist", "-o", out.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(out.join("dist/app.txt")).unwrap(), "built\n");
    assert_eq!(cli(&up, &["outputs", "build", "verdict"]).trim(), "good");

    let script = r#"[[bash cmd="cat .kubeopencode/tasks/use/in/dist/app.txt"]]"#;
    let inputs = json!([{"fromTask": "build", "artifact": "dist", "mountPath": "in"}]);
    let status = ended(&up, dir.path(), "use", json!({"description": script, "inputs": inputs}));
    succeeded(&up, "use", &status);
    assert!(cli(&up, &["logs", "use"]).contains("built"));

    // A Task that leaves nothing that it has to leave.
    let spec = json!({"description": "Rest", "outputs": ["verdict"]});
    let status = ended(&up, dir.path(), "silent", spec);
    assert_eq!(status["reason"], "OutputMissing", "{status:#}");
    assert!(status["message"].as_str().unwrap().contains(".kubeopencode/tasks/silent/.outputs"), "{status:#}");

    // One that keeps nothing has the one container that it always had.
    let status = ended(&up, dir.path(), "plain", json!({"description": "Rest"}));
    succeeded(&up, "plain", &status);
    let containers = ["get", "pod", "plain-pod", "-o", "jsonpath={.spec.containers[*].name}"];
    assert_eq!(up.kubectl(&containers), "agent");
    let containers = ["get", "pod", "plain-pod", "-o", "jsonpath={.spec.initContainers[*].name}"];
    assert_eq!(up.kubectl(&containers), "session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_at_once_on_one_checkout_have_the_change_of_their_own_session() {
    let model = ScriptedModel::start().await.unwrap();
    let git = GitServer::start(Ipv4Addr::LOCALHOST, &[("README.md", "first\n")]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    let contexts = json!([{"name": "code", "type": "Git", "mountPath": "repo",
        "git": {"repository": git.url(), "ref": "main"}}]);
    let spec = json!({"config": model.opencode_config().to_string(), "contexts": contexts});
    apply(&up, dir.path(), "Agent", "dev", &spec);
    up.kubectl(&["wait", "agent/dev", "--for=jsonpath={.status.ready}=true", "--timeout=2m"]);

    let script = r#"[[bash cmd="cd repo && echo second >> README.md && printf '\\0\\2' > logo.bin"]]"#;
    succeeded(&up, "alone", &ended(&up, dir.path(), "alone", json!({"description": script})));
    let patch = cli(&up, &["diff", "alone", "--patch"]);
    assert!(patch.contains("b/repo/README.md") && patch.contains("+second") && patch.contains("GIT binary"), "{patch}");

    // Each ends after the other has begun.
    for (name, other) in [("one", "two"), ("two", "one")] {
        let wait = format!("timeout 60 sh -c 'until test -e repo/{other}.txt; do sleep 0.1; done'");
        let script = format!("[[write path=repo/{name}.txt text=\"{name}\"]] [[bash cmd=\"{wait}\"]]");
        start(&up, dir.path(), name, json!({"description": script}));
    }
    for (name, other) in [("one", "two"), ("two", "one")] {
        succeeded(&up, name, &end_of(&up, name));
        let patch = cli(&up, &["diff", name, "--patch"]);
        assert!(patch.contains(&format!("b/repo/{name}.txt")) && !patch.contains(&format!("{other}.txt")), "{patch}");
        let log = up.kubectl(&["logs", &format!("{name}-pod"), "-c", "housekeeper"]);
        assert!(log.contains("at the same time"), "{log}");
    }
}
