//! What the workload controllers know of the cluster: one watch a kind, its objects in memory, and who is told of changes.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::Future,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use observe::Key;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// A change of one object: what was seen before, and what is seen now (nothing, if it is gone).
pub(crate) struct Change<'a, K> {
    pub key: &'a Key,
    pub before: Option<&'a K>,
    pub now: Option<&'a K>,
}

impl<K> Change<'_, K> {
    /// The object before and after, as far as it was there.
    pub(crate) fn both(&self) -> impl Iterator<Item = &K> {
        self.before.into_iter().chain(self.now)
    }
}

/// The objects of one kind. Clones share them.
pub(crate) struct Cache<K> {
    objects: Arc<RwLock<BTreeMap<Key, Arc<K>>>>,
    complete: watch::Sender<bool>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), complete: self.complete.clone() }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: Arc::default(), complete: watch::Sender::new(false) }
    }
}

impl<K> Cache<K> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().get(key).cloned()
    }

    /// The objects of one namespace that are wanted.
    pub(crate) fn in_namespace(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read()
            .range(Key::new(namespace, "")..)
            .take_while(|(key, _)| key.namespace == namespace)
            .filter(|(_, object)| wanted(object))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// Every object that is wanted.
    pub(crate) fn all(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read().values().filter(|object| wanted(object)).cloned().collect()
    }

    /// Returns once the first list of the kind is complete.
    pub(crate) async fn complete(&self) {
        // The sender lives in `self`.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Key, Arc<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Key, Arc<K>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Cache<K> {
    /// Takes over what we wrote ourselves, ahead of the watch: whoever writes and looks again sees what was written.
    pub(crate) fn learn(&self, object: K) {
        let key = Key::of(&object);
        let mut objects = self.write();
        if !objects.get(&key).is_some_and(|before| is_older(&object, before)) {
            objects.insert(key, Arc::new(object));
        }
    }

    /// Takes over that an object is gone, ahead of the watch.
    pub(crate) fn forget(&self, object: &K) {
        let key = Key::of(object);
        let mut objects = self.write();
        if objects.get(&key).is_some_and(|known| known.meta().uid == object.meta().uid) {
            objects.remove(&key);
        }
    }

    fn put(&self, object: K, told: &impl Fn(&Change<'_, K>)) {
        let (key, now) = (Key::of(&object), Arc::new(object));
        let before = {
            let mut objects = self.write();
            if objects.get(&key).is_some_and(|before| is_older(&*now, before)) {
                return;
            }
            objects.insert(key.clone(), Arc::clone(&now))
        };
        told(&Change { key: &key, before: before.as_deref(), now: Some(&now) });
    }

    fn remove(&self, object: &K, told: &impl Fn(&Change<'_, K>)) {
        let key = Key::of(object);
        let before = {
            let mut objects = self.write();
            // The next object of that name may have been learned already.
            let same = objects.get(&key).is_none_or(|known| known.meta().uid == object.meta().uid);
            if same { objects.remove(&key) } else { None }
        };
        told(&Change { key: &key, before: before.as_deref().or(Some(object)), now: None });
    }

    fn replace(&self, list: &BTreeMap<Key, Arc<K>>, told: &impl Fn(&Change<'_, K>)) {
        let before = std::mem::replace(&mut *self.write(), list.clone());
        for (key, old) in before.iter().filter(|(key, _)| !list.contains_key(key)) {
            told(&Change { key, before: Some(old), now: None });
        }
        for (key, now) in list {
            told(&Change { key, before: before.get(key).map(AsRef::as_ref), now: Some(now) });
        }
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Follows the kind for ever: keeps what `slim` leaves of each object, and tells `told` of every change.
    ///
    /// A lost connection is taken up again with growing pauses; an expired one starts with a new list, whose differences
    /// are changes like any other, deletions included.
    pub(crate) fn follow(
        &self,
        client: Client,
        slim: impl Fn(&mut K) + Send + 'static,
        told: impl Fn(&Change<'_, K>) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let cache = self.clone();
        async move {
            let events = watcher::watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
            pin_mut!(events);
            let mut list = BTreeMap::new();
            let slim = move |mut object: K| {
                object.meta_mut().managed_fields = None;
                slim(&mut object);
                object
            };
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => list.clear(),
                    Ok(Event::InitApply(object)) => {
                        let object = slim(object);
                        list.insert(Key::of(&object), Arc::new(object));
                    }
                    Ok(Event::InitDone) => {
                        cache.replace(&std::mem::take(&mut list), &told);
                        cache.complete.send_replace(true);
                    }
                    Ok(Event::Apply(object)) => cache.put(slim(object), &told),
                    Ok(Event::Delete(object)) => cache.remove(&object, &told),
                    Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "the watch was interrupted"),
                }
            }
        }
    }
}

/// Whether `object` is an earlier version of the same object than `before`: revisions of one store can be compared.
fn is_older<K: Resource>(object: &K, before: &K) -> bool {
    let revision = |object: &K| object.meta().resource_version.as_ref()?.parse::<u64>().ok();
    object.meta().uid == before.meta().uid && revision(object) < revision(before)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
        serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": name, "uid": uid, "resourceVersion": version.to_string()},
        }))
        .unwrap()
    }

    #[test]
    fn what_was_learned_is_not_undone_by_what_the_watch_tells_later() {
        let cache = Cache::default();
        let told = RefCell::new(0);
        let tell = |_: &Change<'_, ConfigMap>| *told.borrow_mut() += 1;
        cache.learn(object("a", "1", 5));
        cache.put(object("a", "1", 4), &tell);
        assert_eq!(cache.get(&Key::new("n", "a")).unwrap().metadata.resource_version.as_deref(), Some("5"));
        assert_eq!(*told.borrow(), 0);
        // The watch catches up: that is a change, since nobody was told of what was learned.
        cache.put(object("a", "1", 5), &tell);
        assert_eq!(*told.borrow(), 1);
    }

    #[test]
    fn the_end_of_an_object_does_not_remove_the_next_one_of_its_name() {
        let cache = Cache::default();
        cache.learn(object("a", "2", 9));
        cache.remove(&object("a", "1", 8), &|_| ());
        cache.forget(&object("a", "1", 8));
        assert!(cache.get(&Key::new("n", "a")).is_some());
        cache.forget(&object("a", "2", 9));
        assert!(cache.get(&Key::new("n", "a")).is_none());
    }

    #[test]
    fn a_new_list_tells_of_what_vanished_in_between() {
        let cache = Cache::default();
        cache.learn(object("a", "1", 1));
        let gone = RefCell::new(Vec::new());
        cache.replace(&BTreeMap::new(), &|change| gone.borrow_mut().push((change.key.clone(), change.now.is_none())));
        assert_eq!(*gone.borrow(), [(Key::new("n", "a"), true)]);
    }

    #[test]
    fn a_namespace_holds_only_its_own() {
        let cache = Cache::default();
        for (namespace, name) in [("a", "x"), ("b", "x"), ("b", "y"), ("bb", "x")] {
            let mut object = object(name, name, 1);
            object.metadata.namespace = Some(namespace.into());
            cache.learn(object);
        }
        assert_eq!(cache.in_namespace("b", |_| true).len(), 2);
    }
}
