//! When an idle Agent is suspended and what resumes it. An Agent that its user suspended stays suspended.

use api::{Agent, names::annotations, workload::Standby};
use jiff::{SignedDuration, Timestamp};

use crate::duration::{later, signed};

/// Value of the annotation `kubeopencode.io/suspended-by` on an Agent that standby suspended.
pub const SUSPENDED_BY_STANDBY: &str = "Standby";

/// Terminals report a connected person every minute; two missed reports mean that no person is connected.
const HEARTBEAT: SignedDuration = SignedDuration::from_secs(120);
/// Lower bound for very short idle timeouts: one missed report proves nothing.
const SHORTEST_HEARTBEAT: SignedDuration = SignedDuration::from_secs(60);

/// Whether an Agent is scaled to zero, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// Not suspended.
    Awake,
    /// Suspended by its user, who alone resumes it.
    ByUser,
    /// Suspended by standby, because it was idle.
    ByStandby,
}

impl Suspension {
    pub fn of(agent: &Agent) -> Self {
        match (agent.spec.suspend, is_marked(agent)) {
            (false, _) => Self::Awake,
            (true, true) => Self::ByStandby,
            (true, false) => Self::ByUser,
        }
    }
}

/// Whether `agent` has the annotation that standby sets. On an Agent that is not suspended the annotation is left over.
pub fn is_marked(agent: &Agent) -> bool {
    let by = agent.metadata.annotations.as_ref().and_then(|all| all.get(annotations::SUSPENDED_BY));
    by.is_some_and(|by| by == SUSPENDED_BY_STANDBY)
}

/// When a person was last connected to `agent`.
pub fn last_connection(agent: &Agent) -> Option<Timestamp> {
    agent.metadata.annotations.as_ref()?.get(annotations::LAST_CONNECTION_ACTIVE)?.parse().ok()
}

/// Usage of an Agent.
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Settings of the spec; `None` without standby.
    pub standby: Option<&'a Standby>,
    pub suspension: Suspension,
    /// Whether the annotation of standby is set.
    pub marked: bool,
    /// Whether the last written status reports it as suspended.
    pub slept: bool,
    /// Tasks that run on it or wait only for it. A Task that waits for another Task does not keep it awake.
    pub tasks: usize,
    /// When a person was last connected; `None` if never.
    pub last_connection: Option<Timestamp>,
    /// Since when it is idle, from its status.
    pub idle_since: Option<Timestamp>,
}

/// The result of [`standby`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyPlan {
    pub action: StandbyAction,
    /// New value of `status.idleSince`.
    pub idle_since: Option<Timestamp>,
    /// Message of the condition StandbyConfigWarning; `None` removes the condition.
    pub warning: Option<String>,
    /// Plan again at this time, also without an event.
    pub next_wake: Option<Timestamp>,
}

