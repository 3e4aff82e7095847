//! Actions on Tasks (stop, rerun), and their runs.

use std::{collections::BTreeMap, sync::Arc};

use api::{Task, TaskPhase, names::annotations};
use axum::{Json, extract::State};
use domain::run::history;
use http::StatusCode;
use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, random},
    cluster::WriteOptions,
    edge::extract::At,
    error::{Answer, ApiError},
    live::{cache::now, logs},
    routes::crud::{self, annotate},
    state::Server,
    wire::{RunResponse, Runs, TaskResponse},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(stop)).routes(routes!(rerun)).routes(routes!(runs))
}

/// Stops a Task: the agent is terminated, log and result stay.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/stop", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = TaskResponse), (status = 409, description = "the Task has already finished")))]
async fn stop(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<TaskResponse>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    if phase(&task).is_finished() {
        return Err(ApiError::conflict(format!("Task '{}' has already finished", at.name)));
    }
    let change = annotate(annotations::STOP, "true");
    let task: Task = crud::change(&server, &caller, &at, &change, WriteOptions::default()).await?;
    Ok(Json(TaskResponse::detail(&task, now())))
}

/// Runs a finished Task again, as its next run.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/rerun", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)),
    responses((status = 202, body = TaskResponse), (status = 409, description = "the Task has not finished")))]
async fn rerun(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<(StatusCode, Json<TaskResponse>)> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    if !phase(&task).is_finished() {
        return Err(ApiError::conflict(format!("Task '{}' has not finished; stop it first", at.name)));
    }
    let nonce = random::text(9).map_err(|error| ApiError::internal("the rerun cannot be requested", &error))?;
    let change = json!({ "metadata": { "annotations": { annotations::RERUN: nonce, annotations::STOP: null } } });
    let task: Task = crud::change(&server, &caller, &at, &change, WriteOptions::default()).await?;
    Ok((StatusCode::ACCEPTED, Json(TaskResponse::detail(&task, now()))))
}

/// Lists the runs of a Task. Earlier runs come from the archive.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/runs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Runs)))]
async fn runs(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Runs>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let records = match server.options.log_archive.as_ref().zip(logs::owner(&task)) {
        Some((archive, owner)) => archive.records(&owner).await,
        None => Ok(BTreeMap::new()),
    };
    let records = records.map_err(|error| ApiError::internal("the archive cannot be read", &error))?;
    let runs = history::runs(&task, &records).into_iter().map(|status| RunResponse::of(status, now())).collect();
    Ok(Json(Runs { runs }))
}

fn phase(task: &Task) -> TaskPhase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}
