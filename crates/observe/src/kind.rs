//! What is known of a cluster: one watch a kind, its objects in memory, and who is told of a change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Debug},
    future::Future,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, ObjectMeta},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;

use crate::{raw::Raw, watch::watch};

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
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An object as last seen. One that our types cannot read is a value too, so that it affects only itself.
#[derive(Debug)]
pub enum Seen<K> {
    /// The object.
    Object(Arc<K>),
    /// Why it cannot be read.
    Unreadable(String),
}

impl<K> Clone for Seen<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Object(object) => Self::Object(Arc::clone(object)),
            Self::Unreadable(why) => Self::Unreadable(why.clone()),
        }
    }
}

/// A change of one object: what was seen before, and what is seen now (nothing, if it is gone).
#[derive(Debug)]
pub struct Change<'a, K> {
    /// Which object.
    pub key: &'a Key,
    /// What it was.
    pub before: Option<&'a Seen<K>>,
    /// What it is.
    pub now: Option<&'a Seen<K>>,
    /// It is in the first list, so it was there before anybody could look.
    pub first_list: bool,
}

impl<K> Change<'_, K> {
    /// The object before and after, as far as it was there and could be read.
    pub fn both(&self) -> impl Iterator<Item = &K> {
        self.was().into_iter().chain(self.object())
    }

    /// The object as it is now, if it is there and can be read.
    pub fn object(&self) -> Option<&K> {
        readable(self.now).map(AsRef::as_ref)
    }

    /// The object as it was before, if it was there and could be read.
    pub fn was(&self) -> Option<&K> {
        readable(self.before).map(AsRef::as_ref)
    }

    /// The object as it was last, whether or not it is still there.
    pub fn last(&self) -> Option<&K> {
        self.object().or(self.was())
    }
}

fn readable<K>(seen: Option<&Seen<K>>) -> Option<&Arc<K>> {
    match seen {
        Some(Seen::Object(object)) => Some(object),
        _ => None,
    }
}

/// The objects of one kind. Clones share them.
#[derive(Debug)]
pub struct Kind<K> {
    known: Arc<RwLock<Known<K>>>,
    complete: signal::Sender<bool>,
}

#[derive(Debug)]
struct Known<K> {
    objects: BTreeMap<Key, Seen<K>>,
    /// The latest revision that the watch told of. It tells of a kind's changes in their order.
    told: Option<u64>,
    /// Objects that we deleted, or that came back from a write with more than we wrote: what the watch told of them
    /// last. It will tell of that difference, which somebody waits for.
    unsaid: BTreeMap<Key, Seen<K>>,
}

impl<K> Clone for Kind<K> {
    fn clone(&self) -> Self {
        Self { known: Arc::clone(&self.known), complete: self.complete.clone() }
    }
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        let known = Known { objects: BTreeMap::new(), told: None, unsaid: BTreeMap::new() };
        Self { known: Arc::new(RwLock::new(known)), complete: signal::Sender::new(false) }
    }
}

impl<K> Kind<K> {
    /// What is known under `key`.
    pub fn get(&self, key: &Key) -> Option<Seen<K>> {
        self.read().objects.get(key).cloned()
    }

    /// The object under `key` if it is there and can be read.
    pub fn object(&self, key: &Key) -> Option<Arc<K>> {
        match self.read().objects.get(key)? {
            Seen::Object(object) => Some(Arc::clone(object)),
            Seen::Unreadable(_) => None,
        }
    }

    /// Every readable object that is wanted. It looks at all of them: not for use on every change.
    pub fn all(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.filter(|_, object| wanted(object))
    }

    /// The readable objects of one namespace that are wanted.
    pub fn in_namespace(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let known = self.read();
        let all = known.objects.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        all.filter_map(|(_, seen)| readable(Some(seen))).filter(|object| wanted(object)).cloned().collect()
    }

    /// Whether a namespace holds any object.
    pub fn has_any_in(&self, namespace: &str) -> bool {
        let known = self.read();
        known.objects.range(Key::new(namespace, "")..).next().is_some_and(|(key, _)| key.namespace == namespace)
    }