impl StandbyPlan {
    /// Changes nothing, because the plan could not be executed.
    pub fn unchanged(idle_since: Option<Timestamp>) -> Self {
        Self { action: StandbyAction::Keep, idle_since, warning: None, next_wake: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandbyAction {
    /// Change nothing.
    Keep,
    /// Set `spec.suspend` and the annotation `kubeopencode.io/suspended-by` to [`SUSPENDED_BY_STANDBY`].
    Suspend,
    /// Unset both.
    Resume,
    /// Its user resumed it: remove the annotation, or the next suspension by its user would look like standby.
    Unmark,
}

/// Decides whether to suspend or resume an Agent.
pub fn standby(usage: &Use<'_>, now: Timestamp) -> StandbyPlan {
    let timeout = usage.standby.map(|standby| signed(standby.idle_timeout.to_std()));
    let presence = timeout
        .filter(|timeout| *timeout < HEARTBEAT)
        .map_or(HEARTBEAT, |timeout| (timeout / 2).max(SHORTEST_HEARTBEAT));
    // A connection in the future means a wrong clock, not a person.
    let seen = usage.last_connection.filter(|seen| *seen <= later(now, presence)).map(|seen| later(seen, presence));
    let present_until = seen.filter(|until| *until > now);
    let in_use = usage.tasks > 0 || present_until.is_some();

    let mut plan = StandbyPlan {
        action: StandbyAction::Keep,
        idle_since: None,
        warning: timeout.filter(|timeout| *timeout < HEARTBEAT).map(|timeout| {
            format!("idleTimeout {timeout:#} is shorter than 2m, in which a connected person is noticed; the Agent may be suspended while a person is connected")
        }),
        next_wake: None,
    };
    let awake = usage.suspension == Suspension::Awake;
    // A resumed Agent is about to be used: it is idle from now on, not since before it was suspended.
    let idle_since = usage.idle_since.filter(|_| !(awake && (usage.marked || usage.slept)));
    match (usage.suspension, timeout) {
        (Suspension::ByUser, _) | (Suspension::Awake, None) => {}
        (Suspension::ByStandby, Some(_)) if !in_use => plan.idle_since = usage.idle_since,
        (Suspension::ByStandby, _) => plan.action = StandbyAction::Resume,
        (Suspension::Awake, Some(_)) if usage.tasks > 0 => {}
        (Suspension::Awake, Some(_)) if in_use => plan.next_wake = present_until,
        (Suspension::Awake, Some(timeout)) => {
            let since = idle_since.unwrap_or(now);
            plan.idle_since = Some(since);
            if later(since, timeout) <= now {
                plan.action = StandbyAction::Suspend;
            } else {
                plan.next_wake = Some(later(since, timeout));
            }
        }
    }
    if awake && usage.marked && plan.action == StandbyAction::Keep {
        plan.action = StandbyAction::Unmark;
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
        marked: bool,
        slept: bool,
        tasks: usize,
        seen: Option<i64>,
        idle: Option<i64>,
    }

    /// An idle Agent with an idle timeout of 10 minutes.
    const IDLE: Case = Case {
        timeout: Some(600),
        suspension: Suspension::Awake,
        marked: false,
        slept: false,
        tasks: 0,
        seen: None,
        idle: None,
    };

    #[track_caller]
    fn check(case: &Case, action: StandbyAction, idle_since: Option<i64>, next_wake: Option<i64>) -> StandbyPlan {
        let settings = case.timeout.map(|seconds| Standby { idle_timeout: Duration::from_secs(seconds).into() });
        let usage = Use {
            standby: settings.as_ref(),
            suspension: case.suspension,
            marked: case.marked,
            slept: case.slept,
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
        let asleep = Case { suspension: Suspension::ByStandby, marked: true, slept: true, idle: Some(1), ..IDLE };
        check(&asleep, Keep, Some(1), None);
        check(&Case { tasks: 1, ..asleep }, Resume, None, None);
        check(&Case { seen: Some(NOW), ..asleep }, Resume, None, None);
        // Without standby the Agent is resumed.
        check(&Case { timeout: None, ..asleep }, Resume, None, None);
    }

    #[test]
    fn one_that_its_user_resumes_has_all_its_time_again() {
        use StandbyAction::{Keep, Unmark};
        // The annotation may be removed before the status is written, and the status may not show the suspension yet.
        let resumed = Case { idle: Some(1), ..IDLE };
        check(&Case { marked: true, slept: true, ..resumed }, Unmark, Some(NOW), Some(NOW + 600));
        check(&Case { marked: false, slept: true, ..resumed }, Keep, Some(NOW), Some(NOW + 600));
        check(&Case { marked: true, slept: false, ..resumed }, Unmark, Some(NOW), Some(NOW + 600));
        // The annotation is removed also if there is nothing else to do.
        check(&Case { marked: true, timeout: None, ..resumed }, Unmark, None, None);
        check(&Case { marked: true, tasks: 1, ..resumed }, Unmark, None, None);
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
