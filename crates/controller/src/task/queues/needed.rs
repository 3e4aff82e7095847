//! Which Tasks others depend on that have not ended, and which of those do not exist.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::Task;
use jiff::Timestamp;
use kubeopencode_core::dependencies::Other;
use observe::Key;

/// Who needs whom. Few Tasks depend on others, so this is small.
#[derive(Default)]
pub(super) struct Needed {
    /// Task -> Tasks that depend on it and have not ended.
    by: HashMap<Key, BTreeSet<Key>>,
    /// The same the other way round.
    of: HashMap<Key, BTreeSet<Key>>,
    /// Task -> Tasks that it depends on and that do not exist, with when that was first seen.
    absent: HashMap<Key, BTreeMap<String, Timestamp>>,
}

impl Needed {
    /// Tasks that depend on `key` and have not ended.
    pub(super) fn by(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.by.get(key).into_iter().flatten()
    }

    /// A Task waits or runs. Answers which of those that it depends on do not exist, and since when that is known: one that is
    /// deleted and created again has as much time as one that comes late.
    pub(super) fn note(
        &mut self,
        key: &Key,
        task: &Task,
        find: &impl Fn(&Key) -> Option<Other>,
        now: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        let before = self.absent.remove(key).unwrap_or_default();
        let mut absent = BTreeMap::new();
        for dependency in task.spec.depends_on.iter().flatten() {
            let other = Key::new(&key.namespace, &dependency.task);
            if find(&other).is_none() {
                let since = before.get(&dependency.task).copied().unwrap_or(now);
                absent.insert(dependency.task.clone(), since);
            }
            self.of.entry(key.clone()).or_default().insert(other.clone());
            self.by.entry(other).or_default().insert(key.clone());
        }
        if !absent.is_empty() {
            self.absent.insert(key.clone(), absent.clone());
        }
        absent
    }

    /// A Task ended or is gone: it needs nobody any more.
    pub(super) fn release(&mut self, key: &Key) {
        self.absent.remove(key);
        for other in self.of.remove(key).unwrap_or_default() {
            if let Some(dependants) = self.by.get_mut(&other) {
                dependants.remove(key);
                if dependants.is_empty() {
                    self.by.remove(&other);
                }
            }
        }
    }
}
