//! Suggested steps.

use std::collections::HashSet;

use api::{
    Agent, CronTask, Task, TaskPhase,
    conditions::{reasons, types},
    names::labels,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Cause, Level, chain::NO_CONTROLLER};

/// Who reads an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A person with the page, which has buttons for the steps.
    Page,
    /// A person with a shell, who also gets the commands.
    Shell {
        /// The namespace is not the one that commands use without `-n`.
        other_namespace: bool,
    },
}

/// The object that an explanation is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
    /// The Agent that is explained or that the Task runs on.
    agent: &'a str,
    /// It is a Task that has ended.
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Task,
    Agent,
    CronTask,
}

impl<'a> About<'a> {
    pub fn of_task(task: &'a Task) -> Self {
        let agent = task.spec.agent_ref.as_ref().map(|agent| agent.name.as_str()).unwrap_or_default();
        let ended = task.status.as_ref().and_then(|status| status.phase).is_some_and(TaskPhase::is_finished);
        Self { agent, ended, ..Self::new(Kind::Task, &task.metadata) }
    }

    pub fn of_agent(agent: &'a Agent) -> Self {
        let name = agent.metadata.name.as_deref().unwrap_or_default();
        Self { agent: name, ..Self::new(Kind::Agent, &agent.metadata) }
    }

    pub fn of_cron_task(cron: &'a CronTask) -> Self {
        Self::new(Kind::CronTask, &cron.metadata)
    }

    fn new(kind: Kind, metadata: &'a ObjectMeta) -> Self {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        Self { kind, namespace, name, agent: "", ended: false }
    }
}

/// Steps about an object, the most useful first.
pub fn steps(chain: &[Cause], about: About<'_>, reader: Reader) -> Vec<String> {
    let mut steps = Steps { reader, namespace: about.namespace, list: Vec::new(), known: HashSet::new() };
    for cause in chain {
        let pod = cause.object.as_ref().filter(|object| object.kind.as_deref() == Some("Pod"));
        if let Some((advice, commands)) = cause.reason.as_deref().and_then(|reason| step(reason, about)) {
            steps.add(advice, &commands);
        } else if let Some(pod) = pod.filter(|_| about.kind == Kind::Agent && cause.level == Level::Error) {
            steps.add("read the log of its server".to_owned(), &[format!("kubectl logs --previous {}", pod.name)]);
        }
    }
    if about.ended && chain.iter().any(|cause| cause.level == Level::Error) {
        steps.add("read what it did".to_owned(), &[format!("kubeopencode logs {}", about.name)]);
        steps.add("run it again".to_owned(), &[format!("kubeopencode rerun {} --follow", about.name)]);
    }
    steps.list
}

struct Steps<'a> {
    reader: Reader,
    namespace: &'a str,
    list: Vec<String>,
    known: HashSet<String>,
}

impl Steps<'_> {
    /// Adds a step with the commands that do it, any one of them.
    fn add(&mut self, advice: String, commands: &[String]) {
        if !self.known.insert(advice.clone()) {
            return;
        }
        let namespace = match self.reader {
            Reader::Shell { other_namespace: true } => format!(" -n {}", self.namespace),
            _ => String::new(),
        };
        let commands: Vec<String> = match self.reader {
            Reader::Page => Vec::new(),
            Reader::Shell { .. } => commands.iter().map(|command| format!("{command}{namespace}")).collect(),
        };
        self.list.push(match commands.as_slice() {
            [] => advice,
            commands => format!("{advice}: {}", commands.join(", or: ")),
        });
    }
}

