//! Cleanup of finished Tasks: by age, and by number in a namespace.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{Task, kinds::config::Cleanup};
use domain::run::cleanup::{CleanupPlan, FinishedTask, cleanup};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use observe::{Key, Next};
use tokio::time::Instant;

use crate::shared::{Shared, instant, now};

/// A plan reads all finished Tasks of a namespace, so Tasks that finish within this time share one.
const PAUSE: Duration = Duration::from_secs(1);

/// Finished Tasks by namespace, so that a cleanup does not scan all Tasks.
#[derive(Debug, Default)]
pub struct Finished(Mutex<HashMap<String, BTreeSet<String>>>);

impl Finished {
    /// Records whether a Task is finished. Returns whether that is a change.
    pub fn observe(&self, key: &Key, finished: bool) -> bool {
        let mut all = self.lock();
        if finished {
            return all.entry(key.namespace.clone()).or_default().insert(key.name.clone());
        }
        let Some(names) = all.get_mut(&key.namespace) else { return false };
        let known = names.remove(&key.name);
        if names.is_empty() {
            all.remove(&key.namespace);
        }
        known
    }

    /// Namespaces that hold finished Tasks.
    pub fn namespaces(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn of(&self, namespace: &str) -> Vec<Key> {
        self.lock().get(namespace).into_iter().flatten().map(|name| Key::new(namespace, name)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Schedules a cleanup: the namespace may hold too many finished Tasks now.
pub fn finished(shared: &Shared, key: &Key) {
    if shared.tasks.finished.observe(key, true) {
        plan_soon(shared, key);
    }
}

/// Records the deletion of a Task. If it was unfinished, the Tasks that it depended on may be deleted now.
pub fn gone(shared: &Shared, key: &Key) {
    if !shared.tasks.finished.observe(key, false) {
        plan_soon(shared, key);
    }
}

fn plan_soon(shared: &Shared, key: &Key) {
    if shared.platform().cleanup != Cleanup::default() {
        shared.work.cleanups.add_at(key.namespace.clone(), Instant::now() + PAUSE);
    }
}

/// Whether unfinished Tasks depend on this one.
fn has_dependents(shared: &Shared, task: &Task) -> bool {
    !shared.tasks.queues.with(|index| index.dependents(&Key::of(task))).is_empty()
}

/// Deletes the finished Tasks of a namespace that are due. A Task of the same name that was created since stays.
pub async fn pass(shared: &Shared, namespace: &str) -> Result<Next, kube::Error> {
    let policy = shared.platform().cleanup.clone();
    if policy == Cleanup::default() {
        return Ok(Next::Wait);
    }
    let tasks: HashMap<String, _> = shared
        .tasks
        .finished
        .of(namespace)
        .into_iter()
        .filter_map(|key| Some((key.name.clone(), shared.cache.tasks.object(&key)?)))
        .collect();
    let finished: Vec<FinishedTask> =
        tasks.values().filter_map(|task| FinishedTask::of(task, has_dependents(shared, task))).collect();
    let CleanupPlan { delete, next_wake } = cleanup(&finished, &policy, now());
    let api = shared.api::<Task>(namespace);
    for name in delete {
        let uid = tasks.get(&name).and_then(|task| task.uid());
        let preconditions = Some(Preconditions { uid, resource_version: None });
        match api.delete(&name, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        shared.tasks.finished.observe(&Key::new(namespace, name), false);
    }
    Ok(next_wake.map_or(Next::Wait, |at| Next::At(instant(at))))
}
