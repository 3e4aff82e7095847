//! Reverse index of `dependsOn` and `inputs`: which unfinished Tasks depend on a Task.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::{Key, Task};
use jiff::Timestamp;

use super::Cluster;
use crate::run::dependencies::{Wanted, wanted};

/// Dependencies between Tasks. Few Tasks have any, so the index is small.
#[derive(Default)]
pub(super) struct Dependents {
    /// Task -> unfinished Tasks that depend on it.
    of: HashMap<Key, BTreeSet<Key>>,
    /// Unfinished Task -> Tasks that it depends on.
    dependencies: HashMap<Key, BTreeSet<Key>>,
    /// Unfinished Task -> dependencies that do not exist, with when that was first observed.
    absent: HashMap<Key, BTreeMap<String, Timestamp>>,
}

impl Dependents {
    /// Unfinished Tasks that depend on `key`.
    pub(super) fn of(&self, key: &Key) -> impl Iterator<Item = &Key> {
        self.of.get(key).into_iter().flatten()
    }

    /// Updates a waiting or running Task. Returns its dependencies that do not exist, with when that was first
    /// observed: a dependency that is deleted and created again has as much time as one that is created late.
    pub(super) fn update(
        &mut self,
        key: &Key,
        task: &Task,
        cluster: &impl Cluster,
        now: Timestamp,
    ) -> BTreeMap<String, Timestamp> {
        let before = self.absent.remove(key).unwrap_or_default();
        let mut absent = BTreeMap::new();
        for Wanted { dependency, .. } in wanted(&task.spec) {
            let other = Key::new(&key.namespace, &dependency.task);
            if cluster.task(&other).is_none() {
                let since = before.get(&dependency.task).copied().unwrap_or(now);
                absent.insert(dependency.task.clone(), since);
            }
            self.dependencies.entry(key.clone()).or_default().insert(other.clone());
            self.of.entry(other).or_default().insert(key.clone());
        }
        if !absent.is_empty() {
            self.absent.insert(key.clone(), absent.clone());
        }
        absent
    }

    /// Removes a Task that finished or was deleted.
    pub(super) fn remove(&mut self, key: &Key) {
        self.absent.remove(key);
        for other in self.dependencies.remove(key).unwrap_or_default() {
            if let Some(dependents) = self.of.get_mut(&other) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.of.remove(&other);
                }
            }
        }
    }
}
