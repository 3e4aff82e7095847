//! Policies that the API server itself carries out.

use std::{fs, time::Duration};

use anyhow::ensure;
use blackbox::{install, server::Remote};
use serde_json::{Value, json};
use testenv::{Cluster, Options};
use tokio::time::{Instant, sleep};

use crate::suite::run;

const POLICY: &str = include_str!("../../../deploy/admission/task-labels.yaml");
/// An API server takes a second to learn of a policy.
const LIMIT: Duration = Duration::from_mins(1);

/// A manifest as kubectl leaves it in the cluster.
fn apply(cluster: &Cluster, manifest: &str, more: &[&str]) -> anyhow::Result<Value> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), manifest)?;
    let stored = run(cluster.kubectl_command(["apply", "--output=json", "--filename"]).arg(file.path()).args(more))?;
    Ok(serde_json::from_str(&stored)?)
}

fn task(name: &str, labels: &Value, target: &Value) -> String {
    let mut task = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
        "metadata": { "name": name, "labels": labels }, "spec": { "description": "say hello" },
    });
    for (key, value) in target.as_object().into_iter().flatten() {
        task["spec"][key] = value.clone();
    }
    task.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_labelled_with_what_it_runs_on_while_it_is_applied() -> anyhow::Result<()> {
    let cluster = testenv::start(Options::api_only().with_policies()).await?;
    install::install(&Remote::new(cluster.client().await?)).await?;
    apply(&cluster, &testenv::beta(POLICY), &[])?;
    let (on_agent, on_template) =
        (json!({ "agentRef": { "name": "dev" } }), json!({ "templateRef": { "name": "go" } }));

    let begin = Instant::now();
    let try_out = task("try", &json!({}), &on_agent);
    while apply(&cluster, &try_out, &["--dry-run=server"])?["metadata"]["labels"].is_null() {
        ensure!(begin.elapsed() < LIMIT, "the policy has no effect");
        sleep(Duration::from_millis(50)).await;
    }

    let other = json!({ "team": "blue" });
    for (manifest, more, expected) in [
        (task("a", &json!({}), &on_agent), [].as_slice(), json!({ "kubeopencode.io/agent": "dev" })),
        (task("b", &json!({}), &on_template), &["--server-side"], json!({ "kubeopencode.io/agent-template": "go" })),
        (task("c", &other, &on_template), &[], json!({ "team": "blue", "kubeopencode.io/agent-template": "go" })),
        // One that waits may be sent elsewhere.
        (
            task("a", &other, &json!({ "agentRef": { "name": "ops" } })),
            &[],
            json!({ "team": "blue", "kubeopencode.io/agent": "ops" }),
        ),
    ] {
        let labels = apply(&cluster, &manifest, more)?["metadata"]["labels"].clone();
        ensure!(labels == expected, "{manifest}: {labels}, not {expected}");
    }
    Ok(())
}
