//! The lifecycle of a Pod: decides the next actions from the states of its containers.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The role of a container in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to completion before the next container starts.
    Init,
    /// An init container with restartPolicy Always: must be started before the next one starts, and stops after the
    /// main containers.
    Sidecar,
    Main,
}

/// The restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    pub(crate) fn of(policy: Option<&str>) -> Self {
        match policy {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn after(self, ended: &Terminated) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => ended.code != 0,
            Self::Never => false,
        }
    }
}

/// The terminated state of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terminated {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not running; reason and message of the waiting state.
    Waiting {
        reason: String,
        message: Option<String>,
    },
    /// Between the decision to start and the start of the process.
    Starting,
    Running {
        since: Timestamp,
    },
    Terminated(Terminated),
}

impl State {
    /// The initial state.
    pub(crate) fn initial() -> Self {
        Self::Waiting { reason: "ContainerCreating".to_owned(), message: None }
    }

    pub(crate) fn ended(&self) -> Option<&Terminated> {
        match self {
            Self::Terminated(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether the container has a process.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Starting | Self::Running { .. })
    }
}

/// A container of a Pod and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// The terminated state of the previous run.
    pub(crate) last: Option<Terminated>,
    pub(crate) restarts: u32,
    /// Number of restarts without a long run in between.
    pub(crate) backoff_restarts: u32,
    /// Whether postStart hook and startup probe have succeeded.
    pub(crate) started: bool,
    /// Whether the readiness probe has succeeded.
    pub(crate) ready: bool,
    /// End of the restart backoff.
    pub(crate) not_before: Option<Timestamp>,
}

impl Slot {
    pub(crate) fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            role,
            state: State::initial(),
            last: None,
            restarts: 0,
            backoff_restarts: 0,
            started: false,
            ready: false,
            not_before: None,
        }
    }

    /// Whether the next containers may start.
    fn lets_others_start(&self) -> bool {
        match self.role {
            Role::Init => self.state.ended().is_some_and(|ended| ended.code == 0),
            Role::Sidecar => self.started,
            Role::Main => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Succeeded,
    Failed,
}

/// The next actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// Containers to start, unless they are in backoff.
    pub(crate) start: Vec<usize>,
    pub(crate) stop: Vec<usize>,
    /// Set when nothing runs and nothing will be started.
    pub(crate) over: Option<Phase>,
}

/// Decides the next actions; `stopping` if the Pod is to be terminated.
pub(crate) fn next(slots: &[Slot], restart: RestartPolicy, stopping: bool) -> Next {
    if stopping {
        return terminate(slots, Phase::Failed);
    }
    let mains = || slots.iter().enumerate().filter(|(_, slot)| slot.role == Role::Main);
    let done = |slot: &Slot| slot.state.ended().is_some_and(|ended| !restart.after(ended));
    if mains().all(|(_, slot)| done(slot)) {
        let well = mains().all(|(_, slot)| slot.state.ended().is_some_and(|ended| ended.code == 0));
        return terminate(slots, if well { Phase::Succeeded } else { Phase::Failed });
    }
    // From now on a restarting sidecar does not block the main containers.
    let begun = mains().any(|(_, slot)| slot.last.is_some() || !matches!(slot.state, State::Waiting { .. }));
    let mut next = Next::default();
    for (index, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.role != Role::Main) {
        match (&slot.role, &slot.state) {
            (Role::Init, State::Terminated(ended)) if ended.code != 0 => {
                if restart == RestartPolicy::Never {
                    return terminate(slots, Phase::Failed);
                }
                next.start.push(index);
            }
            (Role::Sidecar, State::Terminated(_)) | (_, State::Waiting { .. }) => next.start.push(index),
            _ => {}
        }
        if !begun && !slot.lets_others_start() {
            return next;
        }
    }
    let wanted = mains().filter(|(_, slot)| !slot.state.is_active() && !done(slot));
    next.start.extend(wanted.map(|(index, _)| index));
    next
}

/// Stops everything but the sidecars at once, then the sidecars in reverse order.
fn terminate(slots: &[Slot], phase: Phase) -> Next {
    let active = || slots.iter().enumerate().filter(|(_, slot)| slot.state.is_active());
    let first: Vec<usize> = active().filter(|(_, slot)| slot.role != Role::Sidecar).map(|(index, _)| index).collect();
    let stop =
        if first.is_empty() { active().map(|(index, _)| index).next_back().into_iter().collect() } else { first };
    let over = stop.is_empty().then_some(phase);
    Next { start: Vec::new(), stop, over }
}

/// Bounds of the exponential restart backoff; the kubelet's values.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// A run of this length resets the backoff.
const HEALTHY: SignedDuration = SignedDuration::from_mins(10);

/// The backoff before the restart with this number, starting at 1. The first restart is immediate.
pub(crate) fn delay(backoff_restarts: u32) -> Duration {
    match backoff_restarts {
        0 | 1 => Duration::ZERO,
        more => FIRST_BACKOFF.saturating_mul(1 << (more - 2).min(16)).min(MAX_BACKOFF),
    }
}

