//! The queue against a model that is too simple to be wrong: lists, sorted from scratch for each decision.

use proptest::prelude::*;

use super::{
    history::{most_starts, window},
    *,
};

#[derive(Clone, Debug)]
enum Event {
    Waits { task: u8, priority: i32, created: i64, blocked: bool },
    Ends(u8),
    Vanishes(u8),
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
    let event = prop_oneof![
        8 => (task.clone(), -1..2_i32, 0..3_i64, prop::bool::weighted(0.2))
            .prop_map(|(task, priority, created, blocked)| Event::Waits { task, priority, created, blocked }),
        5 => task.clone().prop_map(Event::Ends),
        1 => task.prop_map(Event::Vanishes),
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

/// What a restarted controller can see: Tasks, their status, and the history in the Agent's status.
#[derive(Default)]
struct World {
    waiting: Vec<Waiting>,
    running: Vec<(TaskKey, i64, Timestamp)>,
    /// As last written to the Agent's status.
    written: Vec<TaskStart>,
    epochs: BTreeMap<u8, i64>,
    /// Every start of the time in which the current quota holds.
    starts: Vec<Timestamp>,
}

fn key(task: u8) -> TaskKey {
    TaskKey { namespace: "ns".into(), name: format!("t{task:02}"), uid: "u".into() }
}

fn fresh(world: &World, limits: Limits, gate: &Gate) -> Queue {
    let mut queue = Queue::new(Lane::Agent("a".into()), Duration::from_mins(1));
    queue.set_limits(limits);
    queue.restore(&world.written);
    queue.set_gate(gate.clone());
    for (key, epoch, at) in &world.running {
        queue.running(key.clone(), *epoch, Some(*at));
    }
    for task in &world.waiting {
        queue.upsert(task.clone());
    }
    queue
}

/// Who should be admitted now: sort the eligible, take as many as the limits leave.
fn expected(world: &World, limits: Limits, gate: &Gate, history: usize) -> Vec<TaskKey> {
    if *gate != Gate::Ready {
        return Vec::new();
    }
    let mut eligible: Vec<&Waiting> =
        world.waiting.iter().filter(|task| task.dependencies == Dependencies::Met).collect();
    eligible.sort_by_key(|task| (-task.priority, task.created, task.key.name.clone()));
    let slots = limits.max_concurrent.map_or(usize::MAX, |max| (max as usize).saturating_sub(world.running.len()));
    let starts = limits.quota.map_or(usize::MAX, |quota| most_starts(quota).saturating_sub(history));
    eligible.into_iter().take(slots.min(starts)).map(|task| task.key.clone()).collect()
}

/// The queue and the world around it.
struct Play {
    world: World,
    queue: Queue,
    limits: Limits,
    gate: Gate,
    now: i64,
    wake: Option<Timestamp>,
    last: Option<Admission>,
}

impl Play {
    fn new() -> Self {
        let (world, limits, gate) = (World::default(), Limits::default(), Gate::Ready);
        let queue = fresh(&world, limits, &gate);
        Self { world, queue, limits, gate, now: 1000, wake: None, last: None }
    }

    fn happens(&mut self, event: Event) {
        if !matches!(event, Event::LosesClaim | Event::IsRefused)
            && let Some(admission) = self.last.take()
        {
            self.queue.claimed(&admission);
        }
        match event {
            Event::Waits { task, priority, created, blocked } => self.waits(task, priority, created, blocked),
            Event::Ends(task) => {
                let epoch = *self.world.epochs.entry(task).or_insert(1);
                self.queue.finished(&key(task), epoch);
                self.leaves(&key(task));
                self.world.epochs.insert(task, epoch + 1);
            }
            Event::Vanishes(task) => {
                self.queue.remove(&key(task));
                self.leaves(&key(task));
            }
            Event::LosesClaim => {
                // Only a claim that was not confirmed can be lost; nothing happened since, so it is the last one.
                if let Some(admission) = self.last.take() {
                    self.queue.withdraw(&admission);
                    assert!(self.queue.position(&admission.key).is_some(), "it waits as before");
                    self.queue.remove(&admission.key);
                    self.never_was(&admission.key);
                }
            }
            Event::IsRefused => {
                if let Some(admission) = self.last.take() {
                    self.queue.finished(&admission.key, admission.epoch);
                    self.never_was(&admission.key);
                }
            }
            Event::Limits { max, quota } => {
                let quota = quota.map(|(max_task_starts, window_seconds)| Quota { max_task_starts, window_seconds });
                if quota != self.limits.quota {
                    self.world.starts.clear();
                }
                self.limits = Limits { max_concurrent: max, quota };
                self.queue.set_limits(self.limits);
                self.write();
            }
            Event::Gate(gate) => {
                self.gate = gate.clone();
                self.queue.set_gate(gate);
            }
            Event::TimePasses(seconds) => self.now += seconds,
            Event::WakesUp => self.now = self.wake.map_or(self.now, Timestamp::as_second),
            Event::Restarts => self.queue = fresh(&self.world, self.limits, &self.gate),
        }
    }

    fn waits(&mut self, task: u8, priority: i32, created: i64, blocked: bool) {
        let epoch = *self.world.epochs.entry(task).or_insert(1);
        let dependencies =
            if blocked { Dependencies::Waiting { on: vec!["x".into()], absent: None } } else { Dependencies::Met };
        let (created, since) = (Timestamp::from_second(created).unwrap(), Timestamp::UNIX_EPOCH);
        let waiting = Waiting { key: key(task), epoch, priority, created, since, dependencies };
        // A late word of the watch about a run that was admitted: the world does not change.
        if !self.world.running.iter().any(|(other, ..)| *other == waiting.key) {
            self.world.waiting.retain(|other| other.key != waiting.key);
            self.world.waiting.push(waiting.clone());
        }
        self.queue.upsert(waiting);
    }

    /// A start that was given back goes from the record before anything else happens.
    fn never_was(&mut self, key: &TaskKey) {
        self.leaves(key);
        self.world.starts.pop();
        self.write();
    }

    fn write(&mut self) {
        self.world.written = self.queue.history().to_vec();
        self.queue.recorded(&self.world.written);
    }

    fn leaves(&mut self, key: &TaskKey) {
        self.world.running.retain(|(other, ..)| other != key);
        self.world.waiting.retain(|other| other.key != *key);
    }

    /// Decides, compares with the model, and lets the world see the result.
    fn decides(&mut self, woken: bool) -> Result<(), TestCaseError> {
        let (limits, gate) = (self.limits, &self.gate);
        let time = Timestamp::from_second(self.now).unwrap();
        let in_window = limits.quota.map_or(0, |quota| {
            self.world.written.iter().filter(|start| later(start.start_time.0, window(quota)) > time).count()
        });
        let expected = expected(&self.world, limits, gate, in_window);
        let mut restarted = fresh(&self.world, limits, gate);
        let decisions = self.queue.decide(time);
        let admitted: Vec<TaskKey> = decisions.admit.iter().map(|admission| admission.key.clone()).collect();
        prop_assert_eq!(&admitted, &expected, "in order, as many as the limits leave, and no fewer");
        prop_assert!(!woken || !admitted.is_empty(), "a wake-up is never in vain");
        prop_assert_eq!(&restarted.decide(time), &decisions, "a restart changes nothing");

        if let Some(history) = &decisions.history {
            self.world.written.clone_from(history);
            self.queue.recorded(history);
        }
        if let Some((_, others)) = decisions.admit.split_last() {
            for admission in others {
                self.queue.claimed(admission);
            }
        }
        for admission in &decisions.admit {
            self.world.waiting.retain(|task| task.key != admission.key);
            self.world.running.push((admission.key.clone(), admission.epoch, admission.at));
            self.world.starts.push(admission.at);
        }
        self.last = decisions.admit.last().cloned();
        self.wake = decisions.next_wake;
        if let Some(max) = limits.max_concurrent {
            prop_assert!(admitted.is_empty() || self.world.running.len() <= max as usize);
        }
        if let Some(quota) = limits.quota {
            let recent = self.world.starts.iter().filter(|start| later(**start, window(quota)) > time).count();
            prop_assert!(recent <= most_starts(quota), "{recent} starts in the window");
        }
        self.everybody_waits_for_something()
    }

    fn everybody_waits_for_something(&self) -> Result<(), TestCaseError> {
        for (position, key) in self.queue.positions() {
            prop_assert_eq!(self.queue.position(key), Some(position));
            let why = self.queue.why(key);
            prop_assert!(why.is_some(), "{key:?} waits for nothing");
            if matches!(why, Some(Wait::QuotaExceeded { .. })) {
                prop_assert!(self.wake.is_some());
            }
        }
        prop_assert_eq!(self.queue.running_count(), self.world.running.len());
        prop_assert_eq!(self.queue.len(), self.world.waiting.len());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(events in events()) {
        let mut play = Play::new();
        for event in events {
            let woken = matches!(event, Event::WakesUp) && play.wake.is_some();
            play.happens(event);
            play.decides(woken)?;
        }
    }
}
