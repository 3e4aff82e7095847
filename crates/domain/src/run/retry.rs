//! Whether a failed run is retried, and when.

use std::time::Duration;

use api::run::{Retry, RetryCause};

use crate::run::outcome::Ending;

/// Delay before the first retry if the policy sets none.
const BACKOFF: Duration = Duration::from_secs(30);
/// Upper bound of the delay.
const LONGEST: Duration = Duration::from_hours(1);
/// Causes that are covered if the policy names none: those that the agent did not cause itself.
const CAUSES: [RetryCause; 2] = [RetryCause::Disruption, RetryCause::Startup];

/// Delay before the next attempt after `attempts` attempts, the last one included; `None` if there are no more.
pub fn retry_after(ending: &Ending, retry: &Retry, attempts: i32) -> Option<Duration> {
    let cause = ending.retry?;
    let covered = retry.causes.as_deref().unwrap_or(&CAUSES).contains(&cause);
    if !covered || attempts > retry.max_retries {
        return None;
    }
    let first = retry.backoff.map_or(BACKOFF, api::Duration::to_std);
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(16);
    Some(first.saturating_mul(1 << doublings).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use api::TaskPhase;

    use super::*;

    #[track_caller]
    fn check(cause: Option<RetryCause>, retry: &Retry, attempts: i32, seconds: Option<u64>) {
        let ending = Ending {
            phase: TaskPhase::Failed,
            reason: "",
            message: String::new(),
            exit_code: None,
            stopped: false,
            disrupted: false,
            retry: cause,
            report: None,
        };
        assert_eq!(retry_after(&ending, retry, attempts), seconds.map(Duration::from_secs));
    }

    #[test]
    fn nothing_is_tried_again_unless_asked() {
        check(Some(RetryCause::Disruption), &Retry::default(), 1, None);
    }

    #[test]
    fn waits_double_up_to_an_hour() {
        let retry = Retry { max_retries: 10, ..Retry::default() };
        for (attempts, seconds) in [(1, 30), (2, 60), (3, 120), (8, 3600), (10, 3600)] {
            check(Some(RetryCause::Startup), &retry, attempts, Some(seconds));
        }
        check(Some(RetryCause::Startup), &retry, 11, None);
    }

    #[test]
    fn only_the_causes_that_are_named_count() {
        let retry = Retry { max_retries: 1, causes: Some(vec![RetryCause::NonZeroExit]), backoff: None };
        check(Some(RetryCause::NonZeroExit), &retry, 1, Some(30));
        check(Some(RetryCause::Disruption), &retry, 1, None);
        check(None, &retry, 1, None);
        let any = Retry { max_retries: 1, ..Retry::default() };
        check(Some(RetryCause::NonZeroExit), &any, 1, None);
    }
}
