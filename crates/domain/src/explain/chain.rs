//! The chain of causes of a Task, from the visible state to its root cause.

use std::collections::HashMap;

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::{reasons, types},
};
use k8s_openapi::api::core::v1::Event;

use super::{Cause, Level, ObjectName, Run, Surroundings, agent, pod, queue_view::QueueView};
use crate::{
    run::{
        dependencies::wanted,
        progress::Progress,
        queue::Wait,
        stage::{joins_later, stop_requested},
    },
    status::find,
};

/// A new Task without a status after this many seconds has no controller: a controller handles a new Task at once.
const NO_CONTROLLER_AFTER: i64 = 10;
/// At most this many other Tasks are named.
const NAMED: usize = 3;
/// Transitive dependencies are followed until the chain has this many causes.
const LONGEST: usize = 8;
/// Number of events to show.
const EVENTS: usize = 3;
/// Reasons that the queue computes too. In a status they may be outdated; any other reason comes from the controller,
/// which knows more than is available here.
const OF_THE_QUEUE: [&str; 10] = [
    reasons::AGENT_AT_CAPACITY,
    reasons::TEMPLATE_AT_CAPACITY,
    reasons::QUOTA_EXCEEDED,
    reasons::AGENT_SUSPENDED,
    reasons::AGENT_SERVER_NOT_READY,
    reasons::AGENT_NOT_FOUND,
    reasons::TEMPLATE_NOT_FOUND,
    reasons::WAITING_FOR_DEPENDENCY,
    reasons::CONFIG_INVALID,
    reasons::INVALID,
];

/// The causes of the state of `task`; the first is the visible one.
pub fn of_task(
    task: &Task,
    run: &Run,
    line: Option<&QueueView<'_>>,
    others: &HashMap<&str, &Task>,
    around: &Surroundings,
) -> Vec<Cause> {
    let about = ObjectName::of("Task", &task.metadata);
    let none = TaskStatus::default();
    let status = task.status.as_ref().unwrap_or(&none);
    let phase = status.phase.unwrap_or_default();
    let mut chain = Vec::new();
    if task.metadata.deletion_timestamp.is_some() {
        chain.push(Cause::new(Level::Wait, "it is being deleted; its run has to end first", &about));
    }
    if stop_requested(task) && !phase.is_finished() {
        chain.push(Cause::new(Level::Wait, "its user asked to stop it", &about));
    }
    match phase {
        TaskPhase::Pending | TaskPhase::Queued => waiting(task, &about, line, others, around, &mut chain),
        TaskPhase::Running => running(status, run, &about, &mut chain),
        TaskPhase::Completed | TaskPhase::Failed => ended(status, run, &about, &mut chain),
    }
    chain
}

fn waiting(
    task: &Task,
    about: &ObjectName,
    line: Option<&QueueView<'_>>,
    others: &HashMap<&str, &Task>,
    around: &Surroundings,
    chain: &mut Vec<Cause>,
) {
    let created = task.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let is_old = created.is_some_and(|at| around.now.as_second() - at.as_second() > NO_CONTROLLER_AFTER);
    let cause = |level, message: &str| Cause::new(level, message, about);
    let ignored = || cause(Level::Error, "no controller has looked at it").reason(NO_CONTROLLER).since(created);
    if let Some(at) = joins_later(task, around.now) {
        chain.push(cause(Level::Wait, &format!("its last run failed; it is tried again at {at}")));
        return;
    }
    let Some((wait, queue)) = line.and_then(|line| Some((line.why(task)?, line))) else {
        if let Some(TaskStatus { reason: Some(reason), message: Some(message), .. }) = &task.status
            && !OF_THE_QUEUE.contains(&reason.as_str())
        {
            chain.push(cause(Level::Wait, message).reason(reason));
            return;
        }
        chain.push(match (task.status.is_some(), is_old) {
            (false, true) => ignored(),
            (false, false) => cause(Level::Wait, "it was just created").since(created),
            (true, true) => {
                cause(Level::Error, "nothing holds it back, but no controller has admitted it").reason(NO_CONTROLLER)
            }
            (true, false) => cause(Level::Wait, "nothing holds it back; it is about to start"),
        });
        return;
    };
    let since = task.status.as_ref().and_then(|status| status.timings.as_ref()?.queued_at.as_ref());
    let whose = queue.runs_on();
    let explained = task.status.as_ref().filter(|status| status.reason.as_deref() == Some(wait.reason(whose)));
    let message = match (&wait, explained.and_then(|status| status.message.clone())) {
        // Only the controller knows the end of the grace period.
        (Wait::NoSuchTask { .. }, Some(explained)) => explained,
        _ => wait.message(whose),
    };
    chain.push(cause(Level::Wait, &message).reason(wait.reason(whose)).since(since.map(|time| time.0)));
    match wait {
        Wait::AtCapacity { .. } => {
            for other in queue.running(around.sight).into_iter().take(NAMED) {
                let object = ObjectName { name: other.name.clone(), ..about.clone() };
                let message = format!("Task '{}' runs", other.name);
                chain.push(Cause::new(Level::Info, message, &object).since(other.start_time));
            }
        }
        Wait::QuotaExceeded { until, .. } => {
            chain.push(Cause::new(Level::Info, format!("the next Task may start at {until}"), &queue.target()));
        }
        Wait::Suspended | Wait::Waking | Wait::Unusable { .. } | Wait::ServerNotReady | Wait::ServerReplaced
            if around.sight.target =>
        {
            chain.extend(around.agent.iter().flat_map(|agent| agent::causes(agent, around)));
        }
        Wait::NoSuchTask { on, .. } | Wait::Dependencies { on } if around.sight.tasks => {
            for name in on.iter().take(NAMED) {
                follow(name, about, others, chain);
            }
        }
        Wait::Suspended
        | Wait::Waking
        | Wait::Unusable { .. }
        | Wait::ServerNotReady
        | Wait::ServerReplaced
        | Wait::BudgetExceeded(_)
        | Wait::BudgetReserved
        | Wait::Missing { .. }
        | Wait::Reference(_)
        | Wait::Lacks(_)
        | Wait::NoSuchTask { .. }
        | Wait::Dependencies { .. } => {}
    }
    if task.status.is_none() && is_old {
        chain.push(ignored());
    }
}

