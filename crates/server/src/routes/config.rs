//! The one KubeOpenCodeConfig.

use std::sync::Arc;

use api::KubeOpenCodeConfig;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, ours},
    cluster,
    edge::extract::{Params, Sent},
    error::{Answer, ApiError},
    routes::crud::{self, ChangeQuery, Form, Output},
    state::Server,
    wire::ConfigResponse,
};

const NAME: &str = "cluster";
const PLURAL: &str = "kubeopencodeconfigs";

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(read, replace))
}

/// The settings of the whole platform.
#[utoipa::path(get, path = "/config", operation_id = "readConfig", tag = "config", params(Output),
    responses((status = 200, content((ConfigResponse = "application/json"),
        (ref("#/components/schemas/KubeOpenCodeConfig") = "application/yaml")))))]
async fn read(State(server): State<Arc<Server>>, caller: Caller, Params(output): Params<Output>) -> Answer<Response> {
    server.reviews.require(&caller, &ours("get", PLURAL, None, Some(NAME))).await?;
    let client = server.cluster.client(&caller)?;
    let config = cluster::read(&client, &path()).await.map_err(|error| match error.status {
        StatusCode::NOT_FOUND => ApiError::not_found("there is no KubeOpenCodeConfig; built-in defaults apply"),
        _ => error,
    })?;
    answer(config, output.output)
}

/// Replaces the settings of the whole platform; creates them if there are none.
#[utoipa::path(put, path = "/config", operation_id = "replaceConfig", tag = "config", params(ChangeQuery),
    request_body(content(
        (ref("#/components/schemas/KubeOpenCodeConfig") = "application/json"),
        (ref("#/components/schemas/KubeOpenCodeConfig") = "application/yaml"))),
    responses((status = 200, content((ConfigResponse = "application/json"),
        (ref("#/components/schemas/KubeOpenCodeConfig") = "application/yaml")))))]
async fn replace(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(query): Params<ChangeQuery>,
    headers: HeaderMap,
    sent: Sent,
) -> Answer<Response> {
    let mut wanted = Value::Object(sent.object()?);
    if !wanted.get("spec").is_some_and(Value::is_object) {
        return Err(ApiError::invalid("spec", "send the whole object: apiVersion, kind, metadata and spec"));
    }
    for (field, value) in [("apiVersion", "kubeopencode.io/v1alpha1"), ("kind", "KubeOpenCodeConfig")] {
        if wanted.get(field).is_some_and(|given| given != value) {
            return Err(ApiError::invalid(field, format!("it must be '{value}'")));
        }
        wanted[field] = value.into();
    }
    if !wanted.get("metadata").is_some_and(Value::is_object) {
        wanted["metadata"] = json!({});
    }
    if wanted["metadata"].get("name").is_some_and(|given| given != NAME) {
        return Err(ApiError::invalid("metadata.name", "there is only one, named 'cluster'"));
    }
    wanted["metadata"]["name"] = NAME.into();
    if let Some(version) = crud::if_match(&headers) {
        wanted["metadata"]["resourceVersion"] = version.into();
    }
    server.reviews.require(&caller, &ours("update", PLURAL, None, Some(NAME))).await?;
    let client = server.cluster.client(&caller)?;
    let config = match crud::put(&client, &path(), &wanted, query.write_options(), None).await {
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            server.reviews.require(&caller, &ours("create", PLURAL, None, None)).await?;
            let all = cluster::path::<KubeOpenCodeConfig>(None, None);
            cluster::create(&client, &all, &wanted, query.write_options()).await?
        }
        config => config?,
    };
    answer(config, query.output)
}

fn path() -> String {
    cluster::path::<KubeOpenCodeConfig>(None, Some(NAME))
}

fn answer(config: Value, form: Option<Form>) -> Answer<Response> {
    if form == Some(Form::Yaml) {
        return crud::yaml(config);
    }
    let config: KubeOpenCodeConfig = serde_json::from_value(config)
        .map_err(|error| ApiError::internal("the configuration cannot be read", &error))?;
    Ok(Json(ConfigResponse::of(&config)).into_response())
}
