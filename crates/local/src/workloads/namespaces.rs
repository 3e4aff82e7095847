//! A namespace has what every Pod in it needs, and goes when everything in it is gone.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};
use serde_json::json;

use super::{
    World,
    inventory::{Entry, KindOf},
    kinds,
    replica_set::is_gone,
};

/// ConfigMap with the certificate of the authority that the API server's own is from.
pub(crate) const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// ServiceAccount of Pods that name none.
pub(crate) const ACCOUNT: &str = "default";
/// Finalizer in the spec of a namespace, which stands for everything in it.
const CONTENT: &str = "kubernetes";
/// Objects that are deleted at once, and kinds that are asked at once.
const AT_ONCE: usize = 16;

/// Whether the objects of this entry are among those that every namespace has.
pub(crate) fn is_furniture(entry: &Entry) -> bool {
    match entry.kind.resource.kind.as_str() {
        "ServiceAccount" => entry.key.name == ACCOUNT,
        "ConfigMap" => entry.key.name == ROOT_CERTIFICATE,
        _ => false,
    }
}

/// Looks at a namespace.
pub(crate) async fn pass(world: &Arc<World>, name: &str) -> Result<Next, kube::Error> {
    let Some(namespace) = world.namespaces.object(&Key::new("", name)) else { return Ok(Next::Wait) };
    if namespace.metadata.deletion_timestamp.is_some() {
        terminate(world, &namespace).await
    } else {
        furnish(world, name).await
    }
}

async fn furnish(world: &World, namespace: &str) -> Result<Next, kube::Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
    if accounts.get_metadata_opt(ACCOUNT).await?.is_none() {
        let account =
            serde_json::from_value(json!({"metadata": {"name": ACCOUNT}})).map_err(kube::Error::SerdeError)?;
        ignore_exists(accounts.create(&PostParams::default(), &account).await)?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), namespace);
    let data = json!({"ca.crt": world.settings.certificate_authority});
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

/// The namespace may be on its way out, or somebody was faster.
fn ignore_exists<T>(outcome: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// Deletes what is in the namespace. When nothing is left, the namespace may go.
async fn terminate(world: &Arc<World>, namespace: &Namespace) -> Result<Next, kube::Error> {
    let waits = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    if !waits.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == CONTENT)) {
        return Ok(Next::Wait);
    }
    let name = namespace.name_any();
    let content: Vec<Entry> = world.inventory().in_namespace(&name).into_iter().cloned().collect();
    if !content.is_empty() {
        let staying = content.into_iter().filter(|entry| !entry.going);
        let deletions = futures::stream::iter(staying.map(|entry| delete(world, entry)));
        let outcomes: Vec<_> = deletions.buffer_unordered(AT_ONCE).collect().await;
        outcomes.into_iter().collect::<Result<(), _>>()?;
        // The end of each asks for another look.
        return Ok(Next::Wait);
    }
    // The watch may lag behind; what the API server itself has counts.
    let kinds = world.kinds.namespaced();
    let counts = futures::stream::iter(kinds.into_iter().map(|kind| delete_unseen(world, &name, kind)));
    let counts: Vec<_> = counts.buffer_unordered(AT_ONCE).collect().await;
    if counts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().any(|found| found) {
        return Ok(Next::Retry);
    }
    finalize(world, namespace).await?;
    Ok(Next::Wait)
}

async fn delete(world: &World, entry: Entry) -> Result<(), kube::Error> {
    let preconditions = Preconditions { uid: Some(entry.uid.clone()), resource_version: None };
    let params = DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
    let api = kinds::api_in(&world.client, &entry.kind, &entry.key.namespace);
    match api.delete(&entry.key.name, &params.preconditions(preconditions)).await {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Deletes what the inventory does not know of. Answers whether there was something.
async fn delete_unseen(world: &World, namespace: &str, kind: Arc<KindOf>) -> Result<bool, kube::Error> {
    let api = kinds::api_in(&world.client, &kind, namespace);
    let found = match api.list_metadata(&ListParams::default()).await {
        Ok(found) => found.items,
        // A kind whose definition is on its way out.
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

/// Takes the finalizer away, for which there is a way of its own.
async fn finalize(world: &World, namespace: &Namespace) -> Result<(), kube::Error> {
    let mut namespace = namespace.clone();
    let spec = namespace.spec.get_or_insert_default();
    spec.finalizers.get_or_insert_default().retain(|finalizer| finalizer != CONTENT);
    let body = serde_json::to_vec(&namespace).map_err(kube::Error::SerdeError)?;
    let path = format!("/api/v1/namespaces/{}/finalize", namespace.name_any());
    let request = http::Request::put(path).header("content-type", "application/json");
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    match world.client.request::<Namespace>(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