/// Reason for a missing status: no controller has written one.
pub const NO_CONTROLLER: &str = "NoController";

/// Why a dependency has not ended, and its own causes in turn.
fn follow(name: &str, about: &ObjectName, others: &HashMap<&str, &Task>, chain: &mut Vec<Cause>) {
    let object = ObjectName { name: name.to_owned(), ..about.clone() };
    if chain.len() >= LONGEST || chain.iter().any(|cause| cause.object.as_ref() == Some(&object)) {
        return;
    }
    let Some(other) = others.get(name) else {
        let message = format!("Task '{name}' does not exist");
        chain.push(Cause::new(Level::Error, message, &object).reason(reasons::REFERENCE_NOT_FOUND));
        return;
    };
    let status = other.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let why = status.message.or(status.reason.clone()).map(|why| format!(": {why}")).unwrap_or_default();
    let message = format!("Task '{name}' is {}{why}", phase.as_str());
    chain.push(Cause::new(Level::Wait, message, &object).reason(&status.reason.unwrap_or_default()));
    if matches!(phase, TaskPhase::Pending | TaskPhase::Queued) {
        for next in wanted(&other.spec) {
            follow(&next.dependency.task, about, others, chain);
        }
    }
}

fn running(status: &TaskStatus, run: &Run, about: &ObjectName, chain: &mut Vec<Cause>) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if let Some(asks) = find(conditions, types::AWAITING_APPROVAL).filter(|asks| asks.status == "True") {
        let message = format!("the agent asks a person: {}", asks.message);
        let since = Some(asks.last_transition_time.0);
        chain.push(Cause::new(Level::Wait, message, about).reason(types::AWAITING_APPROVAL).since(since));
    }
    let pod = status.pod_name.as_deref().unwrap_or_default();
    // The status reports the start of short runs only with their end, to save a write.
    let progress = run.pod.as_ref().map(Progress::of);
    let started = status.start_time.as_ref().map(|time| time.0);
    let ended = progress.and_then(|progress| progress.ended_at);
    if ended.is_some() || status.reason.as_deref() == Some(reasons::COLLECTING) {
        let message = format!("the agent has finished; Pod '{pod}' stores its results");
        chain.push(Cause::new(Level::Wait, message, about).reason(reasons::COLLECTING).since(ended));
    } else if let Some(started) = started.or_else(|| progress?.started_at) {
        chain.push(Cause::new(Level::Info, format!("it runs in Pod '{pod}'"), about).since(Some(started)));
    } else {
        let admitted = status.timings.as_ref().and_then(|timings| timings.admitted_at.as_ref());
        let message = format!("it is being prepared in Pod '{pod}'");
        chain.push(Cause::new(Level::Wait, message, about).since(admitted.map(|time| time.0)));
        chain.extend(run.pod.iter().flat_map(pod::preparation));
    }
    warnings(&run.events, chain);
}

fn ended(status: &TaskStatus, run: &Run, about: &ObjectName, chain: &mut Vec<Cause>) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_true = |kind| find(conditions, kind).filter(|condition| condition.status == "True");
    let (level, outcome) = match (status.phase, is_true(types::STOPPED), status.reason.as_deref()) {
        (Some(TaskPhase::Failed), ..) => (Level::Error, "it failed"),
        (_, Some(_), Some(reasons::TIMEOUT)) => (Level::Error, "it reached its timeout"),
        (_, Some(_), _) => (Level::Error, "it was stopped"),
        (_, None, _) => (Level::Done, "it succeeded"),
    };
    let more = status.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let at = status.completion_time.as_ref().map(|time| time.0);
    let reason = status.reason.as_deref().unwrap_or_default();
    chain.push(Cause::new(level, format!("{outcome}{more}"), about).reason(reason).since(at));
    if level == Level::Done {
        return;
    }
    for condition in [types::STOPPED, types::DISRUPTED].into_iter().filter_map(is_true) {
        if Some(&condition.message) != status.message.as_ref() {
            chain.push(Cause::from_condition(Level::Info, condition, about));
        }
    }
    chain.extend(run.pod.iter().flat_map(pod::broken));
    warnings(&run.events, chain);
}

/// The latest warning events.
fn warnings(events: &[Event], chain: &mut Vec<Cause>) {
    let at = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        last.or(event.event_time.as_ref().map(|time| time.0))
    };
    let mut warnings: Vec<_> = events.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
    warnings.sort_by_key(|event| at(event));
    for event in warnings.iter().skip(warnings.len().saturating_sub(EVENTS)) {
        let about = &event.involved_object;
        let object = ObjectName {
            kind: about.kind.clone(),
            namespace: about.namespace.clone(),
            name: about.name.clone().unwrap_or_default(),
        };
        let cause = Cause::new(Level::Error, event.message.as_deref().unwrap_or_default(), &object);
        chain.push(cause.reason(event.reason.as_deref().unwrap_or_default()).since(at(event)));
    }
}
