//! The chain of causes: from what is seen to what caused it.

use api::{
    Agent, Task, TaskPhase,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt as _};
use kubeopencode_core::queue::Wait;
use observe::Key;

use super::{Line, See};
use crate::{
    kind::Served as _,
    wire::{Cause, Level, ObjectName},
    world::World,
};

/// A chain of dependencies is followed this far.
const DEPTH: usize = 8;

/// Why a Task is where it is. `line` is its queue while it waits.
pub fn of_task(world: &World, task: &Task, line: Option<&Line>, seen: See) -> Vec<Cause> {
    let status = task.status.clone().unwrap_or_default();
    let about = name(task, "Task");
    let mut chain = Vec::new();
    match status.phase.unwrap_or_default() {
        TaskPhase::Pending | TaskPhase::Queued => {
            let since = status.timings.as_ref().and_then(|timings| timings.queued_at.as_ref()).map(|time| time.0);
            match line.and_then(|line| line.why(task)) {
                Some((wait, reason, message)) => {
                    chain.push(cause(Level::Wait, reason, &message, about, since));
                    if let Some(line) = line {
                        behind(world, task, line, &wait, seen, &mut chain);
                    }
                }
                None => chain.push(Cause {
                    level: Level::Wait,
                    reason: status.reason.clone(),
                    message: status.message.clone().unwrap_or_else(|| "it is about to be decided".to_owned()),
                    object: Some(about),
                    since,
                }),
            }
        }
        TaskPhase::Running => {
            let started = status.start_time.as_ref().map(|time| time.0);
            let (message, since) = if started.is_some() {
                ("the agent works", started)
            } else {
                let admitted = status.timings.as_ref().and_then(|timings| timings.admitted_at.as_ref());
                ("its Pod is being prepared", admitted.map(|time| time.0))
            };
            chain
                .push(Cause { since, ..cause(Level::Info, reasons::CAPACITY_AVAILABLE, message, about.clone(), None) });
            if let Some(asks) = condition(status.conditions.as_ref(), types::AWAITING_APPROVAL, "True") {
                chain.push(told(Level::Wait, asks, about));
            }
        }
        phase @ (TaskPhase::Completed | TaskPhase::Failed) => {
            let stopped = condition(status.conditions.as_ref(), types::STOPPED, "True");
            let level = if phase == TaskPhase::Failed || stopped.is_some() { Level::Error } else { Level::Done };
            let ended = status.completion_time.as_ref().map(|time| time.0);
            let message = status.message.clone().unwrap_or_else(|| format!("it is {phase:?}").to_lowercase());
            let reason = status.reason.clone().unwrap_or_else(|| reasons::SUCCEEDED.to_owned());
            chain.push(cause(level, &reason, &message, about.clone(), ended));
            for kind in [types::STOPPED, types::DISRUPTED] {
                let more = condition(status.conditions.as_ref(), kind, "True");
                chain.extend(
                    more.filter(|more| more.message != message).map(|more| told(Level::Info, more, about.clone())),
                );
            }
            if let Some(ready) = condition(status.conditions.as_ref(), types::READY, "False")
                && ready.message != message
            {
                chain.push(told(Level::Error, ready, about));
            }
        }
    }
    chain
}

