//! Suggested steps.

use std::collections::HashSet;

use api::{
    Task,
    conditions::{reasons, types},
    names::labels,
};

use super::{Cause, Level, chain::NO_CONTROLLER};

/// Who reads an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person with the page, which has buttons for the steps.
    Page,
    /// A person with a shell, who also gets the commands.
    Shell,
}

/// Steps about a Task, or about an Agent without one, the most useful first. `agent` is the Agent's name.
pub fn steps(chain: &[Cause], task: Option<&Task>, agent: &str, reader: Reader) -> Vec<String> {
    let mut steps = Steps { reader, list: Vec::new(), known: HashSet::new() };
    let name = task.and_then(|task| task.metadata.name.as_deref()).unwrap_or_default();
    for cause in chain {
        let pod = cause.object.as_ref().filter(|object| object.kind.as_deref() == Some("Pod"));
        if let Some((advice, command)) = cause.reason.as_deref().and_then(|reason| step(reason, name, agent)) {
            steps.add(advice, command);
        } else if let Some(pod) = pod.filter(|_| task.is_none() && cause.level == Level::Error) {
            steps.add("read the log of its server".to_owned(), Some(format!("kubectl logs --previous {}", pod.name)));
        }
    }
    let ended = task.and_then(|task| task.status.as_ref()?.phase).is_some_and(api::TaskPhase::is_finished);
    if ended && chain.iter().any(|cause| cause.level == Level::Error) {
        steps.add("read what it did".to_owned(), Some(format!("kubeopencode logs {name}")));
        steps.add("run it again".to_owned(), Some(format!("kubeopencode rerun {name} --follow")));
    }
    steps.list
}

struct Steps {
    reader: Reader,
    list: Vec<String>,
    known: HashSet<String>,
}

impl Steps {
    fn add(&mut self, advice: String, command: Option<String>) {
        if self.known.insert(advice.clone()) {
            self.list.push(match command.filter(|_| self.reader == Reader::Shell) {
                Some(command) => format!("{advice}: {command}"),
                None => advice,
            });
        }
    }
}

/// Suggestion for `reason`, with a command if there is one.
fn step(reason: &str, task: &str, agent: &str) -> Option<(String, Option<String>)> {
    let (advice, command) = match reason {
        reasons::AGENT_AT_CAPACITY | reasons::TEMPLATE_AT_CAPACITY => {
            ("wait, raise spec.maxConcurrentTasks, or stop a Task that runs".to_owned(), None)
        }
        reasons::QUOTA_EXCEEDED => ("wait until a start leaves the window, or raise spec.quota".to_owned(), None),
        reasons::AGENT_SUSPENDED => {
            (format!("resume Agent '{agent}'"), Some(format!("kubeopencode agent resume {agent}")))
        }
        reasons::AGENT_SERVER_NOT_READY | reasons::DEPLOYMENT_NOT_READY | "CrashLoopBackOff" => {
            (format!("look at Agent '{agent}' and its log"), Some(format!("kubeopencode logs agent/{agent}")))
        }
        reasons::AGENT_NOT_FOUND => (format!("create Agent '{agent}', or correct spec.agentRef"), None),
        reasons::TEMPLATE_NOT_FOUND => ("create the template, or correct spec.templateRef".to_owned(), None),
        reasons::WAITING_FOR_DEPENDENCY => {
            let command = "kubeopencode explain TASK".to_owned();
            ("wait for the other Task, or explain why it waits".to_owned(), Some(command))
        }
        reasons::SECRET_MISSING => ("create the named Secret and key; the Task then starts by itself".to_owned(), None),
        reasons::SECRET_NOT_ALLOWED => {
            let command = format!("kubectl label secret SECRET {}=true", labels::ALLOW_TASKS);
            ("let the owner of the named Secret allow Tasks to use it".to_owned(), Some(command))
        }
        reasons::CONFIG_INVALID => ("correct spec.config; the message names what is wrong".to_owned(), None),
        reasons::REFERENCE_NOT_FOUND => ("create the named object, or correct the reference".to_owned(), None),
        reasons::REFERENCE_NOT_ALLOWED => {
            ("ask the owner of the named object to add this namespace to allowedNamespaces".to_owned(), None)
        }
        types::AWAITING_APPROVAL => {
            let command = format!("kubeopencode approve {task}, or: kubeopencode deny {task}");
            ("approve or deny it".to_owned(), Some(command))
        }
        reasons::TIMEOUT => ("raise spec.timeout in a new Task".to_owned(), None),
        reasons::OOM_KILLED => {
            ("raise the memory limit in podSpec.resources of the Agent or template".to_owned(), None)
        }
        reasons::IMAGE_PULL_FAILED | "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
            ("check the image's name and imagePullSecrets".to_owned(), None)
        }
        reasons::UNSCHEDULABLE => ("lower resource requests, or add nodes that fit".to_owned(), None),
        reasons::MODEL_ERROR => {
            let command = "kubeopencode get modelproviders,models".to_owned();
            ("check the key, the address and the limits of the ModelProvider".to_owned(), Some(command))
        }
        reasons::PERMISSION_REJECTED => (
            "allow it in the agent's permissions, or set approval.mode to Ask and answer when it asks".to_owned(),
            None,
        ),
        reasons::BUDGET_EXCEEDED => {
            ("raise the budget, make the Task smaller, or wait if the budget counts over a window".to_owned(), None)
        }
        reasons::NO_PROGRESS => {
            ("raise stallTimeout if the work really takes that long without an event".to_owned(), None)
        }
        reasons::STARTUP_TIMEOUT => ("raise startupTimeout, or find out what the Pod waits for".to_owned(), None),
        reasons::PREPARATION_FAILED => {
            ("read what could not be prepared".to_owned(), Some(format!("kubeopencode logs {task}")))
        }
        reasons::EVICTED | reasons::NODE_LOST | reasons::PREEMPTED | reasons::POD_LOST => {
            ("the cluster ended it; spec.retry with cause Disruption tries again automatically".to_owned(), None)
        }
        reasons::DEPENDENCY_FAILED => ("see how the named Task ended, and run both again".to_owned(), None),
        reasons::LENGTH_LIMIT => ("make the Task smaller, or raise the model's limit.output".to_owned(), None),
        NO_CONTROLLER => ("check whether the controllers run".to_owned(), Some("kubeopencode doctor".to_owned())),
        _ => return None,
    };
    Some((advice, command))
}
