//! Who waits for what: the queues of all Agents and templates, fed by the Task watch.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api::{Task, kinds::agent::TaskStart};
use jiff::Timestamp;
use kubeopencode_core::{
    dependencies::{self, Dependencies, Missing, Other},
    queue::{Admission, Decisions, Gate, Limits, Queue, Refusal, Spending, TaskKey, Wait, Waiting, shown_position},
};
use observe::Key;

mod needed;

use needed::Needed;

use super::{
    follow::later,
    standing::{Standing, joins_later, stop_requested},
    target::Target,
};
use crate::context::now;

mod spending;

/// Positions in a queue change with every admission; statuses follow this often at most.
const POSITIONS: Duration = Duration::from_secs(30);

/// What a waiting Task's status should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Stable word.
    pub reason: &'static str,
    /// The same as a sentence.
    pub message: String,
    /// Place in the queue.
    pub position: Option<i32>,
}

/// What was decided about a Task that waited.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It may start.
    Admitted(Admission),
    /// It can never run.
    Refused(Refusal),
    /// It waits.
    Waits(Queued),
    /// It waits for something that it refers to.
    Lacks(Queued),
    /// Nothing was decided yet.
    Undecided,
}

/// The queues of all Agents and templates.
#[derive(Default)]
pub struct Queues(Mutex<State>);

#[derive(Default)]
struct State {
    lines: HashMap<Target, Line>,
    /// Where each Task waits or runs. Those that have ended are not here: they are the many.
    places: HashMap<Key, (TaskKey, Target)>,
    needed: Needed,
    refused: HashMap<Key, Refusal>,
    /// What was used of budgets that Tasks share.
    spending: HashMap<Target, Spending>,
    /// What Tasks, by their UIDs, lack of what they refer to.
    lacking: HashMap<Key, (String, Missing)>,
    /// Runs whose Task is gone and whose Pod is not, by the Task's UID: they hold their slot until the Pod is gone.
    lingering: HashMap<String, (TaskKey, Target)>,
}

struct Line {
    queue: Queue,
    /// What the last decision was made under; if it changes, so does what the statuses of waiting Tasks should say.
    under: Option<(Gate, Limits)>,
    /// What statuses should say of the budget changed since the last decision.
    retell: bool,
    /// Tasks that came since the last decision.
    fresh: BTreeSet<Key>,
    /// The positions that statuses show. They are told anew together, every [`POSITIONS`]: if each status followed each
    /// move in the queue, a Task that waits long would cost a write for every Task before it.
    told: HashMap<Key, i32>,
    positions_told: Instant,
    /// The word for what held them up when all were told last.
    reason_told: Option<&'static str>,
    /// Somebody left the line since.
    moved: bool,
    /// Starts on record were taken over.
    restored: bool,
}

/// The circumstances of a decision.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Whether anything may start.
    pub gate: Gate,
    /// How much may run.
    pub limits: Limits,
    /// Starts on record.
    pub history: Vec<TaskStart>,
    /// How long Tasks wait for a target that does not exist.
    pub grace: Duration,
}

/// What a decision means for the Tasks of a target.
#[derive(Debug, Default)]
pub struct Decided {
    /// The decision.
    pub decisions: Decisions,
    /// Tasks whose status may have to change: admitted, refused, or waiting for another reason than before.
    pub concerned: Vec<Key>,
    /// How many wait.
    pub waiting: usize,
    /// How many run.
    pub running: usize,
}

impl Queues {
    /// A Task changed, or is gone. Answers which targets need a decision.
    ///
    /// `look` answers a Task as it is known now, and is asked while nobody else observes: of two that observe at once,
    /// the later one must not tell what was before. `has_pod` says whether a Pod of a Task still runs.
    pub fn observe(
        &self,
        key: &Key,
        grace: Duration,
        look: impl Fn(&Key) -> Option<Arc<Task>>,
        has_pod: impl Fn(&TaskKey) -> bool,
    ) -> Vec<Target> {
        let mut state = self.lock();
        let task = look(key);
        let task = task.as_deref();
        let find = |other: &Key| look(other).map(|task| Other::of(&task));
        let mut wake = Vec::new();
        let now = task.and_then(|task| Some((TaskKey::of(task), Target::of(task)?)));
        let before = state.places.get(key).cloned();
        if before != now
            && let Some((old, target)) = before
        {
            state.leave(key, &old, &target, &has_pod);
            wake.push(target);
        }
        if let (Some(task), Some((task_key, target))) = (task, now) {
            if task.metadata.deletion_timestamp.is_some() {
                state.leave(key, &task_key, &target, &has_pod);
            } else {
                state.places.insert(key.clone(), (task_key.clone(), target.clone()));
                if let Some(spending) = state.spending.get_mut(&target) {
                    spending.note_task(task);
                }
                state.stand(key, task, task_key, &target, grace, &find);
            }
            wake.push(target);
        }
        wake.extend(state.targets_of_dependants(key));
        wake
    }

