//! What was found out a moment ago.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Maximum number of entries. If none has expired, all are dropped.
const MOST: usize = 10_000;

/// Values that are forgotten after a time.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    known: Mutex<HashMap<K, (V, Instant)>>,
    lifetime: Duration,
    most: usize,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { known: Mutex::default(), lifetime, most: MOST }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value.clone())
    }

    /// Remembers what was true at `since`: the time that finding out took counts too.
    pub(crate) fn put(&self, key: K, value: V, since: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.most {
            let now = Instant::now();
            known.retain(|_, (_, until)| *until > now);
            if known.len() >= self.most {
                known.clear();
            }
        }
        known.insert(key, (value, since + self.lifetime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_expire_and_their_number_is_bounded() {
        let recent = Recent { most: 2, ..Recent::new(Duration::from_secs(10)) };
        recent.put(1, "a", Instant::now());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(recent.get(&1), Some("a"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(recent.get(&1), None);

        recent.put(2, "b", Instant::now());
        recent.put(3, "c", Instant::now());
        assert_eq!((recent.get(&2), recent.get(&3)), (Some("b"), Some("c")));
        recent.put(4, "d", Instant::now());
        assert_eq!((recent.get(&2), recent.get(&4)), (None, Some("d")));
    }
}
