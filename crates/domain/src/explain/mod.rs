//! Explains the state of a Task, an Agent or a CronTask: the chain of causes, the queue, the origin of each setting, the next step.
//!
//! REST API, page and CLI show the same explanation because all of them compute it here.

mod agent;
mod chain;
mod cron;
mod explanation;
mod next;
pub(crate) mod pod;
mod queue_view;
mod settings;

use std::{collections::HashMap, sync::Arc};

use api::{Agent, AgentTemplate, CronTask, Model, Task, conditions::types};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};

use crate::{
    platform::Platform,
    run::dependencies::{Other, Wanted, good_enough, wanted},
    status::holds,
};
pub use explanation::{
    AgentExplanation, Ahead, Cause, CronTaskExplanation, DependencyState, Level, ObjectName, QueueState, QuotaState,
    Setting, TaskExplanation,
};
pub use next::Reader;
use queue_view::QueueView;
pub use settings::settings_of_run;

/// Objects related to a Task or an Agent that an explanation uses.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The Agent itself, or the one that the Task names; `None` if it does not exist.
    pub agent: Option<Arc<Agent>>,
    /// The template that the Agent or the Task names; `None` if it does not exist.
    pub template: Option<Arc<AgentTemplate>>,
    /// The model that the Agent names; `None` if it does not exist.
    pub model: Option<Arc<Model>>,
    /// Pods of the Agent's server that the caller may see.
    pub server_pods: Vec<Pod>,
    pub tasks: Vec<Arc<Task>>,
    pub platform: Platform,
    pub sight: Sight,
    pub reader: Reader,
    pub now: Timestamp,
}

/// Which related objects the caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The names of other Tasks.
    pub tasks: bool,
    /// Settings and problems of the Agent or template.
    pub target: bool,
}

/// The current run of a Task, as far as the caller may see it.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// `None` if there is none, or the caller may not see it.
    pub pod: Option<Pod>,
    /// Events of the Task and its Pod.
    pub events: Vec<Event>,
    /// Settings that [`settings_of_run`] recorded at the start, if they were archived.
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
    let line = QueueView::of_task(task, &others, around);
    let mut chain = chain::of_task(task, run, line.as_ref(), &others, around);
    once_each(&mut chain);
    let (settings, settings_error) = split(settings::of_run(task, run, around));
    let status = task.status.clone().unwrap_or_default();
    TaskExplanation {
        task: ObjectName::here(&task.metadata),
        phase: status.phase.unwrap_or_default(),
        reason: chain.iter().find_map(|cause| cause.reason.clone()).or(status.reason),
        message: chain.first().map(|cause| cause.message.clone()).or(status.message),
        next: next::steps(&chain, next::About::of_task(task), around.reader),
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
    let line = QueueView::of_agent(agent, &others, around);
    let mut chain = agent::causes(agent, around);
    once_each(&mut chain);
    let (settings, settings_error) = split(settings::of_agent(agent, around));
    let status = agent.status.clone().unwrap_or_default();
    AgentExplanation {
        agent: ObjectName::here(&agent.metadata),
        phase: status.phase,
        ready: status.ready.unwrap_or_default(),
        next: next::steps(&chain, next::About::of_agent(agent), around.reader),
        queue: line.queue(around.sight),
        running: line.running(around.sight),
        quota: line.quota(around.now),
        chain,
        settings,
        settings_error,
    }
}

/// Explains a CronTask. `tasks` are those of its namespace that the caller may see.
pub fn cron_task(cron: &CronTask, tasks: &[Arc<Task>], reader: Reader) -> CronTaskExplanation {
    let mut chain = cron::causes(cron, tasks);
    once_each(&mut chain);
    let status = cron.status.clone().unwrap_or_default();
    CronTaskExplanation {
        cron_task: ObjectName::here(&cron.metadata),
        blocked: holds(status.conditions.as_deref(), types::BLOCKED),
        suspended: cron.spec.suspend == Some(true),
        next_schedule_time: status.next_schedule_time.map(|time| time.0),
        next: next::steps(&chain, next::About::of_cron_task(cron), reader),
        chain,
    }
}

fn split(settings: Result<Vec<Setting>, String>) -> (Vec<Setting>, Option<String>) {
    match settings {
        Ok(settings) => (settings, None),
        Err(why) => (Vec::new(), Some(why)),
    }
}

/// Removes repetitions: several conditions and events often have the same message.
fn once_each(chain: &mut Vec<Cause>) {
    let mut seen: Vec<(String, Option<ObjectName>)> = Vec::new();
    chain.retain(|cause| {
        let this = (cause.message.clone(), cause.object.clone());
        let is_new = !seen.contains(&this);
        seen.push(this);
        is_new
    });
}

fn dependencies(task: &Task, others: &HashMap<&str, &Task>) -> Vec<DependencyState> {
    let state = |Wanted { dependency, .. }: Wanted| {
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
    wanted(&task.spec).into_iter().map(state).collect()
}

#[cfg(test)]
mod tests;
