//! The queues of all Agents and templates: a pure index that takes events and returns effects.
//!
//! Each event is a method that takes the change, and `now` where time matters. It returns the targets that need a
//! [decision](Index::decide); a decision returns the Tasks to reconcile. Tasks are decided only in [`Index::decide`];
//! the pass over a Task reads its [`Index::decision`]. Every event that can change a decision returns its target, so a
//! Task without a decision is reconciled after the next one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::{Key, Task, kinds::agent::TaskStart, run::Budget};
use jiff::Timestamp;

use super::{Admission, Decisions, Gate, Limits, Refusal, Spending, TaskKey, Waiting};
use crate::{
    duration::{later, signed},
    run::{
        budget::Allowance,
        dependencies::{self, Dependencies, Missing, Other},
        stage::{Stage, joins_later, stop_requested},
        target::Target,
    },
};

mod budgets;
mod dependents;
mod target_queue;

use dependents::Dependents;
use target_queue::TargetQueue;
pub use target_queue::{POSITIONS_PERIOD, Queued};

/// Objects that the index reads, as the watches last showed them.
pub trait Cluster {
    /// `None` if the Task does not exist or cannot be read.
    fn task(&self, key: &Key) -> Option<Arc<Task>>;
    /// Whether a Pod of the Task still runs.
    fn has_pod(&self, task: &TaskKey) -> bool;
}

/// The decision about a waiting Task.
#[derive(Clone, Debug)]
pub enum Decision {
    Start(Admission),
    /// The Task can never run.
    Fail(Refusal),
    Wait(Queued),
    /// The Task waits for an object that it refers to.
    WaitForReference(Queued),
}

/// Input of a decision.
#[derive(Clone, Debug)]
pub struct Circumstances {
    pub gate: Gate,
    pub limits: Limits,
    /// Starts in the status of the target.
    pub history: Vec<TaskStart>,
}

/// The effects of a decision.
#[derive(Debug, Default)]
pub struct Decided {
    pub decisions: Decisions,
    /// Tasks to reconcile: admitted, refused, or with a new reason or position to report.
    pub look_at: Vec<Key>,
    /// Number of waiting Tasks.
    pub waiting: usize,
    /// Number of running Tasks.
    pub running: usize,
}

/// The queues of all Agents and templates.
#[derive(Default)]
pub struct Index {
    /// How long a Task waits for an object that does not exist.
    grace: Duration,
    queues: HashMap<Target, TargetQueue>,
    /// Waiting and running Tasks. Finished ones, the great majority, are not here.
    tasks: HashMap<Key, Entry>,
    dependents: Dependents,
    /// Usage of shared budgets, with the limit of each run.
    spending: HashMap<Target, (Allowance, Vec<Spending>)>,
    /// Runs of deleted Tasks whose Pod still exists, by the Task's UID: they hold their slot until the Pod is gone.
    orphans: HashMap<String, (TaskKey, Target)>,
}

/// A waiting or running Task.
struct Entry {
    task: TaskKey,
    target: Target,
    /// Set if the last decision refused the Task.
    refusal: Option<Refusal>,
    /// A missing object that the Task refers to.
    missing: Option<Missing>,
}

impl Index {
    /// Sets how long a Task waits for an object that does not exist. Observe all Tasks again.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Updates the index after a Task changed or was deleted. The Task and its dependents are read from `cluster`.
    /// Returns the targets that need a decision.
    pub fn observe(&mut self, key: &Key, cluster: &impl Cluster, now: Timestamp) -> Vec<Target> {
        let mut decide = self.observe_one(key, cluster, now);
        for dependent in self.dependents(key) {
            decide.extend(self.observe_one(&dependent, cluster, now));
        }
        decide
    }

    /// Records a running Pod of a deleted Task: it holds a slot of `target`.
    pub fn orphaned(&mut self, task: TaskKey, epoch: i64, target: Target, now: Timestamp) {
        self.queue(&target, now).ran(task.clone(), epoch, None);
        self.orphans.insert(task.uid.clone(), (task, target));
    }

    /// Frees the slot of a deleted Task whose last Pod stopped. Returns the target of the slot; `None` if the Task
    /// exists.
    pub fn pod_gone(&mut self, uid: &str) -> Option<Target> {
        let (task, target) = self.orphans.remove(uid)?;
        self.queues.get_mut(&target)?.remove(&task);
        Some(target)
    }

    /// Decides which Tasks of `target` may start.
    pub fn decide(&mut self, target: &Target, circumstances: Circumstances, now: Timestamp) -> Decided {
        let (grace, budget) = (self.grace, self.budget_state(target, now));
        let Some(queue) = self.queues.get_mut(target) else { return Decided::default() };
        queue.set_budget(budget);
        let decided = queue.decide(circumstances, grace, now);
        for refusal in &decided.decisions.fail {
            if let Some(entry) = self.tasks.get_mut(&key_of(&refusal.key)).filter(|entry| entry.task == refusal.key) {
                entry.refusal = Some(refusal.clone());
            }
        }
        self.drop_if_idle(target);
        decided
    }

