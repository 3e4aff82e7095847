//! When finished Tasks go away: by age, and by number in a namespace.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use api::{Task, kinds::config::Cleanup};
use jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Preconditions};

use crate::{
    context::{Context, instant, now},
    watch::Key,
    work::Next,
};

/// Finished Tasks of every namespace, oldest first, so that a decision looks only at those that go.
#[derive(Debug, Default)]
pub struct Finished(Mutex<HashMap<String, BTreeSet<Old>>>);

/// When it ended, its name, its UID.
type Old = (Timestamp, String, String);

impl Finished {
    /// A Task finished, or is gone (`task` is `None`). Answers whether that is news.
    pub fn observe(&self, key: &Key, task: Option<&Task>) -> bool {
        let mut all = self.lock();
        match task {
            Some(task) => {
                let ended = task.status.as_ref().and_then(|status| status.completion_time.as_ref());
                let Some(ended) = ended else { return false };
                let old = (ended.0, key.name.clone(), task.metadata.uid.clone().unwrap_or_default());
                all.entry(key.namespace.clone()).or_default().insert(old)
            }
            None => {
                let Some(namespace) = all.get_mut(&key.namespace) else { return false };
                let before = namespace.len();
                namespace.retain(|(_, name, _)| *name != key.name);
                let changed = namespace.len() != before;
                if namespace.is_empty() {
                    all.remove(&key.namespace);
                }
                changed
            }
        }
    }

    /// Namespaces that hold finished Tasks.
    pub fn namespaces(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Which Tasks of a namespace go now, and when the next goes.
    fn due(&self, namespace: &str, policy: &Cleanup, now: Timestamp) -> (Vec<Old>, Option<Timestamp>) {
        let all = self.lock();
        let Some(tasks) = all.get(namespace) else { return (Vec::new(), None) };
        let surplus = policy
            .max_retained_tasks
            .and_then(|most| usize::try_from(most).ok())
            .map_or(0, |most| tasks.len().saturating_sub(most));
        let ttl = policy.ttl_seconds_after_finished.map(|seconds| SignedDuration::from_secs(seconds.into()));
        let expires = |old: &Old| ttl.map(|ttl| old.0.checked_add(ttl).unwrap_or(Timestamp::MAX));
        let go = tasks
            .iter()
            .enumerate()
            .take_while(|(index, old)| *index < surplus || expires(old).is_some_and(|at| at <= now))
            .map(|(_, old)| old.clone())
            .collect::<Vec<_>>();
        let next = tasks.iter().nth(go.len()).and_then(expires);
        (go, next)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<Old>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes the finished Tasks of a namespace whose time has come. Exactly those: one of the same name that was created
/// since stays.
pub async fn pass(ctx: &Context, namespace: &str) -> Result<Next, kube::Error> {
    let policy = ctx.platform().cleanup.clone();
    let (go, next) = ctx.finished.due(namespace, &policy, now());
    let tasks = ctx.api::<Task>(namespace);
    for (_, name, uid) in go {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::background()
        };
        match tasks.delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        ctx.finished.observe(&Key::new(namespace, name), None);
    }
    Ok(next.map_or(Next::Wait, |at| Next::At(instant(at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(ends: &[i64]) -> Finished {
        let all = Finished::default();
        let tasks = ends
            .iter()
            .map(|end| (Timestamp::from_second(*end).unwrap(), format!("t{end}"), String::new()))
            .collect();
        all.lock().insert("a".into(), tasks);
        all
    }

    #[track_caller]
    fn check(ends: &[i64], ttl: Option<i32>, most: Option<i32>, now: i64, go: &[i64], next: Option<i64>) {
        let policy = Cleanup { ttl_seconds_after_finished: ttl, max_retained_tasks: most };
        let (gone, wake) = finished(ends).due("a", &policy, Timestamp::from_second(now).unwrap());
        let gone: Vec<i64> = gone.iter().map(|old| old.0.as_second()).collect();
        assert_eq!((gone.as_slice(), wake.map(Timestamp::as_second)), (go, next));
    }

    #[test]
    fn age_and_number_decide_together() {
        check(&[1, 2, 3], None, None, 100, &[], None);
        check(&[1, 2, 3], Some(10), None, 12, &[1, 2], Some(13));
        check(&[1, 2, 3], None, Some(1), 0, &[1, 2], None);
        check(&[1, 2, 3], Some(10), Some(2), 5, &[1], Some(12));
        check(&[1, 2, 3], Some(0), None, 3, &[1, 2, 3], None);
        check(&[1, 2, 3], None, Some(0), 3, &[1, 2, 3], None);
    }
}
