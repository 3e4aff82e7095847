//! The queue of one Agent or template: which Tasks run now, and why the others wait (invariant I3).
//!
//! The [index](index::Index) keeps one [`Queue`] for each target in memory, passes events on to it, and decides after
//! each. An event or an admission costs O(log n) with n waiting Tasks. An admitted Task counts as running at once,
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
        budget::Allowance,
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
pub use spending::{BudgetState, Budgets, SharedBudget, Spending, UsedUp};
pub use wait::{Wait, shown_position};

/// A Task. A Task that is deleted and created again has another key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl TaskKey {
    pub fn of(task: &Task) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let metadata = &task.metadata;
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
    }
}

/// Limits of a target; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of running Tasks.
    pub max_concurrent: Option<u32>,
    /// Maximum number of starts in a sliding window.
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
    pub key: TaskKey,
    /// The epoch that it waits for.
    pub epoch: i64,
    /// Higher goes first.
    pub priority: i32,
    /// Older goes first.
    pub created: Timestamp,
    /// Since when it waits: the grace period for a missing Agent counts from here.
    pub since: Timestamp,
    /// The limit that the Task itself sets for its run.
    pub own_limit: Allowance,
    pub dependencies: Dependencies,
}

/// Decisions to execute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// Start these, in this order: claim the run by a status write, then create its Pod.
    pub admit: Vec<Admission>,
    /// Fail these. They are repeated until they are removed from the queue.
    pub fail: Vec<Refusal>,
    /// The start history after these admissions, without starts before the window; `None` if there is nothing to write.
    /// Repeated until [`Queue::recorded`] confirms that it was written.
    pub history: Option<Vec<TaskStart>>,
    /// The Agent is suspended by standby and a Task could run: resume it.
    pub resume: bool,
    /// Decide again at this time, also without an event.
    pub next_wake: Option<Timestamp>,
}

/// A run that may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    pub key: TaskKey,
    pub epoch: i64,
    /// Time of admission in whole seconds, as Kubernetes keeps them. Write it to `timings.admittedAt`: after a restart
    /// the quota is counted from it.
    pub at: Timestamp,
}

/// A Task that can never run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub key: TaskKey,
    pub reason: &'static str,
    pub message: String,
}

/// Order of the queue: priority, then age, then name.
type Rank = (Reverse<i32>, Timestamp, TaskKey);

/// A run that holds a slot.
#[derive(Clone, Debug)]
struct Running {
    epoch: i64,
    admitted_at: Option<Timestamp>,
    /// The Task as it waited, until the run is claimed.
    unconfirmed: Option<Waiting>,
    own_limit: Allowance,
    /// The part of the shared budgets that is reserved for the run; unset where it is not known.
    share: Allowance,
}

/// The queue of one Agent or template.
#[derive(Clone, Debug)]
pub struct Queue {
    runs_on: RunsOn,
    grace: SignedDuration,
    limits: Limits,
    gate: Gate,
    waiting: BTreeMap<TaskKey, Waiting>,
    /// Members of `waiting` that only wait for a slot, in order.
    eligible: BTreeSet<Rank>,
    /// Members of `waiting` that can never run.
    doomed: BTreeSet<TaskKey>,
    /// Members of `waiting` that can still run, longest wait first.
    by_wait: BTreeSet<(Timestamp, TaskKey)>,
    /// Members of `waiting` with a missing reference or dependency, by the time at which they fail.
    by_missing: BTreeSet<(Timestamp, TaskKey)>,
    running: BTreeMap<TaskKey, Running>,
    history: StartHistory,
    /// The shared budgets, after the shares of running Tasks.
    budget: BudgetState,
}

