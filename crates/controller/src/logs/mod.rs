//! Logs that outlive Pods: for each run, a follower copies the log of its task container to the archive (I4).
//!
//! Read in this order: [`Logs::follow`] (while the run lasts), `follower` (the copying), [`Logs::close`] (the run is
//! over), [`Logs::remove`] and [`sweep`] (its Task is deleted).
//!
//! The final status of a run is written when its log is closed in the archive, or after a timeout; then the status says
//! so. Only the archive persists between processes: a follower continues after the last archived line.

mod follower;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{Task, kinds::task::LogStatus};
use domain::{run::progress::Progress, workload::names};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use observe::{Key, Queue};
use store::{Archive, Owner, Run};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    shared::{Shared, metrics::Metrics},
    task::still_runs,
};
use follower::{Captured, Follower, Permits};

/// Logs that are followed while their containers run. The logs of further runs are read after their end.
const FOLLOWED: usize = 1024;
/// Logs of ended runs that are read concurrently.
const CLOSING: usize = 32;
/// A follower whose run is over ends within its own timeouts; if it does not, the archive hangs.
const STUCK: Duration = Duration::from_secs(40);

/// Progress of a run, as sent to its follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The container runs.
    Running,
    /// The container has ended: the rest of its log can be read.
    Ended,
    /// The Pod is gone: its log cannot be read any more.
    Gone,
}

/// Whether the log of a run is closed.
#[derive(Clone, Debug, PartialEq)]
pub enum Closing {
    /// Not closed. The Task is reconciled when the log is closed, at this time at the latest.
    Until(Instant),
    /// Closed, or there is nothing to wait for. `None` if nothing is archived.
    Over(Option<LogStatus>),
}

/// The followers of this process. Without an archive there are none.
pub struct Logs {
    archive: Option<Arc<dyn Archive>>,
    client: Client,
    metrics: Arc<Metrics>,
    /// Receives the Task when its log is closed.
    tasks: Queue<Key>,
    permits: Permits,
    followers: Mutex<HashMap<Run, Entry>>,
}

#[derive(Debug)]
struct Entry {
    stage: watch::Sender<Stage>,
    captured: watch::Receiver<Option<Captured>>,
    /// When the run was first observed to be over.
    over_since: Option<Instant>,
    work: JoinHandle<()>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Logs {
    /// Followers write to `archive`, and queue a Task when its log is closed.
    pub fn new(archive: Option<Arc<dyn Archive>>, client: Client, metrics: Arc<Metrics>, tasks: Queue<Key>) -> Self {
        let permits =
            Permits { followed: Arc::new(Semaphore::new(FOLLOWED)), closing: Arc::new(Semaphore::new(CLOSING)) };
        Self { archive, client, metrics, tasks, permits, followers: Mutex::default() }
    }

    /// Follows the log of a run whose Pod is `pod`, if its container has started.
    pub fn follow(&self, task: &Task, epoch: i64, pod: &Pod) {
        if Progress::of(pod).started_at.is_some() {
            self.ensure(task, epoch, Stage::Running);
        }
    }

    /// Closes the log of a run that is over or about to be stopped by force. `pod` is its last observed state and may
    /// be `gone`.
    pub async fn close(&self, task: &Task, epoch: i64, pod: Option<&Pod>, gone: bool) -> Closing {
        let (Some(archive), Some(run)) = (&self.archive, run(task, epoch)) else { return Closing::Over(None) };
        let progress = pod.map(Progress::of).unwrap_or_default();
        let on_record = task.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let known = progress.started_at.is_some() || on_record || self.lock().contains_key(&run);
        // A node that was unreachable may have lost the start of the container; the archive has not.
        let started = known || !matches!(archive.find(&run).await, Ok(None));
        let stage = match pod {
            // Nothing was ever printed.
            Some(_) if !started => return Closing::Over(None),
            Some(pod) if !gone && (progress.ended_at.is_some() || !still_runs(pod)) => Stage::Ended,
            _ => Stage::Gone,
        };
        self.ensure(task, epoch, stage);
        let mut followers = self.lock();
        let Some(entry) = followers.get_mut(&run) else { return Closing::Over(None) };
        if let Some(captured) = *entry.captured.borrow() {
            return Closing::Over(Some(captured.status(&run)));
        }
        let now = Instant::now();
        let until = *entry.over_since.get_or_insert(now) + STUCK;
        if now < until {
            return Closing::Until(until);
        }
        tracing::warn!(log = %run, "the archive does not answer; the log is cut");
        Closing::Over(Some(Captured::default().status(&run)))
    }

    /// Drops the follower of a run whose final status is written.
    pub fn forget(&self, task: &Task, epoch: i64) {
        if let Some(run) = run(task, epoch) {
            self.lock().remove(&run);
        }
    }

    /// Deletes the logs of a deleted Task.
    pub async fn remove(&self, task: &Owner) -> Result<(), store::Error> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let ending: Vec<_> = {
            let followers = self.lock();
            let ours = followers.iter().filter(|(run, _)| run.task == *task);
            ours.map(|(run, entry)| {
                entry.stage.send_replace(Stage::Gone);
                (run.clone(), entry.captured.clone())
            })
            .collect()
        };
        for (run, mut captured) in ending {
            // A follower must not write after the removal. An error means that it has ended.
            let ended = captured.wait_for(Option::is_some);
            let _ = tokio::time::timeout(STUCK, ended).await;
            self.lock().remove(&run);
        }
        archive.remove(task).await
    }

