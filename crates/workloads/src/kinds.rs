//! Metadata watches for every kind: those that the API server serves at the start, and those that
//! CustomResourceDefinitions add later.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
    discovery::{Discovery, Scope, verbs},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use tokio::task::AbortHandle;

use crate::{
    Shared,
    graph::{Entry, Kind},
};

/// Group and plural name.
type Name = (String, String);

/// The watched kinds.
#[derive(Default)]
pub(crate) struct Kinds {
    watched: Mutex<HashMap<Name, Watched>>,
}

struct Watched {
    kind: Arc<Kind>,
    watch: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Kinds {
    pub(crate) fn namespaced(&self) -> Vec<Arc<Kind>> {
        self.lock().values().filter(|watched| watched.kind.namespaced).map(|f| Arc::clone(&f.kind)).collect()
    }

    /// The kind that an owner reference names, in any version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let watched = self.lock();
        let mut kinds = watched.values().map(|watched| &watched.kind);
        kinds.find(|known| known.resource.group == group && known.resource.kind == kind).cloned()
    }

    /// Stops all watches.
    pub(crate) fn unwatch_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts watches for the kinds that the API server serves now.
pub(crate) async fn watch_served(shared: &Arc<Shared>) -> Result<(), kube::Error> {
    let discovery = Discovery::new(shared.client.clone()).run().await?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            let able =
                [verbs::LIST, verbs::WATCH, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb));
            if able {
                start_watch(shared, Kind { resource, namespaced: capabilities.scope == Scope::Namespaced });
            }
        }
    }
    Ok(())
}

/// Starts a watch for the kind of a definition once it is established.
pub(crate) fn defined(shared: &Arc<Shared>, definition: &CustomResourceDefinition) {
    if let Some(kind) = kind_of(definition) {
        start_watch(shared, kind);
    }
}

/// Stops the watch of a deleted definition, and removes its objects from the graph.
pub(crate) fn undefined(shared: &Shared, definition: &CustomResourceDefinition) {
    let name = (definition.spec.group.clone(), definition.spec.names.plural.clone());
    let watched = shared.kinds.lock().remove(&name);
    if let Some(watched) = watched {
        let uids = shared.graph().of_kind(&watched.kind);
        for uid in &uids {
            shared.object_deleted(uid);
        }
    }
}

/// The kind of an established definition.
fn kind_of(definition: &CustomResourceDefinition) -> Option<Kind> {
    let status = definition.status.as_ref()?;
    let in_force = status.conditions.iter().flatten().any(|c| c.type_ == "Established" && c.status == "True");
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.served && version.storage);
    let version = version.or(spec.versions.iter().find(|version| version.served)).filter(|_| in_force)?;
    let api_version = format!("{}/{}", spec.group, version.name);
    let resource = ApiResource {
        group: spec.group.clone(),
        version: version.name.clone(),
        api_version,
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    };
    Some(Kind { resource, namespaced: spec.scope == "Namespaced" })
}

fn start_watch(shared: &Arc<Shared>, kind: Kind) {
    let name = (kind.resource.group.clone(), kind.resource.plural.clone());
    let mut watched = shared.kinds.lock();
    // Events are served in two groups that contain the same objects.
    if watched.contains_key(&name) || name == ("events.k8s.io".to_owned(), "events".to_owned()) {
        return;
    }
    let kind = Arc::new(kind);
    let watch = tokio::spawn(watch(Arc::clone(shared), Arc::clone(&kind))).abort_handle();
    watched.insert(name, Watched { kind, watch });
}

/// Keeps the objects of one kind in the graph until the task is aborted.
async fn watch(shared: Arc<Shared>, kind: Arc<Kind>) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(shared.client.clone(), &kind.resource);
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(Entry::new(&kind, object.metadata)),
            Ok(Event::InitDone) => {
                let mut vanished = shared.graph().of_kind(&kind);
                for entry in std::mem::take(&mut listed) {
                    vanished.remove(&entry.uid);
                    shared.object_changed(entry);
                }
                for uid in &vanished {
                    shared.object_deleted(uid);
                }
            }
            Ok(Event::Apply(object)) => {
                if let Some(entry) = Entry::new(&kind, object.metadata) {
                    shared.object_changed(entry);
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some(uid) = &object.metadata.uid {
                    shared.object_deleted(uid);
                }
            }
            Err(error) => tracing::debug!(kind = %kind.resource.kind, %error, "watch interrupted"),
        }
    }
}

/// The API of a kind, in `namespace` if the kind is namespaced.
pub(crate) fn api_in(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    if kind.namespaced {
        Api::namespaced_with(client.clone(), namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_counts_once_it_is_in_force() {
        let mut definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "tasks.kubeopencode.io"},
            "spec": {
                "group": "kubeopencode.io", "scope": "Namespaced",
                "names": {"kind": "Task", "plural": "tasks"},
                "versions": [{"name": "v1", "served": false, "storage": false}, {"name": "v2", "served": true, "storage": true}],
            },
            "status": {"conditions": [{"type": "Established", "status": "False"}]},
        }))
        .unwrap();
        assert!(kind_of(&definition).is_none());
        definition.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "True".into();
        let kind = kind_of(&definition).unwrap();
        assert_eq!((kind.resource.api_version.as_str(), kind.namespaced), ("kubeopencode.io/v2", true));
    }
}
