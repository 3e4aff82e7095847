//! Reverse index of referenced objects: Secrets, ConfigMaps, models, instructions and tools that Agents use or Tasks
//! wait for.
//!
//! The index holds the versions of these objects, from watches of their metadata; the objects themselves are read when
//! they are needed. When an object appears, changes or is deleted, its dependents are enqueued, so a missing reference heals
//! at once without polling.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
};

use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use observe::Key;
use tokio::sync::watch;

/// An object whose references are indexed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dependent {
    Agent(Key),
    Template(Key),
    /// A Task that waits for a referenced object.
    Task(Key),
}

/// A referenced object. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dependency {
    kind: String,
    key: Key,
}

impl Dependency {
    /// The object `name` of kind `K`.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self { kind: K::kind(&()).into_owned(), key: Key::new(namespace, name) }
    }
}

/// The versions of all referenced objects, and their dependents. Clones share the index.
#[derive(Clone, Default)]
pub struct Dependents(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    versions: HashMap<Dependency, String>,
    /// Referenced object -> its dependents, also while it does not exist.
    dependents: HashMap<Dependency, BTreeSet<Dependent>>,
    /// Dependent -> the objects that it refers to.
    used: HashMap<Dependent, BTreeSet<Dependency>>,
}

impl Dependents {
    /// Watches the objects of kind `of` for ever. `observe` is called with each event, and `notify` with each dependent of
    /// a changed object; `complete` becomes true after the first list.
    pub fn follow(
        &self,
        client: Client,
        of: ApiResource,
        complete: watch::Sender<bool>,
        observe: impl Fn(&Event<PartialObjectMeta>) + Send + 'static,
        notify: impl Fn(Dependent) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let dependents = self.clone();
        async move {
            let all: Api<PartialObjectMeta> = Api::all_with(client, &of);
            let events = observe::watch(all, watcher::Config::default());
            pin_mut!(events);
            let dependency_of = |object: &PartialObjectMeta| Dependency { kind: of.kind.clone(), key: Key::of(object) };
            let mut list = HashMap::new();
            while let Some(event) = events.next().await {
                if let Ok(event) = &event {
                    observe(event);
                }
                let changed = match event {
                    Ok(Event::Init) => {
                        list.clear();
                        continue;
                    }
                    Ok(Event::InitApply(object)) => {
                        list.insert(dependency_of(&object), version_of(&object));
                        continue;
                    }
                    Ok(Event::InitDone) => {
                        let changed = dependents.replace(&of.kind, std::mem::take(&mut list));
                        complete.send_replace(true);
                        changed
                    }
                    Ok(Event::Apply(object)) => dependents.insert(dependency_of(&object), version_of(&object)),
                    Ok(Event::Delete(object)) => dependents.delete(&dependency_of(&object)),
                    Err(error) => {
                        tracing::warn!(kind = of.kind, %error, "the watch was interrupted");
                        continue;
                    }
                };
                changed.into_iter().for_each(&notify);
            }
        }
    }

    /// The version of a referenced object; `None` if it does not exist.
    pub fn version(&self, dependency: &Dependency) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).versions.get(dependency).cloned()
    }

    /// Records the version of an object. Returns its dependents if the version is new.
    pub fn insert(&self, dependency: Dependency, version: String) -> Vec<Dependent> {
        let mut state = self.write();
        let dependents = state.dependents_of(&dependency);
        let known = state.versions.get(&dependency) == Some(&version);
        state.versions.insert(dependency, version);
        if known { Vec::new() } else { dependents }
    }

    fn delete(&self, dependency: &Dependency) -> Vec<Dependent> {
        let mut state = self.write();
        if state.versions.remove(dependency).is_some() { state.dependents_of(dependency) } else { Vec::new() }
    }

    fn replace(&self, kind: &str, list: HashMap<Dependency, String>) -> Vec<Dependent> {
        let mut state = self.write();
        let gone =
            state.versions.keys().filter(|dependency| dependency.kind == kind && !list.contains_key(*dependency));
        let new = list.iter().filter(|(dependency, version)| state.versions.get(*dependency) != Some(*version));
        let changed: Vec<Dependency> = gone.chain(new.map(|(dependency, _)| dependency)).cloned().collect();
        state.versions.retain(|dependency, _| dependency.kind != kind);
        state.versions.extend(list);
        changed.iter().flat_map(|dependency| state.dependents_of(dependency)).collect()
    }

    /// Starts to collect the references of `dependent`.
    pub fn uses<'a>(&'a self, dependent: &Dependent) -> Uses<'a> {
        Uses { dependents: (self, dependent.clone()), now: BTreeSet::new() }
    }

    /// Removes all references of `dependent`.
    pub fn remove(&self, dependent: &Dependent) {
        self.uses(dependent).done();
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn dependents_of(&self, dependency: &Dependency) -> Vec<Dependent> {
        self.dependents.get(dependency).into_iter().flatten().cloned().collect()
    }
}

