//! The queue of an Agent or template, put together from what is known: the same decision as the controller's.

use std::collections::HashMap;

use api::{Agent, Task, kinds::agent::TaskStart, workload::Quota};
use jiff::{SignedDuration, Timestamp};

use super::{Ahead, ObjectName, QueueState, QuotaState, Sight, Surroundings};
use crate::{
    dependencies::{self, Other},
    queue::{Gate, Lane, Limits, Queue, TaskKey, Wait, Waiting},
    resolve::{resolve_agent, resolve_template},
    span::{later, signed},
    standing::{Standing, joins_later, stop_requested},
};

/// Most Tasks that are named.
const NAMED: usize = 20;

/// The Tasks of one Agent or template, and what decides about them.
pub struct Line<'a> {
    namespace: Option<String>,
    queue: Queue,
    limits: Limits,
    history: Vec<TaskStart>,
    running: Vec<&'a Task>,
    others: &'a HashMap<&'a str, &'a Task>,
}

impl<'a> Line<'a> {
    /// The queue that `task` is in or would be in. It counts even if it is not among the others yet.
    pub fn of_task(task: &'a Task, others: &'a HashMap<&'a str, &'a Task>, around: &Surroundings) -> Option<Self> {
        let lane = &lane(task)?;
        let name = &task.metadata.name;
        let tasks = others.values().copied().filter(|other| other.metadata.name != *name).chain([task]);
        Some(Self::new(lane, task.metadata.namespace.clone(), tasks, others, around))
    }

    /// The queue of `agent`.
    pub fn of_agent(agent: &Agent, others: &'a HashMap<&'a str, &'a Task>, around: &Surroundings) -> Self {
        let lane = Lane::Agent(agent.metadata.name.clone().unwrap_or_default());
        Self::new(&lane, agent.metadata.namespace.clone(), others.values().copied(), others, around)
    }

    fn new(
        lane: &Lane,
        namespace: Option<String>,
        tasks: impl Iterator<Item = &'a Task>,
        others: &'a HashMap<&'a str, &'a Task>,
        around: &Surroundings,
    ) -> Self {
        let (gate, limits, history) = circumstances(lane, around);
        let mut queue = Queue::new(lane.clone(), around.platform.reference_grace_period);
        queue.set_limits(limits);
        queue.set_gate(gate);
        queue.restore(&history);
        let mut running = Vec::new();
        for task in tasks.filter(|task| self::lane(task).as_ref() == Some(lane)) {
            match Standing::of(task) {
                Standing::Running { epoch, admitted_at } => {
                    queue.running(TaskKey::of(task), epoch, admitted_at);
                    running.push(task);
                }
                Standing::Waiting { epoch } if !stop_requested(task) && joins_later(task, around.now).is_none() => {
                    queue.upsert(waiting(task, epoch, others, around));
                }
                Standing::Waiting { .. } | Standing::Finished { .. } => {}
            }
        }
        running.sort_by_key(|task| (started(task), task.metadata.name.clone()));
        Self { namespace, queue, limits, history, running, others }
    }

    /// Why `task` waits, if it does.
    pub fn why(&self, task: &Task) -> Option<Wait> {
        self.queue.why(&TaskKey::of(task))
    }

    /// Whose queue it is.
    pub fn lane(&self) -> &Lane {
        self.queue.lane()
    }

    /// Whose queue it is, as an object.
    pub fn target(&self) -> ObjectName {
        let (kind, name) = match self.queue.lane() {
            Lane::Agent(name) => ("Agent", name),
            Lane::Template(name) => ("AgentTemplate", name),
        };
        ObjectName { kind: Some(kind.to_owned()), namespace: self.namespace.clone(), name: name.clone() }
    }

    /// What runs.
    pub fn running(&self, sight: Sight) -> Vec<Ahead> {
        self.running.iter().take(if sight.tasks { NAMED } else { 0 }).map(|task| ahead(task)).collect()
    }

    /// The queue as `task` sees it while it waits.
    pub fn queue_of(&self, task: &Task, sight: Sight) -> Option<QueueState> {
        let Standing::Waiting { .. } = Standing::of(task) else { return None };
        let key = TaskKey::of(task);
        let position = self.queue.position(&key);
        let before = position.map_or(0, |position| position - 1);
        let mut ahead = self.running(sight);
        ahead.extend(self.waiting(sight).take(before).take(NAMED.saturating_sub(ahead.len())));
        Some(QueueState { position, ahead, ..self.queue(sight) })
    }

    /// The queue as nobody in particular sees it.
    pub fn queue(&self, sight: Sight) -> QueueState {
        QueueState {
            target: self.target(),
            position: None,
            waiting: self.queue.len(),
            running: self.queue.running_count(),
            max_concurrent_tasks: self.limits.max_concurrent,
            ahead: self.waiting(sight).take(NAMED).collect(),
        }
    }