/// What is behind a wait.
fn behind(world: &World, task: &Task, line: &Line, wait: &Wait, seen: See, chain: &mut Vec<Cause>) {
    let target = line.target();
    match wait {
        Wait::AtCapacity { .. } if seen.tasks => {
            for other in line.running().into_iter().take(3) {
                let message = format!("Task '{}' runs", other.name);
                let object =
                    ObjectName { kind: Some("Task".to_owned()), namespace: target.namespace.clone(), name: other.name };
                chain.push(cause(Level::Info, "Running", &message, object, other.start_time));
            }
        }
        Wait::QuotaExceeded { until, .. } => {
            let message = format!("the next start is possible at {until}");
            chain.push(cause(Level::Info, reasons::QUOTA_EXCEEDED, &message, target, None));
        }
        Wait::Suspended | Wait::Waking | Wait::ServerNotReady if seen.agents => {
            let key = Key::new(target.namespace.unwrap_or_default(), target.name);
            chain.extend(world.agents.object(&key).map(|agent| of_agent(world, &agent)).unwrap_or_default());
        }
        Wait::Missing { .. } => {
            let kind = target.kind.clone().unwrap_or_default();
            let message = format!("{kind} '{}' does not exist", target.name);
            chain.push(cause(Level::Error, reasons::REFERENCE_NOT_FOUND, &message, target, None));
        }
        Wait::Dependencies { on } if seen.tasks => {
            let namespace = task.namespace().unwrap_or_default();
            let mut next = on.first().cloned();
            for _ in 0..DEPTH {
                let Some(name) = next.take() else { break };
                let object = ObjectName {
                    kind: Some("Task".to_owned()),
                    namespace: Some(namespace.clone()),
                    name: name.clone(),
                };
                let Some(other) = world.tasks.object(&Key::new(&namespace, &name)) else {
                    let message = format!("Task '{name}' does not exist");
                    chain.push(cause(Level::Error, reasons::REFERENCE_NOT_FOUND, &message, object, None));
                    break;
                };
                let status = other.status.clone().unwrap_or_default();
                let because = status.message.map(|message| format!(": {message}")).unwrap_or_default();
                let message = format!("Task '{name}' is {}{because}", other.phase());
                let reason = status.reason.unwrap_or_else(|| other.phase());
                chain.push(cause(Level::Wait, &reason, &message, object, None));
                let waits = matches!(status.phase, None | Some(TaskPhase::Pending | TaskPhase::Queued));
                next = other.spec.depends_on.iter().flatten().map(|other| other.task.clone()).next().filter(|_| waits);
            }
        }
        _ => {}
    }
}

/// Why an Agent is where it is: what its conditions complain about, most basic last.
pub fn of_agent(world: &World, agent: &Agent) -> Vec<Cause> {
    let about = name(agent, "Agent");
    let status = agent.status.clone().unwrap_or_default();
    let conditions = status.conditions.as_ref();
    if status.ready == Some(true) {
        return vec![cause(Level::Done, reasons::DEPLOYMENT_READY, "its server is ready", about, None)];
    }
    let mut chain = Vec::new();
    if let Some(suspended) = condition(conditions, types::SUSPENDED, "True") {
        chain.push(told(Level::Wait, suspended, about));
        return chain;
    }
    for kind in [
        types::SERVER_READY,
        types::SERVER_HEALTHY,
        types::CONFIG_VALID,
        types::SECRETS_READY,
        types::REFERENCES_RESOLVED,
        types::ACCEPTED,
    ] {
        chain.extend(condition(conditions, kind, "False").map(|wrong| told(Level::Error, wrong, about.clone())));
    }
    if let Some(model) = &agent.spec.settings.model_ref {
        let namespace = model.namespace.clone().or_else(|| agent.namespace()).unwrap_or_default();
        let object =
            ObjectName { kind: Some("Model".to_owned()), namespace: Some(namespace.clone()), name: model.name.clone() };
        match world.models.object(&Key::new(namespace, &model.name)) {
            None => {
                let message = format!("Model '{}' does not exist", model.name);
                chain.push(cause(Level::Error, reasons::REFERENCE_NOT_FOUND, &message, object, None));
            }
            Some(model) => {
                let conditions = model.status.as_ref().and_then(|status| status.conditions.as_ref());
                let wrong = conditions.into_iter().flatten().filter(|condition| condition.status == "False");
                chain.extend(wrong.map(|wrong| told(Level::Error, wrong, object.clone())));
            }
        }
    }
    if chain.is_empty() {
        chain.push(cause(Level::Wait, reasons::AGENT_NOT_READY, "its server has not been started yet", about, None));
    }
    chain
}

/// Takes out what was said before: several conditions often tell the same.
pub fn once_each(chain: &mut Vec<Cause>) {
    let mut said: Vec<(String, Option<ObjectName>)> = Vec::new();
    chain.retain(|cause| {
        let this = (cause.message.clone(), cause.object.clone());
        let is_new = !said.contains(&this);
        said.push(this);
        is_new
    });
}

