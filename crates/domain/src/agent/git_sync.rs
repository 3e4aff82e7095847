//! When an Agent takes a new commit of a repository that it follows by roll-out.

use api::{context::GitSyncPolicy, kinds::agent::GitSyncStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::workload::contexts::GitMount;

/// Default polling interval.
const INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Longest time before a failed poll is retried.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Lower bound of the polling interval, whatever the spec says.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// Running Tasks delay a new commit for at most this long.
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// Result of the last poll of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LastLook {
    /// The Pods have, or get, the found commit.
    #[default]
    Taken,
    /// A newer commit waits until no Task runs.
    Waits,
    /// The repository could not be read.
    Failed {
        at: Timestamp,
        /// The error as a sentence.
        problem: String,
    },
}

/// A repository and the ref that is followed. A result for one place is not valid for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    repository: String,
    reference: String,
}

impl Place {
    /// The place that a context names.
    pub fn of(mount: &GitMount) -> Self {
        Self { repository: mount.repository.clone(), reference: mount.reference.clone() }
    }
}

/// The known status of a context's repository and the result of the last poll: nothing if that poll was of another
/// place than the context names now. So a new place is polled before Pods are created for it, and they are created
/// once.
pub fn recall<'a>(
    mount: &GitMount,
    known: Option<&'a GitSyncStatus>,
    last: Option<(Place, LastLook)>,
    otherwise: &LastLook,
) -> (Option<&'a GitSyncStatus>, LastLook) {
    match last {
        Some((place, last)) if place == Place::of(mount) => (known, last),
        Some(_) => (None, LastLook::default()),
        // This process has not polled yet; the result of the previous process is in the status.
        None => (known, otherwise.clone()),
    }
}

/// Whether an Agent restarts to follow a repository.
pub fn rolls_out(mount: &GitMount) -> bool {
    mount.sync.as_ref().is_some_and(|sync| sync.enabled && sync.policy == GitSyncPolicy::Rollout)
}

/// Whether an Agent may restart for a new commit. A `busy` Agent waits, but not forever: `waiting_since` is the time
/// since when a newer commit waits.
pub fn may_take(busy: bool, waiting_since: Option<Timestamp>, now: Timestamp) -> bool {
    !busy || waiting_since.is_some_and(|since| now >= later(since, MAX_WAIT))
}

/// When the next poll of a repository is due; `may_take` is from [`may_take`].
pub fn next_look(
    mount: &GitMount,
    known: Option<&GitSyncStatus>,
    last: &LastLook,
    may_take: bool,
    now: Timestamp,
) -> Timestamp {
    let asked = mount.sync.as_ref().and_then(|sync| sync.interval).map(api::Duration::to_std);
    let asked = asked.and_then(|interval| SignedDuration::try_from(interval).ok());
    let interval = asked.filter(SignedDuration::is_positive).unwrap_or(INTERVAL).max(MIN_INTERVAL);
    match last {
        LastLook::Failed { at, .. } => later(*at, interval.min(RETRY)),
        // A commit that waited for Tasks waits no longer.
        LastLook::Waits if may_take => now,
        LastLook::Waits | LastLook::Taken => {
            let last = known.and_then(|status| status.last_synced.as_ref());
            last.map_or(now, |time| later(time.0, interval))
        }
    }
}

/// Decides about the commit `found` in the repository `name`. Returns the status, whose commit is the one that Pods
/// should have, and whether a newer commit waits.
pub fn take(
    name: &str,
    known: Option<&GitSyncStatus>,
    found: &str,
    may_take: bool,
    now: Timestamp,
) -> (GitSyncStatus, LastLook) {
    let current = known.and_then(|status| status.commit_hash.as_deref());
    let (commit, last) = match current {
        Some(current) if current != found && !may_take => (current, LastLook::Waits),
        _ => (found, LastLook::Taken),
    };
    let status =
        GitSyncStatus { name: name.to_owned(), commit_hash: Some(commit.to_owned()), last_synced: Some(Time(now)) };
    (status, last)
}

