//! How often a client may ask.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// So many clients are remembered; above that, those that rested long enough are forgotten.
const MOST: usize = 50_000;

/// What is asked for. Each has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Using the API.
    Api,
    /// Trying a token, a code or a share link.
    Guessing,
}

/// Tokens that refill with time, for each client.
#[derive(Debug)]
pub struct Limits {
    per_second: f64,
    buckets: Mutex<HashMap<(Doing, IpAddr), (f64, Instant)>>,
}

impl Limits {
    /// At most `per_second` requests of the API in the long run, four times as many in a burst. 0: any number.
    pub fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second), buckets: Mutex::default() }
    }

    /// Takes a token, or tells how many seconds to wait.
    pub fn take(&self, doing: Doing, client: IpAddr, now: Instant) -> Result<(), u32> {
        let (rate, burst) = match doing {
            Doing::Api if self.per_second <= 0.0 => return Ok(()),
            Doing::Api => (self.per_second, self.per_second * 4.0),
            Doing::Guessing => (1.0, 20.0),
        };
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST {
            buckets.retain(|_, (_, last)| now.duration_since(*last).as_secs() < 60);
        }
        let (tokens, last) = buckets.entry((doing, client)).or_insert((burst, now));
        *tokens = (*tokens + now.duration_since(*last).as_secs_f64() * rate).min(burst);
        *last = now;
        if *tokens >= 1.0 {
            *tokens -= 1.0;
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a few seconds")]
        let wait = ((1.0 - *tokens) / rate).ceil().max(1.0) as u32;
        Err(wait)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_passes_then_it_is_one_at_a_time() {
        let (limits, start) = (Limits::new(2), Instant::now());
        let (one, two): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..8 {
            assert_eq!(limits.take(Doing::Api, one, start), Ok(()));
        }
        assert_eq!(limits.take(Doing::Api, one, start), Err(1));
        assert_eq!(limits.take(Doing::Api, two, start), Ok(()));
        assert_eq!(limits.take(Doing::Guessing, one, start), Ok(()));
        assert_eq!(limits.take(Doing::Api, one, start + Duration::from_millis(500)), Ok(()));
        assert_eq!(limits.take(Doing::Api, one, start + Duration::from_millis(500)), Err(1));
    }

    #[test]
    fn zero_means_any_number() {
        let limits = Limits::new(0);
        for _ in 0..10_000 {
            assert_eq!(limits.take(Doing::Api, [10, 0, 0, 1].into(), Instant::now()), Ok(()));
        }
    }
}
