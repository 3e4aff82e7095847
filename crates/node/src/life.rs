//! What happens next in the life of a Pod: a function of what its containers are doing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// What a container is in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that keeps running: it has started before the next one does, and ends after the main ones.
    Sidecar,
    /// What the Pod is for.
    Main,
}

/// When containers are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// As a Pod says it.
    pub(crate) fn of(policy: Option<&str>) -> Self {
        match policy {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn after(self, ended: &Ended) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => ended.code != 0,
            Self::Never => false,
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Timestamp,
}

/// What a container is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not run; why, in a word and perhaps in a sentence.
    Waiting {
        reason: String,
        message: Option<String>,
    },
    /// It is being started; not long.
    Starting,
    Running {
        since: Timestamp,
    },
    Ended(Ended),
}

impl State {
    /// Nothing keeps it from starting but its turn.
    pub(crate) fn untouched() -> Self {
        Self::Waiting { reason: "ContainerCreating".to_owned(), message: None }
    }

    pub(crate) fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Whether it has a process.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Starting | Self::Running { .. })
    }
}

/// A container of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// How it ended before it was started again.
    pub(crate) last: Option<Ended>,
    /// How many times it was started again.
    pub(crate) restarts: u32,
    /// How many of these came soon after each other.
    pub(crate) quick_restarts: u32,
    /// Whether its startup probe and its postStart hook are through.
    pub(crate) started: bool,
    /// Whether its readiness probe is content.
    pub(crate) ready: bool,
    /// It is not started before.
    pub(crate) not_before: Option<Timestamp>,
}

impl Slot {
    pub(crate) fn new(name: &str, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            role,
            state: State::untouched(),
            last: None,
            restarts: 0,
            quick_restarts: 0,
            started: false,
            ready: false,
            not_before: None,
        }
    }

    /// Whether the containers behind it may start.
    fn lets_others_start(&self) -> bool {
        match self.role {
            Role::Init => self.state.ended().is_some_and(|ended| ended.code == 0),
            Role::Sidecar => self.started,
            Role::Main => true,
        }
    }
}

/// How a Pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Succeeded,
    Failed,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    /// Containers to start, unless they have to wait.
    pub(crate) start: Vec<usize>,
    /// Containers to stop.
    pub(crate) stop: Vec<usize>,
    /// Nothing runs and nothing will.
    pub(crate) over: Option<Phase>,
}

