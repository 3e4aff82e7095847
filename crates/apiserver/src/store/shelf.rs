//! The objects of one kind and what recently happened to them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::PastError;

/// How many changes a kind remembers at most. A client that is further behind lists again.
const REMEMBERED_CHANGES: usize = 8_192;
/// How many bytes of changes a kind remembers at most, so that large objects do not fill the memory.
const REMEMBERED_BYTES: usize = 12 << 20;

/// A stored object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// JSON without `apiVersion` and `kind`, with `metadata.resourceVersion`.
    pub(crate) bytes: Bytes,
    /// The revision of its last write.
    pub(crate) revision: u64,
}

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Arc<str>,
    /// The object after the change; if it was removed, its last state with the revision of the removal.
    pub(crate) object: Bytes,
    pub(crate) removed: bool,
    /// What there was before.
    pub(crate) before: Option<Entry>,
}

/// A change as it is found after a restart: what it made of the object is told by the changes after it.
pub(super) struct Past {
    pub(super) revision: u64,
    pub(super) key: Arc<str>,
    pub(super) before: Before,
    pub(super) removed: bool,
    /// The last state of an object that was removed, if it was kept.
    pub(super) last: Option<Bytes>,
}

/// What there was before a change.
pub(super) enum Before {
    Nothing,
    Entry(Entry),
    /// Something that was not kept.
    Unknown,
}

impl Change {
    fn weight(&self) -> usize {
        self.object.len() + self.before.as_ref().map_or(0, |entry| entry.bytes.len())
    }
}

pub(super) struct Shelf {
    objects: BTreeMap<Arc<str>, Entry>,
    changes: VecDeque<Change>,
    weight: usize,
    /// Changes up to here are forgotten.
    forgotten: u64,
    changed: u64,
    notify: watch::Sender<u64>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Shelf {
    /// A shelf that was last changed at `changed`, of which nothing is remembered.
    pub(super) fn new(changed: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            weight: 0,
            forgotten: changed,
            changed,
            notify: watch::Sender::new(changed),
        }
    }

    pub(super) fn load(&mut self, key: Arc<str>, entry: Entry) {
        self.changed = self.changed.max(entry.revision);
        self.forgotten = self.changed;
        self.objects.insert(key, entry);
    }

    /// Takes in what happened to the objects before they were loaded, the newest change first, as far back as there is no
    /// gap.
    pub(super) fn remember(&mut self, past: Vec<Past>) {
        // Otherwise somebody wrote objects who did not write changes.
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
                self.forgotten = revision;
                return;
            };
            states.insert(Arc::clone(&key), before.clone());
            let change = Change { revision, key, object, removed, before };
            self.weight += change.weight();
            self.changes.push_front(change);
            self.forgotten = revision - 1;
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

    /// Puts `object` in the place of `key`, or takes it away.
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
        while self.changes.len() > REMEMBERED_CHANGES || (self.weight > REMEMBERED_BYTES && self.changes.len() > 1) {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.weight -= oldest.weight();
            self.forgotten = oldest.revision;
        }
    }

    pub(super) fn announce(&self) {
        self.notify.send_replace(self.changed);
    }

    /// Whether what happened after `revision` is known.
    pub(super) fn check(&self, revision: u64) -> Result<(), PastError> {
        if revision < self.forgotten {
            return Err(PastError::TooOld { asked: revision, oldest: self.forgotten });
        }
        Ok(())
    }

    /// At most `limit` changes after `revision` to keys that begin with `prefix`, and how far one has to look next time.
    pub(super) fn changes_after(
        &self,
        revision: u64,
        prefix: &str,
        limit: usize,
    ) -> Result<(Vec<Change>, u64), PastError> {
        self.check(revision)?;
        let first = self.changes.partition_point(|change| change.revision <= revision);
        let mut found = Vec::new();
        let mut reached = revision;
        for change in self.changes.range(first..) {
            if found.len() == limit {
                return Ok((found, reached));
            }
            reached = change.revision;
            if change.key.starts_with(prefix) {
                found.push(change.clone());
            }
        }
        Ok((found, reached))
    }

    /// The objects as they were at `revision`: the present, with everything undone that happened since.
    pub(super) fn at(&self, prefix: &str, revision: u64) -> Result<Vec<(Arc<str>, Entry)>, PastError> {
        self.check(revision)?;
        let first = self.changes.partition_point(|change| change.revision <= revision);
        let mut past: BTreeMap<&Arc<str>, Option<&Entry>> =
            self.range(prefix).map(|(key, entry)| (key, Some(entry))).collect();
        for change in self.changes.range(first..).rev().filter(|change| change.key.starts_with(prefix)) {
            past.insert(&change.key, change.before.as_ref());
        }
        Ok(past.into_iter().filter_map(|(key, entry)| Some((Arc::clone(key), entry?.clone()))).collect())
    }
}
