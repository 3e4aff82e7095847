//! The queue of one Agent or template: which Tasks run now, and why the others wait (invariant I3).
//!
//! The [index](index::Index) keeps one [`Queue`] for each target in memory, passes events on to it, and decides after
//! each. An event or an admission costs O(log n) with n waiting Tasks. What was just admitted counts as running at once,
//! before the watch shows it; a claim that loses against another controller is taken back by [`Queue::withdraw`].
//!
//! Positions and reasons are not part of a decision: with 10,000 waiting Tasks each admission would move 9,999 of
//! them. Ask [`Queue::position`] for one Task, [`Queue::positions`] for all in one pass, and write
//! [`shown_position`] to a status, which changes rarely at the far end of the queue.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{Task, conditions::reasons, kinds::agent::TaskStart, workload::Quota};
use jiff::{SignedDuration, Timestamp};

use crate::{
    duration::{later, signed},
    run::{
        dependencies::{Absent, Dependencies, Missing},
        resolved::ResolvedAgent,
        target::RunsOn,
    },
};

mod gate;
mod history;
pub mod index;
mod spending;
mod wait;
pub use gate::Gate;
use history::StartHistory;
pub use spending::{SharedBudget, Spending, UsedUp};
pub use wait::{Wait, shown_position};

/// One Task. A Task that is deleted and created again is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// Namespace of the Task.
    pub namespace: String,
    /// Name of the Task.
    pub name: String,
    /// UID of the Task.
    pub uid: String,
}

impl TaskKey {
    /// The key of `task`.
    pub fn of(task: &Task) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let metadata = &task.metadata;
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
    }
}

/// How much may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most Tasks at once.
    pub max_concurrent: Option<u32>,
    /// Most starts in a sliding window.
    pub quota: Option<Quota>,
}

impl From<&ResolvedAgent> for Limits {
    fn from(agent: &ResolvedAgent) -> Self {
        Self { max_concurrent: agent.max_concurrent_tasks, quota: agent.quota }
    }
}

/// A Task that waits for its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which Task.
    pub key: TaskKey,
    /// Number of the run that it waits for.
    pub epoch: i64,
    /// Higher goes first.
    pub priority: i32,
    /// Older goes first.
    pub created: Timestamp,
    /// Since when it waits: the grace for a missing Agent counts from here.
    pub since: Timestamp,
    /// The state of what it depends on.
    pub dependencies: Dependencies,
}

/// The decisions to carry out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// Start these, in this order: claim the run by a status write, then create its Pod.
    pub admit: Vec<Admission>,
    /// Fail these. They are reported until they are gone from the queue.
    pub fail: Vec<Refusal>,
    /// The start history after these admissions, without what left the window; `None` when there is nothing to write.
    /// It is repeated until [`Queue::recorded`] confirms that it was written.
    pub history: Option<Vec<TaskStart>>,
    /// The Agent sleeps and a Task could run: wake it.
    pub resume: bool,
    /// Decide again at this time even if nothing happens before.
    pub next_wake: Option<Timestamp>,
}

/// A run that may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Which Task.
    pub key: TaskKey,
    /// Number of the run.
    pub epoch: i64,
    /// When it was admitted, in whole seconds as Kubernetes keeps them. Write it to `timings.admittedAt`: the quota
    /// is counted from it after a restart.
    pub at: Timestamp,
}

/// A Task that can never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which Task.
    pub key: TaskKey,
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: String,
}

/// Order of the queue: priority, then age, then name.
type Rank = (Reverse<i32>, Timestamp, TaskKey);

/// A run that holds a slot.
#[derive(Clone, Debug)]
struct Running {
    epoch: i64,
    admitted_at: Option<Timestamp>,
    /// How it waited, until it is claimed.
    unconfirmed: Option<Waiting>,
}

