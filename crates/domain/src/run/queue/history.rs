//! Starts in the sliding window of a quota.

use api::{kinds::agent::TaskStart, workload::Quota};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::TaskKey;
use crate::duration::later;

/// The starts that count for a quota. Without a quota it stays empty.
#[derive(Clone, Debug, Default)]
pub(super) struct StartHistory {
    quota: Option<Quota>,
    /// Oldest first.
    starts: Vec<TaskStart>,
    /// The starts in the status, oldest first.
    recorded: Vec<TaskStart>,
}

impl StartHistory {
    pub(super) fn set_quota(&mut self, quota: Option<Quota>) {
        self.quota = quota;
        if quota.is_none() {
            self.starts.clear();
            self.recorded.clear();
        }
    }

    /// The starts that the status should have; `None` if they are there. Starts that only left the window may stay in
    /// it.
    pub(super) fn unrecorded(&self) -> Option<&[TaskStart]> {
        let differs = self.starts.len() != self.recorded.len() || sorted(&self.starts) != self.recorded;
        differs.then_some(self.starts())
    }

    /// Records that the status has these starts.
    pub(super) fn set_recorded(&mut self, starts: &[TaskStart]) {
        if self.quota.is_some() {
            self.recorded = sorted(starts);
        }
    }

    pub(super) fn starts(&self) -> &[TaskStart] {
        &self.starts
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.quota.is_some_and(|quota| self.starts.len() >= most_starts(quota))
    }

    /// When the next start is possible, if the quota is used up.
    pub(super) fn frees(&self) -> Option<Timestamp> {
        let quota = self.quota?;
        let start = self.starts.get(self.starts.len().checked_sub(most_starts(quota))?)?;
        Some(later(start.start_time.0, window(quota)))
    }

    /// Removes starts that left the window.
    pub(super) fn prune(&mut self, now: Timestamp) {
        if let Some(quota) = self.quota {
            for starts in [&mut self.starts, &mut self.recorded] {
                let left = starts.partition_point(|start| later(start.start_time.0, window(quota)) <= now);
                starts.drain(..left);
            }
        }
    }

    /// Adds a start. Two starts of a Task in the same second both count.
    pub(super) fn record(&mut self, key: &TaskKey, at: Timestamp) {
        self.put(start_of(key, at));
    }

    /// Adds the start of a known run, unless it is there.
    pub(super) fn insert(&mut self, key: &TaskKey, at: Timestamp) {
        self.merge(&[start_of(key, at)]);
    }

    /// Adds the starts of the status, each as often as it is there.
    pub(super) fn restore(&mut self, starts: &[TaskStart]) {
        self.set_recorded(starts);
        self.merge(starts);
    }

    fn merge(&mut self, starts: &[TaskStart]) {
        for start in starts {
            let times = |all: &[TaskStart]| all.iter().filter(|other| *other == start).count();
            let same_second = self.place_before(start)..self.place_after(start);
            if times(&self.starts[same_second]) < times(starts) {
                self.put(start.clone());
            }
        }
    }

    /// Removes the start of a run that was never claimed.
    pub(super) fn remove(&mut self, key: &TaskKey, at: Timestamp) {
        if let Some(place) = self.starts.iter().rposition(|start| is_start(start, key, at)) {
            self.starts.remove(place);
        }
    }

    fn put(&mut self, start: TaskStart) {
        if self.quota.is_some() {
            self.starts.insert(self.place_after(&start), start);
        }
    }

    fn place_before(&self, start: &TaskStart) -> usize {
        self.starts.partition_point(|other| other.start_time < start.start_time)
    }

    fn place_after(&self, start: &TaskStart) -> usize {
        self.starts.partition_point(|other| other.start_time <= start.start_time)
    }
}

/// In an order that does not depend on the order of arrival within a second.
fn sorted(starts: &[TaskStart]) -> Vec<TaskStart> {
    let mut starts = starts.to_vec();
    starts.sort_by(|a, b| {
        let key = |start: &TaskStart| (start.start_time.0, start.task_namespace.clone(), start.task_name.clone());
        key(a).cmp(&key(b))
    });
    starts
}

fn start_of(key: &TaskKey, at: Timestamp) -> TaskStart {
    TaskStart { task_name: key.name.clone(), task_namespace: key.namespace.clone(), start_time: Time(at) }
}

fn is_start(start: &TaskStart, key: &TaskKey, at: Timestamp) -> bool {
    start.start_time.0 == at && start.task_name == key.name && start.task_namespace == key.namespace
}

pub(super) fn most_starts(quota: Quota) -> usize {
    // The schema requires at least 1; a smaller value must not block an Agent forever.
    usize::try_from(quota.max_task_starts).unwrap_or(0).max(1)
}

pub(super) fn window(quota: Quota) -> SignedDuration {
    SignedDuration::from_secs(i64::from(quota.window_seconds.max(0)))
}
