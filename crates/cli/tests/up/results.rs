//! What runs leave: artefacts, outputs, caches and changes, on a platform that was started with `up`.

use std::{fs, net::Ipv4Addr, path::Path};

use blackbox::git_server::{GitServer, Manner};
use serde_json::{Value, json};

use crate::command::{Up, run_with};

/// Creates a Task on the template with the scripted model, and waits for its end.
fn ended(up: &Up, dir: &Path, name: &str, mut spec: Value) -> Value {
    spec["templateRef"] = json!({ "name": "scripted" });
    let task = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": name }, "spec": spec,
    });
    create(up, dir, &task);
    end_of(up, name)
}

fn create(up: &Up, dir: &Path, object: &Value) {
    let manifest = dir.join("manifest.json");
    fs::write(&manifest, object.to_string()).unwrap();
    up.kubectl(&["create", "-f", manifest.to_str().unwrap()]);
}

fn end_of(up: &Up, name: &str) -> Value {
    let over = |phase: &str| phase == "Completed" || phase == "Failed";
    up.until(&["get", "task", name, "-o", "jsonpath={.status.phase}"], over);
    serde_json::from_str(&up.kubectl(&["get", "task", name, "-o", "json"])).unwrap()
}

#[track_caller]
fn succeeded(up: &Up, task: &Value) {
    let name = task["metadata"]["name"].as_str().unwrap();
    let log = || up.try_kubectl(&["logs", &format!("{name}-pod"), "--all-containers"]);
    let log = || String::from_utf8_lossy(&log().stdout).into_owned();
    assert_eq!(task["status"]["reason"], "Succeeded", "{:#}\n{}", task["status"], log());
}

fn cli(up: &Up, args: &[&str]) -> String {
    let output = run_with(args, &[("KUBECONFIG", up.kubeconfig.to_str().unwrap())]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn what_a_run_leaves_is_kept_and_can_be_the_input_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    let script = r#"[[bash cmd="mkdir -p dist/sub && echo built > dist/app.txt && head -c 100000 /dev/urandom > dist/sub/noise && echo verdict=good >> $KUBEOPENCODE_OUTPUTS"]]"#;
    let spec = json!({
        "description": script, "outputs": ["verdict"],
        "artifacts": [{ "name": "dist", "paths": ["dist"] }, { "name": "logs", "paths": ["*.log"], "optional": true }],
    });
    let task = ended(&up, dir.path(), "build", spec);
    succeeded(&up, &task);
    let status = &task["status"];
    assert_eq!(status["result"]["outputs"], json!({ "verdict": "good" }));
    assert_eq!((&status["artifacts"][0]["name"], &status["artifacts"][0]["files"]), (&json!("dist"), &json!(2)));
    assert_eq!(status["artifacts"].as_array().unwrap().len(), 1, "{status:#}");
    assert!(status["timings"]["collectedAt"].is_string(), "{status:#}");

    // The agent can neither see the token for the depot nor the files in transit.
    let script = r#"[[bash cmd="cat in/dist/app.txt; ls /collect /var/run/secrets/kubeopencode.io; stat -c %s in/dist/sub/noise"]]"#;
    let spec = json!({
        "description": script, "inputs": [{ "fromTask": "build", "artifact": "dist", "mountPath": "in" }],
    });
    succeeded(&up, &ended(&up, dir.path(), "use", spec));
    let log = cli(&up, &["logs", "use"]);
    assert!(log.contains("built") && log.contains("100000"), "{log}");
    assert_eq!(log.matches("No such file or directory").count(), 2, "{log}");

    let out = dir.path().join("out");
    cli(&up, &["artifacts", "build", "get", "dist", "-o", out.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(out.join("dist/app.txt")).unwrap(), "built\n");
    assert!(cli(&up, &["artifacts", "build"]).contains("dist"));
    assert_eq!(cli(&up, &["outputs", "build", "verdict"]).trim(), "good");
}

#[test]
fn a_run_that_does_not_leave_what_it_has_to_leave_fails() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    let check = |name: &str, spec: Value, reason: &str, message: &str| {
        let task = ended(&up, dir.path(), name, spec);
        let status = &task["status"];
        assert_eq!(status["reason"], reason, "{status:#}");
        assert!(status["message"].as_str().unwrap().contains(message), "{status:#}");
    };
    let artifact = json!([{ "name": "report", "paths": ["report/**"] }]);
    check("nothing", json!({ "description": "Rest", "artifacts": artifact }), "ArtifactMissing", "report/**");
    check("silent", json!({ "description": "Rest", "outputs": ["verdict"] }), "OutputMissing", "verdict");
    // The run's own failure is the first cause.
    let spec = json!({ "description": "[[status 401]]", "artifacts": artifact, "outputs": ["verdict"] });
    check("refused", spec, "ModelError", "401");
    let input = json!([{ "fromTask": "nothing", "artifact": "report", "mountPath": "in" }]);
    check("hungry", json!({ "description": "Rest", "inputs": input }), "PreparationFailed", "report");
}

#[test]
fn a_cache_is_saved_by_one_run_and_restored_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    let cache = json!([{ "name": "deps", "key": "deps-v1", "restoreKeys": ["deps-"], "paths": ["deps"] }]);
    let spec = |script: &str| json!({ "description": script, "caches": cache });
    let first = ended(&up, dir.path(), "first", spec(r#"[[bash cmd="mkdir deps && echo kept > deps/a"]]"#));
    succeeded(&up, &first);
    assert_eq!(first["status"]["caches"][0], json!({ "name": "deps", "hit": "Miss", "saved": true }));
    let second = ended(&up, dir.path(), "second", spec(r#"[[bash cmd="cat deps/a"]]"#));
    succeeded(&up, &second);
    assert_eq!(second["status"]["caches"][0]["hit"], "Exact", "{:#}", second["status"]);
    assert!(cli(&up, &["logs", "second"]).contains("kept"));
}

#[test]
fn changes_are_kept_as_a_patch_and_published_without_the_agent_seeing_the_credential() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let login = ("robot".to_owned(), "s3cr3t-push".to_owned());
    let manner = Manner { login: Some(login), ..Manner::default() };
    let files = [("README.md", "first\n"), ("logo.bin", "\u{0}\u{1}binary")];
    let server = runtime.block_on(GitServer::start_with(Ipv4Addr::LOCALHOST, &files, manner)).unwrap();
    runtime.block_on(server.allow_pushes()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--port", "0"]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "git" },
        "stringData": { "username": "robot", "password": "s3cr3t-push" },
    });
    create(&up, dir.path(), &secret);
    let script = r#"[[bash cmd="cd repo && echo second >> README.md && printf '\\0\\2' > logo.bin && env | sort && cat .git/config"]]"#;
    let spec = json!({
        "description": script,
        "contexts": [{ "name": "code", "type": "Git", "mountPath": "repo",
            "git": { "repository": server.url(), "ref": "main", "secretRef": { "name": "git" } } }],
        "publish": { "secretRef": { "name": "git" } },
    });
    let task = ended(&up, dir.path(), "change", spec);
    succeeded(&up, &task);
    let published = &task["status"]["published"];
    assert_eq!(published["branch"], "agents/change", "{:#}", task["status"]);
    let pushed = runtime.block_on(server.read("agents/change", "README.md")).unwrap();
    assert_eq!(pushed, "first\nsecond");
    let log = cli(&up, &["logs", "change"]);
    assert!(!log.contains("s3cr3t-push"), "{log}");
    let patch = cli(&up, &["diff", "change", "--patch"]);
    assert!(patch.contains("+second") && patch.contains("GIT binary patch"), "{patch}");
}
