//! The status of a Pod, computed from the states of its containers.

pub(crate) mod events;
pub(crate) mod report;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
        HostIP, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::pod::lifecycle::{Phase, Role, Slot, State, Terminated};

/// The input of a status.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) slots: &'a [Slot],
    /// The image of each container, as the Pod names it.
    pub(crate) images: &'a [String],
    /// Part of the container ids.
    pub(crate) uid: &'a str,
    /// `None` until an address is allocated.
    pub(crate) address: Option<std::net::Ipv4Addr>,
    pub(crate) host: std::net::Ipv4Addr,
    /// When the node accepted the Pod.
    pub(crate) start_time: Timestamp,
    /// Whether the volumes are set up.
    pub(crate) prepared: bool,
    /// Whether the Pod is being terminated.
    pub(crate) stopping: bool,
    pub(crate) over: Option<&'a PodOutcome>,
    /// The last written status: its condition timestamps, and conditions of other writers.
    pub(crate) before: Option<&'a PodStatus>,
    pub(crate) now: Timestamp,
}

/// The final phase of a Pod, with a reason if its containers do not explain it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PodOutcome {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

pub(crate) fn status(view: &View<'_>) -> PodStatus {
    let shown = |init: bool| {
        let all = view.slots.iter().zip(view.images);
        let wanted = all.filter(|(slot, _)| (slot.role != Role::Main) == init);
        let statuses: Vec<ContainerStatus> = wanted.map(|(slot, image)| container(view, slot, image)).collect();
        Some(statuses).filter(|statuses| !statuses.is_empty())
    };
    let address = view.address.map(|address| address.to_string());
    PodStatus {
        phase: Some(phase(view).to_owned()),
        reason: view.over.and_then(|over| over.reason.clone()),
        message: view.over.and_then(|over| over.message.clone()),
        start_time: Some(Time(whole_seconds(view.start_time))),
        host_ip: Some(view.host.to_string()),
        host_ips: Some(vec![HostIP { ip: view.host.to_string() }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        conditions: Some(conditions(view)),
        init_container_statuses: shown(true),
        container_statuses: shown(false),
        qos_class: view.before.and_then(|before| before.qos_class.clone()),
        ..PodStatus::default()
    }
}

fn phase(view: &View<'_>) -> &'static str {
    match view.over {
        Some(PodOutcome { phase: Phase::Succeeded, .. }) => "Succeeded",
        Some(PodOutcome { phase: Phase::Failed, .. }) => "Failed",
        None => {
            let begun =
                |slot: &Slot| matches!(slot.state, State::Running { .. } | State::Terminated(_)) || slot.last.is_some();
            let mut mains = view.slots.iter().filter(|slot| slot.role == Role::Main);
            if initialized(view.slots) && mains.all(begun) { "Running" } else { "Pending" }
        }
    }
}

/// Whether the init containers are done. Stays true when a sidecar restarts.
fn initialized(slots: &[Slot]) -> bool {
    let through = |slot: &Slot| match slot.role {
        Role::Init => slot.state.ended().is_some_and(|ended| ended.code == 0),
        Role::Sidecar => slot.started || slot.restarts > 0 || slot.state.ended().is_some(),
        Role::Main => true,
    };
    slots.iter().all(through)
}

/// Kubernetes stores whole seconds; truncating makes statuses comparable.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn time(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| Time(whole_seconds(at)))
}

fn container(view: &View<'_>, slot: &Slot, image: &str) -> ContainerStatus {
    let id = |number: u32| format!("process://{}/{}/{number}", view.uid, slot.name);
    let has_run = !matches!(slot.state, State::Waiting { .. } | State::Starting) || slot.last.is_some();
    // A container in backoff has the id of its last run; a running one has the next number.
    let before =
        if matches!(slot.state, State::Waiting { .. }) { slot.restarts } else { slot.restarts.saturating_sub(1) };
    let running = matches!(slot.state, State::Running { .. });
    // A completed init container is ready.
    let finished = slot.role == Role::Init && slot.state.ended().is_some_and(|ended| ended.code == 0);
    ContainerStatus {
        name: slot.name.clone(),
        image: image.to_owned(),
        image_id: if has_run { format!("process://{image}") } else { String::new() },
        container_id: has_run.then(|| id(slot.restarts)),
        ready: (running && slot.ready) || finished,
        started: Some(running && slot.started),
        restart_count: i32::try_from(slot.restarts).unwrap_or(i32::MAX),
        state: Some(state(view, slot, &id(slot.restarts))),
        last_state: slot.last.as_ref().map(|ended| ContainerState {
            terminated: Some(terminated(ended, &id(before))),
            ..ContainerState::default()
        }),
        ..ContainerStatus::default()
    }
}

fn state(view: &View<'_>, slot: &Slot, id: &str) -> ContainerState {
    let mut state = ContainerState::default();
    match &slot.state {
        State::Running { since } => {
            state.running = Some(ContainerStateRunning { started_at: time(Some(*since)) });
        }
        State::Terminated(ended) => state.terminated = Some(terminated(ended, id)),
        State::Waiting { reason, message } => {
            let behind = slot.role == Role::Main && !initialized(view.slots) || {
                let index = view.slots.iter().position(|other| other.name == slot.name).unwrap_or_default();
                slot.role != Role::Main && !initialized(&view.slots[..index])
            };
            let initial = slot.state == State::initial();
            let reason = if initial && behind { "PodInitializing".to_owned() } else { reason.clone() };
            state.waiting = Some(ContainerStateWaiting { reason: Some(reason), message: message.clone() });
        }
        State::Starting => {
            state.waiting = Some(ContainerStateWaiting { reason: Some("ContainerCreating".to_owned()), message: None });
        }
    }
    state
}

fn terminated(ended: &Terminated, id: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        container_id: Some(id.to_owned()),
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(ended.reason.clone()),
        message: ended.message.clone(),
        started_at: time(ended.started_at),
        finished_at: time(Some(ended.finished_at)),
    }
}

const OURS: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

fn conditions(view: &View<'_>) -> Vec<PodCondition> {
    let serving = |slot: &&Slot| slot.role != Role::Init;
    let unready: Vec<&str> = view
        .slots
        .iter()
        .filter(serving)
        .filter(|slot| !(matches!(slot.state, State::Running { .. }) && slot.ready))
        .map(|slot| slot.name.as_str())
        .collect();
    let incomplete: Vec<&str> = view
        .slots
        .iter()
        .filter(|slot| !initialized(std::slice::from_ref(slot)))
        .map(|slot| slot.name.as_str())
        .collect();
    let completed = match view.over {
        Some(PodOutcome { phase: Phase::Succeeded, .. }) => Some("PodCompleted"),
        Some(PodOutcome { phase: Phase::Failed, .. }) => Some("PodFailed"),
        None => None,
    };
    let ready = if unready.is_empty() && completed.is_none() && !view.stopping {
        (true, None, None)
    } else if let Some(reason) = completed {
        (false, Some(reason), None)
    } else if unready.is_empty() {
        (false, Some("PodTerminating"), None)
    } else {
        (false, Some("ContainersNotReady"), Some(format!("containers with unready status: [{}]", unready.join(" "))))
    };
    let initialized = if incomplete.is_empty() {
        (true, completed.filter(|reason| *reason == "PodCompleted"), None)
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        (false, Some("ContainersNotInitialized"), Some(message))
    };
    let prepared = view.prepared && completed.is_none();
    let all = [(prepared, None, None), initialized, ready.clone(), ready, (true, None, None)];
    let mut conditions: Vec<PodCondition> = Vec::new();
    let before = || view.before.iter().flat_map(|before| before.conditions.iter().flatten());
    conditions.extend(before().filter(|condition| !OURS.contains(&condition.type_.as_str())).cloned());
    for (kind, (holds, reason, message)) in OURS.into_iter().zip(all) {
        let status = if holds { "True" } else { "False" };
        let known = before().find(|condition| condition.type_ == kind && condition.status == status);
        let since = known.and_then(|condition| condition.last_transition_time.clone());
        conditions.push(PodCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: Some(since.unwrap_or_else(|| Time(whole_seconds(view.now)))),
            ..PodCondition::default()
        });
    }
    conditions
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::pod::lifecycle::tests::slots;

    fn view<'a>(slots: &'a [Slot], images: &'a [String], over: Option<&'a PodOutcome>) -> View<'a> {
        View {
            slots,
            images,
            uid: "u",
            address: Some(Ipv4Addr::new(127, 80, 0, 1)),
            host: Ipv4Addr::LOCALHOST,
            start_time: Timestamp::UNIX_EPOCH,
            prepared: true,
            stopping: false,
            over,
            before: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Phase, the true conditions, and the state of each container.
    fn shown(text: &str, over: Option<&PodOutcome>) -> String {
        let slots = slots(text);
        let images = vec!["i".to_owned(); slots.len()];
        let status = status(&view(&slots, &images, over));
        let holds = |kind: &&str| {
            let all = status.conditions.iter().flatten();
            all.into_iter().any(|condition| condition.type_ == *kind && condition.status == "True")
        };
        let held: Vec<&str> = OURS.into_iter().take(3).filter(holds).map(|kind| &kind[..1]).collect();
        let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        let doing: Vec<String> = statuses
            .map(|status| {
                let state = status.state.clone().unwrap();
                let reason = state.waiting.and_then(|waiting| waiting.reason);
                let code = state.terminated.map(|ended| ended.exit_code.to_string());
                reason.or(code).unwrap_or_else(|| "runs".to_owned())
            })
            .collect();
        format!("{} {} {}", status.phase.unwrap(), held.join(""), doing.join(" "))
    }

    #[test]
    fn the_phase_and_the_conditions_follow_the_containers() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text, None), expected, "{text}");
        check("i- m-", "Pending P ContainerCreating PodInitializing");
        check("i- i- m-", "Pending P ContainerCreating PodInitializing PodInitializing");
        check("ir m-", "Pending P runs PodInitializing");
        check("i0 m-", "Pending PI 0 ContainerCreating");
        check("i0 mr", "Running PI 0 runs");
        check("i0 mR", "Running PIR 0 runs");
        check("mR m-", "Pending PI runs ContainerCreating");
        check("mR m1", "Running PI runs 1");
        check("sR mR", "Running PIR runs runs");
        check("sr m-", "Pending P runs PodInitializing");
    }

    #[test]
    fn a_pod_that_is_over_is_not_ready() {
        let over = |phase| PodOutcome { phase, reason: None, message: None };
        assert_eq!(shown("i0 m0", Some(&over(Phase::Succeeded))), "Succeeded I 0 0");
        assert_eq!(shown("i1 m-", Some(&over(Phase::Failed))), "Failed  1 PodInitializing");
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_last_change_and_those_of_others_stay() {
        let slots = slots("mR");
        let images = vec!["i".to_owned()];
        let mut first = status(&view(&slots, &images, None));
        let foreign =
            PodCondition { type_: "DisruptionTarget".into(), status: "True".into(), ..PodCondition::default() };
        first.conditions.get_or_insert_default().push(foreign);
        let later = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(60);
        let again = status(&View { before: Some(&first), now: later, ..view(&slots, &images, None) });
        let changed: Vec<_> =
            again.conditions.iter().flatten().filter_map(|c| c.last_transition_time.clone()).collect();
        assert!(changed.iter().all(|time| time.0 == Timestamp::UNIX_EPOCH));
        assert!(again.conditions.iter().flatten().any(|condition| condition.type_ == "DisruptionTarget"));
    }
}
