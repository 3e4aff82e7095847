//! Leader election: the next step of a controller, from the lease record.
//!
//! No clock is compared with that of another machine. A lease is free when its record did not change for its duration,
//! by the observer's own clock. A process that lost the lease must exit, even if the lease is free again: another
//! process may have led in the meantime, so its in-memory state may be stale.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::LeaseSpec;

/// Validity of a lease after its last renewal.
pub const DURATION: Duration = Duration::from_secs(15);

/// What to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The lease is free, or its holder stopped renewing it.
    Take,
    /// This process holds it: renew.
    Renew,
    /// Another process holds it, until this time at least.
    Wait(Instant),
    /// This process held it and lost it.
    Lost,
}

/// A candidate for the lease and its observations.
#[derive(Debug)]
pub struct Contender {
    identity: String,
    held: bool,
    /// The record of another holder, and when it was first seen unchanged.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Contender {
    /// A candidate without observations.
    pub fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), held: false, seen: None }
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Records that the lease was acquired.
    pub fn won(&mut self) {
        self.held = true;
    }

    pub fn has_held(&self) -> bool {
        self.held
    }

    /// The next step for a lease record that was just read. Our own name in it, before we held it, belongs to a
    /// previous process of the same name, which is gone.
    pub fn decide(&mut self, record: Option<&LeaseSpec>, now: Instant) -> Move {
        let record = record.filter(|record| record.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()));
        let ours = record.is_some_and(|record| record.holder_identity.as_ref() == Some(&self.identity));
        match (self.held, ours) {
            (true, true) => return Move::Renew,
            (true, false) => return Move::Lost,
            (false, true) => return Move::Take,
            (false, false) => {}
        }
        let Some(record) = record else { return Move::Take };
        let since = match &self.seen {
            Some((seen, since)) if seen == record => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        let until = since + duration(record);
        if now < until { Move::Wait(until) } else { Move::Take }
    }
}

fn duration(record: &LeaseSpec) -> Duration {
    let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).map_or(DURATION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    /// A record; `renewed` is a second of the holder's own clock.
    fn record(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[derive(Debug, PartialEq)]
    enum Then {
        /// And the write succeeds.
        Take,
        Renew,
        /// Until this second.
        Wait(u64),
        Lost,
    }

    /// Reads of one process, which is named `me`: the second, the record, the expected step.
    #[track_caller]
    fn check(looks: &[(u64, Option<LeaseSpec>, Then)]) {
        let start = Instant::now();
        let mut me = Contender::new("me");
        for (number, (second, record, expected)) in looks.iter().enumerate() {
            let then = match me.decide(record.as_ref(), start + Duration::from_secs(*second)) {
                Move::Take => {
                    me.won();
                    Then::Take
                }
                Move::Renew => Then::Renew,
                Move::Wait(until) => Then::Wait(until.duration_since(start).as_secs()),
                Move::Lost => Then::Lost,
            };
            assert_eq!(then, *expected, "look {number}: {record:?}");
        }
    }

    #[test]
    fn a_lease_that_nobody_has_is_taken_and_kept() {
        check(&[
            (0, None, Then::Take),
            (4, Some(record("me", 0)), Then::Renew),
            (8, Some(record("me", 4)), Then::Renew),
        ]);
        check(&[(0, Some(record("", 0)), Then::Take)]);
        check(&[(0, Some(LeaseSpec::default()), Then::Take)]);
        check(&[(0, Some(record("other", 0)), Then::Wait(15)), (4, Some(record("", 4)), Then::Take)]);
    }

    #[test]
    fn one_that_starts_again_under_its_name_need_not_wait() {
        check(&[(0, Some(record("me", 0)), Then::Take), (4, Some(record("me", 0)), Then::Renew)]);
    }

    #[test]
    fn signs_of_life_count_whatever_the_clock_of_the_holder_says() {
        for skew in [-1_000_000, -60, 0, 60, 1_000_000] {
            check(&[
                (0, Some(record("other", skew)), Then::Wait(15)),
                (4, Some(record("other", skew + 4)), Then::Wait(19)),
                (12, Some(record("other", skew + 4)), Then::Wait(19)),
                (18, Some(record("other", skew + 17)), Then::Wait(33)),
                (32, Some(record("other", skew + 17)), Then::Wait(33)),
                (33, Some(record("other", skew + 17)), Then::Take),
            ]);
        }
    }

    #[test]
    fn the_next_holder_has_its_whole_time() {
        check(&[
            (0, Some(record("other", 0)), Then::Wait(15)),
            (14, Some(record("third", 0)), Then::Wait(29)),
            (20, Some(record("third", 0)), Then::Wait(29)),
        ]);
    }

    #[test]
    fn a_record_without_a_duration_lasts_as_long_as_ours() {
        for seconds in [None, Some(0), Some(-5)] {
            let odd = LeaseSpec { lease_duration_seconds: seconds, ..record("other", 0) };
            check(&[(0, Some(odd.clone()), Then::Wait(15)), (15, Some(odd), Then::Take)]);
        }
    }

    #[test]
    fn what_was_held_and_is_not_any_more_is_lost_even_if_it_is_free() {
        for found in [Some(record("other", 0)), Some(record("", 0)), Some(LeaseSpec::default()), None] {
            check(&[(0, None, Then::Take), (1000, found, Then::Lost)]);
        }
    }
}
