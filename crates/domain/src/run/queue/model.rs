//! The index and its queues against a model that is too simple to be wrong: lists of Tasks, sorted from scratch for
//! each decision.

use std::sync::Arc;

use api::{Key, kinds::task::TaskTimings};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::{
    history::{most_starts, window},
    index::{Circumstances, Cluster, Decision, Index},
    *,
};
use crate::{
    run::{
        stage::{Stage, joins_later},
        target::Target,
    },
    sample::from_json,
};

#[derive(Clone, Debug)]
enum Event {
    Waits { task: u8, priority: i32, created: i64, blocked: bool, delay: Option<i64> },
    Ends(u8),
    Vanishes { task: u8, leaves_pod: bool },
    PodStops,
    LosesClaim,
    IsRefused,
    Limits { max: Option<u32>, quota: Option<(i32, i32)> },
    Gate(Gate),
    TimePasses(i64),
    WakesUp,
    Restarts,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let task = 0..12_u8;
    let delay = prop::option::weighted(0.2, 1..60_i64);
    let event = prop_oneof![
        8 => (task.clone(), -1..2_i32, 0..3_i64, prop::bool::weighted(0.2), delay).prop_map(
            |(task, priority, created, blocked, delay)| Event::Waits { task, priority, created, blocked, delay }
        ),
        5 => task.clone().prop_map(Event::Ends),
        1 => (task, any::<bool>()).prop_map(|(task, leaves_pod)| Event::Vanishes { task, leaves_pod }),
        1 => Just(Event::PodStops),
        1 => Just(Event::LosesClaim),
        1 => Just(Event::IsRefused),
        2 => (prop::option::of(1..4_u32), prop::option::of((1..4_i32, 60..120_i32)))
            .prop_map(|(max, quota)| Event::Limits { max, quota }),
        2 => prop_oneof![3 => Just(Gate::Ready), 1 => Just(Gate::Standby), 1 => Just(Gate::ServerNotReady)]
            .prop_map(Event::Gate),
        4 => (1..40_i64).prop_map(Event::TimePasses),
        2 => Just(Event::WakesUp),
        1 => Just(Event::Restarts),
    ];
    prop::collection::vec(event, 1..80)
}

/// State that a restarted controller can see: Tasks, Pods of deleted Tasks, and the history in the Agent's status.
#[derive(Default)]
struct World {
    tasks: BTreeMap<String, Arc<Task>>,
    /// Runs of deleted Tasks whose Pod still exists.
    orphans: Vec<(TaskKey, i64)>,
    /// The history in the Agent's status.
    written: Vec<TaskStart>,
    /// Every start since the current quota was set.
    starts: Vec<Timestamp>,
    /// Tasks that were created.
    created: usize,
}

impl Cluster for World {
    fn task(&self, key: &Key) -> Option<Arc<Task>> {
        self.tasks.get(&key.name).cloned()
    }

    fn has_pod(&self, task: &TaskKey) -> bool {
        self.orphans.iter().any(|(orphan, _)| orphan == task)
    }
}

impl World {
    /// Tasks that wait for their turn or for other Tasks.
    fn waiting(&self, now: Timestamp) -> impl Iterator<Item = &Task> {
        let waits = move |task: &&Task| matches!(Stage::of(task), Stage::Waiting { .. });
        self.on_target().filter(waits).filter(move |task| joins_later(task, now).is_none())
    }

    fn running(&self) -> usize {
        let runs = |task: &&Task| matches!(Stage::of(task), Stage::Running { .. });
        self.on_target().filter(runs).count() + self.orphans.len()
    }

    fn on_target(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().map(|task| &**task).filter(|task| Target::of(task).is_some())
    }
}

const BLOCKER: &str = "blocker";

