//! Which logs of finished runs are removed from the archive, by age and by the space that a namespace uses.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

/// Default of the maximum age of logs.
pub const MAX_AGE: Duration = Duration::from_hours(90 * 24);
/// Default of the maximum space of the logs of a namespace, in bytes.
pub const NAMESPACE_LIMIT: u64 = 2 << 30;

/// Limits of the logs in an archive. An unset limit removes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Since the last line of a log.
    pub max_age: Option<Duration>,
    /// Bytes of all logs of a namespace.
    pub namespace_bytes: Option<u64>,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { max_age: Some(MAX_AGE), namespace_bytes: Some(NAMESPACE_LIMIT) }
    }
}

/// The logs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLogs<'a> {
    pub namespace: &'a str,
    pub bytes: u64,
    /// When the last line was written.
    pub changed: Timestamp,
    /// Whether the run is over. The logs of other runs count, and stay.
    pub finished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Age,
    Space,
}

/// The logs to remove, by their index in `logs`: those that are too old, then the oldest of each namespace that uses
/// too much space.
pub fn expired(logs: &[RunLogs<'_>], limits: &LogLimits, now: Timestamp) -> Vec<(usize, Cause)> {
    let oldest = limits.max_age.and_then(|age| now.checked_sub(SignedDuration::try_from(age).ok()?).ok());
    let mut remove = Vec::new();
    let mut namespaces: BTreeMap<&str, (u64, Vec<usize>)> = BTreeMap::new();
    for (index, log) in logs.iter().enumerate() {
        if log.finished && oldest.is_some_and(|oldest| log.changed < oldest) {
            remove.push((index, Cause::Age));
            continue;
        }
        let (used, removable) = namespaces.entry(log.namespace).or_default();
        *used += log.bytes;
        removable.extend(log.finished.then_some(index));
    }
    let Some(limit) = limits.namespace_bytes else { return remove };
    for (mut used, mut removable) in namespaces.into_values() {
        removable.sort_by_key(|index| logs[*index].changed);
        for index in removable {
            if used <= limit {
                break;
            }
            used -= logs[index].bytes;
            remove.push((index, Cause::Space));
        }
    }
    remove
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each log is `namespace:bytes@second`, followed by `!` while its run lasts.
    #[track_caller]
    fn check(logs: &[&'static str], max_age: Option<u64>, namespace_bytes: Option<u64>, expected: &[(usize, Cause)]) {
        let read = |log: &&'static str| {
            let (namespace, rest) = log.trim_end_matches('!').split_once(':').unwrap();
            let (bytes, second) = rest.split_once('@').unwrap();
            let changed = Timestamp::from_second(second.parse().unwrap()).unwrap();
            RunLogs { namespace, bytes: bytes.parse().unwrap(), changed, finished: !log.ends_with('!') }
        };
        let logs: Vec<RunLogs<'_>> = logs.iter().map(read).collect();
        let limits = LogLimits { max_age: max_age.map(Duration::from_secs), namespace_bytes };
        assert_eq!(expired(&logs, &limits, Timestamp::from_second(1000).unwrap()), expected);
    }

    #[test]
    fn without_limits_everything_stays() {
        check(&["a:5@1", "a:5@2"], None, None, &[]);
    }

    #[test]
    fn old_logs_go_and_those_of_running_tasks_stay() {
        check(&["a:5@899", "a:5@900", "a:5@1!", "b:5@2"], Some(100), None, &[(0, Cause::Age), (3, Cause::Age)]);
    }

    #[test]
    fn the_oldest_logs_of_a_full_namespace_go_first() {
        check(&["a:5@3", "a:5@1", "a:5@2", "b:5@1"], None, Some(10), &[(1, Cause::Space)]);
        check(&["a:5@3", "a:5@1!", "a:5@2", "a:1@4"], None, Some(10), &[(2, Cause::Space), (0, Cause::Space)]);
        check(&["a:50@3!", "a:50@1!"], None, Some(10), &[]);
        // What is too old needs no space any more.
        check(&["a:6@1", "a:6@950"], Some(100), Some(10), &[(0, Cause::Age)]);
    }
}