fn later(at: Timestamp, span: SignedDuration) -> Timestamp {
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::contexts::GitTarget;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn known(commit: Option<&str>, synced: i64) -> GitSyncStatus {
        GitSyncStatus {
            name: "docs".into(),
            commit_hash: commit.map(str::to_owned),
            last_synced: Some(Time(at(synced))),
        }
    }

    #[test]
    fn a_busy_agent_waits_with_a_new_commit_but_not_for_ever() {
        let now = at(100_000);
        let since = |seconds: i64| Some(at(100_000 - seconds));
        for (current, found, busy, waiting, commit, waits) in [
            (None, "a", true, None, "a", false),
            (Some("a"), "a", true, None, "a", false),
            (Some("a"), "b", false, None, "b", false),
            (Some("a"), "b", true, None, "a", true),
            (Some("a"), "b", true, since(60), "a", true),
            (Some("a"), "b", true, since(3600), "b", false),
        ] {
            let (status, last) = take("docs", Some(&known(current, 0)), found, may_take(busy, waiting, now), now);
            assert_eq!(
                (status.commit_hash.as_deref(), last == LastLook::Waits),
                (Some(commit), waits),
                "{current:?} {found}"
            );
        }
    }

    fn mount(repository: &str, reference: &str, interval: &str) -> GitMount {
        let sync = json!({"enabled": true, "policy": "Rollout", "interval": interval});
        GitMount {
            name: "docs".into(),
            repository: repository.into(),
            reference: reference.into(),
            depth: 1,
            recurse_submodules: false,
            secret: None,
            target: GitTarget::Parts(Vec::new()),
            optional: false,
            sync: serde_json::from_value(sync).ok(),
            of_task: false,
        }
    }

    #[test]
    fn another_place_is_looked_at_at_once_and_taken_whoever_is_busy() {
        let now = at(1100);
        let status = known(Some("a"), 1000);
        let failed = LastLook::Failed { at: at(1090), problem: "no".into() };
        for last in [LastLook::Taken, LastLook::Waits, failed] {
            let looked = (Place::of(&mount("r", "main", "1h")), last.clone());
            let same = mount("r", "main", "10m");
            let found = recall(&same, Some(&status), Some(looked.clone()), &LastLook::Taken);
            assert_eq!(found, (Some(&status), last.clone()), "the interval is no place");
            for other in [mount("r", "next", "1h"), mount("s", "main", "1h")] {
                let (known, last) = recall(&other, Some(&status), Some(looked.clone()), &LastLook::Waits);
                assert_eq!(next_look(&other, known, &last, false, now), now, "{other:?}");
                let (taken, last) = take("docs", known, "b", false, now);
                assert_eq!((taken.commit_hash.as_deref(), last), (Some("b"), LastLook::Taken), "{other:?}");
            }
        }
        let first = mount("r", "main", "1h");
        assert_eq!(recall(&first, Some(&status), None, &LastLook::Waits), (Some(&status), LastLook::Waits));
    }

    #[test]
    fn a_repository_is_looked_at_as_often_as_was_asked() {
        let check = |interval: &str, last: &LastLook, may_take: bool, expected: i64| {
            let mount = mount("", "", interval);
            let next = next_look(&mount, Some(&known(Some("a"), 1000)), last, may_take, at(1100));
            assert_eq!(next, at(expected), "{interval} {last:?} {may_take}");
        };
        let failed = LastLook::Failed { at: at(1090), problem: "no".into() };
        check("10m", &LastLook::Taken, true, 1600);
        check("0s", &LastLook::Taken, true, 1300);
        check("1s", &LastLook::Taken, true, 1010);
        check("10m", &LastLook::Waits, false, 1600);
        check("10m", &LastLook::Waits, true, 1100);
        check("10m", &failed, true, 1150);
        check("30s", &failed, false, 1120);
    }
}
