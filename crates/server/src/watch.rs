//! One watch a kind: its objects in memory, and who is told of a change.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Namespace and name of an object. The namespace of a cluster-wide object is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of the object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

/// A change of one object: what it was, and what it is.
#[derive(Debug)]
pub struct Change<'a, K> {
    /// What it was; nothing if it is new.
    pub before: Option<&'a Arc<K>>,
    /// What it is; nothing if it is gone.
    pub now: Option<&'a Arc<K>>,
    /// It was there before anybody could look: nobody needs to hear of it.
    pub first_list: bool,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Kind<K> {
    objects: RwLock<HashMap<Key, Arc<K>>>,
    complete: watch::Sender<bool>,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self { objects: RwLock::default(), complete: watch::Sender::new(false) }
    }
}

impl<K> Kind<K> {
    /// The object under `key`.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().get(key).cloned()
    }

    /// Every object that is wanted, in no order.
    pub fn filter(&self, wanted: impl Fn(&Key, &K) -> bool) -> Vec<Arc<K>> {
        self.read().iter().filter(|(key, object)| wanted(key, object)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The namespaces that hold an object.
    pub fn namespaces(&self) -> std::collections::BTreeSet<String> {
        self.read().keys().map(|key| key.namespace.clone()).collect()
    }

    /// Whether the first list was received.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, Arc<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Kind<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Follows the kind for ever: keeps what `slim` leaves of each object, and tells `told` of every change.
    ///
    /// An object that our types cannot read is left out, so that it affects only itself.
    pub async fn follow(&self, client: Client, slim: impl Fn(&mut K) + Send, told: impl Fn(&Change<'_, K>) + Send) {
        let config = watcher::Config::default();
        let events = watcher::watcher(Api::<DeserializeGuard<K>>::all(client), config).default_backoff();
        pin_mut!(events);
        let mut list = HashMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some((key, object)) = take(object, &slim) {
                        list.insert(key, object);
                    }
                }
                Ok(Event::InitDone) => {
                    self.replace(&std::mem::take(&mut list), &told);
                    self.complete.send_replace(true);
                }
                Ok(Event::Apply(object)) => {
                    if let Some((key, object)) = take(object, &slim) {
                        let before = self.write(|objects| objects.insert(key, Arc::clone(&object)));
                        told(&Change { before: before.as_ref(), now: Some(&object), first_list: false });
                    }
                }
                Ok(Event::Delete(object)) => {
                    let before = self.write(|objects| objects.remove(&Key::of(&object)));
                    told(&Change { before: before.as_ref(), now: None, first_list: false });
                }
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "the watch was interrupted"),
            }
        }
    }

    /// Takes over a whole list: what differs from before is a change like any other.
    fn replace(&self, list: &HashMap<Key, Arc<K>>, told: &impl Fn(&Change<'_, K>)) {
        let first_list = !self.is_complete();
        let before = self.write(|objects| std::mem::replace(objects, list.clone()));
        for (key, old) in &before {
            if !list.contains_key(key) {
                told(&Change { before: Some(old), now: None, first_list });
            }
        }
        for (key, object) in list {
            let before = before.get(key);
            if before.is_none_or(|before| before.meta().resource_version != object.meta().resource_version) {
                told(&Change { before, now: Some(object), first_list });
            }
        }
    }

    /// Takes over an object as the watch would.
    #[cfg(test)]
    pub fn put(&self, object: K) {
        self.write(|objects| objects.insert(Key::of(&object), Arc::new(object)));
    }

    fn write<T>(&self, change: impl FnOnce(&mut HashMap<Key, Arc<K>>) -> T) -> T {
        change(&mut self.objects.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes an object out of its guard, slimmed: nobody here reads managedFields or what kubectl applied last.
fn take<K>(object: DeserializeGuard<K>, slim: &impl Fn(&mut K)) -> Option<(Key, Arc<K>)>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let key = Key::of(&object);
    match object.0 {
        Ok(mut object) => {
            let meta = object.meta_mut();
            meta.managed_fields = None;
            if let Some(annotations) = &mut meta.annotations {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            }
            slim(&mut object);
            Some((key, Arc::new(object)))
        }
        Err(invalid) => {
            tracing::warn!(kind = %K::kind(&()), namespace = key.namespace, name = key.name, error = %invalid, "unreadable");
            None
        }
    }
}
