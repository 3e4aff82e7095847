//! When finished Tasks go away: by age, and by number in a namespace.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{Task, kinds::config::Cleanup};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use kubeopencode_core::cleanup::{CleanupPlan, FinishedTask, cleanup};
use observe::{Key, Next};
use tokio::time::Instant;

use crate::context::{Context, instant, now};

/// A plan looks at all finished Tasks of a namespace, so many that end at once get one.
const PAUSE: Duration = Duration::from_secs(1);

/// Finished Tasks by namespace, so that nobody has to look through all Tasks for them.
#[derive(Debug, Default)]
pub struct Finished(Mutex<HashMap<String, BTreeSet<String>>>);

impl Finished {
    /// A Task finished (`true`), runs again or is gone. Answers whether that is news.
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

/// A Task finished: its namespace may hold too many now.
pub fn finished(ctx: &Context, key: &Key) {
    if ctx.finished.observe(key, true) {
        plan_soon(ctx, key);
    }
}

/// A Task is gone. If it had not finished, those that it depended on may go now.
pub fn gone(ctx: &Context, key: &Key) {
    if !ctx.finished.observe(key, false) {
        plan_soon(ctx, key);
    }
}

fn plan_soon(ctx: &Context, key: &Key) {
    if ctx.platform().cleanup != Cleanup::default() {
        ctx.work.cleanups.add_at(key.namespace.clone(), Instant::now() + PAUSE);
    }
}

/// Deletes the finished Tasks of a namespace whose time has come. Exactly those: one of the same name that was created
/// since stays.
pub async fn pass(ctx: &Context, namespace: &str) -> Result<Next, kube::Error> {
    let policy = ctx.platform().cleanup.clone();
    if policy == Cleanup::default() {
        return Ok(Next::Wait);
    }
    let tasks: HashMap<String, _> = ctx
        .finished
        .of(namespace)
        .into_iter()
        .filter_map(|key| Some((key.name.clone(), ctx.seen.tasks.object(&key)?)))
        .collect();
    let finished: Vec<FinishedTask> = tasks
        .values()
        .filter_map(|task| FinishedTask::of(task, !ctx.queues.dependants(&Key::of(&**task)).is_empty()))
        .collect();
    let CleanupPlan { delete, next_wake } = cleanup(&finished, &policy, now());
    let api = ctx.api::<Task>(namespace);
    for name in delete {
        let uid = tasks.get(&name).and_then(|task| task.uid());
        let preconditions = Some(Preconditions { uid, resource_version: None });
        match api.delete(&name, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        ctx.finished.observe(&Key::new(namespace, name), false);
    }
    Ok(next_wake.map_or(Next::Wait, |at| Next::At(instant(at))))
}
