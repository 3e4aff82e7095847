//! Logs that outlive Pods: for each run, followers copy the log of its task container and the records of its session
//! to the archive (I4).
//!
//! Read in this order: [`Logs::follow`] (while the run lasts), `follower` (the copying), [`Logs::close`] (the run is
//! over), [`Logs::remove`] and [`sweep`] (its Task is deleted), [`retention`] (its log is old or takes too much space).
//!
//! The final status of a run is written when its log is closed in the archive, or after a timeout; then the status says
//! so. Only the archive persists between processes: a follower continues after the last archived line.

mod follower;
pub mod retention;
pub mod sweep;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{Task, kinds::task::LogStatus};
use domain::{
    contract::record,
    run::progress::{self, Progress, SESSION_CONTAINER, TASK_CONTAINER},
    workload::names,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use observe::{Key, Queue};
use store::{Archive, Log, Owner, Run, Stream};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::{shared::metrics::Metrics, task::still_runs};
use follower::{Captured, Follower, Permits};

/// Logs that are followed while their containers run, two a run. The logs of further runs are read after their end.
const FOLLOWED: usize = 2048;
/// Logs of ended runs that are read concurrently.
const CLOSING: usize = 64;
/// A follower whose run is over ends within its own timeouts; if it does not, the archive hangs.
const STUCK: Duration = Duration::from_secs(40);

/// The records of a run are read within this time after its log. A log without them is complete.
const RECORDS_REST: Duration = Duration::from_secs(15);

/// Progress of a run, as sent to its followers.
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
    /// Of the container for records, which ends after the task container.
    records_stage: watch::Sender<Stage>,
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
            self.ensure(task, epoch, Stage::Running, Some(pod));
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
        let started = known || !matches!(archive.find(&run.log()).await, Ok(None));
        let stage = match pod {
            // Nothing was ever printed.
            Some(_) if !started => return Closing::Over(None),
            Some(pod) if !gone && (progress.ended_at.is_some() || !still_runs(pod)) => Stage::Ended,
            _ => Stage::Gone,
        };
        self.ensure(task, epoch, stage, pod);
        let mut followers = self.lock();
        let Some(entry) = followers.get_mut(&run) else { return Closing::Over(None) };
        if let Some(captured) = *entry.captured.borrow() {
            return Closing::Over(Some(captured.status(&run.log())));
        }
        let now = Instant::now();
        let until = *entry.over_since.get_or_insert(now) + STUCK;
        if now < until {
            return Closing::Until(until);
        }
        tracing::warn!(log = %run.log(), "the archive does not answer; the log is cut");
        Closing::Over(Some(Captured::default().status(&run.log())))
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
                entry.records_stage.send_replace(Stage::Gone);
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

    /// Whether the log of a run is being followed or closed.
    fn is_followed(&self, run: &Run) -> bool {
        self.lock().contains_key(run)
    }

    /// Whether there is an archive.
    pub fn are_kept(&self) -> bool {
        self.archive.is_some()
    }

    /// Starts the followers of a run unless they exist, and sends them its progress.
    fn ensure(&self, task: &Task, epoch: i64, stage: Stage, pod: Option<&Pod>) {
        let (Some(archive), Some(run)) = (&self.archive, run(task, epoch)) else { return };
        let records_stage = match pod {
            Some(pod) if stage == Stage::Ended && still_runs(pod) && progress::session_runs(pod) => Stage::Running,
            _ => stage,
        };
        let mut followers = self.lock();
        let entry = followers.entry(run.clone()).or_insert_with(|| {
            let (sender, stages) = watch::channel(stage);
            let (records_sender, records_stages) = watch::channel(records_stage);
            let (result, captured) = watch::channel(None);
            let key = Key::of(task);
            let text = Follower {
                archive: Arc::clone(archive),
                log: run.log(),
                container: TASK_CONTAINER,
                is_last: |_| false,
                pods: Api::namespaced(self.client.clone(), &key.namespace),
                pod: names::task_pod(&task.name_any(), epoch),
                permits: self.permits.clone(),
                metrics: Arc::clone(&self.metrics),
                stage: stages,
            };
            let records = pod.is_none_or(progress::has_session).then(|| Follower {
                log: Log { run: run.clone(), stream: Stream::Records },
                container: SESSION_CONTAINER,
                is_last: record::is_last,
                stage: records_stages,
                ..text.clone()
            });
            let tasks = self.tasks.clone();
            let work = tokio::spawn(async move {
                result.send_replace(Some(follow_both(text, records).await));
                tasks.add(key);
            });
            Entry { stage: sender, records_stage: records_sender, captured, over_since: None, work }
        });
        // The stage of a run only increases.
        for (known, stage) in [(&entry.stage, stage), (&entry.records_stage, records_stage)] {
            known.send_if_modified(|known| {
                let later = stage > *known;
                *known = stage.max(*known);
                later
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Run, Entry>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the log of a run and its records. Returns how much of the log was captured.
async fn follow_both(text: Follower, records: Option<Follower>) -> Captured {
    let records = async {
        if let Some(records) = records {
            records.follow().await;
        }
    };
    tokio::pin!(records);
    let mut recorded = false;
    let text = text.follow();
    tokio::pin!(text);
    let captured = loop {
        tokio::select! {
            captured = &mut text => break captured,
            () = &mut records, if !recorded => recorded = true,
        }
    };
    if !recorded {
        // Without its end, the conversation is still readable.
        let _ = tokio::time::timeout(RECORDS_REST, records).await;
    }
    captured
}

/// The Task as the archive knows it.
pub fn owner(task: &Task) -> Option<Owner> {
    Owner::new(task.metadata.namespace.as_deref()?, task.metadata.uid.as_deref()?)
}

/// A run as the archive knows it.
pub fn run(task: &Task, epoch: i64) -> Option<Run> {
    Some(Run { task: owner(task)?, epoch })
}
