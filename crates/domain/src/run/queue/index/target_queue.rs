//! The queue of one target, and the reports in the statuses of its Tasks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use api::{Key, kinds::agent::TaskStart};
use jiff::{SignedDuration, Timestamp};

use super::{Circumstances, Decided, Decision, key_of};
use crate::{
    duration::later,
    run::{
        budget::Allowance,
        dependencies::Missing,
        queue::{Admission, BudgetState, Gate, Limits, Queue, TaskKey, Wait, Waiting, shown_position},
        target::RunsOn,
    },
};

/// Positions change with every admission; statuses are updated at most this often.
pub const POSITIONS_PERIOD: SignedDuration = SignedDuration::from_secs(30);

/// The status of a waiting Task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    pub reason: &'static str,
    pub message: String,
    /// Position in the queue, 1 being next; `None` for a Task that does not wait for its turn.
    pub position: Option<i32>,
}

/// The queue of one target.
pub(super) struct TargetQueue {
    queue: Queue,
    /// Tasks that join the queue at a later time, such as retries in their backoff.
    delayed: BTreeMap<TaskKey, (Timestamp, Waiting)>,
    /// Gate and limits of the last decision. If they change, the statuses of waiting Tasks change.
    decided_under: Option<(Gate, Limits)>,
    /// The budget message of statuses changed since the last decision.
    budget_changed: bool,
    /// Tasks that the next decision reports.
    unreported: BTreeSet<Key>,
    /// Positions in statuses. They are updated together every [`POSITIONS_PERIOD`]: if each status followed each move,
    /// a Task that waits long would cost a write for every Task before it.
    positions: HashMap<Key, i32>,
    /// When the positions of all Tasks were reported.
    reported_at: Timestamp,
    /// The reason for which all Tasks waited at that time.
    reported_reason: Option<&'static str>,
    /// A Task left the queue since then.
    moved: bool,
    /// The start history in the status of the target was taken over.
    restored: bool,
}

impl TargetQueue {
    pub(super) fn new(runs_on: RunsOn, grace: Duration, now: Timestamp) -> Self {
        Self {
            queue: Queue::new(runs_on, grace),
            delayed: BTreeMap::new(),
            decided_under: None,
            budget_changed: false,
            unreported: BTreeSet::new(),
            positions: HashMap::new(),
            reported_at: now,
            reported_reason: None,
            moved: false,
            restored: false,
        }
    }

    /// Adds a Task that waits now, or from `joins_at` on.
    pub(super) fn waits(&mut self, key: &Key, waiting: Waiting, joins_at: Option<Timestamp>) {
        // A Task that waits for its next run has given back the slot of the previous one.
        self.queue.finished(&waiting.key, waiting.epoch - 1);
        self.delayed.remove(&waiting.key);
        match joins_at {
            // An admitted run is not taken back: the watch is behind, or its claim fails.
            Some(_) if self.queue.is_running(&waiting.key) => {}
            Some(at) => {
                self.queue.remove(&waiting.key);
                self.delayed.insert(waiting.key.clone(), (at, waiting));
            }
            None => self.join(key.clone(), waiting),
        }
    }

    fn join(&mut self, key: Key, waiting: Waiting) {
        self.queue.upsert(waiting);
        self.unreported.insert(key);
    }

    /// Records a run that holds a slot.
    pub(super) fn ran(&mut self, task: TaskKey, epoch: i64, admitted_at: Option<Timestamp>) {
        self.positions.remove(&key_of(&task));
        self.delayed.remove(&task);
        self.queue.running(task, epoch, admitted_at);
    }

    /// Ends a run.
    pub(super) fn finished(&mut self, task: &TaskKey, epoch: i64) {
        self.queue.finished(task, epoch);
        if self.delayed.get(task).is_some_and(|(_, waiting)| waiting.epoch <= epoch) {
            self.delayed.remove(task);
        }
    }

    /// Removes a Task that was deleted or has another target now.
    pub(super) fn remove(&mut self, task: &TaskKey) {
        self.queue.remove(task);
        self.delayed.remove(task);
        self.report_no_more(&key_of(task));
    }

    /// Drops the reports of a Task without a status.
    pub(super) fn report_no_more(&mut self, key: &Key) {
        self.unreported.remove(key);
        self.positions.remove(key);
    }

    pub(super) fn admission(&self, task: &TaskKey) -> Option<Admission> {
        self.queue.admission(task)
    }

    pub(super) fn claimed(&mut self, admission: &Admission) {
        self.queue.claimed(admission);
    }

    pub(super) fn withdraw(&mut self, admission: &Admission) {
        self.queue.withdraw(admission);
    }

    pub(super) fn wait_for_reference(&mut self, task: &TaskKey, missing: Missing) -> bool {
        // A Task that waits for a reference has no position; the one of before is out of date.
        self.positions.remove(&key_of(task));
        self.queue.wait_for_reference(task, missing)
    }

    pub(super) fn recorded(&mut self, history: &[TaskStart]) {
        self.queue.recorded(history);
    }

    pub(super) fn set_budget(&mut self, state: BudgetState) {
        self.budget_changed |= self.queue.set_budget(state);
    }

    pub(super) fn set_own_limit(&mut self, task: &TaskKey, limit: Allowance) {
        self.queue.set_own_limit(task, limit);
    }

    pub(super) fn share(&self, task: &TaskKey) -> Option<Allowance> {
        self.queue.share(task)
    }

