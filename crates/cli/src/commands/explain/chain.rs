//! The chain of causes: from what is seen of a Task to what lies behind it.

use api::{
    TaskPhase, TaskStatus,
    conditions::{reasons, types},
};
use controller::task::standing::{joins_later, stop_requested};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kubeopencode_core::{queue::Wait, status::find};

use super::{Cause, Facts, Level, queue::Standing};
use crate::commands::{exit::Exit, screen::line};

/// A controller looks at a new Task at once; after this many seconds something is wrong.
const NOBODY_LOOKS: i64 = 10;
/// Conditions of an Agent that keep its server from being ready, the deepest cause last.
const OBSTACLES: [&str; 6] = [
    types::SERVER_READY,
    types::SERVER_HEALTHY,
    types::CONFIG_VALID,
    types::SECRETS_READY,
    types::REFERENCES_RESOLVED,
    types::ACCEPTED,
];
/// Events that are told; older ones are in `describe`.
const EVENTS: usize = 3;

impl Cause {
    fn new(level: Level, message: impl Into<String>) -> Self {
        Self { level, reason: None, message: message.into(), since: None }
    }

    fn reason(self, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..self }
    }

    fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }
}

/// The causes, the first being what is seen.
pub fn chain(facts: &Facts, standing: &Standing) -> Vec<Cause> {
    let status = facts.task.status.clone().unwrap_or_default();
    let mut chain = Vec::new();
    if facts.task.metadata.deletion_timestamp.is_some() {
        chain.push(Cause::new(Level::Wait, "it is being deleted, and goes when its run has ended"));
    }
    let ended = Exit::of_task(&facts.task);
    if stop_requested(&facts.task) && ended.is_none() {
        chain.push(Cause::new(Level::Wait, "its user asked to stop it"));
    }
    match (status.phase.unwrap_or_default(), ended) {
        (_, Some(exit)) => ending(facts, &status, exit, &mut chain),
        (TaskPhase::Running, None) => running(facts, &status, &mut chain),
        (_, None) => waiting(facts, standing, &mut chain),
    }
    chain
}

fn waiting(facts: &Facts, standing: &Standing, chain: &mut Vec<Cause>) {
    let created = facts.task.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = created.map_or(0, |created| facts.now.as_second() - created.as_second());
    if let Some(at) = joins_later(&facts.task) {
        chain.push(Cause::new(Level::Wait, format!("its last run failed; it is tried again at {at}")));
        return;
    }
    let Some((wait, lane)) = &standing.wait else {
        chain.push(match (facts.task.status.is_some(), age > NOBODY_LOOKS) {
            (false, true) => Cause::new(Level::Error, "no controller has looked at it").since(created),
            (false, false) => Cause::new(Level::Wait, "it was just created").since(created),
            (true, true) => Cause::new(Level::Error, "nothing holds it back, but no controller has admitted it"),
            (true, false) => Cause::new(Level::Wait, "nothing holds it back; it is about to start"),
        });
        return;
    };
    let since = facts.task.status.as_ref().and_then(|status| status.timings.as_ref());
    let since = since.and_then(|timings| timings.queued_at.as_ref()).map(|time| time.0);
    chain.push(Cause::new(Level::Wait, wait.message(lane)).reason(wait.reason(lane)).since(since));
    match wait {
        Wait::ServerNotReady | Wait::Waking => obstacles(facts, chain),
        Wait::QuotaExceeded { until, .. } => {
            chain.push(Cause::new(Level::Info, format!("the next Task may start at {until}")));
        }
        Wait::Dependencies { on } => {
            for name in on {
                let said = match facts.neighbour(name) {
                    None => format!("Task '{name}' does not exist"),
                    Some(other) => {
                        let status = other.status.clone().unwrap_or_default();
                        let why = status.message.or(status.reason).map(|why| format!(": {}", line(&why)));
                        format!("Task '{name}' is {:?}{}", status.phase.unwrap_or_default(), why.unwrap_or_default())
                    }
                };
                chain.push(Cause::new(Level::Wait, said));
            }
        }
        Wait::AtCapacity { .. } | Wait::Suspended | Wait::Missing { .. } => {}
    }
    if facts.task.status.is_none() && age > NOBODY_LOOKS {
        chain.push(Cause::new(Level::Error, "no controller has looked at it").since(created));
    }
}

/// Why the server of the Agent is not ready.
fn obstacles(facts: &Facts, chain: &mut Vec<Cause>) {
    let Some(agent) = &facts.agent else { return };
    let name = agent.metadata.name.as_deref().unwrap_or_default();
    let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if conditions.is_empty() {
        chain.push(Cause::new(Level::Error, format!("no controller has looked at Agent '{name}'")));
    }
    let failing = OBSTACLES.iter().filter_map(|kind| find(conditions, kind)).filter(|one| one.status == "False");
    chain.extend(failing.map(|condition| of_condition(&format!("Agent '{name}'"), condition)));
}

