//! In-memory caches of watched objects: one watch per kind, and a callback for every change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    future::Future,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use api::Key;
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, ObjectMeta},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;

use crate::{raw::Raw, watch::watch};

/// The last observed state of an object. An object that does not deserialize is cached too, so that it affects only
/// itself.
#[derive(Debug)]
pub enum Cached<K> {
    Object(Arc<K>),
    /// Why the object does not deserialize.
    Unreadable(String),
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(Arc::clone(object)),
            Self::Unreadable(why) => Self::Unreadable(why.clone()),
        }
    }
}

/// A change of one object.
#[derive(Debug)]
pub struct Change<'a, K> {
    pub key: &'a Key,
    /// The state before the change; `None` if the object is new.
    pub before: Option<&'a Cached<K>>,
    /// The state after the change; `None` if the object is deleted.
    pub now: Option<&'a Cached<K>>,
    /// The object comes from the initial list, so it existed before this process observed anything.
    pub first_list: bool,
}

impl<K> Change<'_, K> {
    /// The object before and after the change, as far as it existed and was readable.
    pub fn both(&self) -> impl Iterator<Item = &K> {
        self.was().into_iter().chain(self.object())
    }

    /// The object after the change, if it exists and is readable.
    pub fn object(&self) -> Option<&K> {
        readable(self.now).map(AsRef::as_ref)
    }

    /// The object before the change, if it existed and was readable.
    pub fn was(&self) -> Option<&K> {
        readable(self.before).map(AsRef::as_ref)
    }

    /// The last readable state of the object, deleted or not.
    pub fn last(&self) -> Option<&K> {
        self.object().or(self.was())
    }
}

fn readable<K>(cached: Option<&Cached<K>>) -> Option<&Arc<K>> {
    match cached {
        Some(Cached::Object(object)) => Some(object),
        _ => None,
    }
}

/// The cached objects of one kind. Clones share the cache.
#[derive(Debug)]
pub struct Cache<K> {
    known: Arc<RwLock<Known<K>>>,
    complete: signal::Sender<bool>,
}

#[derive(Debug)]
struct Known<K> {
    objects: BTreeMap<Key, Cached<K>>,
    /// The latest revision that the watch reported. A watch reports the changes of a kind in order.
    watch_revision: Option<u64>,
    /// Objects that we deleted, or whose write returned more changes than our own: their last state that the watch
    /// reported. The watch reports the difference later, and a subscriber may wait for it.
    unreported: BTreeMap<Key, Cached<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { known: Arc::clone(&self.known), complete: self.complete.clone() }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let known = Known { objects: BTreeMap::new(), watch_revision: None, unreported: BTreeMap::new() };
        Self { known: Arc::new(RwLock::new(known)), complete: signal::Sender::new(false) }
    }
}

impl<K> Cache<K> {
    /// The cached state under `key`.
    pub fn get(&self, key: &Key) -> Option<Cached<K>> {
        self.read().objects.get(key).cloned()
    }

    /// The object under `key`, if it exists and is readable.
    pub fn object(&self, key: &Key) -> Option<Arc<K>> {
        match self.read().objects.get(key)? {
            Cached::Object(object) => Some(Arc::clone(object)),
            Cached::Unreadable(_) => None,
        }
    }

    /// Every readable object that matches. Scans the whole cache: do not call it for every change.
    pub fn all(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.filter(|_, object| wanted(object))
    }

    /// The readable objects of one namespace that match.
    pub fn in_namespace(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let known = self.read();
        let all = known.objects.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        all.filter_map(|(_, cached)| readable(Some(cached))).filter(|object| wanted(object)).cloned().collect()
    }

    /// Whether a namespace contains any object.
    pub fn has_any_in(&self, namespace: &str) -> bool {
        let known = self.read();
        known.objects.range(Key::new(namespace, "")..).next().is_some_and(|(key, _)| key.namespace == namespace)
    }