/// What to do, given that the Pod is to end (`stopping`) or not.
pub(crate) fn next(slots: &[Slot], restart: Restart, stopping: bool) -> Next {
    if stopping {
        return wind_down(slots, Phase::Failed);
    }
    let mains = || slots.iter().enumerate().filter(|(_, slot)| slot.role == Role::Main);
    let done = |slot: &Slot| slot.state.ended().is_some_and(|ended| !restart.after(ended));
    if mains().all(|(_, slot)| done(slot)) {
        let well = mains().all(|(_, slot)| slot.state.ended().is_some_and(|ended| ended.code == 0));
        return wind_down(slots, if well { Phase::Succeeded } else { Phase::Failed });
    }
    // From then on a sidecar that is started again holds nobody up.
    let begun = mains().any(|(_, slot)| slot.last.is_some() || !matches!(slot.state, State::Waiting { .. }));
    let mut next = Next::default();
    for (index, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.role != Role::Main) {
        match (&slot.role, &slot.state) {
            (Role::Init, State::Ended(ended)) if ended.code != 0 => {
                if restart == Restart::Never {
                    return wind_down(slots, Phase::Failed);
                }
                next.start.push(index);
            }
            (Role::Sidecar, State::Ended(_)) | (_, State::Waiting { .. }) => next.start.push(index),
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

/// First everything but the sidecars, all at once; then the sidecars, the last one first.
fn wind_down(slots: &[Slot], phase: Phase) -> Next {
    let active = || slots.iter().enumerate().filter(|(_, slot)| slot.state.is_active());
    let first: Vec<usize> = active().filter(|(_, slot)| slot.role != Role::Sidecar).map(|(index, _)| index).collect();
    let stop =
        if first.is_empty() { active().map(|(index, _)| index).next_back().into_iter().collect() } else { first };
    let over = stop.is_empty().then_some(phase);
    Next { start: Vec::new(), stop, over }
}

/// A container that keeps ending is started again later and later.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// One that ran for this long is taken for healthy.
const HEALTHY: SignedDuration = SignedDuration::from_mins(10);

/// How long to wait before the restart with this number (the first is 1). The first comes at once.
pub(crate) fn delay(quick_restarts: u32) -> Duration {
    match quick_restarts {
        0 | 1 => Duration::ZERO,
        more => FIRST_DELAY.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_DELAY),
    }
}

/// Takes note of an end: what may be started again, and when.
pub(crate) fn note_end(slot: &mut Slot, ended: Ended) {
    let lived = ended.started_at.map_or(SignedDuration::ZERO, |at| ended.finished_at.duration_since(at));
    slot.quick_restarts = if lived >= HEALTHY { 1 } else { slot.quick_restarts + 1 };
    let wait = SignedDuration::try_from(delay(slot.quick_restarts)).unwrap_or(SignedDuration::MAX);
    slot.not_before = ended.finished_at.checked_add(wait).ok();
    slot.ready = false;
    slot.started = false;
    slot.state = State::Ended(ended);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ended(code: i32) -> Ended {
        Ended {
            code,
            signal: None,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            message: None,
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// `i`, `s` and `m` are the roles; what follows says what they do: `-` waits, `r` runs, `R` runs and has started,
    /// a number is an exit code.
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
                "-" => State::untouched(),
                "r" | "R" => State::Running { since: Timestamp::UNIX_EPOCH },
                code => State::Ended(ended(code.parse().unwrap())),
            };
            slot.started = state == "R";
            slot.ready = slot.started;
            slot
        };
        text.split(' ').enumerate().map(one).collect()
    }

    #[track_caller]
    fn check(text: &str, restart: Restart, stopping: bool, expected: &str) {
        let Next { start, stop, over } = next(&slots(text), restart, stopping);
        let mut shown: Vec<String> = start.iter().map(|index| format!("start {index}")).collect();
        shown.extend(stop.iter().map(|index| format!("stop {index}")));
        shown.extend(over.map(|phase| format!("{phase:?}")));
        assert_eq!(shown.join(", "), expected, "{text}");
    }

    #[test]
    fn init_containers_run_one_after_the_other_and_then_the_others_at_once() {
        check("i- i- m- m-", Restart::Never, false, "start 0");
        check("ir i- m- m-", Restart::Never, false, "");
        check("i0 i- m- m-", Restart::Never, false, "start 1");
        check("i0 i0 m- m-", Restart::Never, false, "start 2, start 3");
        check("i0 i0 mR m-", Restart::Never, false, "start 3");
        check("i0 i0 mR mR", Restart::Never, false, "");
    }

    #[test]
    fn a_failed_init_container_fails_the_pod_or_runs_again() {
        check("i1 m-", Restart::Never, false, "Failed");
        check("sR i1 m-", Restart::Never, false, "stop 0");
        check("i1 m-", Restart::OnFailure, false, "start 0");
        check("i1 m-", Restart::Always, false, "start 0");
    }

    #[test]
    fn a_sidecar_starts_before_the_next_and_ends_last() {
        check("s- i- m-", Restart::Never, false, "start 0");
        check("sr i- m-", Restart::Never, false, "");
        check("sR i- m-", Restart::Never, false, "start 1");
        check("sR i0 mR", Restart::Never, false, "");
        check("sR i0 m0", Restart::Never, false, "stop 0");
        check("sR sR m0", Restart::Never, false, "stop 1");
        check("s0 i0 m0", Restart::Never, false, "Succeeded");
        check("s1 i0 mR", Restart::Never, false, "start 0");
        check("sr i0 mR m1", Restart::Always, false, "start 3");
    }

    #[test]
    fn main_containers_restart_by_the_policy() {
        check("m0 m1", Restart::Never, false, "Failed");
        check("m0 m0", Restart::Never, false, "Succeeded");
        check("m0 m1", Restart::OnFailure, false, "start 1");
        check("m0 m0", Restart::OnFailure, false, "Succeeded");
        check("m0 mR", Restart::Always, false, "start 0");
    }

    #[test]
    fn a_pod_that_is_to_end_stops_its_main_containers_first() {
        check("sR i0 mR mR", Restart::Always, true, "stop 2, stop 3");
        check("sR i0 m0 m143", Restart::Always, true, "stop 0");
        check("s0 i0 m0 m143", Restart::Always, true, "Failed");
        check("ir m-", Restart::Always, true, "stop 0");
    }

    #[test]
    fn restarts_come_later_and_later() {
        let seconds: Vec<u64> = (0..9).map(|number| delay(number).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_container_that_ran_for_long_starts_over() {
        let mut slot = Slot::new("c", Role::Main);
        slot.quick_restarts = 5;
        let finished_at = Timestamp::UNIX_EPOCH + HEALTHY;
        note_end(&mut slot, Ended { finished_at, ..ended(1) });
        assert_eq!((slot.quick_restarts, slot.not_before), (1, Some(finished_at)));
        note_end(&mut slot, Ended { started_at: Some(finished_at), finished_at, ..ended(1) });
        assert_eq!(slot.not_before, Some(finished_at + SignedDuration::from_secs(10)));
    }
}
