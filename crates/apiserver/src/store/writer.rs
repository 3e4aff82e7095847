//! The writer thread.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::disk::{Disk, Row};
use super::{Action, Entry, Expect, Request, State, WriteError};

/// Maximum number of writes per commit, to bound the latency of the first.
const MAX_COMMIT: usize = 512;

pub(super) struct Writer {
    state: Arc<RwLock<State>>,
    disk: Option<Disk>,
}

/// A write that passed its precondition, with its revision.
struct Accepted {
    storage_key: Arc<str>,
    key: Arc<str>,
    object: Bytes,
    removed: bool,
    before: Option<Entry>,
    revision: u64,
    answer: oneshot::Sender<Result<Entry, WriteError>>,
}

impl Writer {
    pub(super) fn new(state: Arc<RwLock<State>>, disk: Option<Disk>) -> Self {
        Self { state, disk }
    }

    /// Runs until all senders are dropped.
    pub(super) fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        let mut batch = Vec::new();
        while let Some(first) = requests.blocking_recv() {
            batch.push(first);
            while batch.len() < MAX_COMMIT {
                match requests.try_recv() {
                    Ok(request) => batch.push(request),
                    Err(_) => break,
                }
            }
            self.commit(std::mem::take(&mut batch));
        }
    }

    fn commit(&mut self, batch: Vec<Request>) {
        let accepted = self.accept(batch);
        if accepted.is_empty() {
            return;
        }
        if let Some(disk) = self.disk.as_mut() {
            let rows = accepted.iter().map(|write| Row {
                storage_key: &write.storage_key,
                key: &write.key,
                object: &write.object,
                removed: write.removed,
                before: write.before.as_ref(),
                revision: write.revision,
            });
            if let Err(error) = disk.commit(rows) {
                let text = error.to_string();
                for write in accepted {
                    drop(write.answer.send(Err(WriteError::Disk(text.clone()))));
                }
                return;
            }
        }
        self.publish(accepted);
    }

    /// Rejects writes whose precondition fails and assigns revisions to the rest.
    fn accept(&self, batch: Vec<Request>) -> Vec<Accepted> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut revision = state.revision;
        // The effect of earlier writes of the same batch.
        let mut pending: HashMap<(Arc<str>, Arc<str>), Option<Entry>> = HashMap::new();
        let mut accepted = Vec::with_capacity(batch.len());
        for Request { storage_key, key, expect, action, answer } in batch {
            let place = (Arc::clone(&storage_key), Arc::clone(&key));
            let before = match pending.get(&place) {
                Some(current) => current.clone(),
                None => state.collections.get(&storage_key).and_then(|storage_key| storage_key.get(&key)).cloned(),
            };
            let current = before.as_ref().map(|entry| entry.revision);
            let fits = match expect {
                Expect::Absent => current.is_none(),
                Expect::Revision(expected) => current == Some(expected),
            };
            if !fits {
                drop(answer.send(Err(WriteError::Unexpected(current))));
                continue;
            }
            revision += 1;
            let (object, removed) = match action {
                Action::Put(encoded) => (encoded.at(revision), false),
                Action::Remove(encoded) => (encoded.at(revision), true),
            };
            pending.insert(place, (!removed).then(|| Entry { bytes: object.clone(), revision }));
            accepted.push(Accepted { storage_key, key, object, removed, before, revision, answer });
        }
        accepted
    }

    /// Publishes durable writes to readers, then to watchers, then acknowledges them.
    fn publish(&self, accepted: Vec<Accepted>) {
        let mut responses = Vec::with_capacity(accepted.len());
        let mut touched: Vec<Arc<str>> = Vec::new();
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            for write in accepted {
                let Accepted { storage_key, key, object, removed, revision, answer, before: _ } = write;
                state.revision = revision;
                state.collections.entry(Arc::clone(&storage_key)).or_default().record(
                    key,
                    object.clone(),
                    removed,
                    revision,
                );
                if !touched.contains(&storage_key) {
                    touched.push(storage_key);
                }
                responses.push((answer, Entry { bytes: object, revision }));
            }
            for storage_key in &touched {
                if let Some(storage_key) = state.collections.get(storage_key) {
                    storage_key.announce();
                }
            }
        }
        for (answer, entry) in responses {
            // The client may be gone; its write stays.
            drop(answer.send(Ok(entry)));
        }
    }
}
