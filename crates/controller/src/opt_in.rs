//! Secrets whose owners let Tasks use them.
//!
//! An admission policy sees the Namespace of a Task and cannot see Secrets. So each Namespace has an annotation with the
//! names of its Secrets that carry the label. Only the controller and administrators may write Namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use api::names::annotations;
use domain::task_secrets::allows_tasks;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::watcher::Event,
};
use observe::{Key, Next};
use serde_json::json;

use crate::shared::Shared;

/// The Secrets with the label, from the watch of all Secrets.
#[derive(Debug, Default)]
pub struct OptIns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Names by namespace.
    known: Names,
    /// A list that is not complete yet.
    listed: Names,
}

type Names = BTreeMap<String, BTreeSet<String>>;

impl OptIns {
    /// Records an event of the watch. Returns the namespaces whose set of names changed.
    pub fn observe(&self, event: &Event<PartialObjectMeta>) -> Vec<String> {
        let mut state = self.lock();
        match event {
            Event::Init => state.listed.clear(),
            Event::InitApply(secret) => {
                if allows_tasks(secret.metadata.labels.as_ref()) {
                    insert(&mut state.listed, secret);
                }
            }
            Event::InitDone => {
                let before = std::mem::take(&mut state.known);
                state.known = std::mem::take(&mut state.listed);
                let all: BTreeSet<&String> = before.keys().chain(state.known.keys()).collect();
                let changed = all.into_iter().filter(|namespace| before.get(*namespace) != state.known.get(*namespace));
                return changed.cloned().collect();
            }
            Event::Apply(secret) if allows_tasks(secret.metadata.labels.as_ref()) => {
                return insert(&mut state.known, secret).into_iter().collect();
            }
            Event::Apply(secret) | Event::Delete(secret) => {
                let namespace = secret.namespace().unwrap_or_default();
                let names = state.known.get_mut(&namespace);
                if names.is_some_and(|names| names.remove(&secret.name_any())) {
                    return vec![namespace];
                }
            }
        }
        Vec::new()
    }

    /// Whether a Secret has the label, as far as the watch shows.
    pub fn contains(&self, secret: &Key) -> bool {
        self.lock().known.get(&secret.namespace).is_some_and(|names| names.contains(&secret.name))
    }

    /// The value of the annotation; `None` for no annotation.
    fn annotation(&self, namespace: &str) -> Option<String> {
        let state = self.lock();
        let names = state.known.get(namespace).filter(|names| !names.is_empty())?;
        Some(names.iter().map(String::as_str).collect::<Vec<_>>().join(","))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a Secret. Returns its namespace if the Secret is new.
fn insert(names: &mut Names, secret: &PartialObjectMeta) -> Option<String> {
    let namespace = secret.namespace().unwrap_or_default();
    names.entry(namespace.clone()).or_default().insert(secret.name_any()).then_some(namespace)
}

/// Writes the annotation of a Namespace if it differs.
pub async fn pass(shared: &Shared, namespace: &str) -> Result<Next, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(shared.client.clone());
    let Some(found) = namespaces.get_metadata_opt(namespace).await? else { return Ok(Next::Wait) };
    let wanted = shared.opt_ins.annotation(namespace);
    if found.annotations().get(annotations::TASK_SECRETS) == wanted.as_ref() {
        return Ok(Next::Wait);
    }
    let patch = json!({ "metadata": { "annotations": { annotations::TASK_SECRETS: wanted } } });
    match namespaces.patch_metadata(namespace, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Next::Wait),
        written => written.map(|_| Next::Wait),
    }
}

/// Queues the Namespaces whose annotation may be out of date because no controller ran.
pub async fn sweep(shared: &Shared) -> Result<(), kube::Error> {
    let namespaces: Api<Namespace> = Api::all(shared.client.clone());
    for namespace in namespaces.list_metadata(&ListParams::default()).await? {
        let annotation = namespace.annotations().get(annotations::TASK_SECRETS);
        if annotation != shared.opt_ins.annotation(&namespace.name_any()).as_ref() {
            shared.work.opt_ins.add(namespace.name_any());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, allows: bool) -> PartialObjectMeta {
        let labels = if allows { json!({"kubeopencode.io/allow-tasks": "true"}) } else { json!({}) };
        let metadata = json!({"name": name, "namespace": "team", "labels": labels});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn the_annotation_follows_the_labels() {
        let opt_ins = OptIns::default();
        let check = |event: Event<PartialObjectMeta>, changes: bool, expected: Option<&str>| {
            let changed = opt_ins.observe(&event);
            assert_eq!((changed == ["team"], opt_ins.annotation("team").as_deref()), (changes, expected), "{event:?}");
        };
        check(Event::Init, false, None);
        check(Event::InitApply(secret("b", true)), false, None);
        check(Event::InitApply(secret("closed", false)), false, None);
        check(Event::InitDone, true, Some("b"));
        check(Event::Apply(secret("a", true)), true, Some("a,b"));
        check(Event::Apply(secret("a", true)), false, Some("a,b"));
        assert!(opt_ins.contains(&Key::new("team", "a")) && !opt_ins.contains(&Key::new("other", "a")));
        check(Event::Apply(secret("b", false)), true, Some("a"));
        // The watch starts again: events were missed.
        check(Event::Init, false, Some("a"));
        check(Event::InitDone, true, None);
        check(Event::Delete(secret("a", true)), false, None);
    }
}