    /// A Pod runs whose Task is gone: it holds a slot of `target`.
    pub fn linger(&self, task: TaskKey, epoch: i64, target: Target, grace: Duration) {
        let mut state = self.lock();
        state.line(&target, grace).queue.running(task.clone(), epoch, None);
        state.lingering.insert(task.uid.clone(), (task, target));
    }

    /// The last Pod of a Task stopped. Answers whose slot became free, if its Task was gone before.
    pub fn pod_gone(&self, uid: &str) -> Option<Target> {
        let mut state = self.lock();
        let (task, target) = state.lingering.remove(uid)?;
        state.lines.get_mut(&target)?.queue.remove(&task);
        Some(target)
    }

    /// Tasks that depend on `key`. Observe them again when it changes.
    pub fn dependants(&self, key: &Key) -> Vec<Key> {
        self.lock().needed.by(key).cloned().collect()
    }

    /// Every Task that waits or runs. Observe them again when what holds for all of them changes.
    pub fn everyone(&self) -> Vec<Key> {
        self.lock().places.keys().cloned().collect()
    }

    /// Every Task that waits for `target` or runs on it.
    pub fn everyone_on(&self, target: &Target) -> Vec<Key> {
        self.lock().places.iter().filter(|(_, (_, on))| on == target).map(|(key, _)| key.clone()).collect()
    }

    /// Decides which Tasks of `target` may start.
    pub fn decide(&self, target: &Target, circumstances: Circumstances, now: Timestamp) -> Decided {
        let mut state = self.lock();
        let Some(line) = state.lines.get_mut(target) else { return Decided::default() };
        let Circumstances { gate, limits, history, grace } = circumstances;
        line.queue.set_grace(grace);
        line.queue.set_limits(limits);
        line.queue.set_gate(gate.clone());
        // Once: from then on memory knows better. A start whose claim was lost is on record for a while, and never was.
        if !line.restored {
            line.queue.restore(&history);
        }
        line.restored = limits.quota.is_some();
        let mut decisions = line.queue.decide(now);
        let reason = line.queue.held_up_by().map(|wait| wait.reason(line.queue.lane()));
        line.moved |= !decisions.admit.is_empty();

        let under = Some((sort_of(gate), limits));
        let all_changed = line.under != under || std::mem::take(&mut line.retell);
        line.under = under;
        let positions_due = line.positions_told.elapsed() >= POSITIONS;
        let mut concerned: Vec<Key> = if all_changed || positions_due {
            line.positions_told = Instant::now();
            (line.reason_told, line.moved) = (reason, false);
            line.told.clear();
            line.fresh.clear();
            line.queue.waiting().map(|waiting| key_of(&waiting.key)).collect()
        } else {
            std::mem::take(&mut line.fresh).into_iter().collect()
        };
        let (waiting, running) = (line.queue.len(), line.queue.running_count());
        // Also if nothing happens until then.
        if waiting > 0 && (line.moved || line.reason_told != reason) {
            let due = later(now, POSITIONS.saturating_sub(line.positions_told.elapsed()));
            decisions.next_wake = Some(decisions.next_wake.map_or(due, |wake| wake.min(due)));
        }
        for admission in &decisions.admit {
            concerned.push(key_of(&admission.key));
        }
        for refusal in &decisions.fail {
            concerned.push(key_of(&refusal.key));
            state.refused.insert(key_of(&refusal.key), refusal.clone());
        }
        state.drop_if_idle(target);
        Decided { decisions, concerned, waiting, running }
    }

    /// The history of a target was written to its status.
    pub fn recorded(&self, target: &Target, history: &[TaskStart]) {
        let mut state = self.lock();
        if let Some(line) = state.lines.get_mut(target) {
            line.queue.recorded(history);
        }
        state.drop_if_idle(target);
    }

    /// How many Tasks run on a target or wait only for it.
    pub fn load(&self, target: &Target) -> usize {
        self.lock().lines.get(target).map_or(0, |line| line.queue.running_count() + line.queue.positions().count())
    }

