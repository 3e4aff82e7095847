//! When an idle Agent goes to sleep and what wakes it. An Agent that its user suspended is none of our business.

use api::{Agent, names::annotations, workload::Standby};
use jiff::{SignedDuration, Timestamp};

use crate::span::{later, signed};

/// Value of the annotation `kubeopencode.io/suspended-by` on an Agent that we put to sleep.
pub const SUSPENDED_BY_STANDBY: &str = "Standby";

/// Terminals report every minute that somebody is there; two missed reports mean that nobody is.
const HEARTBEAT: SignedDuration = SignedDuration::from_secs(120);
/// Even for a very short idle timeout one missed report is no proof.
const SHORTEST_HEARTBEAT: SignedDuration = SignedDuration::from_secs(60);

/// Whether an Agent is scaled to zero, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// It is not.
    Awake,
    /// By its user: only its user resumes it.
    ByUser,
    /// By us, because nobody used it.
    ByStandby,
}

impl Suspension {
    /// Whether and by whom `agent` is suspended.
    pub fn of(agent: &Agent) -> Self {
        let by = agent.metadata.annotations.as_ref().and_then(|all| all.get(annotations::SUSPENDED_BY));
        match (agent.spec.suspend, by) {
            (false, _) => Self::Awake,
            (true, Some(by)) if by == SUSPENDED_BY_STANDBY => Self::ByStandby,
            (true, _) => Self::ByUser,
        }
    }
}

/// When a person was seen at `agent` last.
pub fn last_connection(agent: &Agent) -> Option<Timestamp> {
    agent.metadata.annotations.as_ref()?.get(annotations::LAST_CONNECTION_ACTIVE)?.parse().ok()
}

/// How an Agent is used.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Its settings.
    pub standby: Option<&'a Standby>,
    /// Whether it sleeps.
    pub suspension: Suspension,
    /// Tasks that run on it or wait only for it. One that waits for another Task does not keep it awake.
    pub tasks: usize,
    /// When a person was seen last.
    pub last_connection: Option<Timestamp>,
    /// Since when nobody uses it, as its status says.
    pub idle_since: Option<Timestamp>,
}

/// What to do with an Agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyPlan {
    /// Whether to put it to sleep or wake it.
    pub action: StandbyAction,
    /// For `status.idleSince`.
    pub idle_since: Option<Timestamp>,
    /// For the condition StandbyConfigWarning, which is removed when there is none.
    pub warning: Option<String>,
    /// Plan again at this time even if nothing happens before.
    pub next_wake: Option<Timestamp>,
}

/// Whether to put an Agent to sleep or wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyAction {
    /// Leave it.
    Keep,
    /// Set `spec.suspend` and the annotation `kubeopencode.io/suspended-by` to [`SUSPENDED_BY_STANDBY`].
    Suspend,
    /// Unset both.
    Resume,
}

