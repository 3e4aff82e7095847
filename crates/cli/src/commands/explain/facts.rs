//! The facts that an explanation needs.

use std::sync::Arc;

use api::{Agent, AgentTemplate, CronTask, KubeOpenCodeConfig, Model, Task, names::labels, refs::LocalRef};
use domain::{
    explain::{Reader, Run, Setting, Sight, Surroundings},
    platform::Platform,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

use crate::{
    commands::{
        connect::Cluster,
        describe,
        log::kept,
        problem::{Answer, Problem},
        task::follow,
    },
    log_archive::LogArchiveArg,
};

/// A Task and its surroundings.
#[derive(Clone, Debug)]
pub struct Facts {
    pub task: Task,
    pub run: Run,
    pub around: Surroundings,
}

impl Facts {
    /// Fetches the facts with the rights of the caller. Platform settings, Models and Pods that the caller may not read
    /// are omitted; the explanation is then shorter.
    pub async fn fetch(cluster: &Cluster, name: &str) -> Answer<Self> {
        let task = follow::find(cluster, name).await?;
        let agent = match &task.spec.agent_ref {
            Some(agent) => cluster.api::<Agent>().get_opt(&agent.name).await?,
            None => None,
        };
        let around = Box::pin(surroundings(cluster, agent, task.spec.template_ref.as_ref())).await?;
        Ok(Self { run: run(cluster, &task).await, task, around })
    }
}

/// An Agent and its surroundings.
pub async fn of_agent(cluster: &Cluster, name: &str) -> Answer<(Arc<Agent>, Surroundings)> {
    let found = cluster.api::<Agent>().get_opt(name).await?;
    let agent = found.ok_or_else(|| missing(cluster, "Agent", name, "agents"))?;
    let around = Box::pin(surroundings(cluster, Some(agent.clone()), None)).await?;
    Ok((Arc::new(agent), around))
}

/// A CronTask and the Tasks of its namespace.
pub async fn of_cron_task(cluster: &Cluster, name: &str) -> Answer<(CronTask, Vec<Arc<Task>>)> {
    let found = cluster.api::<CronTask>().get_opt(name).await?;
    let cron = found.ok_or_else(|| missing(cluster, "CronTask", name, "crontasks"))?;
    let tasks = cluster.api::<Task>().list(&ListParams::default()).await?.items;
    Ok((cron, tasks.into_iter().map(Arc::new).collect()))
}

/// The reader of this command's output.
pub fn reader(cluster: &Cluster) -> Reader {
    Reader::Shell { other_namespace: cluster.other_namespace }
}

fn missing(cluster: &Cluster, kind: &str, name: &str, plural: &str) -> Problem {
    Problem::not_found(format!("there is no {kind} '{name}' in namespace '{}'", cluster.namespace))
        .next(format!("list {kind}s with: kubeopencode get {plural} --all-namespaces"))
}

async fn surroundings(cluster: &Cluster, agent: Option<Agent>, template: Option<&LocalRef>) -> Answer<Surroundings> {
    let named = agent.as_ref().and_then(|agent| agent.spec.template_ref.as_ref());
    let template = match template.or(named) {
        Some(template) => cluster.api::<AgentTemplate>().get_opt(&template.name).await?,
        None => None,
    };
    let configs: Api<KubeOpenCodeConfig> = Api::all(cluster.client.clone());
    let config = configs.get_opt("cluster").await.ok().flatten();
    let (model, server_pods) = match &agent {
        Some(agent) => (model(cluster, agent).await, server_pods(cluster, agent).await),
        None => (None, Vec::new()),
    };
    let tasks = cluster.api::<Task>().list(&ListParams::default()).await?.items;
    Ok(Surroundings {
        agent: agent.map(Arc::new),
        template: template.map(Arc::new),
        model: model.map(Arc::new),
        server_pods,
        tasks: tasks.into_iter().map(Arc::new).collect(),
        platform: Platform::from(config.as_ref(), &|_| None),
        sight: Sight { tasks: true, target: true },
        reader: reader(cluster),
        now: Timestamp::now(),
    })
}

async fn model(cluster: &Cluster, agent: &Agent) -> Option<Model> {
    let named = agent.spec.settings.model_ref.as_ref()?;
    let home = named.namespace.as_deref().or(agent.metadata.namespace.as_deref())?;
    Api::<Model>::namespaced(cluster.client.clone(), home).get_opt(&named.name).await.ok().flatten()
}

async fn server_pods(cluster: &Cluster, agent: &Agent) -> Vec<Pod> {
    let name = agent.metadata.name.as_deref().unwrap_or_default();
    let wanted = format!("{}={name},{}=server", labels::AGENT, labels::APP_COMPONENT);
    let pods = cluster.api::<Pod>().list(&ListParams::default().labels(&wanted)).await;
    pods.map(|pods| pods.items).unwrap_or_default()
}

async fn run(cluster: &Cluster, task: &Task) -> Run {
    let pod = match task.status.as_ref().and_then(|status| status.pod_name.as_deref()) {
        Some(pod) => cluster.api::<Pod>().get_opt(pod).await.ok().flatten(),
        None => None,
    };
    let mut events = describe::events(cluster, task.metadata.uid.as_deref()).await;
    if let Some(pod) = &pod {
        events.extend(describe::events(cluster, pod.metadata.uid.as_deref()).await);
    }
    Run { pod, events, settings: settings(cluster, task).await }
}

/// The settings of the run, if they are archived on this machine.
async fn settings(cluster: &Cluster, task: &Task) -> Option<Vec<Setting>> {
    let status = task.status.as_ref()?;
    status.resolved.as_ref()?.reference.as_ref()?;
    let (archive, owner) = kept::archive_of(cluster, &LogArchiveArg::default(), task).ok()??;
    let run = store::Run { task: owner, epoch: status.run_epoch? };
    serde_json::from_slice(&archive.settings(&run).await.ok()??).ok()
}