    /// How many Tasks run on a target.
    pub fn running(&self, target: &Target) -> usize {
        self.lock().lines.get(target).map_or(0, |line| line.queue.running_count())
    }

    /// What was decided about a Task that waits.
    pub fn verdict(&self, key: &Key, uid: &str) -> Verdict {
        let mut state = self.lock();
        let refusal = state.refused.get(key).filter(|refusal| refusal.key.uid == uid).cloned();
        let Some((task, _)) = state.places.get(key).filter(|(task, _)| task.uid == uid).cloned() else {
            return Verdict::Undecided;
        };
        let Some(line) = state.line_of(key) else { return Verdict::Undecided };
        if let Some(admission) = line.queue.admission(&task) {
            return Verdict::Admitted(admission);
        }
        if let Some(refusal) = refusal {
            return Verdict::Refused(refusal);
        }
        match line.queue.why(&task) {
            _ if line.fresh.contains(key) => Verdict::Undecided,
            Some(wait @ Wait::Reference(_)) => Verdict::Lacks(queued(&wait, line, key, &task)),
            Some(wait) => Verdict::Waits(queued(&wait, line, key, &task)),
            None => Verdict::Undecided,
        }
    }

    /// An admitted Task was claimed: it runs now, whatever the watch still shows.
    pub fn claimed(&self, key: &Key, admission: &Admission) {
        if let Some(line) = self.lock().line_of(key) {
            line.queue.claimed(admission);
        }
    }

    /// A claim was lost: the Task waits again as soon as the watch shows it.
    pub fn withdraw(&self, key: &Key, admission: &Admission) {
        if let Some(line) = self.lock().line_of(key) {
            line.queue.withdraw(admission);
        }
    }

    /// A Task lacks something that it refers to, and waits until `missing` says, or as long as it was said first. If it
    /// was admitted, it gives its slot back. Answers whether that is news.
    pub fn lacks(&self, key: &Key, uid: &str, mut missing: Missing) -> bool {
        let mut state = self.lock();
        let before = state.lacking.get(key).filter(|(of, _)| of == uid).map(|(_, missing)| missing.clone());
        if let Some(before) = &before {
            missing.until = before.until;
        }
        state.lacking.insert(key.clone(), (uid.to_owned(), missing.clone()));
        let same = before.as_ref() == Some(&missing);
        let task = state.places.get(key).map(|(task, _)| task.clone());
        if let (Some(task), Some(line)) = (task, state.line_of(key))
            && let Some(admission) = line.queue.admission(&task)
        {
            line.queue.lacks(&admission, missing);
            return true;
        }
        !same
    }

    /// Everything that a Task refers to is there.
    pub fn found(&self, key: &Key) {
        self.lock().lacking.remove(key);
    }

    /// Tasks of `target` that lack something.
    pub fn lacking_on(&self, target: &Target) -> Vec<Key> {
        let state = self.lock();
        let here = |key: &&Key| state.places.get(*key).is_some_and(|(_, on)| on == target);
        state.lacking.keys().filter(here).cloned().collect()
    }

