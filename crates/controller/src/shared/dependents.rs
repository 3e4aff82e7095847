//! Reverse index of referenced objects: Secrets, ConfigMaps, models, instructions and tools that Agents use or Tasks
//! wait for.
//!
//! The index holds the versions of these objects, from watches of their metadata; the objects themselves are read when
//! they are needed. When an object appears, changes or is deleted, its users are enqueued, so a missing reference heals
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
pub enum User {
    Agent(Key),
    Template(Key),
    /// A Task that waits for a referenced object.
    Task(Key),
}

/// A referenced object. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    kind: String,
    key: Key,
}

impl Part {
    /// The object `name` of kind `K`.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self { kind: K::kind(&()).into_owned(), key: Key::new(namespace, name) }
    }
}

/// The versions of all referenced objects, and their users. Clones share the index.
#[derive(Clone, Default)]
pub struct Dependents(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    versions: HashMap<Part, String>,
    /// Referenced object -> its users, also while it does not exist.
    users: HashMap<Part, BTreeSet<User>>,
    /// User -> the objects that it refers to.
    used: HashMap<User, BTreeSet<Part>>,
}

impl Dependents {
    /// Watches the objects of kind `of` for ever. `notify` is called with each user of a changed object; `complete`
    /// becomes true after the first list.
    pub fn follow(
        &self,
        client: Client,
        of: ApiResource,
        complete: watch::Sender<bool>,
        notify: impl Fn(User) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let dependents = self.clone();
        async move {
            let all: Api<PartialObjectMeta> = Api::all_with(client, &of);
            let events = observe::watch(all, watcher::Config::default());
            pin_mut!(events);
            let part_of = |object: &PartialObjectMeta| Part { kind: of.kind.clone(), key: Key::of(object) };
            let mut list = HashMap::new();
            while let Some(event) = events.next().await {
                let changed = match event {
                    Ok(Event::Init) => {
                        list.clear();
                        continue;
                    }
                    Ok(Event::InitApply(object)) => {
                        list.insert(part_of(&object), version_of(&object));
                        continue;
                    }
                    Ok(Event::InitDone) => {
                        let changed = dependents.replace(&of.kind, std::mem::take(&mut list));
                        complete.send_replace(true);
                        changed
                    }
                    Ok(Event::Apply(object)) => dependents.learn(part_of(&object), version_of(&object)),
                    Ok(Event::Delete(object)) => dependents.forget(&part_of(&object)),
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
    pub fn version(&self, part: &Part) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).versions.get(part).cloned()
    }

    /// Records the version of an object. Returns its users if the version is new.
    pub fn learn(&self, part: Part, version: String) -> Vec<User> {
        let mut state = self.write();
        let users = state.users_of(&part);
        let known = state.versions.get(&part) == Some(&version);
        state.versions.insert(part, version);
        if known { Vec::new() } else { users }
    }

    fn forget(&self, part: &Part) -> Vec<User> {
        let mut state = self.write();
        if state.versions.remove(part).is_some() { state.users_of(part) } else { Vec::new() }
    }

    fn replace(&self, kind: &str, list: HashMap<Part, String>) -> Vec<User> {
        let mut state = self.write();
        let gone = state.versions.keys().filter(|part| part.kind == kind && !list.contains_key(*part));
        let new = list.iter().filter(|(part, version)| state.versions.get(*part) != Some(*version));
        let changed: Vec<Part> = gone.chain(new.map(|(part, _)| part)).cloned().collect();
        state.versions.retain(|part, _| part.kind != kind);
        state.versions.extend(list);
        changed.iter().flat_map(|part| state.users_of(part)).collect()
    }

    /// Starts to collect the references of `user`.
    pub fn uses<'a>(&'a self, user: &User) -> Uses<'a> {
        Uses { dependents: (self, user.clone()), now: BTreeSet::new() }
    }

    /// Removes all references of `user`.
    pub fn forget_user(&self, user: &User) {
        self.uses(user).done();
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn users_of(&self, part: &Part) -> Vec<User> {
        self.users.get(part).into_iter().flatten().cloned().collect()
    }
}

/// The references of one user, collected during a pass. Changes of an object are reported from the moment that it is
/// added.
pub struct Uses<'a> {
    dependents: (&'a Dependents, User),
    now: BTreeSet<Part>,
}

impl Uses<'_> {
    /// Adds a reference.
    pub fn add(&mut self, part: Part) {
        let (dependents, user) = &self.dependents;
        let mut state = dependents.write();
        state.users.entry(part.clone()).or_default().insert(user.clone());
        state.used.entry(user.clone()).or_default().insert(part.clone());
        self.now.insert(part);
    }

    /// Ends the pass: references of earlier passes that were not added again are removed.
    pub fn done(self) {
        let (dependents, user) = self.dependents;
        let mut state = dependents.write();
        let before = state.used.remove(&user).unwrap_or_default();
        for part in before.difference(&self.now) {
            if let Some(users) = state.users.get_mut(part) {
                users.remove(&user);
                if users.is_empty() {
                    state.users.remove(part);
                }
            }
        }
        if !self.now.is_empty() {
            state.used.insert(user, self.now);
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

    fn secret(name: &str) -> Part {
        Part::of::<Secret>("n", name)
    }

    #[test]
    fn whoever_uses_a_part_is_told_of_it_and_nobody_else() {
        let dependents = Dependents::default();
        let (a, b) = (User::Agent(Key::new("n", "a")), User::Task(Key::new("n", "a")));
        let mut uses = dependents.uses(&a);
        uses.add(secret("x"));
        uses.done();
        let mut uses = dependents.uses(&b);
        uses.add(Part::of::<ConfigMap>("n", "x"));
        uses.done();
        assert_eq!(dependents.learn(secret("x"), "1".into()), std::slice::from_ref(&a));
        assert!(dependents.learn(secret("x"), "1".into()).is_empty(), "nothing is new");
        assert_eq!(dependents.forget(&secret("x")), [a]);
    }

    #[test]
    fn a_part_that_is_not_used_any_more_is_forgotten() {
        let dependents = Dependents::default();
        let a = User::Agent(Key::new("n", "a"));
        let mut uses = dependents.uses(&a);
        uses.add(secret("x"));
        uses.done();
        let mut uses = dependents.uses(&a);
        uses.add(secret("y"));
        assert_eq!(dependents.learn(secret("x"), "1".into()), std::slice::from_ref(&a), "until it is done, both count");
        uses.done();
        assert!(dependents.learn(secret("x"), "2".into()).is_empty());
        assert_eq!(dependents.learn(secret("y"), "1".into()), [a]);
    }

    #[test]
    fn a_new_list_reports_changed_and_deleted_objects() {
        let dependents = Dependents::default();
        let a = User::Agent(Key::new("n", "a"));
        for name in ["kept", "gone", "changed"] {
            dependents.learn(secret(name), "1".into());
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