fn name(task: u8) -> String {
    format!("t{task:02}")
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn target() -> Target {
    Target::agent(key("a"))
}

fn seconds(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A start history in an order that does not depend on which Task came first within a second.
fn by_time(history: Option<&Vec<TaskStart>>) -> Option<Vec<(Timestamp, String)>> {
    let mut starts: Vec<_> = history?.iter().map(|start| (start.start_time.0, start.task_name.clone())).collect();
    starts.sort();
    Some(starts)
}

/// The index and the world around it.
struct Play {
    world: World,
    index: Index,
    limits: Limits,
    gate: Gate,
    now: Timestamp,
    wake: Option<Timestamp>,
    /// The last admission of the last decision, not claimed yet.
    last: Option<Admission>,
    /// A decision is required.
    due: bool,
    /// Tasks that were reconciled since they changed.
    reported: BTreeSet<Key>,
}

impl Play {
    fn new() -> Self {
        let mut world = World::default();
        let blocker = from_json(json!({ "metadata": { "namespace": "ns", "name": BLOCKER }, "spec": {} }));
        world.tasks.insert(BLOCKER.into(), Arc::new(blocker));
        let (limits, gate, now) = (Limits::default(), Gate::Ready, seconds(1000));
        let index = Index::default();
        Self { world, index, limits, gate, now, wake: None, last: None, due: false, reported: BTreeSet::new() }
    }

    /// The index of a controller that just started.
    fn fresh(&self) -> Index {
        let mut index = Index::default();
        index.set_grace(Duration::from_mins(1));
        for name in self.world.tasks.keys() {
            index.observe(&key(name), &self.world, self.now);
        }
        for (task, epoch) in &self.world.orphans {
            index.orphaned(task.clone(), *epoch, target(), self.now);
        }
        index
    }

    fn circumstances(&self) -> Circumstances {
        Circumstances { gate: self.gate.clone(), limits: self.limits, history: self.world.written.clone() }
    }

    fn happens(&mut self, event: Event) {
        if !matches!(event, Event::LosesClaim | Event::IsRefused)
            && let Some(admission) = self.last.take()
        {
            self.claim(&admission);
        }
        match event {
            Event::Waits { task, priority, created, blocked, delay } => {
                self.waits(&name(task), priority, created, blocked, delay);
            }
            Event::Ends(task) => self.ends(&name(task)),
            Event::Vanishes { task, leaves_pod } => self.vanishes(&name(task), leaves_pod),
            Event::PodStops => {
                if let Some((task, _)) = self.world.orphans.pop() {
                    self.due |= self.index.pod_gone(&task.uid).is_some();
                }
            }
            Event::LosesClaim => {
                // Only an unconfirmed claim can be lost; nothing happened since, so it is the last one.
                if let Some(admission) = self.last.take() {
                    self.index.withdrawn(&admission);
                    self.observe(&admission.key.name);
                    self.never_started();
                }
            }
            Event::IsRefused => {
                if let Some(Admission { key: task, epoch, .. }) = self.last.take() {
                    self.write(&task.name, |status| status.phase = Some(api::TaskPhase::Failed));
                    self.due |= self.index.finished(&key(&task.name), epoch).is_some();
                    self.observe(&task.name);
                    self.never_started();
                }
            }
            Event::Limits { max, quota } => self.limit(max, quota),
            Event::Gate(gate) => {
                self.gate = gate;
                self.due = true;
            }
            Event::TimePasses(passed) => self.now = later(self.now, SignedDuration::from_secs(passed)),
            Event::WakesUp => self.now = self.wake.map_or(self.now, |wake| wake.max(self.now)),
            Event::Restarts => {
                self.index = self.fresh();
                self.reported.clear();
                self.due = true;
            }
        }
    }

    fn waits(&mut self, name: &str, priority: i32, created: i64, blocked: bool, delay: Option<i64>) {
        let known = self.world.tasks.get(name).cloned();
        if known.as_ref().is_some_and(|task| matches!(Stage::of(task), Stage::Running { .. })) {
            return;
        }
        let mut task = known.map_or_else(
            || {
                self.world.created += 1;
                let uid = format!("u{}", self.world.created);
                from_json(json!({
                    "metadata": { "namespace": "ns", "name": name, "uid": uid },
                    "spec": { "agentRef": { "name": "a" } },
                }))
            },
            |task| Task::clone(&task),
        );
        task.metadata.creation_timestamp = Some(Time(seconds(created)));
        task.spec.priority = priority;
        task.spec.depends_on = blocked.then(|| from_json(json!([{ "task": BLOCKER }])));
        let status = task.status.get_or_insert_default();
        status.phase = Some(api::TaskPhase::Queued);
        let queued_at = delay.map(|delay| Time(later(self.now, SignedDuration::from_secs(delay))));
        status.timings = Some(TaskTimings { queued_at, ..TaskTimings::default() });
        self.world.tasks.insert(name.into(), Arc::new(task));
        self.observe(name);
    }

    /// Ends a run or a waiting Task.
    fn ends(&mut self, name: &str) {
        let Some(task) = self.world.tasks.get(name).cloned() else { return };
        let (Stage::Waiting { epoch } | Stage::Running { epoch, .. }) = Stage::of(&task) else { return };
        self.write(name, |status| status.phase = Some(api::TaskPhase::Failed));
        self.due |= self.index.finished(&key(name), epoch).is_some();
        self.observe(name);
    }

    fn vanishes(&mut self, name: &str, leaves_pod: bool) {
        let Some(task) = self.world.tasks.remove(name) else { return };
        if let Stage::Running { epoch, .. } = Stage::of(&task)
            && leaves_pod
        {
            self.world.orphans.push((TaskKey::of(&task), epoch));
        }
        self.observe(name);
    }

    fn limit(&mut self, max: Option<u32>, quota: Option<(i32, i32)>) {
        let quota = quota.map(|(max_task_starts, window_seconds)| Quota { max_task_starts, window_seconds });
        if quota != self.limits.quota {
            self.world.starts.clear();
        }
        self.limits = Limits { max_concurrent: max, quota };
        // The history is written before anything starts under the new limits.
        let closed = Circumstances { gate: Gate::ServerNotReady, ..self.circumstances() };
        self.reported.extend(self.index.decide(&target(), closed, self.now).look_at);
        self.record();
        self.due = true;
    }

    /// Claims a run. The watch shows that sooner or later.
    fn claim(&mut self, admission: &Admission) {
        let Admission { key: task, epoch, at } = admission;
        self.write(&task.name, |status| {
            (status.phase, status.run_epoch) = (Some(api::TaskPhase::Running), Some(*epoch));
            status.timings.get_or_insert_default().admitted_at = Some(Time(*at));
        });
        // Meanwhile the watch may still show the Task as waiting: that changes nothing.
        self.index.claimed(admission);
        if epoch % 2 == 0 {
            self.index.observe(&key(&task.name), &self.world, self.now);
        }
    }

    fn write(&mut self, name: &str, change: impl FnOnce(&mut api::TaskStatus)) {
        if let Some(task) = self.world.tasks.get_mut(name) {
            change(Arc::make_mut(task).status.get_or_insert_default());
        }
    }

    fn observe(&mut self, name: &str) {
        self.reported.remove(&key(name));
        self.due |= !self.index.observe(&key(name), &self.world, self.now).is_empty();
    }

    /// Removes a returned start from the history before anything else happens.
    fn never_started(&mut self) {
        self.world.starts.pop();
        self.record();
    }

    /// Writes the history of the queue. Without a queue, everything is written already.
    fn record(&mut self) {
        if let Some(queue) = self.index.queue_of_target(&target()) {
            self.world.written = queue.history().to_vec();
            self.index.recorded(&target(), &self.world.written);
        }
    }

    /// The Tasks that should be admitted now: sort the eligible, take as many as the limits allow.
    fn expected(&self) -> Vec<String> {
        if self.gate != Gate::Ready {
            return Vec::new();
        }
        let mut eligible: Vec<&Task> =
            self.world.waiting(self.now).filter(|task| task.spec.depends_on.is_none()).collect();
        let created = |task: &Task| task.metadata.creation_timestamp.as_ref().map(|time| time.0);
        eligible.sort_by_key(|task| (-task.spec.priority, created(task), task.metadata.name.clone()));
        let slots =
            self.limits.max_concurrent.map_or(usize::MAX, |max| (max as usize).saturating_sub(self.world.running()));
        let starts = self.limits.quota.map_or(usize::MAX, |quota| {
            let counts = |start: &&TaskStart| later(start.start_time.0, window(quota)) > self.now;
            most_starts(quota).saturating_sub(self.world.written.iter().filter(counts).count())
        });
        eligible.into_iter().take(slots.min(starts)).filter_map(|task| task.metadata.name.clone()).collect()
    }

    /// Decides, compares with the model, and applies the result to the world.
    fn decides(&mut self, woken: bool) -> Result<(), TestCaseError> {
        let expected = self.expected();
        if !self.due && self.wake.is_none_or(|wake| wake > self.now) {
            prop_assert!(expected.is_empty(), "no effect asked for the decision that admits {expected:?}");
            return Ok(());
        }
        let circumstances = self.circumstances();
        let restarted = self.fresh().decide(&target(), circumstances.clone(), self.now).decisions;
        let decided = self.index.decide(&target(), circumstances, self.now);
        let decisions = decided.decisions;
        let admitted: Vec<String> = decisions.admit.iter().map(|admission| admission.key.name.clone()).collect();
        prop_assert_eq!(&admitted, &expected, "in order, as many as the limits leave, and no fewer");
        prop_assert!(!woken || !decided.look_at.is_empty(), "a wake-up is never in vain");
        prop_assert_eq!(
            (&restarted.admit, &restarted.fail, by_time(restarted.history.as_ref()), restarted.resume),
            (&decisions.admit, &decisions.fail, by_time(decisions.history.as_ref()), decisions.resume),
            "a restart changes nothing"
        );

        if let Some(history) = &decisions.history {
            self.world.written.clone_from(history);
            self.index.recorded(&target(), history);
        }
        self.world.starts.extend(decisions.admit.iter().map(|admission| admission.at));
        self.last = decisions.admit.last().cloned();
        for admission in decisions.admit.iter().rev().skip(1) {
            self.claim(admission);
        }
        self.due = false;
        self.wake = decisions.next_wake;
        self.reported.extend(decided.look_at);
        let running = self.world.running() + usize::from(self.last.is_some());
        prop_assert_eq!(decided.running, running);
        if let Some(max) = self.limits.max_concurrent {
            prop_assert!(admitted.is_empty() || running <= max as usize);
        }
        if let Some(quota) = self.limits.quota {
            let recent = self.world.starts.iter().filter(|start| later(**start, window(quota)) > self.now).count();
            prop_assert!(recent <= most_starts(quota), "{recent} starts in the window");
        }
        self.every_task_has_a_decision()
    }

    fn every_task_has_a_decision(&mut self) -> Result<(), TestCaseError> {
        let admitted = self.last.as_ref().map(|admission| admission.key.clone());
        let waiting: Vec<TaskKey> = self.world.waiting(self.now).map(TaskKey::of).collect();
        for task in &waiting {
            let key = key(&task.name);
            prop_assert!(self.reported.contains(&key), "{key} was never looked at");
            let decision = self.index.decision(&key, &task.uid);
            let fits = match &decision {
                Some(Decision::Start(admission)) => Some(&admission.key) == admitted.as_ref(),
                Some(Decision::Wait(_)) => Some(task) != admitted.as_ref(),
                _ => false,
            };
            prop_assert!(fits, "{key}: {decision:?}");
        }
        if let Some(queue) = self.index.queue_of_target(&target()) {
            prop_assert_eq!(queue.len() + usize::from(admitted.is_some()), waiting.len());
            for (position, key) in queue.positions() {
                prop_assert_eq!(queue.position(key), Some(position));
                let quota = matches!(queue.why(key), Some(Wait::QuotaExceeded { .. }));
                prop_assert!(!quota || self.wake.is_some());
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_does_what_the_model_does(events in events()) {
        let mut play = Play::new();
        for event in events {
            let woken = matches!(event, Event::WakesUp) && play.wake.is_some_and(|wake| wake > play.now);
            play.happens(event);
            play.decides(woken)?;
        }
    }
}