    /// Confirms that the start history of a target was written to its status.
    pub fn recorded(&mut self, target: &Target, history: &[TaskStart]) {
        if let Some(queue) = self.queues.get_mut(target) {
            queue.recorded(history);
        }
        self.drop_if_idle(target);
    }

    /// The last decision about a waiting Task. `None` if there is none since the Task changed, or if the next one will
    /// differ: that one returns the Task in [`Decided::look_at`].
    pub fn decision(&mut self, key: &Key, uid: &str) -> Option<Decision> {
        let entry = self.tasks.get(key).filter(|entry| entry.task.uid == uid)?;
        let queue = self.queues.get_mut(&entry.target)?;
        if let Some(admission) = queue.admission(&entry.task) {
            return Some(Decision::Start(admission));
        }
        match &entry.refusal {
            Some(refusal) => Some(Decision::Fail(refusal.clone())),
            None => queue.wait(key, &entry.task),
        }
    }

    /// Confirms an admission: the run holds its slot, whatever the watch still shows.
    pub fn claimed(&mut self, admission: &Admission) {
        if let Some(queue) = self.queue_of(&key_of(&admission.key)) {
            queue.claimed(admission);
        }
    }

    /// Takes an admission back after a lost claim: the Task waits again. Observe it next.
    pub fn withdrawn(&mut self, admission: &Admission) {
        if let Some(queue) = self.queue_of(&key_of(&admission.key)) {
            queue.withdraw(admission);
        }
    }

    /// Records that a Task refers to a missing object. The Task gives its slot back, if it has one, and waits until
    /// `missing.until`, or until the time of the first report with this reason.
    ///
    /// Returns the target if it needs a decision, and the content of the Task's status.
    pub fn missing(&mut self, key: &Key, uid: &str, mut missing: Missing) -> (Option<Target>, Option<Queued>) {
        let Some(entry) = self.tasks.get_mut(key).filter(|entry| entry.task.uid == uid) else { return (None, None) };
        if let Some(before) = entry.missing.as_ref().filter(|before| before.reason == missing.reason) {
            missing.until = before.until;
        }
        let same = entry.missing.replace(missing.clone()).as_ref() == Some(&missing);
        let Some(queue) = self.queues.get_mut(&entry.target) else { return (None, None) };
        let gave_back = queue.wait_for_reference(&entry.task, missing);
        let report = queue.report(key, &entry.task);
        ((gave_back || !same).then(|| entry.target.clone()), report)
    }

    /// Records that every object that a Task refers to exists. Observe it next.
    pub fn found(&mut self, key: &Key) {
        if let Some(entry) = self.tasks.get_mut(key) {
            entry.missing = None;
        }
    }

    /// Records the end of a run whose status is written. Returns the target of the free slot.
    pub fn finished(&mut self, key: &Key, epoch: i64) -> Option<Target> {
        let entry = self.tasks.get(key)?;
        let (task, target) = (entry.task.clone(), entry.target.clone());
        self.end(key, &task, &target, epoch);
        Some(target)
    }

    /// Tasks that depend on `key` and have not finished.
    pub fn dependents(&self, key: &Key) -> Vec<Key> {
        self.dependents.of(key).cloned().collect()
    }

    /// Every waiting or running Task. Observe them again after a change that affects all.
    pub fn unfinished(&self) -> Vec<Key> {
        self.tasks.keys().cloned().collect()
    }

    /// Every Task that waits for `target` or runs on it.
    pub fn unfinished_on(&self, target: &Target) -> Vec<Key> {
        self.entries_on(target).map(|(key, _)| key.clone()).collect()
    }

    /// Tasks of `target` that refer to a missing object.
    pub fn missing_on(&self, target: &Target) -> Vec<Key> {
        self.entries_on(target).filter(|(_, entry)| entry.missing.is_some()).map(|(key, _)| key.clone()).collect()
    }

    /// Number of Tasks that run on a target or wait only for it.
    pub fn load(&self, target: &Target) -> usize {
        self.queues.get(target).map_or(0, TargetQueue::load)
    }

    /// Number of Tasks that run on a target.
    pub fn running(&self, target: &Target) -> usize {
        self.queues.get(target).map_or(0, TargetQueue::running)
    }

    /// The queue of a target, for the model.
    #[cfg(test)]
    pub(super) fn queue_of_target(&self, target: &Target) -> Option<&super::Queue> {
        self.queues.get(target).map(TargetQueue::queue)
    }

    fn entries_on(&self, target: &Target) -> impl Iterator<Item = (&Key, &Entry)> {
        self.tasks.iter().filter(move |(_, entry)| entry.target == *target)
    }