/// Records the exit of a container and computes its backoff.
pub(crate) fn record_exit(slot: &mut Slot, ended: Terminated) {
    let lived = ended.started_at.map_or(SignedDuration::ZERO, |at| ended.finished_at.duration_since(at));
    slot.backoff_restarts = if lived >= HEALTHY { 1 } else { slot.backoff_restarts + 1 };
    let wait = SignedDuration::try_from(delay(slot.backoff_restarts)).unwrap_or(SignedDuration::MAX);
    slot.not_before = ended.finished_at.checked_add(wait).ok();
    slot.ready = false;
    slot.started = false;
    slot.state = State::Terminated(ended);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ended(code: i32) -> Terminated {
        Terminated {
            code,
            signal: None,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            message: None,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// `i`, `s` and `m` are the roles, followed by the state: `-` waits, `r` runs, `R` runs and has started, a number
    /// is an exit code.
    pub(crate) fn slots(text: &str) -> Vec<Slot> {
        let one = |(index, word): (usize, &str)| {
            let (role, state) = word.split_at(1);
            let role = match role {
                "i" => Role::Init,
                "s" => Role::Sidecar,
                _ => Role::Main,
            };
            let mut slot = Slot::new(&format!("c{index}"), role);
            slot.state = match state {
                "-" => State::initial(),
                "r" | "R" => State::Running { since: Timestamp::UNIX_EPOCH },
                code => State::Terminated(ended(code.parse().unwrap())),
            };
            slot.started = state == "R";
            slot.ready = slot.started;
            slot
        };
        text.split(' ').enumerate().map(one).collect()
    }

    #[track_caller]
    fn check(text: &str, restart: RestartPolicy, stopping: bool, expected: &str) {
        let Next { start, stop, over } = next(&slots(text), restart, stopping);
        let mut shown: Vec<String> = start.iter().map(|index| format!("start {index}")).collect();
        shown.extend(stop.iter().map(|index| format!("stop {index}")));
        shown.extend(over.map(|phase| format!("{phase:?}")));
        assert_eq!(shown.join(", "), expected, "{text}");
    }

    #[test]
    fn init_containers_run_one_after_the_other_and_then_the_others_at_once() {
        check("i- i- m- m-", RestartPolicy::Never, false, "start 0");
        check("ir i- m- m-", RestartPolicy::Never, false, "");
        check("i0 i- m- m-", RestartPolicy::Never, false, "start 1");
        check("i0 i0 m- m-", RestartPolicy::Never, false, "start 2, start 3");
        check("i0 i0 mR m-", RestartPolicy::Never, false, "start 3");
        check("i0 i0 mR mR", RestartPolicy::Never, false, "");
    }

    #[test]
    fn a_failed_init_container_fails_the_pod_or_runs_again() {
        check("i1 m-", RestartPolicy::Never, false, "Failed");
        check("sR i1 m-", RestartPolicy::Never, false, "stop 0");
        check("i1 m-", RestartPolicy::OnFailure, false, "start 0");
        check("i1 m-", RestartPolicy::Always, false, "start 0");
    }

    #[test]
    fn a_sidecar_starts_before_the_next_and_ends_last() {
        check("s- i- m-", RestartPolicy::Never, false, "start 0");
        check("sr i- m-", RestartPolicy::Never, false, "");
        check("sR i- m-", RestartPolicy::Never, false, "start 1");
        check("sR i0 mR", RestartPolicy::Never, false, "");
        check("sR i0 m0", RestartPolicy::Never, false, "stop 0");
        check("sR sR m0", RestartPolicy::Never, false, "stop 1");
        check("s0 i0 m0", RestartPolicy::Never, false, "Succeeded");
        check("s1 i0 mR", RestartPolicy::Never, false, "start 0");
        check("sr i0 mR m1", RestartPolicy::Always, false, "start 3");
    }

    #[test]
    fn main_containers_restart_by_the_policy() {
        check("m0 m1", RestartPolicy::Never, false, "Failed");
        check("m0 m0", RestartPolicy::Never, false, "Succeeded");
        check("m0 m1", RestartPolicy::OnFailure, false, "start 1");
        check("m0 m0", RestartPolicy::OnFailure, false, "Succeeded");
        check("m0 mR", RestartPolicy::Always, false, "start 0");
    }

    #[test]
    fn a_stopping_pod_stops_its_main_containers_first() {
        check("sR i0 mR mR", RestartPolicy::Always, true, "stop 2, stop 3");
        check("sR i0 m0 m143", RestartPolicy::Always, true, "stop 0");
        check("s0 i0 m0 m143", RestartPolicy::Always, true, "Failed");
        check("ir m-", RestartPolicy::Always, true, "stop 0");
    }

    #[test]
    fn restarts_back_off() {
        let seconds: Vec<u64> = (0..9).map(|number| delay(number).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_container_that_ran_for_long_starts_over() {
        let mut slot = Slot::new("c", Role::Main);
        slot.backoff_restarts = 5;
        let finished_at = Timestamp::UNIX_EPOCH + HEALTHY;
        record_exit(&mut slot, Terminated { finished_at, ..ended(1) });
        assert_eq!((slot.backoff_restarts, slot.not_before), (1, Some(finished_at)));
        record_exit(&mut slot, Terminated { started_at: Some(finished_at), finished_at, ..ended(1) });
        assert_eq!(slot.not_before, Some(finished_at + SignedDuration::from_secs(10)));
    }
}
