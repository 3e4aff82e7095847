//! What is done to Tasks, Agents and CronTasks besides changing them: stop, rerun, suspend, resume, trigger.

use std::sync::Arc;

use api::{Agent, CronTask, Task, TaskPhase, names::annotations};
use axum::{Json, extract::State};
use http::StatusCode;
use observe::Key;
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    cluster::Manner,
    crud::{self, ChangeQuery},
    error::{Answer, ApiError},
    extract::{At, Params},
    kind::Served as _,
    list::{ListQuery, Page},
    random,
    state::Server,
    wire::{AgentResponse, CronTaskResponse, TaskResponse, Told},
    world::{Target, now},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(stop))
        .routes(routes!(rerun))
        .routes(routes!(suspend_agent))
        .routes(routes!(resume_agent))
        .routes(routes!(suspend_cron))
        .routes(routes!(resume_cron))
        .routes(routes!(trigger))
        .routes(routes!(history))
}

/// Stops a Task: its agent is told to end, its log and result stay.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/stop", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = TaskResponse), (status = 409, description = "it has ended already")))]
async fn stop(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<TaskResponse>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    if phase(&task).is_finished() {
        return Err(ApiError::conflict(format!("Task '{}' has ended already", at.name)));
    }
    let change = annotate(annotations::STOP, "true");
    let task: Task = crud::change(&server, &caller, &at, &change, Manner::default()).await?;
    Ok(Json(TaskResponse::detail(&task, now())))
}

/// Runs a Task that has ended once more, under its next number.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/rerun", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 202, body = TaskResponse), (status = 409, description = "it has not ended")))]
async fn rerun(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<(StatusCode, Json<TaskResponse>)> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    if !phase(&task).is_finished() {
        return Err(ApiError::conflict(format!("Task '{}' has not ended; stop it first", at.name)));
    }
    let nonce = random::text(9).map_err(|error| ApiError::internal("no rerun", &error))?;
    let change = json!({ "metadata": { "annotations": { annotations::RERUN: nonce, annotations::STOP: null } } });
    let task: Task = crud::change(&server, &caller, &at, &change, Manner::default()).await?;
    Ok((StatusCode::ACCEPTED, Json(TaskResponse::detail(&task, now()))))
}

fn phase(task: &Task) -> TaskPhase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

/// Suspends an Agent: its server ends, its sessions stay if they are kept.
#[utoipa::path(post, path = "/namespaces/{namespace}/agents/{name}/suspend", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = AgentResponse), (status = 409, description = "Tasks run on it")))]
async fn suspend_agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentResponse>> {
    let load = server.world.load(&Target::Agent(Key::new(&at.namespace, &at.name)));
    if load.running > 0 {
        return Err(ApiError::conflict(format!(
            "{} Tasks run on Agent '{}'; stop them or wait for them",
            load.running, at.name
        )));
    }
    suspended(&server, &caller, &at, true).await
}

/// Resumes an Agent.
#[utoipa::path(post, path = "/namespaces/{namespace}/agents/{name}/resume", tag = "agents",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = AgentResponse)))]
async fn resume_agent(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<AgentResponse>> {
    suspended(&server, &caller, &at, false).await
}

async fn suspended(server: &Server, caller: &Caller, at: &At, suspend: bool) -> Answer<Json<AgentResponse>> {
    // Whoever suspends by hand is its user, whatever standby did before.
    let change = json!({
        "metadata": { "annotations": { annotations::SUSPENDED_BY: null } },
        "spec": { "suspend": suspend },
    });
    let agent: Agent = crud::change(server, caller, at, &change, Manner::default()).await?;
    Ok(Json(agent.detail(&server.world)))
}

/// Suspends a CronTask: no further Tasks are created.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/suspend", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = CronTaskResponse)))]
async fn suspend_cron(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<CronTaskResponse>> {
    let change = json!({ "spec": { "suspend": true } });
    let cron: CronTask = crud::change(&server, &caller, &at, &change, Manner::default()).await?;
    Ok(Json(cron.detail(&server.world)))
}

/// Resumes a CronTask.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/resume", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = CronTaskResponse)))]
async fn resume_cron(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<CronTaskResponse>> {
    let change = json!({ "spec": { "suspend": false } });
    let cron: CronTask = crud::change(&server, &caller, &at, &change, Manner::default()).await?;
    Ok(Json(cron.detail(&server.world)))
}

/// Creates one Task of a CronTask now, as its policy allows.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/trigger", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path), ChangeQuery), responses((status = 200, body = Told)))]
async fn trigger(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<ChangeQuery>,
) -> Answer<Json<Told>> {
    let change = annotate(annotations::TRIGGER, "true");
    let _: CronTask = crud::change(&server, &caller, &at, &change, query.manner()).await?;
    Ok(Json(Told { message: format!("CronTask '{}' was told to create a Task", at.name) }))
}

/// The Tasks that a CronTask created.
#[utoipa::path(get, path = "/namespaces/{namespace}/crontasks/{name}/history", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path), ListQuery),
    responses((status = 200, content((ref("#/components/schemas/TaskList") = "application/json")))))]
async fn history(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
    Params(query): Params<ListQuery>,
) -> Answer<Json<Page<Task>>> {
    let _: CronTask = crud::fetch(&server, &caller, &namespace, &name).await?;
    crud::list(&server, &caller, Some(&namespace), ListQuery { crontask: Some(name), ..query }).await
}

fn annotate(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}
