//! What is to be done. An item is worked on by one worker at a time; one that is added meanwhile is worked on once more,
//! so that no change is missed and a thousand changes are not a thousand passes. A failure comes back later and later.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// The first retry comes this soon, each further one after twice the time.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// No retry waits longer than this.
const LAST_RETRY: Duration = Duration::from_mins(1);

/// What follows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until something changes.
    Wait,
    /// A look at this moment, even if nothing changes.
    At(Instant),
    /// It did not work; another attempt after a growing pause.
    Retry,
}

/// The queue. Clones share it.
pub(crate) struct Queue<W> {
    state: Arc<Mutex<State<W>>>,
    changed: Arc<Notify>,
}

impl<W> Clone for Queue<W> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) }
    }
}

struct State<W> {
    ready: VecDeque<W>,
    waiting: HashSet<W>,
    busy: HashSet<W>,
    /// Busy items that were added meanwhile.
    again: HashSet<W>,
    /// The earliest appointment of each item.
    appointments: HashMap<W, (Instant, u64)>,
    agenda: BTreeMap<(Instant, u64), W>,
    ticket: u64,
    failures: HashMap<W, u32>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
            appointments: HashMap::new(),
            agenda: BTreeMap::new(),
            ticket: 0,
            failures: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()) }
    }
}

impl<W: Clone + Eq + Hash + Send + 'static> Queue<W> {
    /// Asks for a pass now.
    pub(crate) fn add(&self, item: W) {
        self.lock().add(item);
        self.changed.notify_one();
    }

    /// Asks for a pass at `when`, or earlier if asked so before.
    pub(crate) fn add_at(&self, item: W, when: Instant) {
        self.lock().appoint(item, when);
        self.changed.notify_one();
    }

    /// Works on at most `workers` items at once, until `stop` says so. Passes that have begun are finished.
    pub(crate) async fn work<F, Fut>(self, workers: usize, mut stop: watch::Receiver<bool>, pass: F)
    where
        F: Fn(W) -> Fut,
        Fut: Future<Output = Next> + Send + 'static,
    {
        let mut running = JoinSet::new();
        while !*stop.borrow() {
            let (item, appointment) = {
                let mut state = self.lock();
                state.keep_appointments(Instant::now());
                let item = if running.len() < workers { state.take() } else { None };
                (item, state.agenda.keys().next().map(|(when, _)| *when))
            };
            if let Some(item) = item {
                let (queue, work) = (self.clone(), pass(item.clone()));
                running.spawn(async move {
                    let next = work.await;
                    queue.lock().finish(item, next, Instant::now());
                    queue.changed.notify_one();
                });
                continue;
            }
            tokio::select! {
                () = self.changed.notified() => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = until(appointment) => {}
                _ = stop.changed() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Clone + Eq + Hash> State<W> {
    fn add(&mut self, item: W) {
        if self.busy.contains(&item) {
            self.again.insert(item);
        } else if self.waiting.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    fn appoint(&mut self, item: W, when: Instant) {
        if let Some(&(earlier, ticket)) = self.appointments.get(&item) {
            if earlier <= when {
                return;
            }
            self.agenda.remove(&(earlier, ticket));
        }
        self.ticket += 1;
        self.agenda.insert((when, self.ticket), item.clone());
        self.appointments.insert(item, (when, self.ticket));
    }

    fn keep_appointments(&mut self, now: Instant) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= now
        {
            let item = entry.remove();
            self.appointments.remove(&item);
            self.add(item);
        }
    }

    fn take(&mut self) -> Option<W> {
        let item = self.ready.pop_front()?;
        self.waiting.remove(&item);
        self.busy.insert(item.clone());
        // A pass looks at everything, so an appointment made before it has been kept.
        if let Some(slot) = self.appointments.remove(&item) {
            self.agenda.remove(&slot);
        }
        Some(item)
    }

    fn finish(&mut self, item: W, next: Next, now: Instant) {
        self.busy.remove(&item);
        match next {
            Next::Wait => {
                self.failures.remove(&item);
            }
            Next::At(when) => {
                self.failures.remove(&item);
                self.appoint(item.clone(), when);
            }
            Next::Retry => {
                let failures = self.failures.entry(item.clone()).or_default();
                let pause = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LAST_RETRY);
                *failures += 1;
                self.appoint(item.clone(), now + pause);
            }
        }
        if self.again.remove(&item) {
            self.add(item);
        }
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How many passes `item` gets within `time`, each of 10 ms that ends with `next`.
    async fn passes(next: Next, time: Duration, ask: impl FnOnce(&Queue<&'static str>)) -> usize {
        let queue = Queue::default();
        let passes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passes);
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(queue.clone().work(4, stopped, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                next
            }
        }));
        queue.add("a");
        tokio::time::sleep(Duration::from_millis(5)).await;
        ask(&queue);
        tokio::time::sleep(time).await;
        stop.send(true).unwrap();
        worker.await.unwrap();
        passes.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_often_during_a_pass_gets_one_more() {
        assert_eq!(passes(Next::Wait, Duration::from_secs(9), |queue| (0..100).for_each(|_| queue.add("a"))).await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_comes_back_later_and_later() {
        // At 0, 30, 80, 170, 340, 670 ms.
        assert_eq!(passes(Next::Retry, Duration::from_millis(900), |_| ()).await, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_appointment_counts_and_is_kept_once() {
        let appoint = |queue: &Queue<&'static str>| {
            let now = Instant::now();
            queue.add_at("a", now + Duration::from_mins(1));
            queue.add_at("a", now + Duration::from_secs(1));
        };
        assert_eq!(passes(Next::Wait, Duration::from_mins(5), appoint).await, 2);
    }
}