impl Queue {
    /// An empty queue. Tasks wait for `grace` if their Agent or template does not exist.
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
            budget: BudgetState::default(),
        }
    }

    /// Adds or updates a waiting Task. Ignored for an admitted run: the watch may show it as waiting for a moment
    /// longer.
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

    /// Records a run that holds a slot. `admitted_at` is from its status; a start that is missing in the history,
    /// because a controller died between two writes, is added.
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
        let known = self.running.get(&key).filter(|running| running.epoch == epoch);
        let (own_limit, share) = known.map(|running| (running.own_limit, running.share)).unwrap_or_default();
        self.running.insert(key, Running { epoch, admitted_at, unconfirmed: None, own_limit, share });
    }

    /// Frees the slot of a run. Late events of an older run change nothing.
    pub fn finished(&mut self, key: &TaskKey, epoch: i64) {
        if self.running.get(key).is_some_and(|running| running.epoch <= epoch) {
            self.give_back(key);
        }
        if self.waiting.get(key).is_some_and(|waiting| waiting.epoch <= epoch) {
            self.forget(key);
        }
    }

    /// Removes a Task that was deleted or has another target now.
    pub fn remove(&mut self, key: &TaskKey) {
        self.give_back(key);
        self.forget(key);
    }

    /// Frees the slot of a Task. The start of a run that was never claimed is removed from the history, too.
    fn give_back(&mut self, key: &TaskKey) {
        if let Some(Running { admitted_at: Some(at), unconfirmed: Some(_), .. }) = self.running.remove(key) {
            self.history.remove(key, at);
        }
    }

    /// The admission of a Task that is not claimed yet.
    pub fn admission(&self, key: &TaskKey) -> Option<Admission> {
        let Running { epoch, admitted_at, unconfirmed, .. } = self.running.get(key)?;
        unconfirmed.as_ref()?;
        Some(Admission { key: key.clone(), epoch: *epoch, at: (*admitted_at)? })
    }

    /// Confirms an admission: the run holds its slot, whatever the watch still shows.
    pub fn claimed(&mut self, admission: &Admission) {
        if let Some(running) = self.running.get_mut(&admission.key).filter(|run| run.epoch == admission.epoch) {
            running.unconfirmed = None;
        }
    }

    /// Takes an admission back, because the claim was refused: another controller may have been faster. The Task waits
    /// as before. Observe the Task before the next decision, or it is admitted again.
    pub fn withdraw(&mut self, admission: &Admission) {
        let Some(running) = self.running.get(&admission.key) else { return };
        let Some(task) = running.unconfirmed.clone().filter(|task| task.epoch == admission.epoch) else { return };
        self.give_back(&admission.key);
        self.upsert(task);
    }

    /// Makes a Task wait for a missing object, unless it waits for other Tasks first. Returns whether it was admitted
    /// and gave its slot back.
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

    /// Sets how long Tasks wait if their Agent or template does not exist.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = signed(grace);
    }

    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.history.set_quota(limits.quota);
        let started: Vec<_> =
            self.running.iter().filter_map(|(key, run)| Some((key.clone(), run.admitted_at?))).collect();
        for (key, at) in started {
            self.history.insert(&key, at);
        }
    }

    pub fn set_gate(&mut self, gate: Gate) {
        if !matches!((&self.gate, &gate), (Gate::Missing { .. }, Gate::Missing { .. })) {
            self.gate = gate;
        }
    }

    /// Adds starts from the Agent's or template's status that are not known yet. Set limits first.
    pub fn restore(&mut self, history: &[TaskStart]) {
        self.history.restore(history);
    }

    /// Confirms that this history was written to the status.
    pub fn recorded(&mut self, history: &[TaskStart]) {
        self.history.set_recorded(history);
    }

    /// Whether the recorded starts differ from those that count.
    pub fn has_unrecorded(&self) -> bool {
        self.history.unrecorded().is_some()
    }

    /// Decides which Tasks start. Admitted Tasks hold their slots from now on.
    pub fn decide(&mut self, now: Timestamp) -> Decisions {
        self.history.prune(now);
        let mut decisions = Decisions { fail: self.refusals(now), ..Decisions::default() };
        match self.gate {
            Gate::Ready => {
                while !self.at_capacity() && !self.history.is_used_up() && !self.budget.left.is_nothing() {
                    let Some((_, _, key)) = self.eligible.pop_first() else { break };
                    let Some(task) = self.waiting.get(&key).cloned() else { continue };
                    self.forget(&key);
                    // Rounded up, so that the window is not shorter than the quota says.
                    let admission = Admission { key: key.clone(), epoch: task.epoch, at: whole_second(now) };
                    self.history.record(&key, admission.at);
                    let (epoch, admitted_at, own_limit) = (admission.epoch, Some(admission.at), task.own_limit);
                    let (share, left) = self.budget.left.take(own_limit.and(self.budget.each), Allowance::default());
                    self.budget.left = left;
                    let unconfirmed = Some(task);
                    self.running.insert(key, Running { epoch, admitted_at, unconfirmed, own_limit, share });
                    decisions.admit.push(admission);
                }
            }
            Gate::Standby => decisions.resume = !self.eligible.is_empty(),
            Gate::SuspendedByUser
            | Gate::ServerNotReady
            | Gate::ServerReplaced
            | Gate::Unusable { .. }
            | Gate::Lacks { .. }
            | Gate::Missing { .. } => {}
        }
        decisions.history = self.history.unrecorded().map(<[TaskStart]>::to_vec);
        decisions.next_wake = self.next_wake(now);
        decisions
    }

    /// Number of waiting Tasks.
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

    /// Position of a Task, 1 being next; `None` for a Task that waits for another Task. O(position).
    pub fn position(&self, key: &TaskKey) -> Option<usize> {
        let rank = rank(self.waiting.get(key)?);
        self.eligible.contains(&rank).then(|| self.eligible.range(..=rank).count())
    }

    /// Positions of all Tasks that have one, in order. O(n).
    pub fn positions(&self) -> impl Iterator<Item = (usize, &TaskKey)> {
        self.eligible.iter().enumerate().map(|(index, (_, _, key))| (index + 1, key))
    }

    /// Waiting Tasks in no particular order.
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
        let budget = match &self.budget {
            BudgetState { used_up: Some(used_up), .. } => used_up.until,
            BudgetState { left, frees, .. } => frees.filter(|_| left.is_nothing()),
        };
        let budget = budget.filter(|_| held_up);
        let grace = self.by_wait.first().and_then(|(since, _)| self.grace_end(*since));
        let missing = self.by_missing.first().map(|(until, _)| *until);
        // Times in the past belong to Tasks that this decision refused.
        [quota, budget, grace, missing].into_iter().flatten().filter(|wake| *wake > now).min()
    }

    /// Until when a Task that waits since `since` waits for a missing Agent, or for what the Agent lacks.
    fn grace_end(&self, since: Timestamp) -> Option<Timestamp> {
        match self.gate {
            Gate::Missing { since: gone } | Gate::Lacks { since: gone, .. } => Some(later(since.max(gone), self.grace)),
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
            let (reason, message) = match &self.gate {
                Gate::Lacks { reason, message, .. } => (*reason, message.clone()),
                _ => wait::gone(&self.runs_on, self.grace),
            };
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