    /// Starts in the window of the quota, if there is one.
    pub fn quota(&self, now: Timestamp) -> Option<QuotaState> {
        self.limits.quota.map(|quota| quota_state(quota, &self.history, now))
    }

    /// What waits, in the order in which it goes.
    fn waiting(&self, sight: Sight) -> impl Iterator<Item = Ahead> {
        let known = |name: &str| self.others.get(name).map(|task| ahead(task));
        self.queue.positions().filter_map(move |(_, key)| known(&key.name)).filter(move |_| sight.tasks)
    }
}

fn lane(task: &Task) -> Option<Lane> {
    let spec = &task.spec;
    let agent = spec.agent_ref.as_ref().map(|agent| Lane::Agent(agent.name.clone()));
    agent.or_else(|| spec.template_ref.as_ref().map(|template| Lane::Template(template.name.clone())))
}

/// Whether anything may start, how much, and what started lately.
fn circumstances(lane: &Lane, around: &Surroundings) -> (Gate, Limits, Vec<TaskStart>) {
    let (gate, resolved, history) = match (lane, &around.agent, &around.template) {
        (Lane::Agent(_), Some(agent), template) => {
            let resolved = resolve_agent(agent, template.as_deref(), &around.platform);
            let history = agent.status.as_ref().and_then(|status| status.task_start_history.clone());
            (Gate::with_settings(agent, &resolved), resolved, history)
        }
        (Lane::Template(_), _, Some(template)) => (
            Gate::Ready,
            resolve_template(template, &around.platform),
            template.status.as_ref().and_then(|status| status.task_start_history.clone()),
        ),
        // The grace of each Task counts from when it began to wait.
        (Lane::Agent(_) | Lane::Template(_), ..) => {
            return (Gate::Missing { since: Timestamp::UNIX_EPOCH }, Limits::default(), Vec::new());
        }
    };
    (gate, resolved.as_ref().map(Limits::from).unwrap_or_default(), history.unwrap_or_default())
}

fn waiting(task: &Task, epoch: i64, others: &HashMap<&str, &Task>, around: &Surroundings) -> Waiting {
    let created = task.metadata.creation_timestamp.as_ref().map_or(around.now, |time| time.0);
    let timings = task.status.as_ref().and_then(|status| status.timings.as_ref());
    let since = timings.and_then(|timings| timings.queued_at.as_ref()).map_or(created, |time| time.0);
    let grace = signed(around.platform.reference_grace_period);
    // Since when one that does not exist is missed only the controller knows; its status tells.
    let until = |_: &str| later(since.max(around.now), grace);
    let find = |name: &str| others.get(name).map(|task| Other::of(task));
    Waiting {
        key: TaskKey::of(task),
        epoch,
        priority: task.spec.priority,
        created,
        since,
        dependencies: dependencies::judge(task, &find, &until),
    }
}

fn started(task: &Task) -> Option<Timestamp> {
    task.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0)
}

fn ahead(task: &Task) -> Ahead {
    Ahead {
        name: task.metadata.name.clone().unwrap_or_default(),
        phase: task.status.as_ref().and_then(|status| status.phase).unwrap_or_default(),
        priority: task.spec.priority,
        created_at: task.metadata.creation_timestamp.as_ref().map(|time| time.0),
        start_time: started(task),
    }
}

fn quota_state(quota: Quota, history: &[TaskStart], now: Timestamp) -> QuotaState {
    let window = SignedDuration::from_secs(i64::from(quota.window_seconds));
    let ends = |start: &TaskStart| later(start.start_time.0, window);
    let mut open: Vec<Timestamp> = history.iter().map(ends).filter(|end| *end > now).collect();
    open.sort_unstable();
    let most = usize::try_from(quota.max_task_starts).unwrap_or_default().max(1);
    QuotaState {
        max_task_starts: quota.max_task_starts,
        window_seconds: quota.window_seconds,
        used: open.len(),
        next_start_at: open.len().checked_sub(most).and_then(|first| open.get(first)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn the_next_start_is_when_the_window_has_room() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let start =
            |second| TaskStart { task_name: "a".into(), task_namespace: "n".into(), start_time: Time(at(second)) };
        let quota = Quota { max_task_starts: 2, window_seconds: 100 };
        let state = quota_state(quota, &[start(1), start(50), start(60)], at(110));
        assert_eq!((state.used, state.next_start_at), (2, Some(at(150))));
        let state = quota_state(quota, &[start(50)], at(110));
        assert_eq!((state.used, state.next_start_at), (1, None));
    }
}
