//! What is known of a cluster: one watch a kind, its objects in memory, and who is told of a change.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::{self, Debug},
    future::Future,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
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
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An object as last seen. One that our types cannot read is a value too, so that it affects only itself.
#[derive(Clone, Debug)]
pub enum Seen<K> {
    /// The object.
    Object(Arc<K>),
    /// Why it cannot be read.
    Unreadable(String),
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
    objects: Arc<RwLock<HashMap<Key, Seen<K>>>>,
    complete: watch::Sender<bool>,
}

impl<K> Clone for Kind<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), complete: self.complete.clone() }
    }
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self { objects: Arc::default(), complete: watch::Sender::new(false) }
    }
}

impl<K> Kind<K> {
    /// What is known under `key`.
    pub fn get(&self, key: &Key) -> Option<Seen<K>>
    where
        K: Clone,
    {
        self.read().get(key).map(|seen| match seen {
            Seen::Object(object) => Seen::Object(Arc::clone(object)),
            Seen::Unreadable(why) => Seen::Unreadable(why.clone()),
        })
    }

    /// The object under `key` if it is there and can be read.
    pub fn object(&self, key: &Key) -> Option<Arc<K>> {
        match self.read().get(key)? {
            Seen::Object(object) => Some(Arc::clone(object)),
            Seen::Unreadable(_) => None,
        }
    }

    /// Every readable object that is wanted. It looks at all of them: not for use on every change.
    pub fn all(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.filter(|_, object| wanted(object))
    }

    /// Every readable object that is wanted, by its key too, in no order.
    pub fn filter(&self, wanted: impl Fn(&Key, &K) -> bool) -> Vec<Arc<K>> {
        self.look(|objects| {
            objects.filter(|(key, object)| wanted(key, object)).map(|(_, object)| Arc::clone(object)).collect()
        })
    }

    /// Looks at all readable objects, in no order, and takes along only what is needed of them. Changes wait meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = (&Key, &Arc<K>)>) -> R) -> R {
        let objects = self.read();
        look(&mut objects.iter().filter_map(|(key, seen)| Some((key, readable(Some(seen))?))))
    }

    /// The namespaces that hold an object.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let objects = self.read();
        let different: BTreeSet<&str> = objects.keys().map(|key| key.namespace.as_str()).collect();
        different.into_iter().map(str::to_owned).collect()
    }

    /// Takes over what we wrote ourselves, ahead of the watch.
    ///
    /// Whoever writes and looks again sees what was written. The watch tells of it later; what it tells of earlier
    /// versions of the same object is ignored then.
    pub fn learn(&self, object: K)
    where
        K: Resource<DynamicType = ()>,
    {
        let key = Key::of(&object);
        let mut objects = self.write();
        let seen = Seen::Object(Arc::new(object));
        if !objects.get(&key).is_some_and(|before| is_older(&seen, before)) {
            objects.insert(key, seen);
        }
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
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

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, Seen<K>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, Seen<K>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
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
            let events = watcher::watcher(Api::<DeserializeGuard<K>>::all(client), config).default_backoff();
            pin_mut!(events);
            let mut list: HashMap<Key, Seen<K>> = HashMap::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => list.clear(),
                    Ok(Event::InitApply(object)) => {
                        let (key, seen) = take(object, &slim);
                        list.insert(key, seen);
                    }
                    Ok(Event::InitDone) => {
                        kind.replace(&std::mem::take(&mut list), &told);
                        kind.complete.send_replace(true);
                    }
                    Ok(Event::Apply(object)) => {
                        let (key, seen) = take(object, &slim);
                        kind.put(&key, Some(&seen), &told);
                    }
                    Ok(Event::Delete(object)) => kind.put(&Key::of(&object), None, &told),
                    Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "the watch was interrupted"),
                }
            }
        }
    }

    fn put(&self, key: &Key, now: Option<&Seen<K>>, told: &impl Fn(&Change<'_, K>)) {
        let mut objects = self.write();
        if let (Some(seen), Some(before)) = (now, objects.get(key))
            && is_older(seen, before)
        {
            return;
        }
        let before = match now {
            Some(seen) => objects.insert(key.clone(), seen.clone()),
            None => objects.remove(key),
        };
        drop(objects);
        told(&Change { key, before: before.as_ref(), now, first_list: false });
    }

    fn replace(&self, list: &HashMap<Key, Seen<K>>, told: &impl Fn(&Change<'_, K>)) {
        let first_list = !self.is_complete();
        let before = std::mem::replace(&mut *self.write(), list.clone());
        for (key, old) in &before {
            if !list.contains_key(key) {
                told(&Change { key, before: Some(old), now: None, first_list });
            }
        }
        for (key, seen) in list {
            told(&Change { key, before: before.get(key), now: Some(seen), first_list });
        }
    }
}

/// Whether `seen` is an earlier version of the same object than `before`.
///
/// Resource versions of one object are revisions of one store, and so can be compared.
fn is_older<K: Resource>(seen: &Seen<K>, before: &Seen<K>) -> bool {
    let (Seen::Object(seen), Seen::Object(before)) = (seen, before) else { return false };
    let revision = |object: &K| object.meta().resource_version.as_ref()?.parse::<u64>().ok();
    seen.meta().uid == before.meta().uid && revision(seen) < revision(before)
}

/// Takes an object out of its guard, slimmed: nobody here reads managedFields or what kubectl applied last.
fn take<K>(object: DeserializeGuard<K>, slim: &impl Fn(&mut K)) -> (Key, Seen<K>)
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
            (key, Seen::Object(Arc::new(object)))
        }
        Err(invalid) => (key, Seen::Unreadable(invalid.to_string())),
    }
}
