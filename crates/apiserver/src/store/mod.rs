//! Objects, their revisions and their history.
//!
//! Every write gets the next revision of the whole store. A write is acknowledged, and seen by anyone, only after the
//! commit that contains it is on disk; writes that wait at the same time share a commit. Objects are JSON bytes; nothing
//! here looks into them.

mod disk;
mod draft;
mod shelf;
mod watcher;
mod writer;

pub(crate) use disk::DiskError;
pub(crate) use draft::Draft;
pub(crate) use shelf::{Change, Entry};
pub(crate) use watcher::Watcher;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use shelf::Shelf;
use tokio::sync::{mpsc, oneshot, watch};

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No object.
    Absent,
    /// The object at this revision.
    Revision(u64),
}

/// What a write does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Stores an object.
    Put(Draft),
    /// Removes an object, whose last state this is.
    Remove(Draft),
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The object is not as expected; this is its revision, if there is one.
    #[error("the object is not at the expected revision")]
    Unexpected(Option<u64>),
    /// The disk refused.
    #[error("the state could not be written: {0}")]
    Disk(String),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Closed,
}

/// Why a moment of the past cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PastError {
    /// Its history is gone; this is the oldest revision that can be shown.
    #[error("too old resource version: {asked} ({oldest})")]
    TooOld {
        /// What was asked for.
        asked: u64,
        /// What can be had.
        oldest: u64,
    },
    /// It has not happened yet.
    #[error("Too large resource version: {asked}, current: {current}")]
    Future {
        /// What was asked for.
        asked: u64,
        /// The newest revision.
        current: u64,
    },
}

/// All objects of one kind (or one namespace of them) at one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) items: Vec<(Arc<str>, Entry)>,
}

#[derive(Default)]
struct State {
    revision: u64,
    shelves: HashMap<Arc<str>, Shelf>,
}

struct Request {
    shelf: Arc<str>,
    key: Arc<str>,
    expect: Expect,
    action: Action,
    answer: oneshot::Sender<Result<Entry, WriteError>>,
}

/// The store. Cheap to clone; the last clone that goes away stops the writer.
#[derive(Clone)]
pub(crate) struct Store {
    state: Arc<RwLock<State>>,
    queue: mpsc::UnboundedSender<Request>,
}

impl Store {
    /// A store that forgets everything when it goes away.
    pub(crate) fn in_memory() -> Result<Self, DiskError> {
        Self::start(State { revision: 1, shelves: HashMap::new() }, None)
    }

    /// The store of a directory, which this process alone uses from now on.
    pub(crate) fn open(directory: &Path) -> Result<Self, DiskError> {
        let (disk, contents) = disk::Disk::open(directory)?;
        let mut state = State { revision: 1, shelves: HashMap::new() };
        for (shelf, changed) in contents.changed {
            state.revision = state.revision.max(changed);
            state.shelves.entry(shelf).or_insert_with(|| Shelf::new(changed));
        }
        for (shelf, key, entry) in contents.objects {
            state.revision = state.revision.max(entry.revision);
            state.shelves.entry(shelf).or_default().load(key, entry);
        }
        for (shelf, past) in contents.past {
            state.shelves.entry(shelf).or_default().remember(past);
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

    /// The revision of the newest write.
    pub(crate) fn revision(&self) -> u64 {
        self.read().revision
    }

    /// The revision of the newest write to `kind`.
    pub(crate) fn changed(&self, kind: &str) -> u64 {
        self.read().shelves.get(kind).map_or(0, Shelf::changed)
    }

    /// One object.
    pub(crate) fn get(&self, kind: &str, key: &str) -> Option<Entry> {
        self.read().shelves.get(kind)?.get(key).cloned()
    }

    /// Whether there is an object whose key begins with `prefix`.
    pub(crate) fn any(&self, kind: &str, prefix: &str) -> bool {
        self.read().shelves.get(kind).is_some_and(|shelf| shelf.range(prefix).next().is_some())
    }

    /// The objects whose keys begin with `prefix`, in the order of their keys.
    pub(crate) fn list(&self, kind: &str, prefix: &str) -> Snapshot {
        let state = self.read();
        let items = state.shelves.get(kind).map_or_else(Vec::new, |shelf| {
            shelf.range(prefix).map(|(key, entry)| (Arc::clone(key), entry.clone())).collect()
        });
        Snapshot { revision: state.revision, items }
    }

    /// The same as they were at `revision`.
    pub(crate) fn list_at(&self, kind: &str, prefix: &str, revision: u64) -> Result<Snapshot, PastError> {
        let state = self.read();
        if revision > state.revision {
            return Err(PastError::Future { asked: revision, current: state.revision });
        }
        let items = match state.shelves.get(kind) {
            Some(objects) => objects.at(prefix, revision)?,
            None => Vec::new(),
        };
        Ok(Snapshot { revision, items })
    }

    /// Follows what happens to the objects whose keys begin with `prefix` after `revision`.
    pub(crate) fn watch(&self, kind: &str, prefix: &str, revision: u64) -> Result<Watcher, PastError> {
        let receiver = self.subscribe(kind);
        let state = self.read();
        if let Some(shelf) = state.shelves.get(kind) {
            shelf.check(revision)?;
        }
        drop(state);
        Ok(Watcher::new(self.clone(), kind, prefix, revision, receiver))
    }

    fn subscribe(&self, kind: &str) -> watch::Receiver<u64> {
        if let Some(shelf) = self.read().shelves.get(kind) {
            return shelf.subscribe();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.shelves.entry(Arc::from(kind)).or_default().subscribe()
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
        let request = Request { shelf: Arc::from(kind), key: Arc::from(key), expect, action, answer };
        self.queue.send(request).map_err(|_| WriteError::Closed)?;
        answered.await.map_err(|_| WriteError::Closed)?
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while the lock was held cannot leave the state half-written: every change is a few inserts.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
