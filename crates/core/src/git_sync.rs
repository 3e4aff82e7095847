//! When an Agent takes over a new commit of a repository that it follows by roll-out.

use api::{context::GitSyncPolicy, kinds::agent::GitSyncStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::contexts::GitMount;

/// How often a repository is looked at unless its context says otherwise.
const INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Running Tasks hold a new commit up for this long at most.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// Whether an Agent follows a repository by restarting.
pub fn rolls_out(mount: &GitMount) -> bool {
    mount.sync.as_ref().is_some_and(|sync| sync.enabled && sync.policy == GitSyncPolicy::Rollout)
}

/// When a repository is to be looked at next.
pub fn next_look(mount: &GitMount, known: Option<&GitSyncStatus>) -> Timestamp {
    let asked = mount.sync.as_ref().and_then(|sync| sync.interval).map(api::Duration::to_std);
    let interval = asked.and_then(|interval| SignedDuration::try_from(interval).ok()).unwrap_or(INTERVAL);
    let last = known.and_then(|status| status.last_synced.as_ref()).map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    last.checked_add(interval).unwrap_or(Timestamp::MAX)
}

/// What to do with the commit that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Take {
    /// For the Agent's status; its commit is what the Pods should have.
    pub status: GitSyncStatus,
    /// A newer commit waits for running Tasks.
    pub waits: bool,
}

/// Decides about the commit `found` in the repository `name`. `busy` Agents wait, but not for ever: `waiting_since` says
/// since when a newer commit waits.
pub fn take(
    name: &str,
    known: Option<&GitSyncStatus>,
    found: &str,
    busy: bool,
    waiting_since: Option<Timestamp>,
    now: Timestamp,
) -> Take {
    let current = known.and_then(|status| status.commit_hash.as_deref());
    let patient = waiting_since.is_none_or(|since| now < since.checked_add(PATIENCE).unwrap_or(Timestamp::MAX));
    let waits = busy && patient && current.is_some_and(|current| current != found);
    let commit = if waits { current.unwrap_or(found) } else { found };
    let status =
        GitSyncStatus { name: name.to_owned(), commit_hash: Some(commit.to_owned()), last_synced: Some(Time(now)) };
    Take { status, waits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_agent_waits_with_a_new_commit_but_not_for_ever() {
        let now = Timestamp::from_second(100_000).unwrap();
        let known = |commit: Option<&str>| GitSyncStatus {
            name: "docs".into(),
            commit_hash: commit.map(str::to_owned),
            last_synced: None,
        };
        let since = |seconds: i64| Some(Timestamp::from_second(100_000 - seconds).unwrap());
        for (current, found, busy, waiting, commit, waits) in [
            (None, "a", true, None, "a", false),
            (Some("a"), "a", true, None, "a", false),
            (Some("a"), "b", false, None, "b", false),
            (Some("a"), "b", true, None, "a", true),
            (Some("a"), "b", true, since(60), "a", true),
            (Some("a"), "b", true, since(3600), "b", false),
        ] {
            let taken = take("docs", Some(&known(current)), found, busy, waiting, now);
            assert_eq!(
                (taken.status.commit_hash.as_deref(), taken.waits),
                (Some(commit), waits),
                "{current:?} {found}"
            );
        }
    }
}
