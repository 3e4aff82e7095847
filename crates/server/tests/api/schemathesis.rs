//! Requests that Schemathesis generates from the OpenAPI document of the server.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::json;
use tokio::process::Command;

use crate::harness;

/// Streams do not end, and terminals are no requests with an answer; both have tests of their own. Logging out is done
/// with a cookie. The test of a model provider sends requests to any address.
const NOT_ASKED: &str = "/events/stream$|/logs$|/logout$|/setup/test$";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,ignored_auth,use_after_free";
/// The whole run takes a small part of it on a quiet machine.
const LIMIT: Duration = Duration::from_mins(4);

#[tokio::test]
async fn no_request_that_the_description_allows_or_forbids_gets_an_answer_that_it_does_not_describe() {
    let it = harness::start().await;
    let token = it.owner().await;
    let reference = json!({ "name": "sample" });
    let task = json!({ "description": "do it", "agentRef": reference });
    for (plural, mut object) in [
        ("agents", json!({ "profile": "helps" })),
        ("agenttemplates", json!({ "executorImage": "box:1" })),
        ("tasks", task.clone()),
        ("crontasks", json!({ "schedule": "@daily", "taskTemplate": { "spec": task } })),
        ("registries", json!({})),
        ("instructions", json!({ "spec": { "text": "be kind" } })),
        ("models", json!({ "spec": { "model": "small", "providerRef": reference } })),
        ("modelproviders", json!({ "spec": { "type": "ollama", "baseURL": "http://models:11434" } })),
    ] {
        object["name"] = "sample".into();
        let (status, body) = it.post(&it.here(&format!("/{plural}")), &token, &object).await;
        assert_eq!(status, 201, "{plural}: {body}");
        it.until_listed(&token, &format!("/{plural}"), 1).await;
    }

    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("schemathesis.toml");
    std::fs::write(&config, configuration(&it.namespace, &token)).unwrap();
    let python = Command::new(root().join("scripts/python")).output().await.unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let python = String::from_utf8(python.stdout).unwrap();
    let run = Command::new(Path::new(python.trim()).with_file_name("schemathesis"))
        .current_dir(&dir)
        .arg("--config-file")
        .arg(&config)
        .args(["run", &it.path("/openapi.json"), "--checks", CHECKS, "--exclude-path-regex", NOT_ASKED])
        .args(["--phases", "coverage,fuzzing", "--no-shrink", "--continue-on-failure"])
        // The same requests every time.
        .args(["--workers", "1", "--generation-deterministic"])
        .args(["--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off", "--no-color"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(LIMIT, run).await.expect("it did not end").unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(stdout.contains("No issues found"), "{stdout}");
}

/// What is asked about is there, unless it is deleted. Every boundary of every parameter is tried with Tasks: reading other
/// kinds is the same code. Bodies take their time; what they may hold is tried where definitions are (`schema`). Here it is
/// one that the description allows and one that it forbids, and the largest are left out, whose way into the cluster is that
/// of the others: `EVERY_BODY=1` tries them, too, and takes minutes.
fn configuration(namespace: &str, token: &str) -> String {
    let every_body = std::env::var_os("EVERY_BODY").is_some();
    format!(
        r#"
        headers = {{ Authorization = "Bearer {token}" }}
        generation.max-examples = 2
        parameters = {{ "path.namespace" = "{namespace}", "path.name" = "sample" }}
        [phases.coverage]
        enabled = false
        [[operations]]
        include-method = ["POST", "PUT", "PATCH"]
        generation.max-examples = 1
        [[operations]]
        include-name-regex = "^(POST|PUT) .*/(agents|agenttemplates|agentworkflows|crontasks|mcpservers|registries|remotemcpservers)(/.name.)?$|^PUT .*/tasks/.name.$"
        enabled = {every_body}
        [[operations]]
        include-method = "DELETE"
        parameters = {{ "path.namespace" = "{namespace}", "path.name" = "nothing" }}
        [[operations]]
        include-name-regex = "^GET .*(/namespaces/.namespace./tasks|/tasks/.name.|/upcoming|/summary)$"
        phases.coverage.enabled = true
        "#
    )
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