    /// Decides, and returns the Tasks with a new report.
    pub(super) fn decide(&mut self, circumstances: Circumstances, grace: Duration, now: Timestamp) -> Decided {
        self.prepare(&circumstances, grace);
        self.join_due(now);
        let mut decisions = self.queue.decide(now);
        self.moved |= !decisions.admit.is_empty();
        let mut look_at = self.reports(circumstances, now);
        look_at.extend(decisions.admit.iter().map(|admission| key_of(&admission.key)));
        look_at.extend(decisions.fail.iter().map(|refusal| key_of(&refusal.key)));
        let joins = self.delayed.values().map(|(at, _)| *at).min();
        decisions.next_wake = [decisions.next_wake, joins, self.reports_due()].into_iter().flatten().min();
        Decided { decisions, look_at, waiting: self.queue.len(), running: self.queue.running_count() }
    }

    fn prepare(&mut self, circumstances: &Circumstances, grace: Duration) {
        self.queue.set_grace(grace);
        self.queue.set_limits(circumstances.limits);
        self.queue.set_gate(circumstances.gate.clone());
        // Once: later the memory is newer. The status may contain a start whose claim was lost.
        if !self.restored {
            self.queue.restore(&circumstances.history);
        }
        self.restored = circumstances.limits.quota.is_some();
    }

    /// Moves delayed Tasks that are due into the queue.
    fn join_due(&mut self, now: Timestamp) {
        for (_, (_, waiting)) in self.delayed.extract_if(.., |_, (at, _)| *at <= now).collect::<Vec<_>>() {
            self.join(key_of(&waiting.key), waiting);
        }
    }

    /// Waiting Tasks with a new report: all if that is due, else those that changed.
    fn reports(&mut self, circumstances: Circumstances, now: Timestamp) -> Vec<Key> {
        let under = Some((without_time(circumstances.gate), circumstances.limits));
        let all_changed = self.decided_under != under || std::mem::take(&mut self.budget_changed);
        self.decided_under = under;
        let elapsed = now.duration_since(self.reported_at);
        // A clock that was set back must not stop the reports.
        let due = elapsed >= POSITIONS_PERIOD || elapsed.is_negative();
        if !all_changed && !due {
            return std::mem::take(&mut self.unreported).into_iter().collect();
        }
        (self.reported_at, self.reported_reason, self.moved) = (now, self.held_up_by(), false);
        self.positions.clear();
        self.unreported.clear();
        self.queue.waiting().map(|waiting| key_of(&waiting.key)).collect()
    }

    /// When all Tasks are reported again; `None` if no position and no reason changed.
    fn reports_due(&self) -> Option<Timestamp> {
        let changed = self.moved || self.reported_reason != self.held_up_by();
        (changed && !self.queue.is_empty()).then(|| later(self.reported_at, POSITIONS_PERIOD))
    }

    fn held_up_by(&self) -> Option<&'static str> {
        self.queue.held_up_by().map(|wait| wait.reason(self.queue.runs_on()))
    }

    /// The decision about a waiting Task. Without one, the next decision reports the Task.
    pub(super) fn wait(&mut self, key: &Key, task: &TaskKey) -> Option<Decision> {
        if self.unreported.contains(key) {
            return None;
        }
        let Some(wait) = self.queue.why(task) else {
            if self.queue.is_waiting(task) {
                self.unreported.insert(key.clone());
            }
            return None;
        };
        let queued = self.queued(&wait, key, task);
        Some(if matches!(wait, Wait::Reference(_)) {
            Decision::WaitForReference(queued)
        } else {
            Decision::Wait(queued)
        })
    }

    /// The status that a waiting Task should have now.
    pub(super) fn report(&mut self, key: &Key, task: &TaskKey) -> Option<Queued> {
        let wait = self.queue.why(task)?;
        Some(self.queued(&wait, key, task))
    }

    fn queued(&mut self, wait: &Wait, key: &Key, task: &TaskKey) -> Queued {
        let position = self.positions.get(key).copied().or_else(|| self.queue.position(task).map(shown_position));
        if let Some(position) = position {
            self.positions.insert(key.clone(), position);
        }
        let runs_on = self.queue.runs_on();
        Queued { reason: wait.reason(runs_on), message: wait.message(runs_on), position }
    }

    /// Whether a run of the Task holds a slot.
    pub(super) fn is_running(&self, task: &TaskKey) -> bool {
        self.queue.is_running(task)
    }

    /// Whether the Task waits, will wait or runs.
    pub(super) fn has(&self, task: &TaskKey) -> bool {
        self.queue.is_waiting(task) || self.queue.is_running(task) || self.delayed.contains_key(task)
    }

    /// Tasks that run or wait only for the target.
    pub(super) fn load(&self) -> usize {
        self.running() + self.queue.positions().count()
    }

    /// Tasks that run.
    pub(super) fn running(&self) -> usize {
        self.queue.running_count()
    }

    /// Whether the queue holds no state.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.running() == 0 && self.delayed.is_empty() && !self.queue.has_unrecorded()
    }

    /// The queue itself, for the model.
    #[cfg(test)]
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }
}

/// A gate without its time, which statuses do not show.
fn without_time(gate: Gate) -> Gate {
    match gate {
        Gate::Missing { .. } => Gate::Missing { since: Timestamp::UNIX_EPOCH },
        other => other,
    }
}