/// What a person can do about a Task.
pub fn next_steps(chain: &[Cause], task: &Task) -> Vec<String> {
    let name = task.name_any();
    let target = task.spec.agent_ref.as_ref().or(task.spec.template_ref.as_ref());
    let target = target.map(|target| target.name.as_str()).unwrap_or_default();
    let step = |reason: &str| match reason {
        reasons::AGENT_AT_CAPACITY | reasons::TEMPLATE_AT_CAPACITY => {
            Some(format!("raise maxConcurrentTasks of '{target}', stop a Task that runs, or wait"))
        }
        reasons::QUOTA_EXCEEDED => Some(format!("raise quota.maxTaskStarts of '{target}', or wait")),
        reasons::AGENT_SUSPENDED => Some(format!("resume Agent '{target}'")),
        reasons::AGENT_NOT_FOUND => Some(format!("create Agent '{target}', or correct agentRef")),
        reasons::TEMPLATE_NOT_FOUND => Some(format!("create AgentTemplate '{target}', or correct templateRef")),
        reasons::SECRET_MISSING => Some("create the Secret that is missing".to_owned()),
        reasons::TIMEOUT | reasons::STARTUP_TIMEOUT => Some("raise the timeout, then run it again".to_owned()),
        reasons::OOM_KILLED => Some("raise podSpec.resources.limits.memory, then run it again".to_owned()),
        reasons::IMAGE_PULL_FAILED => Some("correct the image, or add imagePullSecrets".to_owned()),
        reasons::UNSCHEDULABLE => Some("lower the requested resources, or add a node".to_owned()),
        reasons::BUDGET_EXCEEDED => Some("raise the budget, then run it again".to_owned()),
        reasons::PERMISSION_REJECTED => Some("allow it in the permissions, or set approval.mode to Ask".to_owned()),
        reasons::MODEL_ERROR => Some("look at the ModelProvider's key and limits, then run it again".to_owned()),
        reasons::NODE_LOST | reasons::EVICTED | reasons::PREEMPTED | reasons::POD_LOST => {
            Some(format!("run it again: it was not the fault of Task '{name}'"))
        }
        _ => None,
    };
    let mut steps: Vec<String> = chain.iter().filter_map(|cause| step(cause.reason.as_deref()?)).collect();
    steps.dedup();
    steps
}

/// What a person can do about an Agent.
pub fn next_steps_of_agent(agent: &Agent, chain: &[Cause]) -> Vec<String> {
    let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut steps = Vec::new();
    if agent.spec.suspend {
        steps.push(format!("resume Agent '{}'", agent.name_any()));
    }
    if condition(conditions, types::SECRETS_READY, "False").is_some() {
        steps.push("create the Secret that is missing".to_owned());
    }
    if condition(conditions, types::REFERENCES_RESOLVED, "False").is_some() {
        steps.push("create what it refers to, or correct the reference".to_owned());
    }
    let pod = chain.iter().filter_map(|cause| cause.object.as_ref());
    if let Some(pod) = pod.into_iter().find(|object| object.kind.as_deref() == Some("Pod")) {
        steps.push(format!("read the log of its server: kubectl logs --previous {}", pod.name));
    }
    steps
}

fn condition<'a>(conditions: Option<&'a Vec<Condition>>, kind: &str, status: &str) -> Option<&'a Condition> {
    conditions.into_iter().flatten().find(|condition| condition.type_ == kind && condition.status == status)
}

fn told(level: Level, condition: &Condition, object: ObjectName) -> Cause {
    cause(level, &condition.reason, &condition.message, object, Some(condition.last_transition_time.0))
}

fn cause(level: Level, reason: &str, message: &str, object: ObjectName, since: Option<Timestamp>) -> Cause {
    Cause { level, reason: Some(reason.to_owned()), message: message.to_owned(), object: Some(object), since }
}

fn name(object: &impl Resource, kind: &str) -> ObjectName {
    let meta = object.meta();
    ObjectName {
        kind: Some(kind.to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_of_an_object_is_not_said_again() {
        let about = |name: &str| ObjectName { kind: Some("Agent".to_owned()), namespace: None, name: name.to_owned() };
        let say = |reason: &str, message: &str, name: &str| cause(Level::Error, reason, message, about(name), None);
        let mut chain =
            vec![say("A", "it is broken", "dev"), say("B", "it is broken", "dev"), say("A", "it is broken", "other")];
        once_each(&mut chain);
        let kept: Vec<_> = chain.iter().map(|cause| cause.object.as_ref().unwrap().name.as_str()).collect();
        assert_eq!(kept, ["dev", "other"]);
    }
}
