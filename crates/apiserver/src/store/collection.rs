//! The objects of one kind and their recent history.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::PastError;

/// Maximum number of changes in memory per kind. A client that is further behind lists again.
const MAX_CHANGES: usize = 8_192;
/// Maximum size of the changes in memory per kind.
const MAX_CHANGE_BYTES: usize = 12 << 20;

/// How much is read at once; always at least one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

impl Limit {
    pub(crate) const NONE: Self = Self { count: usize::MAX, bytes: usize::MAX };
}

/// Some of the objects at a revision, ordered by key.
pub(crate) struct Page {
    pub(crate) items: Vec<(Arc<str>, Entry)>,
    /// Whether others follow.
    pub(crate) more: bool,
}

/// A stored object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// JSON without `apiVersion` and `kind`, with `metadata.resourceVersion`.
    pub(crate) bytes: Bytes,
    /// The revision of its last write.
    pub(crate) revision: u64,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Arc<str>,
    /// The object after the change; if it was deleted, its last state with the revision of the deletion.
    pub(crate) object: Bytes,
    pub(crate) removed: bool,
    /// The object before the change.
    pub(crate) before: Option<Entry>,
}

/// A change from before a restart: the state after it follows from later changes.
pub(super) struct Past {
    pub(super) revision: u64,
    pub(super) key: Arc<str>,
    pub(super) before: Before,
    pub(super) removed: bool,
    /// The last state of a deleted object, if it was stored.
    pub(super) last: Option<Bytes>,
}

/// The state before a change.
pub(super) enum Before {
    Nothing,
    Entry(Entry),
    /// It was not stored.
    Unknown,
}

impl Change {
    fn weight(&self) -> usize {
        self.object.len() + self.before.as_ref().map_or(0, |entry| entry.bytes.len())
    }
}

pub(super) struct Collection {
    objects: BTreeMap<Arc<str>, Entry>,
    changes: VecDeque<Change>,
    weight: usize,
    /// Changes up to this revision are compacted.
    compacted: u64,
    changed: u64,
    notify: watch::Sender<u64>,
}

impl Default for Collection {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Collection {
    /// A collection that was last changed at `changed`, without history.
    pub(super) fn new(changed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            weight: 0,
            compacted: changed,
            changed,
            notify: watch::Sender::new(changed),
        }
    }

    pub(super) fn load(&mut self, key: Arc<str>, entry: Entry) {
        self.changed = self.changed.max(entry.revision);
        self.compacted = self.changed;
        self.objects.insert(key, entry);
    }

    /// Adds changes from before the objects were loaded, newest first, up to the first gap.
    pub(super) fn restore_history(&mut self, past: Vec<Past>) {
        // Otherwise a version of this program wrote objects without changes.
        if past.first().is_none_or(|newest| newest.revision != self.changed) {
            return;
        }
        let mut states: BTreeMap<Arc<str>, Option<Entry>> = BTreeMap::new();
        for Past { revision, key, before, removed, last } in past {
            let after = states.get(&key).cloned().unwrap_or_else(|| self.objects.get(&key).cloned());
            let object = match after {
                Some(entry) if !removed && entry.revision == revision => Some(entry.bytes),
                None if removed => last,
                _ => None,
            };
            let before = match before {
                Before::Nothing => Some(None),
                Before::Entry(entry) => Some(Some(entry)),
                Before::Unknown => None,
            };
            let (Some(object), Some(before)) = (object, before) else {
                self.compacted = revision;
                return;
            };
            states.insert(Arc::clone(&key), before.clone());
            let change = Change { revision, key, object, removed, before };
            self.weight += change.weight();
            self.changes.push_front(change);
            self.compacted = revision - 1;
        }
    }

    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.objects.get(key)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.notify.subscribe()
    }

    pub(super) fn range<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Entry)> {
        self.objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Stores or removes the object at `key`.
    pub(super) fn record(&mut self, key: Arc<str>, object: Bytes, removed: bool, revision: u64) {
        let before = if removed {
            self.objects.remove(&key)
        } else {
            self.objects.insert(Arc::clone(&key), Entry { bytes: object.clone(), revision })
        };
        let change = Change { revision, key, object, removed, before };
        self.weight += change.weight();
        self.changes.push_back(change);
        self.changed = revision;
        while self.changes.len() > MAX_CHANGES || (self.weight > MAX_CHANGE_BYTES && self.changes.len() > 1) {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.weight -= oldest.weight();
            self.compacted = oldest.revision;
        }
    }

    pub(super) fn announce(&self) {
        self.notify.send_replace(self.changed);
    }

    /// Whether the changes after `revision` are available.
    pub(super) fn check(&self, revision: u64) -> Result<(), PastError> {
        if revision < self.compacted {
            return Err(PastError::TooOld { asked: revision, oldest: self.compacted });
        }
        Ok(())
    }

    /// Changes after `revision` to keys that begin with `prefix`, as many as fit into `limit`, and the revision to
    /// continue from.
    pub(super) fn changes_after(
        &self,
        revision: u64,
        prefix: &str,
        limit: Limit,
    ) -> Result<(Vec<Change>, u64), PastError> {
        self.check(revision)?;
        let first = self.changes.partition_point(|change| change.revision <= revision);
        let (mut found, mut size) = (Vec::new(), 0);
        let mut reached = revision;
        for change in self.changes.range(first..) {
            if change.key.starts_with(prefix) {
                size += change.object.len();
                if found.len() == limit.count || (size > limit.bytes && !found.is_empty()) {
                    return Ok((found, reached));
                }
                found.push(change.clone());
            }
            reached = change.revision;
        }
        Ok((found, reached))
    }

    /// The objects at `revision` whose keys begin with `prefix` and follow `after`, as many as fit into `limit`: the
    /// present state with all later changes undone.
    pub(super) fn at(&self, prefix: &str, revision: u64, after: Option<&str>, limit: Limit) -> Result<Page, PastError> {
        self.check(revision)?;
        let follows = |key: &str| key.starts_with(prefix) && after.is_none_or(|after| key > after);
        let first = self.changes.partition_point(|change| change.revision <= revision);
        let mut past: BTreeMap<&Arc<str>, Option<&Entry>> = BTreeMap::new();
        for change in self.changes.range(first..).rev().filter(|change| follows(&change.key)) {
            past.insert(&change.key, change.before.as_ref());
        }
        let mut past = past.into_iter().peekable();
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let present = self.objects.range::<str, _>((start, Bound::Unbounded));
        let mut present = present.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let (mut found, mut size) = (Vec::new(), 0);
        loop {
            let next = match (present.peek(), past.peek()) {
                (None, None) => return Ok(Page { items: found, more: false }),
                (Some((key, _)), Some((changed, _))) if key < changed => present.next(),
                (Some(_), None) => present.next(),
                (Some((key, _)), Some((changed, _))) => {
                    if key == changed {
                        present.next();
                    }
                    past.next().and_then(|(key, entry)| Some((key, entry?)))
                }
                (None, Some(_)) => past.next().and_then(|(key, entry)| Some((key, entry?))),
            };
            let Some((key, entry)) = next else { continue };
            size += entry.bytes.len();
            if found.len() == limit.count || (size > limit.bytes && !found.is_empty()) {
                return Ok(Page { items: found, more: true });
            }
            found.push((Arc::clone(key), entry.clone()));
        }
    }
}