    /// Every readable object that is wanted, by its key too.
    pub fn filter(&self, wanted: impl Fn(&Key, &K) -> bool) -> Vec<Arc<K>> {
        self.look(|objects| {
            objects.filter(|(key, object)| wanted(key, object)).map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// Looks at all readable objects, by namespace and name, and takes along only what is needed of them. Changes wait meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = (&Key, &Arc<K>)>) -> R) -> R {
        let known = self.read();
        look(&mut known.objects.iter().filter_map(|(key, seen)| Some((key, readable(Some(seen))?))))
    }

    /// The namespaces that hold an object.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let known = self.read();
        let different: BTreeSet<&str> = known.objects.keys().map(|key| key.namespace.as_str()).collect();
        different.into_iter().map(str::to_owned).collect()
    }

    /// Takes over what we wrote ourselves, ahead of the watch.
    ///
    /// Whoever writes and looks again sees what was written. The watch tells of it later; what it tells of earlier
    /// versions of the same object is ignored then. What it told of already is not news: since then the object may
    /// have been deleted.
    pub fn learn(&self, mut object: K)
    where
        K: Resource<DynamicType = ()>,
    {
        leave_out_notes(object.meta_mut());
        let key = Key::of(&object);
        let mut known = self.write();
        if known.told.is_some_and(|told| revision(&object).is_some_and(|written| written <= told)) {
            return;
        }
        let seen = Seen::Object(Arc::new(object));
        match known.objects.get(&key) {
            Some(before) if is_older(&seen, before) => return,
            Some(before) if concerns_others(&seen, before) => {
                let before = before.clone();
                known.unsaid.entry(key.clone()).or_insert(before);
            }
            _ => {}
        }
        known.objects.insert(key, seen);
    }

    /// Takes over that we deleted an object, ahead of the watch, which tells of it later.
    pub fn forget(&self, object: &K)
    where
        K: Resource<DynamicType = ()>,
    {
        let key = Key::of(object);
        let mut known = self.write();
        let same = |seen: &Seen<K>| matches!(seen, Seen::Object(known) if known.meta().uid == object.meta().uid);
        if known.objects.get(&key).is_some_and(same)
            && let Some(before) = known.objects.remove(&key)
        {
            known.unsaid.entry(key).or_insert(before);
        }
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// Whether the first list of the kind is complete.
    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Returns once the first list of the kind is complete.
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

impl<K> Kind<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Follows the kind for ever: keeps what `slim` leaves of each object, and tells `told` of every change.
    ///
    /// A lost connection is taken up again with growing pauses; an expired one starts with a new list, whose
    /// differences are changes like any other, deletions included.
    pub fn follow(
        &self,
        client: Client,
        config: watcher::Config,
        slim: impl Fn(&mut K) + Send + 'static,
        told: impl Fn(&Change<'_, K>) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let kind = self.clone();
        async move {
            let objects: Api<Raw> = Api::all_with(client, &ApiResource::erase::<K>(&()));
            let events = watch(objects, config);
            pin_mut!(events);
            let mut list: BTreeMap<Key, Seen<K>> = BTreeMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => list.clear(),
                    Ok(Event::InitApply(object)) => {
                        let (key, seen) = take(&object, &slim);
                        list.insert(key, seen);
                    }
                    Ok(Event::InitDone) => {
                        kind.replace(&std::mem::take(&mut list), &told);
                        kind.complete.send_replace(true);
                    }
                    Ok(Event::Apply(object)) => {
                        let at = revision(&object);
                        let (key, seen) = take(&object, &slim);
                        kind.put(&key, at, Some(&seen), &told);
                    }
                    Ok(Event::Delete(object)) => kind.put(&Key::of(&object), revision(&object), None, &told),
                    Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "the watch was interrupted"),
                }
            }
        }
    }

