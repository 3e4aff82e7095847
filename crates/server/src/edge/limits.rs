//! Rate limits, one for each client address.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock, Reference as _},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

/// Maximum number of addresses with a limit of their own. While it is reached, all clients share [`SHARED`] limits.
const MOST: usize = 50_000;
/// Number of limits that clients share while there are too many of them.
const SHARED: u64 = 1024;
/// Interval at which addresses with a full quota are dropped while there are too many: dropping reads all of them.
const SWEEP: Duration = Duration::from_secs(1);
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
    api: Option<Bounded<C>>,
    guesses: Option<Bounded<C>>,
    clock: C,
    /// Spreads clients over the shared limits, unpredictably for them.
    hasher: RandomState,
}

/// A limiter, and when its idle addresses were last dropped.
#[derive(Debug)]
struct Bounded<C: Clock> {
    limiter: Limiter<C>,
    swept: Mutex<Option<C::Instant>>,
}

impl<C: Clock> Bounded<C> {
    /// Whether an address may get a limit of its own.
    fn has_room(&self, now: C::Instant) -> bool {
        if self.limiter.len() < MOST {
            return true;
        }
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_none_or(|swept| Duration::from(now.duration_since(swept)) >= SWEEP) {
            *swept = Some(now);
            self.limiter.retain_recent();
        }
        self.limiter.len() < MOST
    }
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
            let limiter = RateLimiter::new(quota, HashMapStateStore::default(), clock.clone());
            Some(Bounded { limiter, swept: Mutex::default() })
        };
        let api = limiter(per_second, per_second.saturating_mul(4));
        Self { api, guesses: limiter(GUESSES.0, GUESSES.1), clock, hasher: RandomState::new() }
    }

    /// Counts a request. The error is the number of seconds to wait.
    pub fn take(&self, action: Action, client: IpAddr) -> Result<(), u32> {
        let limits = match action {
            Action::Api => &self.api,
            Action::Guess => &self.guesses,
        };
        let Some(limits) = limits else { return Ok(()) };
        let mut key = subscriber(client);
        if !limits.has_room(self.clock.now()) {
            key = shared(self.hasher.hash_one(key) % SHARED);
        }
        limits.limiter.check_key(&key).map_err(|refused| {
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

/// The key of a shared limit: an address of the discard prefix (RFC 6666), which no client has.
fn shared(number: u64) -> IpAddr {
    Ipv6Addr::from_bits(0x0100_u128 << 112 | u128::from(number)).into()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(limits.api.as_ref().map(|limits| limits.limiter.len()), Some(1));
    }

    #[test]
    fn active_addresses_do_not_outgrow_the_bound() {
        let clock = FakeRelativeClock::default();
        let limits = Limits::with_clock(1, clock.clone());
        let most = u32::try_from(MOST).unwrap();
        let address = |number: u32| IpAddr::from(Ipv6Addr::from_bits(u128::from(number) << 64 | 0x2001 << 112));
        for number in 0..3 * most {
            // Too many clients share limits, so some are refused.
            let _ = limits.take(Action::Api, address(number));
        }
        let bound = MOST + usize::try_from(SHARED).unwrap();
        let kept = limits.api.as_ref().unwrap().limiter.len();
        assert!((MOST..=bound).contains(&kept), "{kept}");
        // The limits still hold: one client cannot do more than a shared limit allows.
        let passed = (0..20).filter(|_| limits.take(Action::Api, ONE).is_ok()).count();
        assert!(passed <= 4, "{passed}");
        clock.advance(Duration::from_secs(10));
        assert_eq!(limits.take(Action::Api, TWO), Ok(()));
        assert_eq!(limits.api.as_ref().unwrap().limiter.len(), 1);
    }
}
