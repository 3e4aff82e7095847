//! Removes what is left of Tasks, Agents and templates that are gone (I10).

use std::{collections::HashSet, hash::Hash, time::Duration};

use api::{Agent, AgentTemplate};
use kube::Resource;
use observe::{Change, Key, Next};
use store::{CacheScope, Owner};
use tokio::{sync::watch, time::sleep};

use super::owner;
use crate::shared::Shared;

/// Time between two sweeps. Most is removed when the deletion is observed.
const INTERVAL: Duration = Duration::from_hours(1);

/// Kinds whose runs share caches.
pub trait SharesCaches: Resource<DynamicType = ()> {
    /// Of the scope, before the name.
    const SCOPE: &'static str;
}

impl SharesCaches for Agent {
    const SCOPE: &'static str = "agent";
}

impl SharesCaches for AgentTemplate {
    const SCOPE: &'static str = "template";
}

/// Queues the caches of an Agent or a template that is gone: another one of its name must not get them.
pub fn target_changed<K: SharesCaches>(shared: &Shared, change: &Change<'_, K>) {
    let replaced = |was: &K, now: &K| was.meta().uid != now.meta().uid;
    let gone = match (change.was(), change.object()) {
        (Some(was), Some(now)) => replaced(was, now),
        _ => change.now.is_none(),
    };
    if gone && shared.records.logs.are_kept() {
        let Key { namespace, name } = change.key;
        shared.work.caches.add(CacheScope { namespace: namespace.clone(), scope: format!("{}/{name}", K::SCOPE) });
    }
}

/// Removes the caches of a scope.
pub async fn remove_caches(shared: &Shared, scope: &CacheScope) -> Result<Next, store::Error> {
    if let Some(archive) = &shared.records.logs.archive {
        archive.remove_caches(scope).await?;
    }
    Ok(Next::Wait)
}

/// Sweeps again and again until `stop`.
pub async fn work(shared: &Shared, mut stop: watch::Receiver<bool>) {
    loop {
        if let Err(error) = pass(shared).await {
            tracing::warn!(%error, "what is left of Tasks that are gone stays until the next sweep");
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Queues what is left of objects that were deleted while no controller ran, and what came after their deletion.
async fn pass(shared: &Shared) -> Result<(), store::Error> {
    let Some(archive) = &shared.records.logs.archive else { return Ok(()) };
    // Listed before the objects: one that has data by now is in the cache.
    let (kept, copied, scopes) = (archive.owners().await?, archive.copied().await?, archive.cache_scopes().await?);
    let exists = |scope: &CacheScope| match scope.scope.split_once('/') {
        Some((Agent::SCOPE, name)) => shared.cache.agents.get(&Key::new(&scope.namespace, name)).is_some(),
        Some((AgentTemplate::SCOPE, name)) => shared.cache.templates.get(&Key::new(&scope.namespace, name)).is_some(),
        _ => true,
    };
    scopes.into_iter().filter(|scope| !exists(scope)).for_each(|scope| shared.work.caches.add(scope));
    let tasks = shared.cache.tasks.all(|_| true);
    if tasks.len() < shared.cache.tasks.len() {
        // It is unknown which logs belong to an unreadable Task.
        tracing::warn!("some Tasks cannot be read, so what is left of Tasks that are gone stays until the next sweep");
        return Ok(());
    }
    let alive: HashSet<Owner> = tasks.iter().filter_map(|task| owner(task)).collect();
    let Plan { adopted, gone } = plan(kept, &copied.into_iter().collect(), &alive);
    for task in adopted {
        archive.adopt(&task).await?;
    }
    for task in gone {
        shared.work.logs.add(task);
    }
    Ok(())
}

/// What becomes of the data of Tasks.
#[derive(Debug, PartialEq, Eq)]
struct Plan<T> {
    /// Was copied here, and goes with its Task from now on.
    adopted: Vec<T>,
    gone: Vec<T>,
}

/// What was copied from another store stays until it expires: its Tasks were never here.
fn plan<T: Eq + Hash>(kept: Vec<T>, copied: &HashSet<T>, alive: &HashSet<T>) -> Plan<T> {
    let (alive, rest): (Vec<T>, Vec<T>) = kept.into_iter().partition(|task| alive.contains(task));
    Plan {
        adopted: alive.into_iter().filter(|task| copied.contains(task)).collect(),
        gone: rest.into_iter().filter(|task| !copied.contains(task)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_no_task_goes_unless_it_was_copied() {
        let check = |kept: &[u8], copied: &[u8], alive: &[u8], adopted: &[u8], gone: &[u8]| {
            let set = |all: &[u8]| all.iter().copied().collect();
            let expected = Plan { adopted: adopted.to_vec(), gone: gone.to_vec() };
            assert_eq!(plan(kept.to_vec(), &set(copied), &set(alive)), expected, "{kept:?} {copied:?} {alive:?}");
        };
        check(&[1, 2], &[], &[1], &[], &[2]);
        check(&[1, 2, 3], &[2, 3], &[1, 3], &[3], &[]);
        check(&[1, 2, 3], &[2, 3], &[], &[], &[1]);
        check(&[], &[4], &[5], &[], &[]);
    }
}
