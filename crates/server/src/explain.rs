//! Why a Task or an Agent is where it is: the chain of causes, the queue, and where each setting came from.

mod causes;
mod crash;
mod line;
mod settings;

use std::sync::Arc;

use api::{Agent, AgentTemplate, Task};
use axum::{Json, extract::State};
use kube::ResourceExt as _;
use kubeopencode_core::{
    dependencies::{End, Other},
    resolve,
};
use observe::Key;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, ours},
    crud,
    error::Answer,
    extract::At,
    state::Server,
    wire::{AgentExplanation, DependencyState, ObjectName, QueueState, Setting, TaskExplanation},
    world::{Target, World},
};

use line::Line;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(task)).routes(routes!(agent))
}

/// Why a Task is where it is.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/explain", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = TaskExplanation)))]
async fn task(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<TaskExplanation>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let seen = See::by(&server, &caller, &at.namespace).await?;
    let world = &*server.world;
    let status = task.status.clone().unwrap_or_default();
    let line = Target::of(&task).map(|target| Line::of(world, target, &task));
    let waits = !status.phase.unwrap_or_default().is_finished() && status.phase != Some(api::TaskPhase::Running);
    let mut chain = causes::of_task(world, &task, line.as_ref().filter(|_| waits), seen);
    if let Some(Target::Agent(key)) = Target::of(&task).filter(|target| waits && seen.may_see(target))
        && let Some(agent) = world.agents.object(&key)
    {
        chain.extend(crash::of_server(&server, &caller, &agent).await?);
    }
    causes::once_each(&mut chain);
    let (settings, settings_error) = match Target::of(&task) {
        Some(target) if seen.may_see(&target) => task_settings(world, &task, &target),
        Some(_) => (Vec::new(), Some("you may not read what the Task runs on".to_owned())),
        None => (Vec::new(), None),
    };
    Ok(Json(TaskExplanation {
        task: ObjectName { kind: None, namespace: Some(at.namespace.clone()), name: at.name },
        phase: status.phase.unwrap_or_default(),
        reason: chain.first().and_then(|cause| cause.reason.clone()).or(status.reason),
        message: chain.first().map(|cause| cause.message.clone()).or(status.message),
        next: causes::next_steps(&chain, &task),
        queue: line.as_ref().filter(|_| waits).map(|line| line.state(&task)),
        quota: line.as_ref().and_then(Line::quota),
        dependencies: dependencies(world, &task),
        chain,
        settings,
        settings_error,
    }))
}

/// Why an Agent is where it is.
#[utoipa::path(get, path = "/namespaces/{namespace}/agents/{name}/explain", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = AgentExplanation)))]
async fn agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentExplanation>> {
    let agent: Agent = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let seen = See::by(&server, &caller, &at.namespace).await?;
    let world = &*server.world;
    let target = Target::Agent(Key::new(&at.namespace, &at.name));
    let (settings, settings_error) = agent_settings(world, &agent, &target);
    let line = Line::of_target(world, target);
    let mut chain = causes::of_agent(world, &agent);
    chain.extend(crash::of_server(&server, &caller, &agent).await?);
    causes::once_each(&mut chain);
    let queue = line.empty_state();
    let status = agent.status.clone().unwrap_or_default();
    Ok(Json(AgentExplanation {
        agent: ObjectName { kind: None, namespace: Some(at.namespace.clone()), name: at.name },
        phase: status.phase,
        ready: status.ready.unwrap_or_default(),
        next: causes::next_steps_of_agent(&agent, &chain),
        queue: QueueState { ahead: if seen.tasks { queue.ahead } else { Vec::new() }, ..queue },
        running: if seen.tasks { line.running() } else { Vec::new() },
        quota: line.quota(),
        chain,
        settings,
        settings_error,
    }))
}

/// What of a namespace a caller may see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct See {
    tasks: bool,
    agents: bool,
    templates: bool,
}

impl See {
    async fn by(server: &Server, caller: &Caller, namespace: &str) -> Answer<Self> {
        let may = |plural| {
            let what = ours("list", plural, Some(namespace), None);
            async move { server.reviews.may(caller, &what).await }
        };
        Ok(Self { tasks: may("tasks").await?, agents: may("agents").await?, templates: may("agenttemplates").await? })
    }

    fn may_see(self, target: &Target) -> bool {
        match target {
            Target::Agent(_) => self.agents,
            Target::Template(_) => self.templates,
        }
    }
}

fn task_settings(world: &World, task: &Task, target: &Target) -> (Vec<Setting>, Option<String>) {
    let platform = world.platform();
    let resolved = match target {
        Target::Agent(key) => {
            let Some(agent) = world.agents.object(key) else { return missing("Agent", &key.name) };
            let template = template_of(world, &agent);
            let url = agent.status.as_ref().and_then(|status| status.url.clone()).unwrap_or_default();
            let target = resolve::Target::Agent { agent: &agent, template: template.as_deref(), url: &url };
            resolve::resolve_task(task, target, &platform)
        }
        Target::Template(key) => {
            let Some(template) = world.templates.object(key) else { return missing("AgentTemplate", &key.name) };
            resolve::resolve_task(task, resolve::Target::Template(&template), &platform)
        }
    };
    match resolved {
        Ok((resolved, origins)) => (settings::list(&resolved, &origins, ""), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

/// The settings of an Agent are those of a Task on it that sets nothing itself.
fn agent_settings(world: &World, agent: &Agent, target: &Target) -> (Vec<Setting>, Option<String>) {
    let mut nothing = Task::new("", api::TaskSpec::default());
    nothing.metadata.namespace = agent.namespace();
    let (settings, error) = task_settings(world, &nothing, target);
    (settings::of_agent(settings), error)
}

fn template_of(world: &World, agent: &Agent) -> Option<Arc<AgentTemplate>> {
    let template = agent.spec.template_ref.as_ref()?;
    world.templates.object(&Key::new(agent.namespace().unwrap_or_default(), &template.name))
}

fn missing(kind: &str, name: &str) -> (Vec<Setting>, Option<String>) {
    (Vec::new(), Some(format!("{kind} '{name}' does not exist")))
}

fn dependencies(world: &World, task: &Task) -> Vec<DependencyState> {
    use api::run::DependencyCondition::{Failed, Finished, Succeeded};
    let namespace = task.namespace().unwrap_or_default();
    let state = |dependency: &api::run::Dependency| {
        let other = world.tasks.object(&Key::new(&namespace, &dependency.task));
        let end = other.as_ref().and_then(|other| Other::of(other).end);
        let met = match (dependency.condition, end) {
            (Finished, Some(_)) | (Succeeded, Some(End::Succeeded)) => true,
            (Failed, Some(end)) => end != End::Succeeded,
            (_, None) | (Succeeded, Some(_)) => false,
        };
        DependencyState {
            task: dependency.task.clone(),
            condition: dependency.condition,
            phase: other
                .as_ref()
                .map(|other| other.status.as_ref().and_then(|status| status.phase).unwrap_or_default()),
            met,
            exists: other.is_some(),
        }
    };
    task.spec.depends_on.iter().flatten().map(state).collect()
}
