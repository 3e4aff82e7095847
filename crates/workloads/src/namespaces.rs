//! Creates the default objects of a namespace, and deletes the content of a terminating namespace.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};
use serde_json::json;

use crate::{
    Shared,
    graph::{Entry, Kind},
    kinds,
    replica_set::is_gone,
};

/// ConfigMap with the CA certificate of the API server.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// ServiceAccount of Pods that name none.
pub(crate) const ACCOUNT: &str = "default";
/// Finalizer in the spec of a namespace that represents its content.
const CONTENT: &str = "kubernetes";
/// Number of concurrent deletions, and of concurrent lists.
const CONCURRENCY: usize = 16;

/// Whether every namespace has this object.
pub(crate) fn is_default_object(entry: &Entry) -> bool {
    match entry.kind.resource.kind.as_str() {
        "ServiceAccount" => entry.key.name == ACCOUNT,
        "ConfigMap" => entry.key.name == ROOT_CERTIFICATE,
        _ => false,
    }
}

pub(crate) async fn reconcile(shared: &Arc<Shared>, name: &str) -> Result<Next, kube::Error> {
    let Some(namespace) = shared.namespaces.object(&Key::new("", name)) else { return Ok(Next::Wait) };
    if namespace.metadata.deletion_timestamp.is_some() {
        terminate(shared, &namespace).await
    } else {
        create_defaults(shared, name).await
    }
}

async fn create_defaults(shared: &Shared, namespace: &str) -> Result<Next, kube::Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(shared.client.clone(), namespace);
    if accounts.get_metadata_opt(ACCOUNT).await?.is_none() {
        let account =
            serde_json::from_value(json!({"metadata": {"name": ACCOUNT}})).map_err(kube::Error::SerdeError)?;
        ignore_exists(accounts.create(&PostParams::default(), &account).await)?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(shared.client.clone(), namespace);
    let data = json!({"ca.crt": shared.settings.certificate_authority});
    match maps.get_opt(ROOT_CERTIFICATE).await? {
        None => {
            let metadata = json!({"name": ROOT_CERTIFICATE});
            let map =
                serde_json::from_value(json!({"metadata": metadata, "data": data})).map_err(kube::Error::SerdeError)?;
            ignore_exists(maps.create(&PostParams::default(), &map).await)?;
        }
        Some(map) if json!(map.data) != data => {
            maps.patch(ROOT_CERTIFICATE, &PatchParams::default(), &Patch::Merge(json!({ "data": data }))).await?;
        }
        Some(_) => {}
    }
    Ok(Next::Wait)
}

/// The namespace may be terminating, or the object was created concurrently.
fn ignore_exists<T>(outcome: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes the content of the namespace, and removes its finalizer when nothing is left.
async fn terminate(shared: &Arc<Shared>, namespace: &Namespace) -> Result<Next, kube::Error> {
    let waits = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    if !waits.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == CONTENT)) {
        return Ok(Next::Wait);
    }
    let name = namespace.name_any();
    let content: Vec<Entry> = shared.graph().in_namespace(&name).into_iter().cloned().collect();
    if !content.is_empty() {
        let staying = content.into_iter().filter(|entry| !entry.deleting);
        let deletions = futures::stream::iter(staying.map(|entry| delete(shared, entry)));
        let outcomes: Vec<_> = deletions.buffer_unordered(CONCURRENCY).collect().await;
        outcomes.into_iter().collect::<Result<(), _>>()?;
        // Each deletion triggers another pass.
        return Ok(Next::Wait);
    }
    // The watch may lag behind; list from the API server before the finalizer is removed.
    let kinds = shared.kinds.namespaced();
    let counts = futures::stream::iter(kinds.into_iter().map(|kind| delete_unlisted(shared, &name, kind)));
    let counts: Vec<_> = counts.buffer_unordered(CONCURRENCY).collect().await;
    if counts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().any(|found| found) {
        return Ok(Next::Retry);
    }
    finalize(shared, namespace).await?;
    Ok(Next::Wait)
}

async fn delete(shared: &Shared, entry: Entry) -> Result<(), kube::Error> {
    let preconditions = Preconditions { uid: Some(entry.uid.clone()), resource_version: None };
    let params = DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    let api = kinds::api_in(&shared.client, &entry.kind, &entry.key.namespace);
    match api.delete(&entry.key.name, &params.preconditions(preconditions)).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Deletes objects that are not in the graph yet. Returns whether there were any.
async fn delete_unlisted(shared: &Shared, namespace: &str, kind: Arc<Kind>) -> Result<bool, kube::Error> {
    let api = kinds::api_in(&shared.client, &kind, namespace);
    let found = match api.list_metadata(&ListParams::default()).await {
        Ok(found) => found.items,
        // The definition of the kind is being deleted.
        Err(error) if is_gone(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    for object in &found {
        match api.delete(&object.name_any(), &DeleteParams::background()).await {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(!found.is_empty())
}

/// Removes the finalizer through the `finalize` subresource.
async fn finalize(shared: &Shared, namespace: &Namespace) -> Result<(), kube::Error> {
    let mut namespace = namespace.clone();
    let spec = namespace.spec.get_or_insert_default();
    spec.finalizers.get_or_insert_default().retain(|finalizer| finalizer != CONTENT);
    let body = serde_json::to_vec(&namespace).map_err(kube::Error::SerdeError)?;
    let path = format!("/api/v1/namespaces/{}/finalize", namespace.name_any());
    let request = http::Request::put(path).header("content-type", "application/json");
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    match shared.client.request::<Namespace>(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