/// The references of one dependent, collected during a pass. Changes of an object are reported from the moment that it is
/// added.
pub struct Uses<'a> {
    dependents: (&'a Dependents, Dependent),
    now: BTreeSet<Dependency>,
}

impl Uses<'_> {
    /// Adds a reference.
    pub fn add(&mut self, dependency: Dependency) {
        let (dependents, dependent) = &self.dependents;
        let mut state = dependents.write();
        state.dependents.entry(dependency.clone()).or_default().insert(dependent.clone());
        state.used.entry(dependent.clone()).or_default().insert(dependency.clone());
        self.now.insert(dependency);
    }

    /// Ends the pass: references of earlier passes that were not added again are removed.
    pub fn done(self) {
        let (dependents, dependent) = self.dependents;
        let mut state = dependents.write();
        let before = state.used.remove(&dependent).unwrap_or_default();
        for dependency in before.difference(&self.now) {
            if let Some(dependents) = state.dependents.get_mut(dependency) {
                dependents.remove(&dependent);
                if dependents.is_empty() {
                    state.dependents.remove(dependency);
                }
            }
        }
        if !self.now.is_empty() {
            state.used.insert(dependent, self.now);
        }
    }
}

/// Identifies one version of an object.
pub fn version_of(object: &impl Resource) -> String {
    let meta = object.meta();
    format!("{} {}", meta.uid.as_deref().unwrap_or_default(), meta.resource_version.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn secret(name: &str) -> Dependency {
        Dependency::of::<Secret>("n", name)
    }

    #[test]
    fn whoever_uses_a_part_is_told_of_it_and_nobody_else() {
        let dependents = Dependents::default();
        let (a, b) = (Dependent::Agent(Key::new("n", "a")), Dependent::Task(Key::new("n", "a")));
        let mut uses = dependents.uses(&a);
        uses.add(secret("x"));
        uses.done();
        let mut uses = dependents.uses(&b);
        uses.add(Dependency::of::<ConfigMap>("n", "x"));
        uses.done();
        assert_eq!(dependents.insert(secret("x"), "1".into()), std::slice::from_ref(&a));
        assert!(dependents.insert(secret("x"), "1".into()).is_empty(), "nothing is new");
        assert_eq!(dependents.delete(&secret("x")), [a]);
    }

    #[test]
    fn a_part_that_is_not_used_any_more_is_forgotten() {
        let dependents = Dependents::default();
        let a = Dependent::Agent(Key::new("n", "a"));
        let mut uses = dependents.uses(&a);
        uses.add(secret("x"));
        uses.done();
        let mut uses = dependents.uses(&a);
        uses.add(secret("y"));
        assert_eq!(
            dependents.insert(secret("x"), "1".into()),
            std::slice::from_ref(&a),
            "until it is done, both count"
        );
        uses.done();
        assert!(dependents.insert(secret("x"), "2".into()).is_empty());
        assert_eq!(dependents.insert(secret("y"), "1".into()), [a]);
    }

    #[test]
    fn a_new_list_reports_changed_and_deleted_objects() {
        let dependents = Dependents::default();
        let a = Dependent::Agent(Key::new("n", "a"));
        for name in ["kept", "gone", "changed"] {
            dependents.insert(secret(name), "1".into());
        }
        let changed = |used: &str, list: &[(&str, &str)]| {
            let mut uses = dependents.uses(&a);
            uses.add(secret(used));
            uses.done();
            dependents.replace("Secret", list.iter().map(|(name, version)| (secret(name), (*version).into())).collect())
        };
        assert!(changed("kept", &[("kept", "1"), ("gone", "1"), ("changed", "2")]).is_empty());
        assert_eq!(changed("gone", &[("kept", "1"), ("changed", "2")]), std::slice::from_ref(&a));
        assert_eq!(changed("new", &[("kept", "1"), ("changed", "2"), ("new", "1")]), [a]);
    }
}