    fn put(&self, key: &Key, at: Option<u64>, now: Option<&Seen<K>>, told: &impl Fn(&Change<'_, K>)) {
        let mut known = self.write();
        known.told = known.told.max(at);
        if let (Some(seen), Some(before)) = (now, known.objects.get(key))
            && is_older(seen, before)
        {
            return;
        }
        let known_before = match now {
            Some(seen) => known.objects.insert(key.clone(), seen.clone()),
            // The next object of that name may have been learned already; the watch tells of it later.
            None if known.objects.get(key).is_some_and(|next| is_after(next, at)) => None,
            None => known.objects.remove(key),
        };
        let before = known.unsaid.remove(key).or(known_before);
        drop(known);
        told(&Change { key, before: before.as_ref(), now, first_list: false });
    }

    fn replace(&self, list: &BTreeMap<Key, Seen<K>>, told: &impl Fn(&Change<'_, K>)) {
        let first_list = !self.is_complete();
        let told_of = list.values().filter_map(|seen| revision(readable(Some(seen))?.as_ref())).max();
        let mut known = self.write();
        known.told = known.told.max(told_of);
        let mut before = std::mem::replace(&mut known.objects, list.clone());
        // What we wrote since the list was made is not taken back. The watch tells of it later.
        let is_behind = |key: &Key, seen: &Seen<K>| before.get(key).is_some_and(|written| is_older(seen, written));
        let behind: BTreeSet<&Key> =
            list.iter().filter(|(key, seen)| is_behind(key, seen)).map(|(key, _)| key).collect();
        let ahead: Vec<_> = behind.iter().filter_map(|key| before.remove_entry(key)).collect();
        known.objects.extend(ahead);
        let (later, unsaid) = std::mem::take(&mut known.unsaid).into_iter().partition(|(key, _)| behind.contains(key));
        known.unsaid = later;
        drop(known);
        before.extend::<BTreeMap<_, _>>(unsaid);
        for (key, old) in &before {
            if !list.contains_key(key) {
                told(&Change { key, before: Some(old), now: None, first_list });
            }
        }
        for (key, seen) in list.iter().filter(|(key, _)| !behind.contains(key)) {
            told(&Change { key, before: before.get(key), now: Some(seen), first_list });
        }
    }
}

/// Whether `seen` is an earlier version of the same object than `before`.
fn is_older<K: Resource>(seen: &Seen<K>, before: &Seen<K>) -> bool {
    let (Seen::Object(seen), Seen::Object(before)) = (seen, before) else { return false };
    seen.meta().uid == before.meta().uid && revision(seen.as_ref()) < revision(before.as_ref())
}

/// Whether an object was written after a moment of the store.
fn is_after<K: Resource>(seen: &Seen<K>, moment: Option<u64>) -> bool {
    let (Seen::Object(seen), Some(moment)) = (seen, moment) else { return false };
    revision(seen.as_ref()).is_some_and(|written| written > moment)
}

/// Whether more than a status may differ: users set labels, annotations and specs, and delete.
fn concerns_others<K: Resource>(seen: &Seen<K>, before: &Seen<K>) -> bool {
    let (Seen::Object(seen), Seen::Object(before)) = (seen, before) else { return true };
    let (seen, before) = (seen.meta(), before.meta());
    seen.uid != before.uid
        || seen.generation != before.generation
        || seen.labels != before.labels
        || seen.annotations != before.annotations
        || seen.finalizers != before.finalizers
        || seen.deletion_timestamp != before.deletion_timestamp
}

/// The version of an object as a number. Versions of one kind are revisions of one store, and so can be compared.
fn revision(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}

/// Nobody here reads managedFields or what kubectl applied last.
fn leave_out_notes(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// Reads an object, and slims it.
fn take<K>(raw: &Raw, slim: &impl Fn(&mut K)) -> (Key, Seen<K>)
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let seen = match raw.read::<K>() {
        Ok(mut object) => {
            leave_out_notes(object.meta_mut());
            slim(&mut object);
            Seen::Object(Arc::new(object))
        }
        Err(invalid) => Seen::Unreadable(invalid.to_string()),
    };
    (Key::of(raw), seen)
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

    /// A watch that a test plays.
    #[derive(Default)]
    struct Told {
        kind: Kind<ConfigMap>,
        /// Annotations before and after each change that was told.
        changes: RefCell<Vec<(Vec<String>, Vec<String>)>>,
    }

    impl Told {
        fn watch(&self, version: u64, object: Option<ConfigMap>) {
            let names = |object: Option<&ConfigMap>| {
                let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
                annotations.into_iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>()
            };
            let seen = object.map(|object| Seen::Object(Arc::new(object)));
            self.kind.put(&Key::new("n", "a"), Some(version), seen.as_ref(), &|change: &Change<'_, ConfigMap>| {
                self.changes.borrow_mut().push((names(change.was()), names(change.object())));
            });
        }

        fn version(&self) -> Option<String> {
            self.kind.object(&Key::new("n", "a"))?.metadata.resource_version.clone()
        }
    }

    #[test]
    fn what_we_wrote_is_seen_ahead_of_the_watch_and_never_taken_back() {
        let told = Told::default();
        told.watch(1, Some(map(1, &[])));
        told.kind.learn(map(3, &[]));
        told.watch(2, Some(map(2, &[])));
        assert_eq!(told.version().as_deref(), Some("3"));
    }

    #[test]
    fn an_object_that_was_deleted_meanwhile_is_not_learned_again() {
        let told = Told::default();
        told.watch(1, Some(map(1, &[])));
        told.watch(3, None);
        told.kind.learn(map(2, &[]));
        assert_eq!(told.version(), None);
    }

    #[test]
    fn what_somebody_else_changed_is_told_even_if_our_own_write_brought_it_first() {
        let told = Told::default();
        told.watch(1, Some(map(1, &[])));
        // A user sets an annotation (2) just before we write the status (3).
        told.kind.learn(map(3, &["trigger"]));
        told.watch(2, Some(map(2, &["trigger"])));
        told.watch(3, Some(map(3, &["trigger"])));
        let last = told.changes.borrow().last().cloned();
        assert_eq!(last, Some((vec![], vec!["trigger".to_owned()])));
    }

    #[test]
    fn what_we_deleted_is_gone_at_once_and_its_end_is_still_told() {
        let told = Told::default();
        told.watch(1, Some(map(1, &["mine"])));
        told.kind.forget(&map(1, &["mine"]));
        assert_eq!(told.version(), None);
        told.watch(2, None);
        assert_eq!(told.changes.borrow().last(), Some(&(vec!["mine".to_owned()], vec![])));
    }

    #[test]
    fn the_end_of_an_object_does_not_remove_the_next_one_of_its_name() {
        let told = Told::default();
        told.watch(1, Some(map(1, &[])));
        let mut next = map(3, &[]);
        next.metadata.uid = Some("2".to_owned());
        told.kind.learn(next);
        told.watch(2, None);
        told.kind.forget(&map(1, &[]));
        assert_eq!(told.version().as_deref(), Some("3"));
    }

    #[test]
    fn a_new_list_tells_of_what_vanished_in_between() {
        let told = Told::default();
        told.watch(5, Some(map(5, &[])));
        let gone = RefCell::new(Vec::new());
        told.kind
            .replace(&BTreeMap::new(), &|change| gone.borrow_mut().push((change.key.clone(), change.now.is_none())));
        assert_eq!(*gone.borrow(), [(Key::new("n", "a"), true)]);
        // What an earlier watch told of is no news for a later one either.
        told.kind.learn(map(4, &[]));
        assert_eq!(told.version(), None);
    }

    #[test]
    fn a_new_list_takes_nothing_back_that_we_wrote_since_it_was_made() {
        let told = Told::default();
        told.watch(1, Some(map(1, &[])));
        // The list is made at 2, and comes when we have written already.
        told.kind.learn(map(3, &["trigger"]));
        let list = [(Key::new("n", "a"), Seen::Object(Arc::new(map(2, &["trigger"]))))];
        let changes = RefCell::new(0);
        told.kind.replace(&BTreeMap::from(list), &|_| *changes.borrow_mut() += 1);
        assert_eq!((told.version().as_deref(), *changes.borrow()), (Some("3"), 0));
        // What somebody else changed is still told.
        told.watch(3, Some(map(3, &["trigger"])));
        assert_eq!(told.changes.borrow().last(), Some(&(vec![], vec!["trigger".to_owned()])));
    }

    #[test]
    fn a_namespace_holds_only_its_own() {
        let kind = Kind::default();
        for (namespace, name) in [("a", "x"), ("b", "x"), ("b", "y"), ("bb", "x")] {
            let mut object = map(1, &[]);
            object.metadata.namespace = Some(namespace.to_owned());
            object.metadata.name = Some(name.to_owned());
            kind.learn(object);
        }
        assert_eq!(kind.in_namespace("b", |_| true).len(), 2);
        let held = ["a", "b", "ba", "bb", "c"].map(|namespace| kind.has_any_in(namespace));
        assert_eq!(held, [true, true, false, true, false]);
    }
}