/// The queue of one Agent or template.
#[derive(Clone, Debug)]
pub struct Queue {
    runs_on: RunsOn,
    grace: SignedDuration,
    limits: Limits,
    gate: Gate,
    waiting: BTreeMap<TaskKey, Waiting>,
    /// Those of `waiting` that only wait for a slot, in order.
    eligible: BTreeSet<Rank>,
    /// Those of `waiting` that can never run.
    doomed: BTreeSet<TaskKey>,
    /// Those of `waiting` that can still run, longest wait first.
    by_wait: BTreeSet<(Timestamp, TaskKey)>,
    /// Those of `waiting` that depend on something that does not exist, by when they give up.
    by_missing: BTreeSet<(Timestamp, TaskKey)>,
    running: BTreeMap<TaskKey, Running>,
    history: StartHistory,
    /// Nothing is left of the budget that the Tasks share.
    used_up: Option<UsedUp>,
}

impl Queue {
    /// An empty queue that lets Tasks wait for `grace` when their Agent or template does not exist.
    pub fn new(runs_on: RunsOn, grace: Duration) -> Self {
        Self {
            runs_on,
            grace: signed(grace),
            limits: Limits::default(),
            gate: Gate::ServerNotReady,
            waiting: BTreeMap::new(),
            eligible: BTreeSet::new(),
            doomed: BTreeSet::new(),
            by_wait: BTreeSet::new(),
            by_missing: BTreeSet::new(),
            running: BTreeMap::new(),
            history: StartHistory::default(),
            used_up: None,
        }
    }

    /// A Task waits, or something about its waiting changed. Ignored for a run that was admitted already: the watch
    /// may show it as waiting for a moment longer.
    pub fn upsert(&mut self, task: Waiting) {
        if self.running.get(&task.key).is_some_and(|running| running.epoch >= task.epoch) {
            return;
        }
        self.forget(&task.key);
        let key = task.key.clone();
        match &task.dependencies {
            Dependencies::Met => {
                self.eligible.insert(rank(&task));
            }
            Dependencies::Waiting { absent: Some(Absent { until, .. }), .. }
            | Dependencies::Missing(Missing { until, .. }) => {
                self.by_missing.insert((*until, key.clone()));
            }
            Dependencies::Waiting { absent: None, .. } => {}
            Dependencies::Failed { .. } => {
                self.doomed.insert(key.clone());
            }
        }
        if !matches!(task.dependencies, Dependencies::Failed { .. }) {
            self.by_wait.insert((task.since, key.clone()));
        }
        self.waiting.insert(key, task);
    }

    /// A run holds a slot. `admitted_at` is what its status says; a start that the history misses, because a
    /// controller died between two writes, is added to it.
    pub fn running(&mut self, key: TaskKey, epoch: i64, admitted_at: Option<Timestamp>) {
        if self.running.get(&key).is_some_and(|running| running.epoch > epoch) {
            return;
        }
        if self.waiting.get(&key).is_some_and(|waiting| waiting.epoch <= epoch) {
            self.forget(&key);
        }
        if let Some(at) = admitted_at {
            self.history.insert(&key, at);
        }
        self.running.insert(key, Running { epoch, admitted_at, unconfirmed: None });
    }

    /// A run ended, or its Task gives its slot back. News of an older run change nothing.
    pub fn finished(&mut self, key: &TaskKey, epoch: i64) {
        if self.running.get(key).is_some_and(|running| running.epoch <= epoch) {
            self.give_back(key);
        }
        if self.waiting.get(key).is_some_and(|waiting| waiting.epoch <= epoch) {
            self.forget(key);
        }
    }

    /// The Task is gone, or no longer waits or runs here.
    pub fn remove(&mut self, key: &TaskKey) {
        self.give_back(key);
        self.forget(key);
    }

    /// The run of a Task holds no slot any more. One that was never claimed never started: its start is given back, too.
    fn give_back(&mut self, key: &TaskKey) {
        if let Some(Running { admitted_at: Some(at), unconfirmed: Some(_), .. }) = self.running.remove(key) {
            self.history.remove(key, at);
        }
    }

    /// The run of a Task that may start and was not claimed yet.
    pub fn admission(&self, key: &TaskKey) -> Option<Admission> {
        let Running { epoch, admitted_at, unconfirmed } = self.running.get(key)?;
        unconfirmed.as_ref()?;
        Some(Admission { key: key.clone(), epoch: *epoch, at: (*admitted_at)? })
    }