/// Suggestion for `reason`, with the commands for it, if there are any.
fn step(reason: &str, about: About<'_>) -> Option<(String, Vec<String>)> {
    let About { name, agent, .. } = about;
    let advice = |advice: &str| (advice.to_owned(), Vec::new());
    let command = |advice: &str, command: String| (advice.to_owned(), vec![command]);
    Some(match reason {
        reasons::AGENT_AT_CAPACITY | reasons::TEMPLATE_AT_CAPACITY => {
            advice("wait, raise spec.maxConcurrentTasks, or stop a Task that runs")
        }
        reasons::QUOTA_EXCEEDED => advice("wait until a start leaves the window, or raise spec.quota"),
        reasons::SUSPENDED if about.kind == Kind::CronTask => {
            command("resume the CronTask", format!("kubeopencode crontask resume {name}"))
        }
        reasons::MAX_RETAINED_TASKS_REACHED => command(
            "delete finished Tasks of the CronTask, or raise spec.maxRetainedTasks",
            format!("kubeopencode get tasks -l {}={name}", labels::CRON_TASK),
        ),
        reasons::INVALID_SCHEDULE => advice("correct spec.schedule or spec.timeZone"),
        reasons::TASK_NOT_CREATED => advice("correct spec.taskTemplate; the message says what the API server refused"),
        reasons::AGENT_SUSPENDED => {
            command(&format!("resume Agent '{agent}'"), format!("kubeopencode agent resume {agent}"))
        }
        reasons::AGENT_SERVER_NOT_READY | reasons::DEPLOYMENT_NOT_READY | "CrashLoopBackOff" => {
            command(&format!("look at Agent '{agent}' and its log"), format!("kubeopencode logs agent/{agent}"))
        }
        reasons::AGENT_NOT_FOUND => advice(&format!("create Agent '{agent}', or correct spec.agentRef")),
        reasons::TEMPLATE_NOT_FOUND => advice("create the template, or correct spec.templateRef"),
        reasons::WAITING_FOR_DEPENDENCY => {
            command("wait for the other Task, or explain why it waits", "kubeopencode explain TASK".to_owned())
        }
        reasons::SECRET_MISSING => advice("create the named Secret and key; the Task then starts by itself"),
        reasons::SECRET_NOT_ALLOWED => command(
            "let the owner of the named Secret allow Tasks to use it",
            format!("kubectl label secret SECRET {}=true", labels::ALLOW_TASKS),
        ),
        reasons::NO_MODEL => command(
            "add a model: set modelRef, or config.model and credentials for its provider",
            "kubeopencode setup".to_owned(),
        ),
        reasons::UNPRICED_MODEL => {
            advice("set cost in the Model, or the price in config; or limit the budget by maxTokens instead of maxCost")
        }
        reasons::NOT_SUPPORTED => advice("create the RemoteMCPServer that the message names, or remove the tool"),
        reasons::CONFIG_INVALID => advice("correct spec.config; the message names what is wrong"),
        reasons::REFERENCE_NOT_FOUND => advice("create the named object, or correct the reference"),
        reasons::REFERENCE_NOT_ALLOWED => {
            advice("ask the owner of the named object to add this namespace to allowedNamespaces")
        }
        types::AWAITING_APPROVAL => {
            let commands = ["approve", "deny"].map(|answer| format!("kubeopencode {answer} {name}"));
            ("approve or deny it".to_owned(), commands.to_vec())
        }
        reasons::TIMEOUT => advice("raise spec.timeout in a new Task"),
        reasons::OOM_KILLED => advice("raise the memory limit in podSpec.resources of the Agent or template"),
        reasons::IMAGE_PULL_FAILED | "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
            advice("check the image's name and imagePullSecrets")
        }
        reasons::BUILDING_IMAGE => {
            advice("wait until the image is built; the log of the named Pod shows how far it is")
        }
        reasons::IMAGE_BUILD_FAILED => advice(
            "read the log of the named Pod, correct the Dockerfile or executorImageBuild, and run the Task again",
        ),
        reasons::IMAGE_SOURCE_UNAVAILABLE => {
            advice("correct repository, ref and secretRef of executorImageBuild, or make the repository reachable")
        }
        reasons::IMAGE_BUILD_UNAVAILABLE => advice("change the setting that the message names, and run the Task again"),
        reasons::UNSCHEDULABLE => advice("lower resource requests, or add nodes that fit"),
        reasons::MODEL_ERROR => command(
            "check the key, the address and the limits of the ModelProvider",
            "kubeopencode get modelproviders,models".to_owned(),
        ),
        reasons::PERMISSION_REJECTED => {
            advice("allow it in the agent's permissions, or set approval.mode to Ask and answer when it asks")
        }
        reasons::BUDGET_EXCEEDED => {
            advice("raise the budget, make the Task smaller, or wait if the budget counts over a window")
        }
        reasons::BUDGET_RESERVED => advice("wait until a running Task ends, or set budget in each Task"),
        reasons::NO_PROGRESS => advice("raise stallTimeout if the work really takes that long without an event"),
        reasons::STARTUP_TIMEOUT => advice("raise startupTimeout, or find out what the Pod waits for"),
        reasons::PREPARATION_FAILED => command("read what could not be prepared", format!("kubeopencode logs {name}")),
        reasons::EVICTED | reasons::NODE_LOST | reasons::PREEMPTED | reasons::POD_LOST => {
            advice("the cluster ended it; spec.retry with cause Disruption tries again automatically")
        }
        reasons::DEPENDENCY_FAILED => advice("see how the named Task ended, and run both again"),
        reasons::LENGTH_LIMIT => advice("make the Task smaller, or raise the model's limit.output"),
        NO_CONTROLLER => command("check whether the controllers run", "kubeopencode doctor".to_owned()),
        _ => return None,
    })
}
