//! An Agent with a real OpenCode: the files of its Tasks, and their permission requests.

use std::{
    path::Path,
    process::{Command, Output},
};

use demo::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use crate::command::Up;

const END: &str = "jsonpath={.status.phase} {.status.reason}";
const ASKED: &str = "jsonpath={.status.conditions[?(@.type=='AwaitingApproval')]['status','reason','message']}";

fn apply(up: &Up, dir: &Path, kind: &str, name: &str, spec: &Value) {
    let object = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let file = dir.join(format!("{kind}-{name}.json"));
    std::fs::write(&file, object.to_string()).unwrap();
    up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

/// Waits for something that takes an OpenCode as long as it takes on a busy machine.
fn wait(up: &Up, object: &str, condition: &str) {
    up.kubectl(&["wait", object, &format!("--for={condition}"), "--timeout=2m"]);
}

/// A Task whose command needs a permission.
fn asks(up: &Up, dir: &Path, name: &str) {
    let contexts = json!([{"type": "Text", "mountPath": "docs/a.md", "text": format!("{name} is heliotrope")}]);
    let script = format!(
        "[[bash cmd=\"cat .kubeopencode/tasks/{name}/docs/a.md\"]] [[bash cmd=\"ask-me {name}\"]] [[say they said yes]]"
    );
    let spec = json!({"agentRef": {"name": "dev"}, "description": script, "contexts": contexts});
    apply(up, dir, "Task", name, &spec);
    wait(up, &format!("task/{name}"), "condition=AwaitingApproval");
    let condition = up.kubectl(&["get", "task", name, "-o", ASKED]);
    assert!(condition.starts_with("True Asked") && condition.contains(&format!("bash (ask-me {name}")), "{condition}");
}

fn answered(up: &Up, name: &str, end: &str) {
    wait(up, &format!("task/{name}"), "jsonpath={.status.completionTime}");
    assert_eq!(up.kubectl(&["get", "task", name, "-o", END]), end);
    let condition = up.kubectl(&["get", "task", name, "-o", ASKED]);
    assert!(condition.starts_with("False Answered"), "{condition}");
}

/// One of our own commands, against this platform.
fn ours(up: &Up, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_kubeopencode");
    Command::new(program).args(args).env("KUBECONFIG", &up.kubeconfig).output().unwrap()
}

/// Where the permissions of a Task are, and a token of an administrator.
fn permissions(up: &Up, task: &str) -> (String, String) {
    up.kubectl(&["create", "serviceaccount", "tester"]);
    let args =
        ["create", "clusterrolebinding", "tester", "--clusterrole=cluster-admin", "--serviceaccount=default:tester"];
    up.kubectl(&args);
    let token = up.kubectl(&["create", "token", "tester"]).trim().to_owned();
    (format!("http://{}/api/v1/namespaces/default/tasks/{task}/permissions", up.rest_address()), token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_asks_reaches_a_person_by_command_and_by_rest() {
    let model = ScriptedModel::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--in-memory", "--port", "0"]);
    let mut config = model.opencode_config();
    config["permission"] = json!({"*": "allow", "bash": {"*": "allow", "ask-me*": "ask"}});
    apply(&up, dir.path(), "Agent", "dev", &json!({"config": config.to_string(), "approval": {"mode": "Ask"}}));
    wait(&up, "agent/dev", "jsonpath={.status.ready}=true");

    asks(&up, dir.path(), "by-command");
    assert!(model.requests().iter().any(|request| request.to_string().contains("by-command is heliotrope")));
    let output = ours(&up, &["approve", "by-command"]);
    assert!(output.status.success(), "{output:?}");
    answered(&up, "by-command", "Completed Succeeded");

    asks(&up, dir.path(), "by-rest");
    let (url, token) = permissions(&up, "by-rest");
    let http = egress::Authorities::default().http_client().unwrap().no_proxy().build().unwrap();
    let asked: Value = http.get(&url).bearer_auth(&token).send().await.unwrap().json().await.unwrap();
    let id = asked["permissions"][0]["id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    let answer = http.post(format!("{url}/{id}")).bearer_auth(&token).json(&json!({"reply": "reject"}));
    assert_eq!(answer.send().await.unwrap().status().as_u16(), 204);
    answered(&up, "by-rest", "Failed PermissionRejected");
    // Each answer is recorded, with the program and the user.
    for (task, reply, via, by) in [
        ("by-command", "once", "CommandLine", "owner"),
        ("by-rest", "reject", "Api", "system:serviceaccount:default:tester"),
    ] {
        let url = url.replace("by-rest/permissions", &format!("{task}/approvals"));
        let found: Value = http.get(url).bearer_auth(&token).send().await.unwrap().json().await.unwrap();
        let answer = &found["approvals"][0];
        assert_eq!(found["approvals"].as_array().map(Vec::len), Some(1), "{found}");
        let fields = ["reply", "via", "by"].map(|field| answer[field].as_str().unwrap_or_default());
        assert_eq!((fields, &answer["accepted"]), ([reply, via, by], &json!(true)), "{found}");
    }

    // Their files are removed with them.
    let list = ["exec", "deployment/dev-server", "-c", "opencode-server", "--", "ls", "/workspace/.kubeopencode/tasks"];
    assert_eq!(up.kubectl(&list), "by-command\nby-rest\n");
    up.kubectl(&["delete", "task", "by-command"]);
    up.until(&list, |output| output == "by-rest\n");
}
