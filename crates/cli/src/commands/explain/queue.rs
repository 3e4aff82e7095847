//! Where a Task stands in the queue of its Agent or template, computed as the controllers do.

use api::{Task, TaskPhase, kinds::agent::TaskStart};
use controller::task::{
    standing::{Standing as Stage, joins_later, stop_requested},
    target::Target,
};
use jiff::{SignedDuration, Timestamp};
use kubeopencode_core::{
    dependencies::{self, Other},
    queue::{Gate, Lane, Limits, Queue, TaskKey, Wait, Waiting},
    resolve::{resolve_agent, resolve_template},
};
use serde::Serialize;

use super::Facts;

/// Tasks that are listed; the rest are only counted.
const LISTED: usize = 10;

/// The queue of an Agent or template, as one Task sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Whose queue, such as `Agent 'dev'`.
    pub of: String,
    /// Place of the Task, 1 being next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Tasks that wait.
    pub waiting: usize,
    /// Tasks that run.
    pub running: usize,
    /// Tasks that may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_tasks: Option<u32>,
    /// What runs, and what goes before; the first of them.
    pub ahead: Vec<Ahead>,
}

/// A Task that runs or goes before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ahead {
    /// Its name.
    pub task: String,
    /// Its stage.
    pub phase: TaskPhase,
    /// Its priority.
    pub priority: i32,
    /// Since when it runs, or waits.
    pub since: Option<Timestamp>,
}

/// Starts in the window of a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUse {
    /// Starts that are allowed.
    pub max_task_starts: i32,
    /// Length of the window.
    pub window_seconds: i32,
    /// Starts in the window that ends now.
    pub used: usize,
    /// When the next may start, if none is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_start_at: Option<Timestamp>,
}

/// Where a Task stands.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Why it waits, if it does.
    pub wait: Option<(Wait, Lane)>,
    /// Its queue, while it waits.
    pub line: Option<Line>,
    /// The quota, if there is one.
    pub quota: Option<QuotaUse>,
}

impl Standing {
    /// Computes it.
    pub fn of(facts: &Facts) -> Self {
        let Some(target) = Target::of(&facts.task) else { return Self::default() };
        let (lane, gate, limits, history) = circumstances(facts);
        let mut queue = Queue::new(lane.clone(), facts.platform.reference_grace_period);
        queue.set_limits(limits);
        queue.set_gate(gate);
        queue.restore(&history);
        let find = |name: &str| facts.neighbour(name).map(Other::of);
        let others: Vec<_> =
            facts.neighbours.iter().filter(|task| Target::of(task).as_ref() == Some(&target)).collect();
        for task in &others {
            match Stage::of(task) {
                Stage::Running { epoch, admitted_at } => queue.running(TaskKey::of(task), epoch, admitted_at),
                Stage::Waiting { epoch } if !stop_requested(task) && joins_later(task).is_none() => {
                    queue.upsert(waiting(facts, task, epoch, &find));
                }
                Stage::Waiting { .. } | Stage::Finished { .. } => {}
            }
        }
        let key = TaskKey::of(&facts.task);
        let waits = matches!(Stage::of(&facts.task), Stage::Waiting { .. });
        Self {
            wait: queue.why(&key).map(|wait| (wait, lane)),
            line: waits.then(|| line(facts, &queue, &key, &others, limits)),
            quota: limits.quota.map(|quota| {
                let window = SignedDuration::from_secs(i64::from(quota.window_seconds));
                let counts = |start: &&TaskStart| facts.now.duration_since(start.start_time.0) < window;
                QuotaUse {
                    max_task_starts: quota.max_task_starts,
                    window_seconds: quota.window_seconds,
                    used: queue.history().iter().filter(counts).count(),
                    next_start_at: match queue.why(&key) {
                        Some(Wait::QuotaExceeded { until, .. }) => Some(until),
                        _ => None,
                    },
                }
            }),
        }
    }
}

/// Whose queue it is, whether anything may start, how much, and what started lately.
fn circumstances(facts: &Facts) -> (Lane, Gate, Limits, Vec<TaskStart>) {
    let gone = Gate::Missing { since: facts.task.metadata.creation_timestamp.as_ref().map_or(facts.now, |at| at.0) };
    if let Some(named) = &facts.task.spec.agent_ref {
        let lane = Lane::Agent(named.name.clone());
        let Some(agent) = &facts.agent else { return (lane, gone, Limits::default(), Vec::new()) };
        let limits = resolve_agent(agent, facts.template.as_ref(), &facts.platform);
        let history = agent.status.as_ref().and_then(|status| status.task_start_history.clone());
        let limits = limits.as_ref().map(Limits::from).unwrap_or_default();
        return (lane, Gate::of(agent), limits, history.unwrap_or_default());
    }
    let name = facts.task.spec.template_ref.as_ref().map(|named| named.name.clone()).unwrap_or_default();
    let lane = Lane::Template(name);
    let Some(template) = &facts.template else { return (lane, gone, Limits::default(), Vec::new()) };
    let limits = resolve_template(template, &facts.platform);
    let history = template.status.as_ref().and_then(|status| status.task_start_history.clone());
    (lane, Gate::Ready, limits.as_ref().map(Limits::from).unwrap_or_default(), history.unwrap_or_default())
}

fn waiting(facts: &Facts, task: &Task, epoch: i64, find: &dyn Fn(&str) -> Option<Other>) -> Waiting {
    let created = task.metadata.creation_timestamp.as_ref().map_or(facts.now, |time| time.0);
    let timings = task.status.as_ref().and_then(|status| status.timings.as_ref());
    let since = timings.and_then(|timings| timings.queued_at.as_ref()).map_or(created, |time| time.0);
    let patience = SignedDuration::try_from(facts.platform.reference_grace_period).unwrap_or(SignedDuration::MAX);
    let until = since.checked_add(patience).unwrap_or(Timestamp::MAX);
    Waiting {
        key: TaskKey::of(task),
        epoch,
        priority: task.spec.priority,
        created,
        since,
        dependencies: dependencies::judge(task, find, until),
    }
}

fn line(facts: &Facts, queue: &Queue, key: &TaskKey, others: &[&Task], limits: Limits) -> Line {
    let position = queue.position(key);
    let running = others.iter().filter(|task| matches!(Stage::of(task), Stage::Running { .. }));
    let before = queue.positions().take_while(|(_, other)| *other != key).map(|(_, other)| other);
    let before = before.filter_map(|other| facts.neighbour(&other.name)).filter(|_| position.is_some());
    let ahead = |task: &Task| {
        let status = task.status.as_ref();
        let started = status.and_then(|status| status.start_time.as_ref());
        Ahead {
            task: task.metadata.name.clone().unwrap_or_default(),
            phase: status.and_then(|status| status.phase).unwrap_or_default(),
            priority: task.spec.priority,
            since: started.or(task.metadata.creation_timestamp.as_ref()).map(|time| time.0),
        }
    };
    Line {
        of: facts.target(),
        position,
        waiting: queue.len(),
        running: queue.running_count(),
        max_concurrent_tasks: limits.max_concurrent,
        ahead: running.copied().chain(before).take(LISTED).map(ahead).collect(),
    }
}