    /// Every readable object whose key and value match.
    pub fn filter(&self, wanted: impl Fn(&Key, &K) -> bool) -> Vec<Arc<K>> {
        self.scan(|objects| {
            objects.filter(|(key, object)| wanted(key, object)).map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// Iterates over all readable objects, ordered by namespace and name, under the read lock: changes wait until
    /// `scan` returns.
    pub fn scan<R>(&self, read: impl FnOnce(&mut dyn Iterator<Item = (&Key, &Arc<K>)>) -> R) -> R {
        let known = self.read();
        read(&mut known.objects.iter().filter_map(|(key, cached)| Some((key, readable(Some(cached))?))))
    }

    /// The namespaces that contain an object.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let known = self.read();
        let different: BTreeSet<&str> = known.objects.keys().map(|key| key.namespace.as_str()).collect();
        different.into_iter().map(str::to_owned).collect()
    }

    /// Caches the result of our own write ahead of the watch.
    ///
    /// A caller that writes and reads again sees its own write. Older versions of the object that the watch delivers
    /// afterwards are ignored. A write that is not newer than what the watch already delivered is ignored too: the
    /// object may have been deleted since.
    pub fn insert_written(&self, mut object: K)
    where
        K: Resource<DynamicType = ()>,
    {
        strip_bookkeeping(object.meta_mut());
        let key = Key::of(&object);
        let mut known = self.write();
        if known.watch_revision.is_some_and(|latest| revision(&object).is_some_and(|written| written <= latest)) {
            return;
        }
        let cached = Cached::Object(Arc::new(object));
        match known.objects.get(&key) {
            Some(before) if is_older(&cached, before) => return,
            Some(before) if differs_beyond_status(&cached, before) => {
                let before = before.clone();
                known.unreported.entry(key.clone()).or_insert(before);
            }
            _ => {}
        }
        known.objects.insert(key, cached);
    }

    /// Removes an object that we deleted from the cache, ahead of the watch. The deletion event is still reported.
    pub fn remove_deleted(&self, object: &K)
    where
        K: Resource<DynamicType = ()>,
    {
        let key = Key::of(object);
        let mut known = self.write();
        let same =
            |cached: &Cached<K>| matches!(cached, Cached::Object(known) if known.meta().uid == object.meta().uid);
        if known.objects.get(&key).is_some_and(same)
            && let Some(before) = known.objects.remove(&key)
        {
            known.unreported.entry(key).or_insert(before);
        }
    }

    /// Number of cached objects, including unreadable ones.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// Whether the initial list is complete.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Waits until the initial list is complete.
    pub async fn complete(&self) {
        let mut complete = self.complete.subscribe();
        // The sender lives in `self`.
        let _ = complete.wait_for(|complete| *complete).await;
    }

    fn read(&self) -> RwLockReadGuard<'_, Known<K>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known<K>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Watches the kind until the future is dropped: caches each object after `slim` has removed unused fields, and
    /// calls `on_change` for every change.
    ///
    /// A lost connection is retried with backoff. An expired watch starts with a new list, whose differences are
    /// reported as changes, deletions included.
    pub fn follow(
        &self,
        client: Client,
        config: watcher::Config,
        slim: impl Fn(&mut K) + Send + 'static,
        on_change: impl Fn(&Change<'_, K>) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let cache = self.clone();
        async move {
            let objects: Api<Raw> = Api::all_with(client, &ApiResource::erase::<K>(&()));
            let events = watch(objects, config);
            pin_mut!(events);
            let mut list: BTreeMap<Key, Cached<K>> = BTreeMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => list.clear(),
                    Ok(Event::InitApply(object)) => {
                        let (key, cached) = take(&object, &slim);
                        list.insert(key, cached);
                    }
                    Ok(Event::InitDone) => {
                        cache.replace(&std::mem::take(&mut list), &on_change);
                        cache.complete.send_replace(true);
                    }
                    Ok(Event::Apply(object)) => {
                        let at = revision(&object);
                        let (key, cached) = take(&object, &slim);
                        cache.put(&key, at, Some(&cached), &on_change);
                    }
                    Ok(Event::Delete(object)) => cache.put(&Key::of(&object), revision(&object), None, &on_change),
                    Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted"),
                }
            }
        }
    }

    fn put(&self, key: &Key, at: Option<u64>, now: Option<&Cached<K>>, on_change: &impl Fn(&Change<'_, K>)) {
        let mut known = self.write();
        known.watch_revision = known.watch_revision.max(at);
        if let (Some(cached), Some(before)) = (now, known.objects.get(key))
            && is_older(cached, before)
        {
            return;
        }
        let known_before = match now {
            Some(cached) => known.objects.insert(key.clone(), cached.clone()),
            // A newer object of the same name may be cached already; the watch reports it later.
            None if known.objects.get(key).is_some_and(|next| is_after(next, at)) => None,
            None => known.objects.remove(key),
        };
        let before = known.unreported.remove(key).or(known_before);
        drop(known);
        on_change(&Change { key, before: before.as_ref(), now, first_list: false });
    }

    fn replace(&self, list: &BTreeMap<Key, Cached<K>>, on_change: &impl Fn(&Change<'_, K>)) {
        let first_list = !self.is_complete();
        let latest = list.values().filter_map(|cached| revision(readable(Some(cached))?.as_ref())).max();
        let mut known = self.write();
        known.watch_revision = known.watch_revision.max(latest);
        let mut before = std::mem::replace(&mut known.objects, list.clone());
        // Keep what we wrote after the list was taken. The watch reports it later.
        let is_behind =
            |key: &Key, cached: &Cached<K>| before.get(key).is_some_and(|written| is_older(cached, written));
        let behind: BTreeSet<&Key> =
            list.iter().filter(|(key, cached)| is_behind(key, cached)).map(|(key, _)| key).collect();
        let ahead: Vec<_> = behind.iter().filter_map(|key| before.remove_entry(key)).collect();
        known.objects.extend(ahead);
        let (later, unreported) =
            std::mem::take(&mut known.unreported).into_iter().partition(|(key, _)| behind.contains(key));
        known.unreported = later;
        drop(known);
        before.extend::<BTreeMap<_, _>>(unreported);
        for (key, old) in &before {
            if !list.contains_key(key) {
                on_change(&Change { key, before: Some(old), now: None, first_list });
            }
        }
        for (key, cached) in list.iter().filter(|(key, _)| !behind.contains(key)) {
            on_change(&Change { key, before: before.get(key), now: Some(cached), first_list });
        }
    }
}

/// Whether `cached` is an older version of the same object than `before`.
fn is_older<K: Resource>(cached: &Cached<K>, before: &Cached<K>) -> bool {
    let (Cached::Object(cached), Cached::Object(before)) = (cached, before) else { return false };
    cached.meta().uid == before.meta().uid && revision(cached.as_ref()) < revision(before.as_ref())
}

/// Whether an object was written after a revision of the store.
fn is_after<K: Resource>(cached: &Cached<K>, moment: Option<u64>) -> bool {
    let (Cached::Object(cached), Some(moment)) = (cached, moment) else { return false };
    revision(cached.as_ref()).is_some_and(|written| written > moment)
}

/// Whether more than the status differs: users set labels, annotations and specs, and delete.
fn differs_beyond_status<K: Resource>(cached: &Cached<K>, before: &Cached<K>) -> bool {
    let (Cached::Object(cached), Cached::Object(before)) = (cached, before) else { return true };
    let (cached, before) = (cached.meta(), before.meta());
    cached.uid != before.uid
        || cached.generation != before.generation
        || cached.labels != before.labels
        || cached.annotations != before.annotations
        || cached.finalizers != before.finalizers
        || cached.deletion_timestamp != before.deletion_timestamp
}

/// The resource version as a number. Versions of one kind are revisions of one store, so they can be compared.
fn revision(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// Drops managedFields and the last-applied annotation, which no consumer of the cache reads.
fn strip_bookkeeping(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// Deserializes an object and slims it.
fn take<K>(raw: &Raw, slim: &impl Fn(&mut K)) -> (Key, Cached<K>)
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let cached = match raw.read::<K>() {
        Ok(mut object) => {
            strip_bookkeeping(object.meta_mut());
            slim(&mut object);
            Cached::Object(Arc::new(object))
        }
        Err(invalid) => Cached::Unreadable(invalid.to_string()),
    };
    (Key::of(raw), cached)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(version: u64, annotations: &[&str]) -> ConfigMap {
        let annotations: BTreeMap<_, _> = annotations.iter().map(|name| (*name, "true")).collect();
        let meta = json!({
            "namespace": "n", "name": "a", "uid": "1", "resourceVersion": version.to_string(), "annotations": annotations,
        });
        serde_json::from_value(json!({ "metadata": meta })).unwrap()
    }

    /// A watch driven by the test.
    #[derive(Default)]
    struct TestWatch {
        cache: Cache<ConfigMap>,
        /// Annotations before and after each reported change.
        changes: RefCell<Vec<(Vec<String>, Vec<String>)>>,
    }

    impl TestWatch {
        fn watch(&self, version: u64, object: Option<ConfigMap>) {
            let names = |object: Option<&ConfigMap>| {
                let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
                annotations.into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            let cached = object.map(|object| Cached::Object(Arc::new(object)));
            self.cache.put(&Key::new("n", "a"), Some(version), cached.as_ref(), &|change: &Change<'_, ConfigMap>| {
                self.changes.borrow_mut().push((names(change.was()), names(change.object())));
            });
        }

        fn version(&self) -> Option<String> {
            self.cache.object(&Key::new("n", "a"))?.metadata.resource_version.clone()
        }
    }

    #[test]
    fn our_writes_are_visible_ahead_of_the_watch_and_never_reverted() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &[])));
        watch.cache.insert_written(map(3, &[]));
        watch.watch(2, Some(map(2, &[])));
        assert_eq!(watch.version().as_deref(), Some("3"));
    }

