//! The setup of a first model: test a provider, then save Secret, ModelProvider, Model and template in one request.

use std::sync::Arc;

use axum::{Json, extract::State};
use domain::onboarding::{self, FIELD_MANAGER, Manifest, Probe, SetupError};
use egress::Loopback;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Attributes, Caller, core_resource, ours},
    cluster,
    edge::extract::{Body, In},
    error::{Answer, ApiError},
    provider_test::test_provider,
    state::Server,
    wire::{SavedObject, SetupFinding, SetupRequest, SetupResponse, SetupTest},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(save)).routes(routes!(test))
}

/// Tests a model provider before anything is saved: lists its models and, for a chosen model of a compatible server,
/// requests one token. The result is in the body; a provider that refuses is not an error of this request.
#[utoipa::path(post, path = "/namespaces/{namespace}/setup/test", operation_id = "testSetup", tag = "setup",
    params(("namespace" = String, Path)), request_body = SetupTest, responses((status = 200, body = SetupFinding)))]
async fn test(
    State(server): State<Arc<Server>>,
    caller: Caller,
    In(namespace): In,
    Body(sent): Body<SetupTest>,
) -> Answer<Json<SetupFinding>> {
    // This server sends a request to an address that the caller named: only for callers who may have it used anyway.
    for right in [create("modelproviders", &namespace), core_resource("create", "secrets", Some(&namespace), None)] {
        server.reviews.require(&caller, &right).await?;
    }
    let (connection, model) = sent.into_parts();
    let probe = Probe::new(&connection, model.as_deref()).map_err(invalid)?;
    let loopback = if server.options.agents_on_loopback { Loopback::Allowed } else { Loopback::Refused };
    Ok(Json(test_provider(probe, loopback).await.into()))
}

/// Saves the objects of a model by server-side apply: a Secret with the key, a ModelProvider, a Model and a template.
/// Repeating the request changes nothing.
#[utoipa::path(post, path = "/namespaces/{namespace}/setup", operation_id = "saveSetup", tag = "setup",
    params(("namespace" = String, Path)), request_body = SetupRequest, responses((status = 200, body = SetupResponse)))]
async fn save(
    State(server): State<Arc<Server>>,
    caller: Caller,
    In(namespace): In,
    Body(sent): Body<SetupRequest>,
) -> Answer<Json<SetupResponse>> {
    let setup = onboarding::Setup::from(sent);
    let manifests = onboarding::manifests(&setup, &namespace).map_err(invalid)?;
    // All rights before the first change, so that a missing right leaves nothing behind.
    for manifest in &manifests {
        for verb in ["create", "patch"] {
            server.reviews.require(&caller, &right(verb, manifest, &namespace)).await?;
        }
    }
    let client = server.cluster.client(&caller)?;
    let mut objects: Vec<SavedObject> = Vec::with_capacity(manifests.len());
    for manifest in &manifests {
        if let Err(error) = cluster::apply(&client, &path(manifest, &namespace), &manifest.object, FIELD_MANAGER).await
        {
            return Err(partial(error, manifest, &objects));
        }
        objects.push(SavedObject { kind: manifest.kind.to_owned(), name: manifest.name.clone() });
    }
    let template = manifests.last().map(|manifest| manifest.name.clone()).unwrap_or_default();
    Ok(Json(SetupResponse { objects, template }))
}

fn create(plural: &str, namespace: &str) -> Attributes {
    ours("create", plural, Some(namespace), None)
}

fn right(verb: &str, manifest: &Manifest, namespace: &str) -> Attributes {
    // A right to create cannot be limited to a name.
    let name = (verb != "create").then_some(manifest.name.as_str());
    Attributes { group: manifest.group.to_owned(), ..ours(verb, manifest.plural, Some(namespace), name) }
}

fn path(manifest: &Manifest, namespace: &str) -> String {
    let Manifest { plural, group, name, .. } = manifest;
    let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{}", api::names::VERSION) };
    format!("{root}/namespaces/{namespace}/{plural}/{name}")
}

fn invalid(SetupError { field, message }: SetupError) -> ApiError {
    ApiError::invalid(field, message)
}

/// The error of one object, with what was saved before it.
fn partial(mut error: ApiError, manifest: &Manifest, saved: &[SavedObject]) -> ApiError {
    let named = |kind: &str, name: &str| format!("{kind} '{name}'");
    let before: Vec<_> = saved.iter().map(|object| named(&object.kind, &object.name)).collect();
    let before =
        if before.is_empty() { "nothing was saved".to_owned() } else { format!("saved: {}", before.join(", ")) };
    let what = named(manifest.kind, &manifest.name);
    error.message = if error.status == http::StatusCode::CONFLICT {
        format!("{what} exists and was changed by others: choose another name ({before}). {}", error.message)
    } else {
        format!("{what} was not saved ({before}): {}", error.message)
    };
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_what_was_saved_before() {
        let manifest =
            Manifest { kind: "Model", plural: "models", group: "g", name: "m".into(), object: serde_json::json!({}) };
        let saved = [SavedObject { kind: "Secret".into(), name: "k".into() }];
        let error = partial(ApiError::forbidden("no"), &manifest, &saved);
        assert_eq!(error.message, "Model 'm' was not saved (saved: Secret 'k'): no");
        let error = partial(ApiError::conflict("taken"), &manifest, &[]);
        assert!(error.message.contains("choose another name (nothing was saved)"), "{}", error.message);
    }

    #[test]
    fn the_right_to_create_names_no_object() {
        let manifest =
            Manifest { kind: "Secret", plural: "secrets", group: "", name: "k".into(), object: serde_json::json!({}) };
        assert_eq!(right("create", &manifest, "n"), core_resource("create", "secrets", Some("n"), None));
        assert_eq!(right("patch", &manifest, "n"), core_resource("patch", "secrets", Some("n"), Some("k")));
        assert_eq!(path(&manifest, "n"), "/api/v1/namespaces/n/secrets/k");
    }
}