    /// An admitted run was claimed: it runs now, whatever the watch still shows.
    pub fn claimed(&mut self, admission: &Admission) {
        if let Some(running) = self.running.get_mut(&admission.key).filter(|run| run.epoch == admission.epoch) {
            running.unconfirmed = None;
        }
    }

    /// The claim was refused, perhaps because another controller was faster: the admission never was, and the Task
    /// waits as before. Let the watch catch up before the next decision, or it is admitted again.
    pub fn withdraw(&mut self, admission: &Admission) {
        let Some(running) = self.running.get(&admission.key) else { return };
        let Some(task) = running.unconfirmed.clone().filter(|task| task.epoch == admission.epoch) else { return };
        self.give_back(&admission.key);
        self.upsert(task);
    }

    /// A Task refers to an object that is missing, and waits for it unless it waits for other Tasks first. Returns whether it
    /// was admitted and gives its slot back.
    pub fn wait_for_reference(&mut self, key: &TaskKey, missing: Missing) -> bool {
        let admission = self.admission(key);
        if let Some(admission) = &admission {
            self.withdraw(admission);
        }
        if let Some(task) = self.waiting.get(key).cloned()
            && matches!(task.dependencies, Dependencies::Met | Dependencies::Missing(_))
        {
            self.upsert(Waiting { dependencies: Dependencies::Missing(missing), ..task });
        }
        admission.is_some()
    }

