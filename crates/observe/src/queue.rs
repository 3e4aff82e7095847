//! The work queue of one controller.
//!
//! One worker at a time handles a key. A key that is added while a worker handles it is handled once more, so no change
//! is missed and a burst of changes does not cause a burst of passes. Failures are retried with exponential backoff.

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

/// Delay of the first retry; doubled after each further failure.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Maximum delay of a retry.
const LAST_RETRY: Duration = Duration::from_mins(2);

/// What happens after a pass over a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for the next change.
    Wait,
    /// Run again at this time, even without a change.
    At(Instant),
    /// The pass failed; retry with backoff.
    Retry,
}

/// A queue of keys. Clones share the queue.
pub struct Queue<K> {
    state: Arc<Mutex<State<K>>>,
    changed: Arc<Notify>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), changed: Arc::clone(&self.changed) }
    }
}

struct State<K> {
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    busy: HashSet<K>,
    /// Busy keys that were added again.
    again: HashSet<K>,
    /// At most one scheduled pass per key, the earliest.
    scheduled: HashMap<K, (Instant, u64)>,
    schedule: BTreeMap<(Instant, u64), K>,
    ticket: u64,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
            scheduled: HashMap::new(),
            schedule: BTreeMap::new(),
            ticket: 0,
            failures: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()) }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// Requests a pass over `key` now.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Schedules a pass over `key` at `when`, unless an earlier one is scheduled.
    pub fn add_at(&self, key: K, when: Instant) {
        self.lock().schedule_at(key, when);
        self.changed.notify_one();
    }

    /// Runs passes until `stop` is set, at most `workers` at once. Passes that have started are finished.
    pub async fn work<F, Fut>(self, workers: usize, mut stop: watch::Receiver<bool>, pass: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future<Output = Next> + Send + 'static,
    {
        let mut running = JoinSet::new();
        loop {
            let next = {
                let mut state = self.lock();
                state.promote_due(Instant::now());
                if running.len() < workers { state.take() } else { None }
            };
            if *stop.borrow() {
                break;
            }
            if let Some(key) = next {
                let (queue, work) = (self.clone(), pass(key.clone()));
                running.spawn(async move {
                    let next = work.await;
                    queue.finish(key, next);
                });
                continue;
            }
            let due = self.lock().schedule.keys().next().map(|(when, _)| *when);
            tokio::select! {
                () = self.changed.notified() => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = until(due) => {}
                _ = stop.changed() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    fn finish(&self, key: K, next: Next) {
        self.lock().finish(key, next, Instant::now());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // The state is consistent between any two statements, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn schedule_at(&mut self, key: K, when: Instant) {
        if let Some(&(earlier, ticket)) = self.scheduled.get(&key) {
            if earlier <= when {
                return;
            }
            self.schedule.remove(&(earlier, ticket));
        }
        self.ticket += 1;
        self.schedule.insert((when, self.ticket), key.clone());
        self.scheduled.insert(key, (when, self.ticket));
    }

    fn promote_due(&mut self, now: Instant) {
        while let Some(entry) = self.schedule.first_entry()
            && entry.key().0 <= now
        {
            let key = entry.remove();
            self.scheduled.remove(&key);
            self.add(key);
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone());
        // A pass reads the whole state, so it covers a pass that was scheduled before it.
        if let Some(slot) = self.scheduled.remove(&key) {
            self.schedule.remove(&slot);
        }
        Some(key)
    }

    fn finish(&mut self, key: K, next: Next, now: Instant) {
        self.busy.remove(&key);
        match next {
            Next::Wait => {
                self.failures.remove(&key);
            }
            Next::At(when) => {
                self.failures.remove(&key);
                self.schedule_at(key.clone(), when);
            }
            Next::Retry => {
                let failures = self.failures.entry(key.clone()).or_default();
                let pause = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LAST_RETRY);
                *failures += 1;
                self.schedule_at(key.clone(), now + pause);
            }
        }
        if self.again.remove(&key) {
            self.add(key);
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

    fn counted(next: Next) -> (Arc<AtomicUsize>, impl Fn(&'static str) -> futures::future::BoxFuture<'static, Next>) {
        let passes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&passes);
        (passes, move |_| {
            let count = Arc::clone(&count);
            Box::pin(async move {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                next
            })
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_often_while_it_is_worked_on_gets_one_more_pass() {
        let queue = Queue::default();
        let (passes, pass) = counted(Next::Wait);
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(queue.clone().work(4, stopped, pass));
        queue.add("a");
        tokio::time::sleep(Duration::from_millis(5)).await;
        for _ in 0..100 {
            queue.add("a");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 2);
        stop.send(true).unwrap();
        worker.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_backoff() {
        let queue = Queue::default();
        let (passes, pass) = counted(Next::Retry);
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(queue.clone().work(1, stopped, pass));
        queue.add("a");
        tokio::time::sleep(Duration::from_secs(1)).await;
        // 0, 110, 320, 730 ms.
        assert_eq!(passes.load(Ordering::SeqCst), 4);
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(passes.load(Ordering::SeqCst) < 50);
        stop.send(true).unwrap();
        worker.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_scheduled_pass_counts() {
        let queue = Queue::default();
        let (passes, pass) = counted(Next::Wait);
        let (stop, stopped) = watch::channel(false);
        let worker = tokio::spawn(queue.clone().work(1, stopped, pass));
        let start = Instant::now();
        queue.add_at("a", start + Duration::from_mins(1));
        queue.add_at("a", start + Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 1);
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(passes.load(Ordering::SeqCst), 1);
        stop.send(true).unwrap();
        worker.await.unwrap();
    }
}
