//! Which finished Tasks of a namespace are deleted.

use std::collections::BTreeSet;

use api::{Task, kinds::config::Cleanup};
use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FinishedTask {
    pub completed_at: Timestamp,
    pub name: String,
    /// An unfinished Task depends on it or uses its artefacts, so it is kept.
    pub needed: bool,
}

impl FinishedTask {
    /// `None` if `task` is not finished.
    pub fn of(task: &Task, needed: bool) -> Option<Self> {
        let status = task.status.as_ref().filter(|status| status.phase.is_some_and(api::TaskPhase::is_finished))?;
        let completed_at = status.completion_time.as_ref()?.0;
        Some(Self { completed_at, name: task.metadata.name.clone()?, needed })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupPlan {
    /// Names of the Tasks to delete, oldest first.
    pub delete: Vec<String>,
    /// Plan again at this time, also without an event.
    pub next_wake: Option<Timestamp>,
}

/// Plans the cleanup of one namespace: Tasks older than the time to live, then the oldest above the limit. Zero means
/// at once; an unset limit deletes nothing.
pub fn cleanup(finished: &[FinishedTask], policy: &Cleanup, now: Timestamp) -> CleanupPlan {
    let mut left: BTreeSet<&FinishedTask> = finished.iter().collect();
    let mut plan = CleanupPlan::default();
    if let Some(ttl) = policy.ttl_seconds_after_finished.filter(|ttl| *ttl >= 0) {
        let ttl = SignedDuration::from_secs(i64::from(ttl));
        let end = |task: &FinishedTask| task.completed_at.checked_add(ttl).unwrap_or(Timestamp::MAX);
        let expired: Vec<&FinishedTask> = left.iter().copied().take_while(|task| end(task) <= now).collect();
        for task in expired.into_iter().filter(|task| !task.needed) {
            left.remove(task);
            plan.delete.push(task.name.clone());
        }
        plan.next_wake = left.iter().map(|task| end(task)).find(|end| *end > now);
    }
    if let Some(most) = policy.max_retained_tasks.and_then(|most| usize::try_from(most).ok()) {
        let too_many = left.len().saturating_sub(most);
        plan.delete.extend(left.iter().filter(|task| !task.needed).take(too_many).map(|task| task.name.clone()));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each Task is `name@second`, followed by `!` if it is needed.
    #[track_caller]
    fn check(tasks: &[&str], ttl: Option<i32>, most: Option<i32>, now: i64, delete: &[&str], wake: Option<i64>) {
        let time = |second| Timestamp::from_second(second).unwrap();
        let finished: Vec<FinishedTask> = tasks
            .iter()
            .map(|task| {
                let (name, second) = task.trim_end_matches('!').split_once('@').unwrap();
                let completed_at = time(second.parse().unwrap());
                FinishedTask { completed_at, name: name.to_owned(), needed: task.ends_with('!') }
            })
            .collect();
        let policy = Cleanup { ttl_seconds_after_finished: ttl, max_retained_tasks: most };
        let plan = cleanup(&finished, &policy, time(now));
        assert_eq!((plan.delete, plan.next_wake), (delete.iter().map(ToString::to_string).collect(), wake.map(time)));
    }

    #[test]
    fn nothing_is_deleted_unless_asked() {
        check(&["a@1", "b@2"], None, None, 1_000_000, &[], None);
    }

    #[test]
    fn tasks_live_for_their_time_after_the_end() {
        check(&["a@10", "b@20"], Some(60), None, 69, &[], Some(70));
        check(&["b@20", "a@10"], Some(60), None, 70, &["a"], Some(80));
        check(&["a@10", "b@20"], Some(60), None, 80, &["a", "b"], None);
        check(&["a@10"], Some(0), None, 10, &["a"], None);
    }

    #[test]
    fn the_oldest_beyond_the_limit_go_and_equal_ends_go_by_name() {
        check(&["c@3", "a@1", "b@2"], None, Some(2), 9, &["a"], None);
        check(&["c@1", "a@1", "b@1"], None, Some(1), 9, &["a", "b"], None);
        check(&["a@1"], None, Some(0), 9, &["a"], None);
        check(&["a@1", "b@2"], None, Some(5), 9, &[], None);
    }

    #[test]
    fn what_its_age_deletes_does_not_count_for_the_limit() {
        check(&["a@10", "b@100", "c@101"], Some(60), Some(2), 120, &["a"], Some(160));
        check(&["a@10", "b@100", "c@101"], Some(60), Some(1), 120, &["a", "b"], Some(160));
    }

    #[test]
    fn a_task_that_another_waits_for_stays() {
        check(&["a@1!", "b@2"], Some(0), None, 9, &["b"], None);
        check(&["a@1!", "b@2", "c@3"], None, Some(1), 9, &["b", "c"], None);
    }
}