    /// A run ended, and its status says so. Answers whose slot became free.
    pub fn finished(&self, key: &Key, epoch: i64) -> Option<Target> {
        let mut state = self.lock();
        let (task, target) = state.places.get(key).cloned()?;
        state.end(key, &task, &target, epoch);
        Some(target)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn leave(&mut self, key: &Key, task: &TaskKey, target: &Target, has_pod: &impl Fn(&TaskKey) -> bool) {
        self.places.remove(key);
        self.refused.remove(key);
        self.lacking.remove(key);
        if let Some(line) = self.lines.get_mut(target) {
            if line.queue.is_running(task) && has_pod(task) {
                self.lingering.insert(task.uid.clone(), (task.clone(), target.clone()));
            } else {
                line.queue.remove(task);
            }
            line.fresh.remove(key);
            line.told.remove(key);
        }
        self.needed.release(key);
    }

    /// Forgets a line in which nobody waits or runs, once its starts are on record.
    fn drop_if_idle(&mut self, target: &Target) {
        let idle =
            |line: &Line| line.queue.is_empty() && line.queue.running_count() == 0 && !line.queue.has_unrecorded();
        if self.lines.get(target).is_some_and(idle) {
            self.lines.remove(target);
        }
    }

    fn stand(
        &mut self,
        key: &Key,
        task: &Task,
        task_key: TaskKey,
        target: &Target,
        grace: Duration,
        find: &impl Fn(&Key) -> Option<Other>,
    ) {
        match Standing::of(task) {
            Standing::Waiting { .. } if stop_requested(task) => self.line(target, grace).queue.remove(&task_key),
            Standing::Waiting { epoch } => {
                let absent = self.needed.note(key, task, find, now());
                let lacking = self.lacking.get(key).filter(|(of, _)| *of == task_key.uid).map(|(_, missing)| missing);
                let waiting = waiting(task, &task_key, epoch, grace, find, &absent, lacking);
                let line = self.line(target, grace);
                // Whoever waits for the next run has given back the slot of the one before.
                line.queue.finished(&task_key, epoch - 1);
                if joins_later(task).is_none() {
                    line.queue.upsert(waiting);
                    line.fresh.insert(key.clone());
                }
            }
            Standing::Running { epoch, admitted_at } => {
                self.needed.note(key, task, find, now());
                let line = self.line(target, grace);
                line.told.remove(key);
                line.queue.running(task_key, epoch, admitted_at);
            }
            Standing::Finished { epoch } => self.end(key, &task_key, target, epoch),
        }
    }

    /// The line of a target, an empty one if nobody waited or ran there.
    fn line(&mut self, target: &Target, grace: Duration) -> &mut Line {
        self.lines.entry(target.clone()).or_insert_with(|| Line {
            queue: Queue::new(target.lane(), grace),
            under: None,
            retell: false,
            fresh: BTreeSet::new(),
            told: HashMap::new(),
            positions_told: Instant::now(),
            reason_told: None,
            moved: false,
            restored: false,
        })
    }

    /// A run ended. What was decided about the next one stays.
    fn end(&mut self, key: &Key, task: &TaskKey, target: &Target, epoch: i64) {
        if let Some(line) = self.lines.get_mut(target) {
            line.queue.finished(task, epoch);
            if line.queue.is_waiting(task) || line.queue.is_running(task) {
                return;
            }
        }
        self.places.remove(key);
        self.refused.remove(key);
        self.lacking.remove(key);
        self.needed.release(key);
    }

    /// The line that a Task waits or runs in.
    fn line_of(&mut self, key: &Key) -> Option<&mut Line> {
        let (_, target) = self.places.get(key)?;
        self.lines.get_mut(target)
    }

    fn targets_of_dependants(&self, key: &Key) -> Vec<Target> {
        self.needed
            .by(key)
            .filter_map(|dependant| self.places.get(dependant))
            .map(|(_, target)| target.clone())
            .collect()
    }
}

fn waiting(
    task: &Task,
    key: &TaskKey,
    epoch: i64,
    grace: Duration,
    find: &impl Fn(&Key) -> Option<Other>,
    absent: &BTreeMap<String, Timestamp>,
    lacking: Option<&Missing>,
) -> Waiting {
    let created = task.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let queued_at = task.status.as_ref().and_then(|s| s.timings.as_ref()).and_then(|t| t.queued_at.as_ref());
    let since = queued_at.map_or(created, |time| time.0);
    let until = |name: &str| later(absent.get(name).copied().unwrap_or(since), grace);
    let look = |name: &str| find(&Key::new(&key.namespace, name));
    let dependencies = match (dependencies::judge(task, &look, &until), lacking) {
        (Dependencies::Met, Some(missing)) => Dependencies::Missing(missing.clone()),
        (dependencies, _) => dependencies,
    };
    Waiting { key: key.clone(), epoch, priority: task.spec.priority, created, since, dependencies }
}

fn queued(wait: &Wait, line: &mut Line, key: &Key, task: &TaskKey) -> Queued {
    let queue = &line.queue;
    let position = line.told.get(key).copied().or_else(|| queue.position(task).map(shown_position));
    if let Some(position) = position {
        line.told.insert(key.clone(), position);
    }
    Queued { reason: wait.reason(queue.lane()), message: wait.message(queue.lane()), position }
}

/// A gate without the moment since when: the moment does not change what statuses say.
fn sort_of(gate: Gate) -> Gate {
    match gate {
        Gate::Missing { .. } => Gate::Missing { since: Timestamp::UNIX_EPOCH },
        other => other,
    }
}

fn key_of(task: &TaskKey) -> Key {
    Key::new(&task.namespace, &task.name)
}

#[cfg(test)]
mod tests;