fn of_condition(who: &str, condition: &Condition) -> Cause {
    let message = format!("{who}: {}", line(&condition.message));
    let level = if condition.type_ == types::SERVER_READY { Level::Wait } else { Level::Error };
    Cause::new(level, message).reason(&condition.reason).since(Some(condition.last_transition_time.0))
}

fn running(facts: &Facts, status: &TaskStatus, chain: &mut Vec<Cause>) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if let Some(asked) = find(conditions, types::AWAITING_APPROVAL).filter(|asked| asked.status == "True") {
        let message = format!("the agent asks a person: {}", line(&asked.message));
        let since = Some(asked.last_transition_time.0);
        chain.push(Cause::new(Level::Wait, message).reason(types::AWAITING_APPROVAL).since(since));
    }
    let pod = status.pod_name.as_deref().unwrap_or_default();
    if let Some(started) = &status.start_time {
        chain.push(Cause::new(Level::Info, format!("it runs in Pod '{pod}'")).since(Some(started.0)));
    } else {
        let admitted = status.timings.as_ref().and_then(|timings| timings.admitted_at.as_ref());
        let since = admitted.map(|time| time.0);
        chain.push(Cause::new(Level::Wait, format!("it is being prepared in Pod '{pod}'")).since(since));
        match &facts.pod {
            Some(pod) => preparation(pod, chain),
            None => chain.push(Cause::new(Level::Wait, "its Pod does not exist (yet)")),
        }
    }
    warnings(facts, chain);
}

/// What a Pod that has not started waits for.
fn preparation(pod: &Pod, chain: &mut Vec<Cause>) {
    let Some(status) = &pod.status else { return };
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    if let Some(condition) = scheduled.filter(|condition| condition.status == "False") {
        let message = line(condition.message.as_deref().unwrap_or("no node takes the Pod"));
        chain.push(Cause::new(Level::Error, message).reason(reasons::UNSCHEDULABLE));
    }
    for container in status.init_container_statuses.iter().chain(&status.container_statuses).flatten() {
        let Some(state) = &container.state else { continue };
        if let Some(waiting) = &state.waiting {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            if !reason.is_empty() && reason != "PodInitializing" && reason != "ContainerCreating" {
                let said = waiting.message.as_deref().map(line).unwrap_or_default();
                let message = format!("container '{}' with image {}: {said}", container.name, container.image);
                chain.push(Cause::new(Level::Error, message).reason(reason));
            }
        } else if let Some(running) = &state.running {
            let since = running.started_at.as_ref().map(|time| time.0);
            chain.push(Cause::new(Level::Wait, format!("container '{}' works", container.name)).since(since));
        }
        ended_badly(container, chain);
    }
}

fn ended_badly(container: &ContainerStatus, chain: &mut Vec<Cause>) {
    let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    let Some(ended) = ended.filter(|ended| ended.exit_code != 0) else { return };
    let reason = ended.reason.as_deref().filter(|reason| *reason != "Error");
    let because = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let message = format!("container '{}' ended with exit code {}{because}", container.name, ended.exit_code);
    chain.push(Cause::new(Level::Error, message).since(ended.finished_at.as_ref().map(|time| time.0)));
}

fn ending(facts: &Facts, status: &TaskStatus, exit: Exit, chain: &mut Vec<Cause>) {
    let level = if exit == Exit::Success { Level::Done } else { Level::Error };
    let said = match exit {
        Exit::Success => "it succeeded",
        Exit::Stopped => "it was stopped",
        Exit::Timeout => "it reached its timeout",
        _ => "it failed",
    };
    let message = status.message.as_deref().map(|message| format!(": {}", line(message))).unwrap_or_default();
    let ended = status.completion_time.as_ref().map(|time| time.0);
    let cause = Cause::new(level, format!("{said}{message}")).since(ended);
    chain.push(match &status.reason {
        Some(reason) => cause.reason(reason),
        None => cause,
    });
    if exit == Exit::Success {
        return;
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if let Some(disrupted) = find(conditions, types::DISRUPTED).filter(|one| one.status == "True") {
        chain.push(of_condition("the cluster ended the run", disrupted));
    }
    if let Some(pod) = facts.pod.as_ref().and_then(|pod| pod.status.as_ref()) {
        for container in pod.init_container_statuses.iter().chain(&pod.container_statuses).flatten() {
            ended_badly(container, chain);
        }
    }
    warnings(facts, chain);
}

/// The last events that warn.
fn warnings(facts: &Facts, chain: &mut Vec<Cause>) {
    let warnings: Vec<_> = facts.events.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    for event in warnings.iter().skip(warnings.len().saturating_sub(EVENTS)) {
        let about = event.involved_object.kind.as_deref().unwrap_or("object");
        let message = format!("event of the {about}: {}", line(event.message.as_deref().unwrap_or_default()));
        let cause = Cause::new(Level::Error, message).since(event.last_timestamp.as_ref().map(|time| time.0));
        chain.push(match &event.reason {
            Some(reason) => cause.reason(reason),
            None => cause,
        });
    }
}