    fn observe_one(&mut self, key: &Key, cluster: &impl Cluster, now: Timestamp) -> Vec<Target> {
        let task = cluster.task(key).filter(|task| task.metadata.deletion_timestamp.is_none());
        let place = task.as_deref().and_then(|task| Some((TaskKey::of(task), Target::of(task)?)));
        let mut decide = Vec::new();
        let before = self.tasks.get(key).map(|entry| (entry.task.clone(), entry.target.clone()));
        if let Some((old, target)) = before.filter(|before| Some(before) != place.as_ref()) {
            self.leave(key, &old, &target, cluster);
            decide.push(target);
        }
        if let (Some(task), Some((task_key, target))) = (task, place) {
            for spending in self.spending.get_mut(&target).into_iter().flat_map(|(_, budgets)| budgets) {
                spending.note_task(&task);
            }
            self.enter(key, &task, task_key, &target, cluster, now);
            decide.push(target);
        }
        decide
    }

    fn enter(
        &mut self,
        key: &Key,
        task: &Task,
        task_key: TaskKey,
        target: &Target,
        cluster: &impl Cluster,
        now: Timestamp,
    ) {
        let stage = Stage::of(task);
        if let Stage::Finished { epoch } = stage {
            return self.end(key, &task_key, target, epoch);
        }
        let entry = self.tasks.entry(key.clone());
        let entry = entry.or_insert_with(|| Entry {
            task: task_key.clone(),
            target: target.clone(),
            refusal: None,
            missing: None,
        });
        entry.refusal = None;
        let missing = entry.missing.clone();
        match stage {
            Stage::Waiting { .. } if stop_requested(task) => self.queue(target, now).remove(&task_key),
            Stage::Waiting { epoch } => {
                let absent = self.dependents.update(key, task, cluster, now);
                let until = |name: &str, since: Timestamp| {
                    later(absent.get(name).copied().unwrap_or(since), signed(self.grace))
                };
                let waiting = waiting(task, task_key, epoch, missing, cluster, &until);
                self.queue(target, now).waits(key, waiting, joins_later(task, now));
            }
            Stage::Running { epoch, admitted_at } => {
                self.dependents.update(key, task, cluster, now);
                let queue = self.queue(target, now);
                queue.ran(task_key.clone(), epoch, admitted_at);
                queue.set_own_limit(&task_key, own_limit(task));
            }
            Stage::Finished { .. } => {}
        }
    }

    fn leave(&mut self, key: &Key, task: &TaskKey, target: &Target, cluster: &impl Cluster) {
        self.tasks.remove(key);
        self.dependents.remove(key);
        if let Some(queue) = self.queues.get_mut(target) {
            if queue.is_running(task) && cluster.has_pod(task) {
                queue.report_no_more(key);
                self.orphans.insert(task.uid.clone(), (task.clone(), target.clone()));
            } else {
                queue.remove(task);
            }
        }
    }

    /// Ends a run. A decision about the next run stays.
    fn end(&mut self, key: &Key, task: &TaskKey, target: &Target, epoch: i64) {
        if let Some(queue) = self.queues.get_mut(target) {
            queue.finished(task, epoch);
            if queue.has(task) {
                return;
            }
        }
        self.tasks.remove(key);
        self.dependents.remove(key);
    }

    /// Drops the queue of a target without Tasks, once its starts are recorded.
    fn drop_if_idle(&mut self, target: &Target) {
        if self.queues.get(target).is_some_and(TargetQueue::is_idle) {
            self.queues.remove(target);
        }
    }

    /// The queue of a target, created if it does not exist.
    fn queue(&mut self, target: &Target, now: Timestamp) -> &mut TargetQueue {
        let grace = self.grace;
        self.queues.entry(target.clone()).or_insert_with(|| TargetQueue::new(target.runs_on.clone(), grace, now))
    }

    /// The queue that a Task waits or runs in.
    fn queue_of(&mut self, key: &Key) -> Option<&mut TargetQueue> {
        self.queues.get_mut(&self.tasks.get(key)?.target)
    }
}

fn waiting(
    task: &Task,
    key: TaskKey,
    epoch: i64,
    missing: Option<Missing>,
    cluster: &impl Cluster,
    until: &dyn Fn(&str, Timestamp) -> Timestamp,
) -> Waiting {
    let created = task.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let queued_at = task.status.as_ref().and_then(|s| s.timings.as_ref()).and_then(|t| t.queued_at.as_ref());
    let since = queued_at.map_or(created, |time| time.0);
    let find = |name: &str| cluster.task(&Key::new(&key.namespace, name)).map(|task| Other::of(&task));
    let dependencies = match (dependencies::judge(task, &find, &|name| until(name, since)), missing) {
        (Dependencies::Met, Some(missing)) => Dependencies::Missing(missing),
        (dependencies, _) => dependencies,
    };
    let own_limit = own_limit(task);
    Waiting { key, epoch, priority: task.spec.priority, created, since, own_limit, dependencies }
}

/// The limit that a Task sets for its own runs.
fn own_limit(task: &Task) -> Allowance {
    task.spec.budget.clone().map(|budget| Allowance::from(&Budget::from(budget))).unwrap_or_default()
}

fn key_of(task: &TaskKey) -> Key {
    Key::new(&task.namespace, &task.name)
}

#[cfg(test)]
mod tests;
