//! Secrets, with the rights of the caller. Values can be written and are never returned.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, core_resource},
    cluster::{self, WriteOptions},
    edge::{
        extract::{At, Body, In},
        names,
    },
    error::{Answer, ApiError},
    state::Server,
    wire::{ChangedSecret, NewSecret, SecretList, SecretResponse},
};

/// Type of the Secrets that Kubernetes makes for ServiceAccounts; no Agent uses one.
const OF_SERVICE_ACCOUNT: &str = "kubernetes.io/service-account-token";

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(read, change, delete))
}

/// Lists the Secrets of a namespace: names, keys and labels, no values.
#[utoipa::path(get, path = "/namespaces/{namespace}/secrets", operation_id = "listSecrets", tag = "secrets",
    params(("namespace" = String, Path)), responses((status = 200, body = SecretList)))]
async fn list(State(server): State<Arc<Server>>, caller: Caller, In(namespace): In) -> Answer<Json<SecretList>> {
    server.reviews.require(&caller, &core_resource("list", "secrets", Some(&namespace), None)).await?;
    let client = server.cluster.client(&caller)?;
    let mut found = cluster::read(&client, &path(&namespace, None)).await?;
    let items = if let Value::Array(items) = found["items"].take() { items } else { Vec::new() };
    let mut items: Vec<_> = items.into_iter().map(response).collect::<Answer<_>>()?;
    items.retain(|secret: &SecretResponse| secret.kind.as_deref() != Some(OF_SERVICE_ACCOUNT));
    items.sort_by(|a, b| a.identity.name.cmp(&b.identity.name));
    Ok(Json(SecretList { total: items.len(), items }))
}

/// Shows the keys of a Secret, no values.
#[utoipa::path(get, path = "/namespaces/{namespace}/secrets/{name}", operation_id = "getSecret", tag = "secrets",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = SecretResponse)))]
async fn read(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
) -> Answer<Json<SecretResponse>> {
    server.reviews.require(&caller, &core_resource("get", "secrets", Some(&namespace), Some(&name))).await?;
    let client = server.cluster.client(&caller)?;
    let found = cluster::read(&client, &path(&namespace, Some(&name))).await;
    response(found.map_err(|error| missing(error, &namespace, &name))?).map(Json)
}

/// Creates a Secret.
#[utoipa::path(post, path = "/namespaces/{namespace}/secrets", operation_id = "createSecret", tag = "secrets",
    params(("namespace" = String, Path)), request_body = NewSecret, responses((status = 201, body = SecretResponse)))]
async fn create(
    State(server): State<Arc<Server>>,
    caller: Caller,
    In(namespace): In,
    Body(sent): Body<NewSecret>,
) -> Answer<(StatusCode, Json<SecretResponse>)> {
    names::object(&sent.name).map_err(|error| ApiError::invalid("name", error.message))?;
    server.reviews.require(&caller, &core_resource("create", "secrets", Some(&namespace), None)).await?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": sent.name, "namespace": namespace, "labels": sent.labels },
        "type": "Opaque",
        "data": encoded(&sent.data),
    });
    let client = server.cluster.client(&caller)?;
    let created = cluster::create(&client, &path(&namespace, None), &object, WriteOptions::default()).await?;
    Ok((StatusCode::CREATED, Json(response(created)?)))
}

/// Sets and removes values of a Secret; the other keys stay.
#[utoipa::path(put, path = "/namespaces/{namespace}/secrets/{name}", operation_id = "changeSecret", tag = "secrets",
    params(("namespace" = String, Path), ("name" = String, Path)), request_body = ChangedSecret,
    responses((status = 200, body = SecretResponse)))]
async fn change(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
    Body(sent): Body<ChangedSecret>,
) -> Answer<Json<SecretResponse>> {
    server.reviews.require(&caller, &core_resource("patch", "secrets", Some(&namespace), Some(&name))).await?;
    let client = server.cluster.client(&caller)?;
    let patch = json!({ "data": patch(&sent) });
    let changed = cluster::merge(&client, &path(&namespace, Some(&name)), &patch, WriteOptions::default()).await;
    response(changed.map_err(|error| missing(error, &namespace, &name))?).map(Json)
}

/// Deletes a Secret.
#[utoipa::path(delete, path = "/namespaces/{namespace}/secrets/{name}", operation_id = "deleteSecret", tag = "secrets",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 204, description = "It is deleted")))]
async fn delete(State(server): State<Arc<Server>>, caller: Caller, At { namespace, name }: At) -> Answer<StatusCode> {
    server.reviews.require(&caller, &core_resource("delete", "secrets", Some(&namespace), Some(&name))).await?;
    let client = server.cluster.client(&caller)?;
    let deleted = cluster::delete(&client, &path(&namespace, Some(&name)), None, WriteOptions::default()).await;
    deleted.map_err(|error| missing(error, &namespace, &name))?;
    Ok(StatusCode::NO_CONTENT)
}

fn path(namespace: &str, name: Option<&str>) -> String {
    cluster::path::<Secret>(Some(namespace), name)
}

fn missing(error: ApiError, namespace: &str, name: &str) -> ApiError {
    if error.status == StatusCode::NOT_FOUND { ApiError::no_such("Secret", namespace, name) } else { error }
}

fn response(object: Value) -> Answer<SecretResponse> {
    // The error of a parser may quote a value.
    let secret: Secret =
        serde_json::from_value(object).map_err(|_| ApiError::bad_gateway("a Secret cannot be read"))?;
    Ok(SecretResponse::of(&secret))
}

fn encoded(data: &BTreeMap<String, String>) -> Map<String, Value> {
    data.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value).into())).collect()
}

/// A merge patch of the values: null removes one.
fn patch(sent: &ChangedSecret) -> Map<String, Value> {
    let removed = sent.remove.iter().flatten().map(|key| (key.clone(), Value::Null));
    let values = sent.data.as_ref().map(encoded).unwrap_or_default();
    removed.chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_only_the_keys_that_it_sets_or_removes() {
        let data = Some(BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        let sent = ChangedSecret { data, remove: Some(vec!["b".into(), "a".into()]) };
        assert_eq!(Value::Object(patch(&sent)), json!({ "a": "MQ==", "b": null }));
    }

    #[test]
    fn an_unreadable_secret_is_not_quoted() {
        let error = response(json!({ "data": { "a": "not base64: hunter2" } })).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
