//! Why a Task or an Agent is where it is: the chain of causes, the queue, where each setting came from, what to do.
//!
//! The REST API, the page and the command line tell the same, because all of them ask here.

mod agent;
mod chain;
mod line;
mod next;
pub(crate) mod pod;
mod settings;
mod told;

use std::{collections::HashMap, sync::Arc};

use api::{Agent, AgentTemplate, Model, Task};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};

use crate::{
    dependencies::{Other, good_enough},
    platform::Platform,
};
use line::Line;
pub use next::Reader;
pub use settings::settings_of_run;
pub use told::{
    AgentExplanation, Ahead, Cause, DependencyState, Level, ObjectName, QueueState, QuotaState, Setting,
    TaskExplanation,
};

/// What is known around a Task or an Agent.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The Agent, or the one that the Task names, if it exists.
    pub agent: Option<Arc<Agent>>,
    /// The template that the Agent or the Task names, if it exists.
    pub template: Option<Arc<AgentTemplate>>,
    /// The model that the Agent names, if it exists.
    pub model: Option<Arc<Model>>,
    /// Pods of the Agent's server, as far as they may be seen.
    pub server_pods: Vec<Pod>,
    /// All Tasks of the namespace.
    pub tasks: Vec<Arc<Task>>,
    /// The platform's settings.
    pub platform: Platform,
    /// What may be told.
    pub sight: Sight,
    /// Who reads it.
    pub reader: Reader,
    /// The present.
    pub now: Timestamp,
}

/// What of its surroundings may be told to who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The names of other Tasks.
    pub tasks: bool,
    /// The settings and troubles of the Agent or template.
    pub target: bool,
}

/// What is known of the current run of a Task, as far as it may be seen.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Its Pod.
    pub pod: Option<Pod>,
    /// What happened to the Task and to its Pod.
    pub events: Vec<Event>,
    /// What it was made with, as [`settings_of_run`] told it when it started, if that was kept.
    pub settings: Option<Vec<Setting>>,
}

impl Surroundings {
    fn by_name(&self) -> HashMap<&str, &Task> {
        self.tasks.iter().map(|task| (task.metadata.name.as_deref().unwrap_or_default(), &**task)).collect()
    }
}

/// Explains a Task.
pub fn task(task: &Task, run: &Run, around: &Surroundings) -> TaskExplanation {
    let others = around.by_name();
    let line = Line::of_task(task, &others, around);
    let mut chain = chain::of_task(task, run, line.as_ref(), &others, around);
    once_each(&mut chain);
    let (settings, settings_error) = told_or_not(settings::of_run(task, run, around));
    let status = task.status.clone().unwrap_or_default();
    TaskExplanation {
        task: ObjectName::here(&task.metadata),
        phase: status.phase.unwrap_or_default(),
        reason: chain.iter().find_map(|cause| cause.reason.clone()).or(status.reason),
        message: chain.first().map(|cause| cause.message.clone()).or(status.message),
        next: next::steps(&chain, Some(task), agent_of(task), around.reader),
        queue: line.as_ref().and_then(|line| line.queue_of(task, around.sight)),
        quota: line.as_ref().and_then(|line| line.quota(around.now)),
        dependencies: dependencies(task, &others),
        chain,
        settings,
        settings_error,
    }
}

/// Explains an Agent.
pub fn agent(agent: &Agent, around: &Surroundings) -> AgentExplanation {
    let others = around.by_name();
    let line = Line::of_agent(agent, &others, around);
    let mut chain = agent::causes(agent, around);
    once_each(&mut chain);
    let (settings, settings_error) = told_or_not(settings::of_agent(agent, around));
    let status = agent.status.clone().unwrap_or_default();
    AgentExplanation {
        agent: ObjectName::here(&agent.metadata),
        phase: status.phase,
        ready: status.ready.unwrap_or_default(),
        next: next::steps(&chain, None, agent.metadata.name.as_deref().unwrap_or_default(), around.reader),
        queue: line.queue(around.sight),
        running: line.running(around.sight),
        quota: line.quota(around.now),
        chain,
        settings,
        settings_error,
    }
}

fn agent_of(task: &Task) -> &str {
    task.spec.agent_ref.as_ref().map(|agent| agent.name.as_str()).unwrap_or_default()
}

fn told_or_not(settings: Result<Vec<Setting>, String>) -> (Vec<Setting>, Option<String>) {
    match settings {
        Ok(settings) => (settings, None),
        Err(why) => (Vec::new(), Some(why)),
    }
}

/// Takes out what was said before: several conditions and events often tell the same.
fn once_each(chain: &mut Vec<Cause>) {
    let mut said: Vec<(String, Option<ObjectName>)> = Vec::new();
    chain.retain(|cause| {
        let this = (cause.message.clone(), cause.object.clone());
        let is_new = !said.contains(&this);
        said.push(this);
        is_new
    });
}

fn dependencies(task: &Task, others: &HashMap<&str, &Task>) -> Vec<DependencyState> {
    let state = |dependency: &api::run::Dependency| {
        let other = others.get(dependency.task.as_str());
        let end = other.and_then(|other| Other::of(other).end);
        let phase = |other: &&Task| other.status.as_ref().and_then(|status| status.phase).unwrap_or_default();
        DependencyState {
            task: dependency.task.clone(),
            condition: dependency.condition,
            phase: other.map(phase),
            met: end.is_some_and(|end| good_enough(dependency.condition, end)),
            exists: other.is_some(),
        }
    };
    task.spec.depends_on.iter().flatten().map(state).collect()
}

#[cfg(test)]
mod tests;