    /// Whether there is an archive.
    pub fn are_kept(&self) -> bool {
        self.archive.is_some()
    }

    /// Starts a follower unless there is one, and sends it the progress of the run.
    fn ensure(&self, task: &Task, epoch: i64, stage: Stage) {
        let (Some(archive), Some(run)) = (&self.archive, run(task, epoch)) else { return };
        let mut followers = self.lock();
        let entry = followers.entry(run.clone()).or_insert_with(|| {
            let (sender, stages) = watch::channel(stage);
            let (result, captured) = watch::channel(None);
            let key = Key::of(task);
            let follower = Follower {
                archive: Arc::clone(archive),
                run: run.clone(),
                pods: Api::namespaced(self.client.clone(), &key.namespace),
                pod: names::task_pod(&task.name_any(), epoch),
                permits: self.permits.clone(),
                metrics: Arc::clone(&self.metrics),
                stage: stages,
            };
            let tasks = self.tasks.clone();
            let work = tokio::spawn(async move {
                let captured = follower.follow().await;
                result.send_replace(Some(captured));
                tasks.add(key);
            });
            Entry { stage: sender, captured, over_since: None, work }
        });
        // The stage of a run only increases.
        entry.stage.send_if_modified(|known| {
            let later = stage > *known;
            *known = stage.max(*known);
            later
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Run, Entry>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queues the deletion of logs whose Tasks were deleted while no controller ran (I10).
pub async fn sweep(shared: &Shared) -> Result<(), store::Error> {
    let Some(archive) = &shared.records.logs.archive else { return Ok(()) };
    // Listed before the Tasks: a Task that has a log by now is in the cache.
    let kept = archive.owners().await?;
    let tasks = shared.cache.tasks.all(|_| true);
    if tasks.len() < shared.cache.tasks.len() {
        // It is unknown which logs belong to an unreadable Task.
        tracing::warn!("some Tasks cannot be read, so logs of Tasks that are gone stay until the next start");
        return Ok(());
    }
    let alive: HashSet<Owner> = tasks.iter().filter_map(|task| owner(task)).collect();
    for gone in kept.into_iter().filter(|owner| !alive.contains(owner)) {
        shared.work.logs.add(gone);
    }
    Ok(())
}

/// The Task as the archive knows it.
pub fn owner(task: &Task) -> Option<Owner> {
    Owner::new(task.metadata.namespace.as_deref()?, task.metadata.uid.as_deref()?)
}

/// A run as the archive knows it.
pub fn run(task: &Task, epoch: i64) -> Option<Run> {
    Some(Run { task: owner(task)?, epoch })
}
