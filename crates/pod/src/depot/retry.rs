//! Tries requests to the depot again until they succeed, fail for good, or the time is over.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::DepotError;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Bytes that arrive damaged twice are damaged where they come from.
const MOST_DAMAGED: u32 = 2;

/// Repeats `attempt` until the deadline. `what` names the request in the log.
pub async fn until<T>(
    deadline: Instant,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, DepotError>,
) -> Result<T, DepotError> {
    let mut pause = FIRST_PAUSE;
    let mut damaged = 0;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        damaged += u32::from(matches!(error, DepotError::Damaged));
        let wait = jittered(pause);
        let again = error.is_temporary() || (1..MOST_DAMAGED).contains(&damaged);
        if !again || Instant::now() + wait >= deadline {
            return Err(error);
        }
        tracing::warn!("{what}: {error}; trying again");
        sleep(wait).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Between one and two times the pause: the Pods of a node do not all come back at the same moment.
fn jittered(pause: Duration) -> Duration {
    // The keys of each `RandomState` are random.
    let random = RandomState::new().build_hasher().finish() % 1024;
    pause + pause * u32::try_from(random).unwrap_or_default() / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tried(seconds: u64, error: fn() -> DepotError) -> u32 {
        let mut tries = 0;
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let result = until(deadline, "it", async || {
            tries += 1;
            if tries == 4 { Ok(()) } else { Err(error()) }
        });
        assert_eq!(result.await.is_ok(), tries == 4);
        assert!(Instant::now() < deadline);
        tries
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_until_the_deadline() {
        assert_eq!(tried(60, || DepotError::Status(503)).await, 4);
        assert!(tried(1, || DepotError::Status(503)).await < 4);
        assert_eq!(tried(60, || DepotError::Status(404)).await, 1);
        assert_eq!(tried(60, || DepotError::Damaged).await, 2);
    }

    #[test]
    fn pauses_differ() {
        let pauses: std::collections::HashSet<Duration> = (0..20).map(|_| jittered(FIRST_PAUSE)).collect();
        assert!(pauses.len() > 1);
        assert!(pauses.iter().all(|pause| (FIRST_PAUSE..2 * FIRST_PAUSE).contains(pause)), "{pauses:?}");
    }
}
