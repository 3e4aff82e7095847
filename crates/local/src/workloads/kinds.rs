//! Which kinds there are, each followed by its metadata: those that the API server offers, and those that come with
//! CustomResourceDefinitions while it runs.

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

use super::{
    World,
    inventory::{Entry, KindOf},
};

/// Group and plural name.
type Name = (String, String);

/// The kinds that are followed.
#[derive(Default)]
pub(crate) struct Kinds {
    followed: Mutex<HashMap<Name, Followed>>,
}

struct Followed {
    kind: Arc<KindOf>,
    watch: AbortHandle,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Kinds {
    /// Every kind whose objects live in namespaces.
    pub(crate) fn namespaced(&self) -> Vec<Arc<KindOf>> {
        self.lock().values().filter(|followed| followed.kind.namespaced).map(|f| Arc::clone(&f.kind)).collect()
    }

    /// The kind that an owner reference names, whatever version it was written in.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Arc<KindOf>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let followed = self.lock();
        let mut kinds = followed.values().map(|followed| &followed.kind);
        kinds.find(|known| known.resource.group == group && known.resource.kind == kind).cloned()
    }

    /// Stops all watches.
    pub(crate) fn unfollow_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows what the API server offers now.
pub(crate) async fn follow_offered(world: &Arc<World>) -> Result<(), kube::Error> {
    let discovery = Discovery::new(world.client.clone()).run().await?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.resources_by_stability() {
            let able =
                [verbs::LIST, verbs::WATCH, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb));
            if able {
                follow(world, KindOf { resource, namespaced: capabilities.scope == Scope::Namespaced });
            }
        }
    }
    Ok(())
}

/// Follows what a definition brings, once it does.
pub(crate) fn defined(world: &Arc<World>, definition: &CustomResourceDefinition) {
    if let Some(kind) = kind_of(definition) {
        follow(world, kind);
    }
}

/// Forgets the kind of a definition that is gone, and its objects with it.
pub(crate) fn undefined(world: &World, definition: &CustomResourceDefinition) {
    let name = (definition.spec.group.clone(), definition.spec.names.plural.clone());
    let followed = world.kinds.lock().remove(&name);
    if let Some(followed) = followed {
        let uids = world.inventory().of_kind(&followed.kind);
        for uid in &uids {
            world.entry_gone(uid);
        }
    }
}

/// The kind of a definition that is in force.
fn kind_of(definition: &CustomResourceDefinition) -> Option<KindOf> {
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
    Some(KindOf { resource, namespaced: spec.scope == "Namespaced" })
}

fn follow(world: &Arc<World>, kind: KindOf) {
    let name = (kind.resource.group.clone(), kind.resource.plural.clone());
    let mut followed = world.kinds.lock();
    // Events exist in two groups, which show the same objects.
    if followed.contains_key(&name) || name == ("events.k8s.io".to_owned(), "events".to_owned()) {
        return;
    }
    let kind = Arc::new(kind);
    let watch = tokio::spawn(watch(Arc::clone(world), Arc::clone(&kind))).abort_handle();
    followed.insert(name, Followed { kind, watch });
}

/// Keeps the inventory of one kind for ever.
async fn watch(world: Arc<World>, kind: Arc<KindOf>) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(world.client.clone(), &kind.resource);
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(Entry::new(&kind, object.metadata)),
            Ok(Event::InitDone) => {
                let mut vanished = world.inventory().of_kind(&kind);
                for entry in std::mem::take(&mut listed) {
                    vanished.remove(&entry.uid);
                    world.entry_seen(entry);
                }
                for uid in &vanished {
                    world.entry_gone(uid);
                }
            }
            Ok(Event::Apply(object)) => {
                if let Some(entry) = Entry::new(&kind, object.metadata) {
                    world.entry_seen(entry);
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some(uid) = &object.metadata.uid {
                    world.entry_gone(uid);
                }
            }
            Err(error) => tracing::debug!(kind = %kind.resource.kind, %error, "the watch was interrupted"),
        }
    }
}

/// The objects of a kind where `namespace` says, if they live in one.
pub(crate) fn api_in(client: &Client, kind: &KindOf, namespace: &str) -> Api<DynamicObject> {
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
