//! The queues of all Agents and templates: the lock around the index, and the state of the cluster that the index
//! reads.

use std::sync::{Arc, Mutex, PoisonError};

use api::{Task, names::labels};
use domain::run::{
    queue::{
        TaskKey,
        index::{Cluster, Index},
    },
    target::Target,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use observe::{Cached, Key};

use crate::shared::{Caches, Shared, apply::controller_uid, now};

/// The index of all queues.
#[derive(Default)]
pub struct Queues(Mutex<Index>);

impl Queues {
    /// Runs `work` with the index locked. `work` may lock nothing but the caches and may not await.
    pub fn with<T>(&self, work: impl FnOnce(&mut Index) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cluster for Caches {
    fn task(&self, key: &Key) -> Option<Arc<Task>> {
        self.tasks.object(key)
    }

    fn has_pod(&self, task: &TaskKey) -> bool {
        let runs = |pod: &Pod| controller_uid(pod) == Some(&task.uid) && super::still_runs(pod);
        !self.pods.all(runs).is_empty()
    }
}

impl Shared {
    /// Updates the index with a Task from the cache, and queues the decisions that depend on it.
    ///
    /// The cache is read under the lock of the index, so that of two concurrent updates the later one does not write an
    /// older version.
    pub fn observe_task(&self, key: &Key) {
        for target in self.tasks.queues.with(|index| index.observe(key, &self.cache, now())) {
            self.work.admissions.add(target);
        }
    }

    /// A running Pod whose Task was deleted keeps its slot until it has stopped.
    pub(crate) fn hold_slot(&self, pod: &Pod) {
        let (Some(uid), Some(name)) = (controller_uid(pod), pod.labels().get(labels::TASK)) else { return };
        let key = Key::new(pod.namespace().unwrap_or_default(), name);
        let known = self.cache.tasks.get(&key).is_some_and(|cached| match cached {
            Cached::Object(task) => task.metadata.uid.as_deref() == Some(uid),
            Cached::Unreadable(_) => true,
        });
        if known || !self.cache.tasks.is_complete() {
            return;
        }
        let Some(target) = Target::of_pod(pod) else { return };
        let task = TaskKey { namespace: key.namespace, name: key.name, uid: uid.to_owned() };
        self.tasks.queues.with(|index| index.orphaned(task, epoch_of(pod), target, now()));
    }
}

/// The epoch of the run to which a Pod belongs.
pub(crate) fn epoch_of(pod: &Pod) -> i64 {
    pod.labels().get(labels::RUN_EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(1)
}
