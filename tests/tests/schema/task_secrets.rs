//! A Task uses only Secrets that its author can read, or whose owner opened them to Tasks: by the admission policy on a
//! cluster, and by the embedded API server itself.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use blackbox::{ApiServer, Request, Response, install, server::Remote};
use domain::task_secrets::FIELDS;
use kube::{Client, Config, config::KubeConfigOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::suite::{Server, Suite, kubectl, on_every_server};

const POLICY: &str = include_str!("../../../deploy/admission/task-secrets.yaml");
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const TASKS: &str = "/apis/kubeopencode.io/v1alpha1/namespaces/default/tasks";
const CRON_TASKS: &str = "/apis/kubeopencode.io/v1alpha1/namespaces/default/crontasks";
/// An API server takes a second to learn of a policy.
const LIMIT: Duration = Duration::from_mins(1);

on_every_server!(a_task_uses_only_secrets_that_its_author_may_use);

/// A Task with one Secret in `field`, which is one of [`FIELDS`].
fn task(field: &str, secret: &str) -> Value {
    let git = json!({"repository": "https://git.example/x.git", "secretRef": {"name": secret}});
    let url = json!({"source": "https://docs.example/x", "secretRef": {"name": secret}});
    let from_secret = json!({"name": secret, "key": "k"});
    let (name, value) = match field {
        "contexts[].git.secretRef" => ("contexts", json!([{"type": "Git", "mountPath": "x", "git": git}])),
        "contexts[].url.secretRef" => ("contexts", json!([{"type": "URL", "mountPath": "x", "url": url}])),
        "executorImageBuild.secretRef" => ("executorImageBuild", git),
        "publish.secretRef" => ("publish", json!({"secretRef": {"name": secret}})),
        "services[].env[].valueFrom.secretKeyRef" => {
            let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": from_secret}}]);
            ("services", json!([{"name": "s", "image": "i", "env": env}]))
        }
        "tools[].headersFrom[].secretKeyRef" => {
            let headers = json!([{"name": "A", "secretKeyRef": from_secret}]);
            ("tools", json!([{"ref": {"kind": "MCPServer", "name": "m"}, "headersFrom": headers}]))
        }
        // A new field needs a case here, and an expression in the policy.
        _ => ("", json!(null)),
    };
    json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "t"},
        "spec": {"templateRef": {"name": "t"}, name: value},
    })
}

fn cron(task: &Value) -> Value {
    json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask", "metadata": {"name": "c"},
        "spec": {"schedule": "@daily", "taskTemplate": {"spec": task["spec"]}},
    })
}

/// The administrator, as a user without other rights.
async fn author(suite: &Suite) -> anyhow::Result<Remote> {
    let mut config = Config::from_custom_kubeconfig(suite.kubeconfig()?, &KubeConfigOptions::default()).await?;
    config.headers.push((http::HeaderName::from_static("impersonate-user"), http::HeaderValue::from_static("alice")));
    Ok(Remote::new(Client::try_from(config)?))
}

/// Lets `alice` write Tasks and read one Secret.
async fn grant(server: &Remote) -> anyhow::Result<()> {
    let rules = json!([
        {"apiGroups": ["kubeopencode.io"], "resources": ["tasks", "crontasks"], "verbs": ["create", "get", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]},
    ]);
    let role = json!({"metadata": {"name": "author"}, "rules": rules});
    server.send(Request::create_at(&format!("{RBAC}/roles"), &role)).await?.granted()?;
    let binding = json!({
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    server.send(Request::create_at(&format!("{RBAC}/rolebindings"), &binding)).await?.granted()?;
    // The label for the embedded API server, the annotation that the controller derives from it for the policy.
    let secret = json!({"metadata": {"name": "open", "labels": {"kubeopencode.io/allow-tasks": "true"}}});
    server.send(Request::create_at("/api/v1/namespaces/default/secrets", &secret)).await?.granted()?;
    let annotation = json!({"metadata": {"annotations": {"kubeopencode.io/task-secrets": "another,open"}}});
    server.send(Request::merge("/api/v1/namespaces/default", &annotation)).await?.granted()?;
    Ok(())
}

fn is_refused(response: &Response, sentence: &str) -> anyhow::Result<()> {
    ensure!(response.code == 403, "{} {}", response.code, response.message());
    ensure!(response.message().ends_with(sentence), "{}", response.message());
    Ok(())
}

fn sentence(kind: &str, secret: &str, field: &str) -> String {
    format!(
        "Secret '{secret}' ({field}) may not be used by this {kind}: you cannot read it. Ask its owner to label it \
         kubeopencode.io/allow-tasks=true, or to grant you get on it."
    )
}

async fn a_task_uses_only_secrets_that_its_author_may_use(which: Server) -> anyhow::Result<()> {
    let suite = Suite::alone(which).await?;
    let admin = &suite.server;
    install::install(admin).await?;
    if which == Server::Real {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), POLICY)?;
        kubectl(&suite, ["apply", "--filename", file.path().to_str().context("no path")?])?;
    }
    grant(admin).await?;
    let alice = &author(&suite).await?;
    let tries = format!("{TASKS}?dryRun=All");
    let attempt = async |server: &Remote, field: &str, secret: &str| {
        server.send(Request::create_at(&tries, &task(field, secret))).await
    };
    let begin = Instant::now();
    let ready = async || {
        let (closed, open) = (attempt(alice, FIELDS[0], "closed").await?, attempt(alice, FIELDS[0], "open").await?);
        anyhow::Ok(closed.message().contains("you cannot read it") && open.is_success())
    };
    while !ready().await? {
        ensure!(begin.elapsed() < LIMIT, "the policy has no effect");
        sleep(Duration::from_millis(50)).await;
    }

    for field in FIELDS {
        let path = field.replace("[]", "[0]");
        is_refused(&attempt(alice, field, "closed").await?, &sentence("Task", "closed", &format!("spec.{path}")))?;
        for (server, secret) in [(alice, "mine"), (alice, "open"), (admin, "closed")] {
            attempt(server, field, secret).await?.granted().with_context(|| format!("{field} {secret}"))?;
        }
        let answer = alice.send(Request::create_at(CRON_TASKS, &cron(&task(field, "closed")))).await?;
        is_refused(&answer, &sentence("CronTask", "closed", &format!("spec.taskTemplate.spec.{path}")))?;
    }

    // The Secret may stay where it is, and its use may not change.
    admin.send(Request::create_at(TASKS, &task(FIELDS[1], "closed"))).await?.granted()?;
    admin.send(Request::create_at(CRON_TASKS, &cron(&task(FIELDS[1], "closed")))).await?.granted()?;
    let (one, other) = (format!("{TASKS}/t"), format!("{CRON_TASKS}/c"));
    let stop = json!({"metadata": {"annotations": {"kubeopencode.io/stop": "true"}}});
    alice.send(Request::merge(&one, &stop)).await?.granted()?;
    alice.send(Request::merge(&other, &json!({"spec": {"suspend": true}}))).await?.granted()?;
    let prompt = json!({"description": "print what you fetched"});
    let answer = alice.send(Request::merge(&one, &json!({ "spec": prompt }))).await?;
    is_refused(&answer, &sentence("Task", "closed", "spec.contexts[0].url.secretRef"))?;
    let answer = alice.send(Request::merge(&other, &json!({"spec": {"taskTemplate": {"spec": prompt}}}))).await?;
    is_refused(&answer, &sentence("CronTask", "closed", "spec.taskTemplate.spec.contexts[0].url.secretRef"))
}