    /// How long Tasks wait when their Agent or template does not exist.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = signed(grace);
    }

    /// The limits may have changed.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.history.set_quota(limits.quota);
        let started: Vec<_> =
            self.running.iter().filter_map(|(key, run)| Some((key.clone(), run.admitted_at?))).collect();
        for (key, at) in started {
            self.history.insert(&key, at);
        }
    }

    /// The Agent may have become ready, gone to sleep, vanished.
    pub fn set_gate(&mut self, gate: Gate) {
        if !matches!((&self.gate, &gate), (Gate::Missing { .. }, Gate::Missing { .. })) {
            self.gate = gate;
        }
    }

    /// The history in the Agent's or template's status: what it knows and memory does not is added. Set limits first.
    pub fn restore(&mut self, history: &[TaskStart]) {
        self.history.restore(history);
    }

    /// This history was written to the status.
    pub fn recorded(&mut self, history: &[TaskStart]) {
        self.history.set_recorded(history);
    }

    /// Whether the recorded starts differ from those that count.
    pub fn has_unrecorded(&self) -> bool {
        self.history.unrecorded().is_some()
    }

    /// Decides. Admitted Tasks hold their slots from now on.
    pub fn decide(&mut self, now: Timestamp) -> Decisions {
        self.history.prune(now);
        let mut decisions = Decisions { fail: self.refusals(now), ..Decisions::default() };
        match self.gate {
            Gate::Ready => {
                while !self.at_capacity() && !self.history.is_used_up() && self.used_up.is_none() {
                    let Some((_, _, key)) = self.eligible.pop_first() else { break };
                    let Some(task) = self.waiting.get(&key).cloned() else { continue };
                    self.forget(&key);
                    // Rounded up, so that a window is never shorter than promised once the fraction is lost.
                    let admission = Admission { key: key.clone(), epoch: task.epoch, at: whole_second(now) };
                    self.history.record(&key, admission.at);
                    let (epoch, admitted_at) = (admission.epoch, Some(admission.at));
                    self.running.insert(key, Running { epoch, admitted_at, unconfirmed: Some(task) });
                    decisions.admit.push(admission);
                }
            }
            Gate::Standby => decisions.resume = !self.eligible.is_empty(),
            Gate::SuspendedByUser
            | Gate::ServerNotReady
            | Gate::ServerReplaced
            | Gate::Unusable { .. }
            | Gate::Missing { .. } => {}
        }
        decisions.history = self.history.unrecorded().map(<[TaskStart]>::to_vec);
        decisions.next_wake = self.next_wake(now);
        decisions
    }

    /// Waiting Tasks.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no Task waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a Task waits.
    pub fn is_waiting(&self, key: &TaskKey) -> bool {
        self.waiting.contains_key(key)
    }

    /// Whether a run of the Task holds a slot.
    pub fn is_running(&self, key: &TaskKey) -> bool {
        self.running.contains_key(key)
    }

    /// Tasks that hold a slot.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Place of a Task in the queue, 1 being next. A Task that waits for another Task has none. O(place).
    pub fn position(&self, key: &TaskKey) -> Option<usize> {
        let rank = rank(self.waiting.get(key)?);
        self.eligible.contains(&rank).then(|| self.eligible.range(..=rank).count())
    }

    /// Every Task that has a place, in order, the first being next. O(n) for all.
    pub fn positions(&self) -> impl Iterator<Item = (usize, &TaskKey)> {
        self.eligible.iter().enumerate().map(|(index, (_, _, key))| (index + 1, key))
    }

    /// All waiting Tasks, in no useful order.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// Starts that count for the quota.
    pub fn history(&self) -> &[TaskStart] {
        self.history.starts()
    }

    fn forget(&mut self, key: &TaskKey) {
        let Some(task) = self.waiting.remove(key) else { return };
        self.eligible.remove(&rank(&task));
        self.doomed.remove(key);
        if let Dependencies::Waiting { absent: Some(Absent { until, .. }), .. }
        | Dependencies::Missing(Missing { until, .. }) = task.dependencies
        {
            self.by_missing.remove(&(until, key.clone()));
        }
        self.by_wait.remove(&(task.since, task.key));
    }

    fn at_capacity(&self) -> bool {
        self.limits.max_concurrent.is_some_and(|most| self.running.len() >= most as usize)
    }

    fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let held_up = self.gate == Gate::Ready && !self.eligible.is_empty() && !self.at_capacity();
        let quota = self.history.frees().filter(|_| held_up);
        let budget = self.used_up.as_ref().and_then(|used_up| used_up.until).filter(|_| held_up);
        let grace = self.by_wait.first().and_then(|(since, _)| self.grace_end(*since));
        let missing = self.by_missing.first().map(|(until, _)| *until);
        // What is due already was refused in this decision, and is reported until it is gone.
        [quota, budget, grace, missing].into_iter().flatten().filter(|wake| *wake > now).min()
    }

    /// Until when a Task that waits since `since` waits for a missing Agent.
    fn grace_end(&self, since: Timestamp) -> Option<Timestamp> {
        match self.gate {
            Gate::Missing { since: gone } => Some(later(since.max(gone), self.grace)),
            _ => None,
        }
    }

    fn refusals(&self, now: Timestamp) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for key in &self.doomed {
            if let Some(Waiting { dependencies: Dependencies::Failed { reason, message }, .. }) = self.waiting.get(key)
            {
                refusals.push(Refusal { key: key.clone(), reason, message: message.clone() });
            }
        }
        for (_, key) in self.by_missing.iter().take_while(|(until, _)| *until <= now) {
            let (reason, message) = match self.waiting.get(key).map(|task| &task.dependencies) {
                Some(Dependencies::Missing(missing)) => (missing.reason, missing.message.clone()),
                Some(Dependencies::Waiting { absent: Some(absent), .. }) => {
                    (reasons::DEPENDENCY_FAILED, wait::no_such_task(&absent.task))
                }
                _ => continue,
            };
            refusals.push(Refusal { key: key.clone(), reason, message });
        }
        let expired = |since: Timestamp| self.grace_end(since).is_some_and(|end| end <= now);
        for (_, key) in self.by_wait.iter().take_while(|(since, _)| expired(*since)) {
            let (reason, message) = wait::gone(&self.runs_on, self.grace);
            refusals.push(Refusal { key: key.clone(), reason, message });
        }
        refusals.sort_by(|a, b| a.key.cmp(&b.key));
        refusals.dedup_by(|b, a| a.key == b.key);
        refusals
    }
}

fn rank(task: &Waiting) -> Rank {
    (Reverse(task.priority), task.created, task.key.clone())
}

fn whole_second(time: Timestamp) -> Timestamp {
    let second = Timestamp::from_second(time.as_second()).unwrap_or(time);
    if second < time { later(second, SignedDuration::from_secs(1)) } else { second }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
