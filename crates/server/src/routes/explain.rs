//! Explains the status of a Task, an Agent or a CronTask from the caches and what the caller may see.

use std::sync::Arc;

use api::{Agent, CronTask, Task, names::labels};
use axum::{Json, extract::State};
use domain::{
    explain::{
        self, AgentExplanation, CronTaskExplanation, Reader, Run, Setting, Sight, Surroundings, TaskExplanation,
    },
    run::target::{RunsOn, Target},
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use observe::Key;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, core_resource, ours},
    edge::extract::At,
    error::Answer,
    live::{cache::now, logs},
    routes::crud,
    state::Server,
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(task)).routes(routes!(agent)).routes(routes!(cron_task))
}

/// Explains the status of a Task.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/explain", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, content((ref("#/components/schemas/TaskExplanation") = "application/json")))))]
async fn task(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<TaskExplanation>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let around = surroundings(&server, &caller, &at.namespace, Target::of(&task)).await?;
    let run = run(&server, &caller, &task).await?;
    Ok(Json(explain::task(&task, &run, &around)))
}

/// Explains the status of an Agent.
#[utoipa::path(get, path = "/namespaces/{namespace}/agents/{name}/explain", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, content((ref("#/components/schemas/AgentExplanation") = "application/json")))))]
async fn agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentExplanation>> {
    let agent: Agent = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let target = Target::agent(Key::new(&at.namespace, &at.name));
    let mut around = surroundings(&server, &caller, &at.namespace, Some(target)).await?;
    // The caller may read the Agent, and the cache may not have it yet.
    around.sight.target = true;
    let agent = Arc::new(agent);
    around.agent = Some(Arc::clone(&agent));
    Ok(Json(explain::agent(&agent, &around)))
}

/// Explains the status of a CronTask.
#[utoipa::path(get, path = "/namespaces/{namespace}/crontasks/{name}/explain", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, content((ref("#/components/schemas/CronTaskExplanation") = "application/json")))))]
async fn cron_task(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<CronTaskExplanation>> {
    let cron: CronTask = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let seen = server.reviews.may(&caller, &ours("list", "tasks", Some(&at.namespace), None)).await?;
    let tasks = server.caches.tasks.filter(|key, _| seen && key.namespace == at.namespace);
    Ok(Json(explain::cron_task(&cron, &tasks, Reader::Page)))
}

async fn surroundings(
    server: &Server,
    caller: &Caller,
    namespace: &str,
    target: Option<Target>,
) -> Answer<Surroundings> {
    let caches = &*server.caches;
    let may = |plural| {
        let what = ours("list", plural, Some(namespace), None);
        async move { server.reviews.may(caller, &what).await }
    };
    let (agent, template, sight) = match target.map(|target| target.runs_on) {
        Some(RunsOn::Agent(name)) => {
            let agent = caches.agents.object(&Key::new(namespace, name));
            let template = agent.as_ref().and_then(|agent| agent.spec.template_ref.as_ref());
            let template = template.map(|template| template.name.clone());
            (agent, template, may("agents").await?)
        }
        Some(RunsOn::Template(name)) => (None, Some(name), may("agenttemplates").await?),
        None => (None, None, true),
    };
    let model = agent.as_ref().and_then(|agent| agent.spec.settings.model_ref.as_ref());
    let model = model.and_then(|model| {
        let home = model.namespace.clone().unwrap_or_else(|| namespace.to_owned());
        caches.models.object(&Key::new(home, &model.name))
    });
    let server_pods = match &agent {
        Some(agent) => server_pods(server, caller, agent).await?,
        None => Vec::new(),
    };
    Ok(Surroundings {
        template: template.and_then(|name| caches.templates.object(&Key::new(namespace, name))),
        agent,
        model,
        server_pods,
        tasks: caches.tasks.filter(|key, _| key.namespace == namespace),
        platform: caches.platform(),
        sight: Sight { tasks: may("tasks").await?, target: sight },
        reader: Reader::Page,
        now: now(),
    })
}

/// The Pods of an Agent whose server does not work, if the caller may see them.
async fn server_pods(server: &Server, caller: &Caller, agent: &Agent) -> Answer<Vec<Pod>> {
    let (namespace, name) = (agent.namespace().unwrap_or_default(), agent.name_any());
    let works = agent.status.as_ref().and_then(|status| status.ready) == Some(true) || agent.spec.suspend;
    let list = core_resource("list", "pods", Some(&namespace), None);
    if works || !server.reviews.may(caller, &list).await? {
        return Ok(Vec::new());
    }
    let pods: Api<Pod> = Api::namespaced(server.cluster.client(caller)?, &namespace);
    let wanted = format!("{}={name},{}=server", labels::AGENT, labels::APP_COMPONENT);
    Ok(pods.list(&ListParams::default().labels(&wanted)).await?.items)
}

/// The Pod of the current run, if the caller may see it. Without it the explanation is shorter.
async fn run(server: &Server, caller: &Caller, task: &Task) -> Answer<Run> {
    let namespace = task.namespace().unwrap_or_default();
    let name = task.status.as_ref().and_then(|status| status.pod_name.clone());
    let (Some(name), Some(uid)) = (name, task.uid()) else { return Ok(Run::default()) };
    let client = server.cluster.client(caller)?;
    let mut run = Run { settings: settings(server, task).await, ..Run::default() };
    if server.reviews.may(caller, &core_resource("get", "pods", Some(&namespace), Some(&name))).await? {
        run.pod = Api::<Pod>::namespaced(client.clone(), &namespace).get_opt(&name).await.ok().flatten();
    }
    if server.reviews.may(caller, &core_resource("list", "events", Some(&namespace), None)).await? {
        let api: Api<Event> = Api::namespaced(client, &namespace);
        for uid in [Some(uid), run.pod.as_ref().and_then(ResourceExt::uid)].into_iter().flatten() {
            let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
            run.events.extend(api.list(&about).await.map(|found| found.items).unwrap_or_default());
        }
    }
    Ok(run)
}

/// The settings of the current or last run, if they are archived.
async fn settings(server: &Server, task: &Task) -> Option<Vec<Setting>> {
    let status = task.status.as_ref()?;
    status.resolved.as_ref()?.reference.as_ref()?;
    let run = store::Run { task: logs::owner(task)?, epoch: status.run_epoch? };
    let kept = server.options.log_archive.as_ref()?.settings(&run).await;
    let kept = kept.inspect_err(|error| tracing::warn!(%error, "the settings of a run cannot be read")).ok()??;
    serde_json::from_slice(&kept).ok()
}
