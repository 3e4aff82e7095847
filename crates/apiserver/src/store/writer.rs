//! The one thread that writes.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::disk::{Disk, Row};
use super::{Action, Entry, Expect, Request, State, WriteError};

/// More writes than this do not share a commit, so that the first of them does not wait for too many others.
const LARGEST_COMMIT: usize = 512;

pub(super) struct Writer {
    state: Arc<RwLock<State>>,
    disk: Option<Disk>,
}

/// A write that fits, with its revision.
struct Accepted {
    shelf: Arc<str>,
    key: Arc<str>,
    object: Bytes,
    removed: bool,
    /// What was there.
    before: Option<Entry>,
    revision: u64,
    answer: oneshot::Sender<Result<Entry, WriteError>>,
}

impl Writer {
    pub(super) fn new(state: Arc<RwLock<State>>, disk: Option<Disk>) -> Self {
        Self { state, disk }
    }

    /// Works until nobody can send any more.
    pub(super) fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        let mut batch = Vec::new();
        while let Some(first) = requests.blocking_recv() {
            batch.push(first);
            while batch.len() < LARGEST_COMMIT {
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
                shelf: &write.shelf,
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

    /// Refuses what does not fit and gives the rest their revisions.
    fn accept(&self, batch: Vec<Request>) -> Vec<Accepted> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut revision = state.revision;
        // What earlier writes of the same batch will have done.
        let mut pending: HashMap<(Arc<str>, Arc<str>), Option<Entry>> = HashMap::new();
        let mut accepted = Vec::with_capacity(batch.len());
        for Request { shelf, key, expect, action, answer } in batch {
            let place = (Arc::clone(&shelf), Arc::clone(&key));
            let before = match pending.get(&place) {
                Some(current) => current.clone(),
                None => state.shelves.get(&shelf).and_then(|shelf| shelf.get(&key)).cloned(),
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
                Action::Put(draft) => (draft.at(revision), false),
                Action::Remove(draft) => (draft.at(revision), true),
            };
            pending.insert(place, (!removed).then(|| Entry { bytes: object.clone(), revision }));
            accepted.push(Accepted { shelf, key, object, removed, before, revision, answer });
        }
        accepted
    }

    /// Shows durable writes to readers, then to watchers, then to those who wrote them.
    fn publish(&self, accepted: Vec<Accepted>) {
        let mut answers = Vec::with_capacity(accepted.len());
        let mut touched: Vec<Arc<str>> = Vec::new();
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            for write in accepted {
                let Accepted { shelf, key, object, removed, revision, answer, before: _ } = write;
                state.revision = revision;
                state.shelves.entry(Arc::clone(&shelf)).or_default().record(key, object.clone(), removed, revision);
                if !touched.contains(&shelf) {
                    touched.push(shelf);
                }
                answers.push((answer, Entry { bytes: object, revision }));
            }
            for shelf in &touched {
                if let Some(shelf) = state.shelves.get(shelf) {
                    shelf.announce();
                }
            }
        }
        for (answer, entry) in answers {
            // A client that went away does not take back its write.
            drop(answer.send(Ok(entry)));
        }
    }
}
