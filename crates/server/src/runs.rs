//! The runs of a Task: the current one, and those before it as they were recorded.

use std::{collections::BTreeMap, sync::Arc};

use api::Task;
use axum::{Json, extract::State};
use kubeopencode_core::runs::runs as runs_of;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    crud,
    error::{Answer, ApiError},
    extract::At,
    logs,
    state::Server,
    wire::{RunResponse, Runs},
    world::now,
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(runs))
}

/// How each run of a Task ended. Of runs before the current one, what the archive has.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/runs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Runs)))]
async fn runs(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Runs>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let records = match server.options.log_archive.as_ref().zip(logs::owner(&task)) {
        Some((archive, owner)) => archive.records(&owner).await,
        None => Ok(BTreeMap::new()),
    };
    let records = records.map_err(|error| ApiError::internal("the archive cannot be read", &error))?;
    let runs = runs_of(&task, &records).into_iter().map(|status| RunResponse::of(status, now())).collect();
    Ok(Json(Runs { runs }))
}