/// Plans the sleep of an Agent.
pub fn standby(usage: &Use<'_>, now: Timestamp) -> StandbyPlan {
    let timeout = usage.standby.map(|standby| signed(standby.idle_timeout.to_std()));
    let presence = timeout
        .filter(|timeout| *timeout < HEARTBEAT)
        .map_or(HEARTBEAT, |timeout| (timeout / 2).max(SHORTEST_HEARTBEAT));
    // A sign of life from the future is a broken clock, not a person.
    let seen = usage.last_connection.filter(|seen| *seen <= later(now, presence)).map(|seen| later(seen, presence));
    let present_until = seen.filter(|until| *until > now);
    let in_use = usage.tasks > 0 || present_until.is_some();

    let mut plan = StandbyPlan {
        action: StandbyAction::Keep,
        idle_since: None,
        warning: timeout.filter(|timeout| *timeout < HEARTBEAT).map(|timeout| {
            format!("idleTimeout {timeout:#} is shorter than 2m, in which a connected person is noticed; the Agent may sleep while somebody is connected")
        }),
        next_wake: None,
    };
    match (usage.suspension, timeout) {
        (Suspension::ByUser, _) | (Suspension::Awake, None) => {}
        (Suspension::ByStandby, Some(_)) if !in_use => plan.idle_since = usage.idle_since,
        (Suspension::ByStandby, _) => plan.action = StandbyAction::Resume,
        (Suspension::Awake, Some(_)) if usage.tasks > 0 => {}
        (Suspension::Awake, Some(_)) if in_use => plan.next_wake = present_until,
        (Suspension::Awake, Some(timeout)) => {
            let since = usage.idle_since.unwrap_or(now);
            plan.idle_since = Some(since);
            if later(since, timeout) <= now {
                plan.action = StandbyAction::Suspend;
            } else {
                plan.next_wake = Some(later(since, timeout));
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: i64 = 10_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    struct Case {
        timeout: Option<u64>,
        suspension: Suspension,
        tasks: usize,
        seen: Option<i64>,
        idle: Option<i64>,
    }

    /// An Agent with 10 minutes of patience that nobody uses.
    const IDLE: Case = Case { timeout: Some(600), suspension: Suspension::Awake, tasks: 0, seen: None, idle: None };

    #[track_caller]
    fn check(case: &Case, action: StandbyAction, idle_since: Option<i64>, next_wake: Option<i64>) -> StandbyPlan {
        let settings = case.timeout.map(|seconds| Standby { idle_timeout: Duration::from_secs(seconds).into() });
        let usage = Use {
            standby: settings.as_ref(),
            suspension: case.suspension,
            tasks: case.tasks,
            last_connection: case.seen.map(at),
            idle_since: case.idle.map(at),
        };
        let plan = standby(&usage, at(NOW));
        assert_eq!((plan.action, plan.idle_since, plan.next_wake), (action, idle_since.map(at), next_wake.map(at)));
        plan
    }

    #[test]
    fn an_idle_agent_sleeps_after_its_timeout() {
        use StandbyAction::{Keep, Suspend};
        check(&IDLE, Keep, Some(NOW), Some(NOW + 600));
        check(&Case { idle: Some(NOW - 599), ..IDLE }, Keep, Some(NOW - 599), Some(NOW + 1));
        check(&Case { idle: Some(NOW - 600), ..IDLE }, Suspend, Some(NOW - 600), None);
        check(&Case { timeout: None, idle: Some(0), ..IDLE }, Keep, None, None);
    }

    #[test]
    fn a_task_or_a_person_keeps_it_awake() {
        use StandbyAction::{Keep, Suspend};
        check(&Case { tasks: 1, idle: Some(0), ..IDLE }, Keep, None, None);
        check(&Case { seen: Some(NOW - 119), idle: Some(0), ..IDLE }, Keep, None, Some(NOW + 1));
        check(&Case { seen: Some(NOW - 120), idle: Some(0), ..IDLE }, Suspend, Some(0), None);
        check(&Case { seen: Some(NOW + 9999), idle: Some(0), ..IDLE }, Suspend, Some(0), None);
    }

    #[test]
    fn a_task_or_a_person_wakes_it() {
        use StandbyAction::{Keep, Resume};
        let asleep = Case { suspension: Suspension::ByStandby, idle: Some(1), ..IDLE };
        check(&asleep, Keep, Some(1), None);
        check(&Case { tasks: 1, ..asleep }, Resume, None, None);
        check(&Case { seen: Some(NOW), ..asleep }, Resume, None, None);
        // Without standby nothing keeps it asleep.
        check(&Case { timeout: None, ..asleep }, Resume, None, None);
    }

    #[test]
    fn what_its_user_suspended_stays_suspended() {
        let suspended = Case { suspension: Suspension::ByUser, tasks: 3, seen: Some(NOW), ..IDLE };
        check(&suspended, StandbyAction::Keep, None, None);
    }

    #[test]
    fn a_timeout_shorter_than_the_heartbeat_is_warned_about() {
        let short = Case { timeout: Some(60), ..IDLE };
        assert!(check(&short, StandbyAction::Keep, Some(NOW), Some(NOW + 60)).warning.is_some());
        check(&Case { seen: Some(NOW - 59), ..short }, StandbyAction::Keep, None, Some(NOW + 1));
        assert_eq!(check(&IDLE, StandbyAction::Keep, Some(NOW), Some(NOW + 600)).warning, None);
    }

    #[test]
    fn who_suspended_it_is_told_by_an_annotation() {
        let mut agent = Agent::new("a", api::AgentSpec::default());
        assert_eq!(Suspension::of(&agent), Suspension::Awake);
        agent.spec.suspend = true;
        assert_eq!(Suspension::of(&agent), Suspension::ByUser);
        agent.metadata.annotations = Some([(annotations::SUSPENDED_BY.to_owned(), "Standby".to_owned())].into());
        assert_eq!(Suspension::of(&agent), Suspension::ByStandby);
        agent.spec.suspend = false;
        assert_eq!(Suspension::of(&agent), Suspension::Awake);
    }
}
