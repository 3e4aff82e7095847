//! Watches the changes of a kind.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Limit, PastError, Store};

/// A position in the history of a kind.
///
/// It has no queue: a reader that falls behind the history gets [`PastError::TooOld`].
pub(crate) struct Watcher {
    store: Store,
    kind: Arc<str>,
    prefix: Arc<str>,
    position: u64,
    announcements: watch::Receiver<u64>,
}

impl Watcher {
    pub(super) fn new(
        store: Store,
        kind: &str,
        prefix: &str,
        position: u64,
        announcements: watch::Receiver<u64>,
    ) -> Self {
        Self { store, kind: Arc::from(kind), prefix: Arc::from(prefix), position, announcements }
    }

    /// The next changes, as many as fit into `limit`; waits until there are some.
    pub(crate) async fn next(&mut self, limit: Limit) -> Result<Vec<Change>, PastError> {
        loop {
            self.announcements.borrow_and_update();
            let changes = self.take(limit)?;
            if !changes.is_empty() {
                return Ok(changes);
            }
            if self.announcements.changed().await.is_err() {
                // The collection lives as long as the store, which this watcher holds.
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self, limit: Limit) -> Result<Vec<Change>, PastError> {
        let state = self.store.read();
        let Some(history) = state.collections.get(&self.kind) else { return Ok(Vec::new()) };
        let (changes, reached) = history.changes_after(self.position, &self.prefix, limit)?;
        self.position = reached;
        Ok(changes)
    }

    /// The revision up to which all changes were delivered.
    pub(crate) fn progress(&mut self) -> Option<u64> {
        let state = self.store.read();
        if state.collections.get(&self.kind).is_some_and(|storage_key| storage_key.changed() > self.position) {
            return None;
        }
        self.position = self.position.max(state.revision);
        Some(self.position)
    }
}
