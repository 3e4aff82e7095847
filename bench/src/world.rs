//! A control plane with our kinds and no other controllers, so that every write is the benchmark's or our controller's.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use api::{AgentTemplate, AgentTemplateSpec, Task, TaskSpec, refs::LocalRef, settings::AgentSettings};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::PostParams,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use testenv::{Cluster, Options};

/// Requests that a user sends at once.
pub const USERS: usize = 32;
/// Name of the template that Tasks run on.
pub const TEMPLATE: &str = "bench";

/// The admission policy that labels Tasks while they are applied.
const POLICY: &str = include_str!("../../deploy/admission/task-labels.yaml");
/// An API server takes a second to learn of a policy.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts a control plane without other controllers, and installs all of `deploy`.
pub async fn start() -> anyhow::Result<Cluster> {
    let cluster = start_with(Options::api_only().with_policies()).await?;
    let manifest = tempfile::NamedTempFile::new()?;
    std::fs::write(manifest.path(), testenv::beta(POLICY))?;
    let applied = cluster.kubectl_command(["apply", "--filename"]).arg(manifest.path()).output()?;
    ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let tasks: Api<Task> = Api::namespaced(cluster.client().await?, "default");
    let try_out = PostParams { dry_run: true, ..PostParams::default() };
    let begin = Instant::now();
    while tasks.create(&try_out, &task("labelled", on_template(TEMPLATE))).await?.labels().is_empty() {
        ensure!(begin.elapsed() < LIMIT, "the policy has no effect");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(cluster)
}

/// Starts a control plane, and installs our kinds.
pub async fn start_with(options: Options) -> anyhow::Result<Cluster> {
    let cluster = testenv::start(options).await?;
    let client = cluster.client().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::crds() {
        let crd: CustomResourceDefinition = serde_json::from_value(crd)?;
        let name = crd.metadata.name.clone().context("a definition without a name")?;
        crds.create(&PostParams::default(), &crd).await?;
        tokio::time::timeout(Duration::from_secs(30), await_condition(crds.clone(), &name, is_crd_established()))
            .await??;
    }
    Ok(cluster)
}

/// Creates the template that Tasks run on.
pub async fn template(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let templates: Api<AgentTemplate> = Api::namespaced(client.clone(), namespace);
    // A template without a model takes no Tasks.
    let settings = AgentSettings { command: Some(vec!["true".into()]), ..AgentSettings::default() };
    let spec = AgentTemplateSpec { settings, ..AgentTemplateSpec::default() };
    templates.create(&PostParams::default(), &AgentTemplate::new(TEMPLATE, spec)).await?;
    Ok(())
}

/// A Task as a user writes it.
pub fn task(name: &str, spec: TaskSpec) -> Task {
    Task::new(name, TaskSpec { description: Some("Say hello.".into()), ..spec })
}

/// The spec of a Task on a template.
pub fn on_template(name: &str) -> TaskSpec {
    TaskSpec { template_ref: Some(LocalRef::new(name)), ..TaskSpec::default() }
}

/// Creates Tasks as several users would.
pub async fn create(client: &Client, namespace: &str, tasks: Vec<Task>) -> anyhow::Result<()> {
    let api: Api<Task> = Api::namespaced(client.clone(), namespace);
    let creates = tasks.into_iter().map(|task| {
        let api = api.clone();
        async move { api.create(&PostParams::default(), &task).await.map(drop) }
    });
    stream::iter(creates).buffer_unordered(USERS).try_collect::<()>().await?;
    Ok(())
}
