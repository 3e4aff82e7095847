//! Logs that outlive Pods: a follower for each run copies what its task container prints to the archive (I4).
//!
//! Read it in this order: [`Logs::follow`] (while it runs), `follower` (the copying), [`Logs::close`] (the run is over),
//! [`Logs::remove`] and [`sweep`] (its Task is gone).
//!
//! A run has its final status when its log is closed in the archive, or when that took too long; then the status says
//! so. Nothing is remembered between processes but the archive itself: a follower goes on after the last line in it.

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

/// Logs that are followed while their containers run. Those of further runs are read when they have ended.
const FOLLOWED: usize = 1024;
/// Logs of ended runs that are read at once.
const CLOSING: usize = 32;
/// A follower whose run is over ends within its own time limits; if it does not, the archive hangs.
const STUCK: Duration = Duration::from_secs(40);

/// The progress of a run, as its follower receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its container runs.
    Running,
    /// Its container has ended: the rest of its log can be read.
    Ended,
    /// Its Pod is gone: nothing more can be read.
    Gone,
}

/// Whether the log of a run is closed.
#[derive(Clone, Debug, PartialEq)]
pub enum Closing {
    /// Not yet. The Task is looked at again when it is, and at this time at the latest.
    Until(Instant),
    /// There is nothing to wait for; this is what is kept, if anything.
    Over(Option<LogStatus>),
}

/// The followers of this process. Without an archive there are none.
pub struct Logs {
    archive: Option<Arc<dyn Archive>>,
    client: Client,
    metrics: Arc<Metrics>,
    /// Who is to look when a log is closed.
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
    /// Followers that write to `archive`, and ask for a pass over a Task when its log is closed.
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

    /// The run is over, or is about to be ended by force; `pod` is its last observed state, and may be `gone`.
    pub async fn close(&self, task: &Task, epoch: i64, pod: Option<&Pod>, gone: bool) -> Closing {
        let (Some(archive), Some(run)) = (&self.archive, run(task, epoch)) else { return Closing::Over(None) };
        let progress = pod.map(Progress::of).unwrap_or_default();
        let on_record = task.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let known = progress.started_at.is_some() || on_record || self.lock().contains_key(&run);
        // A node that was away may have forgotten that it started the container; the archive has not.
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

    /// The final status of a run is written: its log is not needed any more.
    pub fn forget(&self, task: &Task, epoch: i64) {
        if let Some(run) = run(task, epoch) {
            self.lock().remove(&run);
        }
    }

    /// Removes the logs of a Task that is gone.
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
            // What it is about to write must not come after the removal. An error means that it has ended.
            let ended = captured.wait_for(Option::is_some);
            let _ = tokio::time::timeout(STUCK, ended).await;
            self.lock().remove(&run);
        }
        archive.remove(task).await
    }

    /// Whether logs are kept.
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
        // A run goes on in one direction only.
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

/// Asks for the removal of logs whose Tasks went while no process looked (I10).
pub async fn sweep(shared: &Shared) -> Result<(), store::Error> {
    let Some(archive) = &shared.records.logs.archive else { return Ok(()) };
    // Listed before the Tasks: a Task that has a log by now is in the cache.
    let kept = archive.owners().await?;
    let tasks = shared.cache.tasks.all(|_| true);
    if tasks.len() < shared.cache.tasks.len() {
        // Whose logs those of a Task are that cannot be read is not known.
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
