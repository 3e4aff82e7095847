//! What a person can do about it.

use api::conditions::{reasons, types};

use super::{Cause, Facts, Level};
use crate::commands::exit::Exit;

/// Steps, the most useful first.
pub fn steps(facts: &Facts, chain: &[Cause]) -> Vec<String> {
    let task = facts.task.metadata.name.as_deref().unwrap_or_default();
    let agent = facts.task.spec.agent_ref.as_ref().map(|agent| agent.name.as_str()).unwrap_or_default();
    let mut steps = Vec::new();
    for cause in chain {
        match cause.reason.as_deref() {
            Some(reason) => steps.extend(step(reason, task, agent)),
            None if cause.level == Level::Error && cause.message.starts_with("no controller")
                || cause.message.contains("no controller has admitted") =>
            {
                steps.push("find out whether the controllers work: kubeopencode doctor".to_owned());
            }
            None => {}
        }
    }
    if Exit::of_task(&facts.task).is_some_and(|exit| exit != Exit::Success) {
        steps.push(format!("read what it did: kubeopencode logs {task}"));
        steps.push(format!("run it again: kubeopencode rerun {task} --follow"));
    }
    let mut seen = std::collections::HashSet::new();
    steps.retain(|step| seen.insert(step.clone()));
    steps
}

fn step(reason: &str, task: &str, agent: &str) -> Option<String> {
    Some(match reason {
        reasons::AGENT_AT_CAPACITY | reasons::TEMPLATE_AT_CAPACITY => {
            "wait, raise spec.maxConcurrentTasks, or stop a Task that runs".to_owned()
        }
        reasons::QUOTA_EXCEEDED => "wait until a start leaves the window, or raise spec.quota".to_owned(),
        reasons::AGENT_SUSPENDED => format!("resume the Agent: kubeopencode agent resume {agent}"),
        reasons::AGENT_SERVER_NOT_READY | reasons::DEPLOYMENT_NOT_READY => {
            format!("look at the Agent: kubeopencode describe agent {agent}; kubeopencode logs agent/{agent}")
        }
        reasons::AGENT_NOT_FOUND => format!("create Agent '{agent}', or correct spec.agentRef"),
        reasons::TEMPLATE_NOT_FOUND => "create the template, or correct spec.templateRef".to_owned(),
        reasons::WAITING_FOR_DEPENDENCY => {
            "wait for the other Task, or ask why it waits: kubeopencode explain TASK".to_owned()
        }
        reasons::SECRET_MISSING => "create the Secret and the key that are named; nothing else must be done".to_owned(),
        reasons::CONFIG_INVALID => "correct spec.config; the message names what is wrong".to_owned(),
        reasons::REFERENCE_NOT_FOUND => "create what is named, or correct the reference".to_owned(),
        reasons::REFERENCE_NOT_ALLOWED => {
            "ask the owner of the named object to add this namespace to allowedNamespaces".to_owned()
        }
        types::AWAITING_APPROVAL => format!("answer: kubeopencode approve {task}, or: kubeopencode deny {task}"),
        reasons::TIMEOUT => "raise spec.timeout in a new Task".to_owned(),
        reasons::OOM_KILLED => "raise the memory limit in podSpec.resources of the Agent or template".to_owned(),
        reasons::IMAGE_PULL_FAILED | "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
            "check the image's name and imagePullSecrets".to_owned()
        }
        reasons::UNSCHEDULABLE => "lower resource requests, or add nodes that fit".to_owned(),
        reasons::MODEL_ERROR => "check the model's key and address: kubeopencode get modelproviders,models".to_owned(),
        reasons::PERMISSION_REJECTED => {
            "allow it in the agent's permissions, or set approval.mode to Ask and answer with: kubeopencode approve"
                .to_owned()
        }
        reasons::BUDGET_EXCEEDED => "raise the budget, or make the Task smaller".to_owned(),
        reasons::NO_PROGRESS => "raise stallTimeout if the work really takes that long without a sign".to_owned(),
        reasons::STARTUP_TIMEOUT => "raise startupTimeout, or find out what the Pod waits for".to_owned(),
        reasons::PREPARATION_FAILED => format!("read what could not be prepared: kubeopencode logs {task}"),
        reasons::EVICTED | reasons::NODE_LOST | reasons::PREEMPTED | reasons::POD_LOST => {
            "this was the cluster's doing; spec.retry with cause Disruption tries again by itself".to_owned()
        }
        reasons::DEPENDENCY_FAILED => "see how the named Task ended, and run both again".to_owned(),
        reasons::LENGTH_LIMIT => "make the Task smaller, or raise the model's limit.output".to_owned(),
        _ => return None,
    })
}