    #[test]
    fn an_object_that_was_deleted_meanwhile_is_not_cached_again() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &[])));
        watch.watch(3, None);
        watch.cache.insert_written(map(2, &[]));
        assert_eq!(watch.version(), None);
    }

    #[test]
    fn a_change_by_another_client_is_reported_even_if_our_own_write_returned_it_first() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &[])));
        // A user sets an annotation (2) just before we write the status (3).
        watch.cache.insert_written(map(3, &["trigger"]));
        watch.watch(2, Some(map(2, &["trigger"])));
        watch.watch(3, Some(map(3, &["trigger"])));
        let last = watch.changes.borrow().last().cloned();
        assert_eq!(last, Some((vec![], vec!["trigger".to_owned()])));
    }

    #[test]
    fn a_deleted_object_is_gone_at_once_and_its_deletion_is_still_reported() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &["mine"])));
        watch.cache.remove_deleted(&map(1, &["mine"]));
        assert_eq!(watch.version(), None);
        watch.watch(2, None);
        assert_eq!(watch.changes.borrow().last(), Some(&(vec!["mine".to_owned()], vec![])));
    }

    #[test]
    fn the_deletion_of_an_object_does_not_remove_the_next_one_of_its_name() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &[])));
        let mut next = map(3, &[]);
        next.metadata.uid = Some("2".to_owned());
        watch.cache.insert_written(next);
        watch.watch(2, None);
        watch.cache.remove_deleted(&map(1, &[]));
        assert_eq!(watch.version().as_deref(), Some("3"));
    }

    #[test]
    fn a_new_list_reports_objects_that_vanished() {
        let watch = TestWatch::default();
        watch.watch(5, Some(map(5, &[])));
        let gone = RefCell::new(Vec::new());
        watch
            .cache
            .replace(&BTreeMap::new(), &|change| gone.borrow_mut().push((change.key.clone(), change.now.is_none())));
        assert_eq!(*gone.borrow(), [(Key::new("n", "a"), true)]);
        // Revisions that an earlier watch delivered are old for a later one too.
        watch.cache.insert_written(map(4, &[]));
        assert_eq!(watch.version(), None);
    }

    #[test]
    fn a_new_list_never_reverts_our_later_writes() {
        let watch = TestWatch::default();
        watch.watch(1, Some(map(1, &[])));
        // The list is taken at 2 and arrives after our write.
        watch.cache.insert_written(map(3, &["trigger"]));
        let list = [(Key::new("n", "a"), Cached::Object(Arc::new(map(2, &["trigger"]))))];
        let changes = RefCell::new(0);
        watch.cache.replace(&BTreeMap::from(list), &|_| *changes.borrow_mut() += 1);
        assert_eq!((watch.version().as_deref(), *changes.borrow()), (Some("3"), 0));
        // A change by another client is still reported.
        watch.watch(3, Some(map(3, &["trigger"])));
        assert_eq!(watch.changes.borrow().last(), Some(&(vec![], vec!["trigger".to_owned()])));
    }

    #[test]
    fn a_namespace_lists_only_its_own_objects() {
        let cache = Cache::default();
        for (namespace, name) in [("a", "x"), ("b", "x"), ("b", "y"), ("bb", "x")] {
            let mut object = map(1, &[]);
            object.metadata.namespace = Some(namespace.to_owned());
            object.metadata.name = Some(name.to_owned());
            cache.insert_written(object);
        }
        assert_eq!(cache.in_namespace("b", |_| true).len(), 2);
        let held = ["a", "b", "ba", "bb", "c"].map(|namespace| cache.has_any_in(namespace));
        assert_eq!(held, [true, true, false, true, false]);
    }
}
