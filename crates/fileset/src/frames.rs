//! Works on frames on several threads and returns them in their order.
//!
//! Memory is bounded by the number of slots; the thread that submits takes a slot, or waits for the oldest frame.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

/// Threads at once. Each needs up to 6 MiB, and the whole stays below 40 MiB with 80,000 files that do not compress.
const MOST_WORKERS: usize = 3;

/// The buffers of one frame.
#[derive(Default)]
pub(crate) struct Slot {
    /// Bytes of the tar.
    pub plain: Vec<u8>,
    /// Bytes of the archive.
    pub packed: Vec<u8>,
}

/// A frame that waits for a worker, and its number.
type Job = (u64, Slot);

pub(crate) struct Pool<E> {
    jobs: Sender<Job>,
    done: Receiver<(u64, Result<Slot, E>)>,
    /// Done before an older one was.
    early: BTreeMap<u64, Result<Slot, E>>,
    free: Vec<Slot>,
    submitted: u64,
    returned: u64,
}

/// How many threads work on that many frames.
pub(crate) fn workers(frames: u64) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    cores.min(MOST_WORKERS).min(usize::try_from(frames).unwrap_or(MOST_WORKERS)).max(1)
}

impl<E: Send> Pool<E> {
    /// `make` makes what a thread works with. The threads end when the pool is dropped.
    pub(crate) fn start<'scope, W>(
        scope: &'scope Scope<'scope, '_>,
        workers: usize,
        mut make: impl FnMut() -> io::Result<W>,
    ) -> io::Result<Self>
    where
        W: FnMut(u64, &mut Slot) -> Result<(), E> + Send + 'scope,
        E: 'scope,
    {
        let (jobs, waiting) = channel::<Job>();
        let (finished, done) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for index in 0..workers {
            let (mut work, waiting, finished) = (make()?, Arc::clone(&waiting), finished.clone());
            let run = move || {
                loop {
                    // The lock is held while waiting: the next job goes to the thread that has it.
                    let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, mut slot)) = job else { return };
                    let result = work(number, &mut slot).map(|()| slot);
                    if finished.send((number, result)).is_err() {
                        return;
                    }
                }
            };
            let started = thread::Builder::new().name("fileset".to_owned()).spawn_scoped(scope, run);
            match started {
                Ok(_) => {}
                // A container may have few threads left; one is enough.
                Err(_) if index > 0 => break,
                Err(error) => return Err(error),
            }
        }
        // One more is being filled, and one more is done and waits for an older one.
        let free = (0..workers + 2).map(|_| Slot::default()).collect();
        Ok(Self { jobs, done, early: BTreeMap::new(), free, submitted: 0, returned: 0 })
    }

    /// A slot to fill, unless all are in use: then take the [`Pool::oldest`] frame and release it.
    pub(crate) fn free(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    pub(crate) fn submit(&mut self, slot: Slot) {
        // Without a thread that receives, waiting for the frame ends with `None`.
        let _ = self.jobs.send((self.submitted, slot));
        self.submitted += 1;
    }

    /// The oldest frame that was submitted and not returned, when it is done.
    pub(crate) fn oldest(&mut self) -> Option<Result<Slot, E>> {
        if self.returned == self.submitted {
            return None;
        }
        let result = loop {
            if let Some(result) = self.early.remove(&self.returned) {
                break result;
            }
            let (number, result) = self.done.recv().ok()?;
            self.early.insert(number, result);
        };
        self.returned += 1;
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_return_in_their_order_with_few_slots() {
        for workers in [1, 4] {
            thread::scope(|scope| {
                let double = |number: u64, slot: &mut Slot| {
                    // The first is the slowest.
                    (0..(20 - number) * 1000).for_each(|_| std::hint::black_box(()));
                    slot.packed.clone_from(&slot.plain);
                    if number == 19 { Err("last") } else { Ok(()) }
                };
                let mut pool = Pool::start(scope, workers, || Ok(double)).unwrap();
                let mut returned = Vec::new();
                let mut slots = 0;
                for number in 0..20u8 {
                    let mut slot = pool.free().unwrap_or_else(|| {
                        let slot = pool.oldest().unwrap().unwrap();
                        returned.push(slot.packed[0]);
                        slot
                    });
                    slots += usize::from(slot.plain.is_empty());
                    slot.plain = vec![number];
                    pool.submit(slot);
                }
                while returned.len() < 19 {
                    returned.push(pool.oldest().unwrap().unwrap().packed[0]);
                }
                assert_eq!(pool.oldest().unwrap().err(), Some("last"));
                assert!(pool.oldest().is_none());
                assert_eq!(returned, (0..19).collect::<Vec<_>>());
                assert_eq!(slots, workers + 2);
            });
        }
    }
}
