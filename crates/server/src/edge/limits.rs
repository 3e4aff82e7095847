//! Rate limits, one for each client address.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

/// Above this number of addresses, those with a full quota are dropped. A quota is full about a second after a single
/// request, so the number of addresses in memory is bounded by the requests of about a second.
const MOST: usize = 50_000;
/// Login attempts: one per second in the long run, twenty in a burst.
const GUESSES: (u32, u32) = (1, 20);

type Limiter<C> = RateLimiter<IpAddr, HashMapStateStore<IpAddr>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The type of a request. Each has its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Uses the API.
    Api,
    /// Tries a token, a code or a share link.
    Guess,
}

/// The rate limits of all clients.
#[derive(Debug)]
pub struct Limits<C: Clock = DefaultClock> {
    api: Option<Limiter<C>>,
    guesses: Option<Limiter<C>>,
    clock: C,
}

impl Limits {
    /// At most `per_second` requests to the API in the long run, four times as many in a burst. 0 means no limit.
    pub fn new(per_second: u32) -> Self {
        Self::with_clock(per_second, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Limits<C> {
    fn with_clock(per_second: u32, clock: C) -> Self {
        let limiter = |rate, burst| {
            let quota = Quota::per_second(NonZeroU32::new(rate)?).allow_burst(NonZeroU32::new(burst)?);
            Some(RateLimiter::new(quota, HashMapStateStore::default(), clock.clone()))
        };
        let api = limiter(per_second, per_second.saturating_mul(4));
        Self { api, guesses: limiter(GUESSES.0, GUESSES.1), clock }
    }

    /// Counts a request. The error is the number of seconds to wait.
    pub fn take(&self, action: Action, client: IpAddr) -> Result<(), u32> {
        let limiter = match action {
            Action::Api => &self.api,
            Action::Guess => &self.guesses,
        };
        let Some(limiter) = limiter else { return Ok(()) };
        if limiter.len() >= MOST {
            limiter.retain_recent();
        }
        limiter.check_key(&subscriber(client)).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            u32::try_from(wait.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX).max(1)
        })
    }
}

/// The address that stands for a client. One subscriber has all addresses of an IPv6 /64.
fn subscriber(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_burst_passes_then_requests_pass_at_the_rate() {
        let clock = FakeRelativeClock::default();
        let limits = Limits::with_clock(2, clock.clone());
        for _ in 0..8 {
            assert_eq!(limits.take(Action::Api, ONE), Ok(()));
        }
        assert_eq!(limits.take(Action::Api, ONE), Err(1));
        assert_eq!(limits.take(Action::Api, TWO), Ok(()));
        assert_eq!(limits.take(Action::Guess, ONE), Ok(()));
        clock.advance(Duration::from_millis(500));
        assert_eq!(limits.take(Action::Api, ONE), Ok(()));
        assert_eq!(limits.take(Action::Api, ONE), Err(1));
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let limits = Limits::with_clock(1, FakeRelativeClock::default());
        let address = |last: u16| IpAddr::from([0x2001, 0xdb8, 1, 2, 0, 0, 0, last]);
        for last in 0..4 {
            assert_eq!(limits.take(Action::Api, address(last)), Ok(()));
        }
        assert_eq!(limits.take(Action::Api, address(5)), Err(1));
        assert_eq!(limits.take(Action::Api, IpAddr::from([0x2001, 0xdb8, 1, 3, 0, 0, 0, 1])), Ok(()));
    }

    #[test]
    fn zero_means_no_limit() {
        let limits = Limits::new(0);
        for _ in 0..10_000 {
            assert_eq!(limits.take(Action::Api, ONE), Ok(()));
        }
    }

    #[test]
    fn idle_addresses_are_dropped() {
        let clock = FakeRelativeClock::default();
        let limits = Limits::with_clock(1, clock.clone());
        for address in 0..u32::try_from(MOST).unwrap() {
            assert_eq!(limits.take(Action::Api, std::net::Ipv4Addr::from_bits(address).into()), Ok(()));
        }
        clock.advance(Duration::from_secs(10));
        assert_eq!(limits.take(Action::Api, [200, 0, 0, 1].into()), Ok(()));
        assert_eq!(limits.api.as_ref().map(RateLimiter::len), Some(1));
    }
}
