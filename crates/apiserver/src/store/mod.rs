//! Objects, their revisions and their history.
//!
//! Every write gets the next revision of the whole store. A write is acknowledged and visible only after its commit is
//! on disk; concurrent writes share a commit. Objects are opaque JSON bytes here.

mod collection;
mod disk;
mod encoded;
mod watcher;
mod writer;

pub(crate) use collection::{Change, Entry, Limit, Page};
pub(crate) use disk::DiskError;
pub(crate) use encoded::EncodedObject;
pub(crate) use watcher::Watcher;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use collection::Collection;
use tokio::sync::{mpsc, oneshot, watch};

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The object does not exist.
    Absent,
    /// The object is at this revision.
    Revision(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Put(EncodedObject),
    /// Removes an object; this is its last state.
    Remove(EncodedObject),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The precondition failed; this is the current revision, if the object exists.
    #[error("the object is not at the expected revision")]
    Unexpected(Option<u64>),
    #[error("cannot write the state: {0}")]
    Disk(String),
    #[error("the server is shutting down")]
    Closed,
}

/// Errors of reading a past revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PastError {
    /// The history is compacted; `oldest` is the first available revision.
    #[error("too old resource version: {asked} ({oldest})")]
    TooOld { asked: u64, oldest: u64 },
    #[error("Too large resource version: {asked}, current: {current}")]
    Future { asked: u64, current: u64 },
}

/// The objects of one kind, or of one namespace of it, at one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) items: Vec<(Arc<str>, Entry)>,
}

#[derive(Default)]
struct State {
    revision: u64,
    collections: HashMap<Arc<str>, Collection>,
}

struct Request {
    storage_key: Arc<str>,
    key: Arc<str>,
    expect: Expect,
    action: Action,
    answer: oneshot::Sender<Result<Entry, WriteError>>,
}

/// The store. Cheap to clone; dropping the last clone stops the writer thread.
#[derive(Clone)]
pub(crate) struct Store {
    state: Arc<RwLock<State>>,
    queue: mpsc::UnboundedSender<Request>,
}

impl Store {
    /// A store without persistence.
    pub(crate) fn in_memory() -> Result<Self, DiskError> {
        Self::start(State { revision: 1, collections: HashMap::new() }, None)
    }

    /// Opens and locks the store of a directory.
    pub(crate) fn open(directory: &Path) -> Result<Self, DiskError> {
        let (disk, contents) = disk::Disk::open(directory)?;
        let mut state = State { revision: 1, collections: HashMap::new() };
        for (storage_key, changed) in contents.changed {
            state.revision = state.revision.max(changed);
            state.collections.entry(storage_key).or_insert_with(|| Collection::new(changed));
        }
        for (storage_key, key, entry) in contents.objects {
            state.revision = state.revision.max(entry.revision);
            state.collections.entry(storage_key).or_default().load(key, entry);
        }
        for (storage_key, past) in contents.past {
            state.collections.entry(storage_key).or_default().restore_history(past);
        }
        Self::start(state, Some(disk))
    }

    fn start(state: State, disk: Option<disk::Disk>) -> Result<Self, DiskError> {
        let state = Arc::new(RwLock::new(state));
        let (queue, requests) = mpsc::unbounded_channel();
        let writer = writer::Writer::new(Arc::clone(&state), disk);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(requests))
            .map_err(DiskError::Thread)?;
        Ok(Self { state, queue })
    }

    pub(crate) fn revision(&self) -> u64 {
        self.read().revision
    }

    /// The revision of the last write to `kind`.
    pub(crate) fn changed(&self, kind: &str) -> u64 {
        self.read().collections.get(kind).map_or(0, Collection::changed)
    }

    pub(crate) fn get(&self, kind: &str, key: &str) -> Option<Entry> {
        self.read().collections.get(kind)?.get(key).cloned()
    }

    /// Whether a key begins with `prefix`.
    pub(crate) fn any(&self, kind: &str, prefix: &str) -> bool {
        self.read().collections.get(kind).is_some_and(|storage_key| storage_key.range(prefix).next().is_some())
    }

    /// The objects whose keys begin with `prefix`, ordered by key.
    pub(crate) fn list(&self, kind: &str, prefix: &str) -> Snapshot {
        let state = self.read();
        let items = state.collections.get(kind).map_or_else(Vec::new, |storage_key| {
            storage_key.range(prefix).map(|(key, entry)| (Arc::clone(key), entry.clone())).collect()
        });
        Snapshot { revision: state.revision, items }
    }

    /// The same objects at an earlier `revision`.
    pub(crate) fn list_at(&self, kind: &str, prefix: &str, revision: u64) -> Result<Snapshot, PastError> {
        let Page { items, .. } = self.page_at(kind, prefix, revision, None, Limit::NONE)?;
        Ok(Snapshot { revision, items })
    }

    /// Those of them whose keys follow `after`, as many as fit into `limit`.
    pub(crate) fn page_at(
        &self,
        kind: &str,
        prefix: &str,
        revision: u64,
        after: Option<&str>,
        limit: Limit,
    ) -> Result<Page, PastError> {
        let state = self.read();
        if revision > state.revision {
            return Err(PastError::Future { asked: revision, current: state.revision });
        }
        state.collections.get(kind).map_or_else(
            || Ok(Page { items: Vec::new(), more: false }),
            |objects| objects.at(prefix, revision, after, limit),
        )
    }

    /// Watches changes after `revision` to objects whose keys begin with `prefix`.
    pub(crate) fn watch(&self, kind: &str, prefix: &str, revision: u64) -> Result<Watcher, PastError> {
        let receiver = self.subscribe(kind);
        let state = self.read();
        if let Some(storage_key) = state.collections.get(kind) {
            storage_key.check(revision)?;
        }
        drop(state);
        Ok(Watcher::new(self.clone(), kind, prefix, revision, receiver))
    }

    fn subscribe(&self, kind: &str) -> watch::Receiver<u64> {
        if let Some(storage_key) = self.read().collections.get(kind) {
            return storage_key.subscribe();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.collections.entry(Arc::from(kind)).or_default().subscribe()
    }

    /// Writes, and returns when the write is durable.
    pub(crate) async fn write(
        &self,
        kind: &str,
        key: &str,
        expect: Expect,
        action: Action,
    ) -> Result<Entry, WriteError> {
        let (answer, answered) = oneshot::channel();
        let request = Request { storage_key: Arc::from(kind), key: Arc::from(key), expect, action, answer };
        self.queue.send(request).map_err(|_| WriteError::Closed)?;
        answered.await.map_err(|_| WriteError::Closed)?
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic under the lock cannot leave a partial state: every change is a few inserts.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
