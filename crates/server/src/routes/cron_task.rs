//! Actions on CronTasks (suspend, resume, trigger), and the Tasks that they created.

use std::sync::Arc;

use api::{CronTask, Task, names::annotations};
use axum::{Json, extract::State};
use domain::cron;
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    cluster::WriteOptions,
    edge::extract::{At, Params},
    error::{Answer, ApiError},
    live::{
        cache::now,
        list::{ListQuery, Page},
    },
    routes::{
        crud::{self, ChangeQuery, annotate},
        kind::Served as _,
    },
    state::Server,
    wire::{CronTaskResponse, Message},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(suspend_cron))
        .routes(routes!(resume_cron))
        .routes(routes!(trigger))
        .routes(routes!(history))
}

/// Suspends a CronTask: no further Tasks are created.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/suspend", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = CronTaskResponse)))]
async fn suspend_cron(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<CronTaskResponse>> {
    let change = json!({ "spec": { "suspend": true } });
    let cron: CronTask = crud::change(&server, &caller, &at, &change, WriteOptions::default()).await?;
    Ok(Json(cron.detail(&server.caches)))
}

/// Resumes a CronTask.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/resume", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = CronTaskResponse)))]
async fn resume_cron(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<CronTaskResponse>> {
    let change = json!({ "spec": { "suspend": false } });
    let cron: CronTask = crud::change(&server, &caller, &at, &change, WriteOptions::default()).await?;
    Ok(Json(cron.detail(&server.caches)))
}

/// Creates a Task of a CronTask now. Answers 409 if its concurrency policy or `maxRetainedTasks` does not allow one.
#[utoipa::path(post, path = "/namespaces/{namespace}/crontasks/{name}/trigger", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path), ChangeQuery), responses((status = 200, body = Message)))]
async fn trigger(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<ChangeQuery>,
) -> Answer<Json<Message>> {
    let cron: CronTask = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let tasks = server.caches.tasks.filter(|key, _| key.namespace == at.namespace);
    if let Some(refusal) = cron::trigger_refusal(&cron, &cron::children(&cron, tasks), now()) {
        let message = format!("the trigger of CronTask '{}' creates no Task: {}", at.name, refusal.message);
        return Err(ApiError::conflict(message));
    }
    let change = annotate(annotations::TRIGGER, "true");
    let _: CronTask = crud::change(&server, &caller, &at, &change, query.write_options()).await?;
    Ok(Json(Message { message: format!("Run of CronTask '{}' triggered.", at.name) }))
}

/// Lists the Tasks that a CronTask created.
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
