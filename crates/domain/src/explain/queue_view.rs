//! The queue of an Agent or template, rebuilt from its objects with the controller's own decision.

use std::collections::HashMap;

use api::{Agent, Task, kinds::agent::TaskStart, workload::Quota};
use jiff::{SignedDuration, Timestamp};

use super::{Ahead, ObjectName, QueueState, QuotaState, Sight, Surroundings};
use crate::{
    duration::{later, signed},
    run::{
        budget::Allowance,
        dependencies::{self, Other},
        queue::{Gate, Limits, Queue, TaskKey, Wait, Waiting},
        resolve::{resolve_agent, resolve_template},
        stage::{Stage, joins_later, stop_requested},
        target::RunsOn,
    },
};

/// At most this many Tasks are named.
const NAMED: usize = 20;

/// The Tasks of one Agent or template, and the input of their decisions.
pub struct QueueView<'a> {
    namespace: Option<String>,
    queue: Queue,
    limits: Limits,
    history: Vec<TaskStart>,
    running: Vec<&'a Task>,
    others: &'a HashMap<&'a str, &'a Task>,
}

impl<'a> QueueView<'a> {
    /// The queue that `task` is in or would be in. `task` counts even if it is not among `others` yet.
    pub fn of_task(task: &'a Task, others: &'a HashMap<&'a str, &'a Task>, around: &Surroundings) -> Option<Self> {
        let runs_on = &RunsOn::of(&task.spec)?;
        let name = &task.metadata.name;
        let tasks = others.values().copied().filter(|other| other.metadata.name != *name).chain([task]);
        Some(Self::new(runs_on, task.metadata.namespace.clone(), tasks, others, around))
    }

    /// The queue of `agent`.
    pub fn of_agent(agent: &Agent, others: &'a HashMap<&'a str, &'a Task>, around: &Surroundings) -> Self {
        let runs_on = RunsOn::Agent(agent.metadata.name.clone().unwrap_or_default());
        Self::new(&runs_on, agent.metadata.namespace.clone(), others.values().copied(), others, around)
    }

    fn new(
        runs_on: &RunsOn,
        namespace: Option<String>,
        tasks: impl Iterator<Item = &'a Task>,
        others: &'a HashMap<&'a str, &'a Task>,
        around: &Surroundings,
    ) -> Self {
        let (gate, limits, history) = circumstances(runs_on, around);
        let mut queue = Queue::new(runs_on.clone(), around.platform.reference_grace_period);
        queue.set_limits(limits);
        queue.set_gate(gate);
        queue.restore(&history);
        let mut running = Vec::new();
        for task in tasks.filter(|task| RunsOn::of(&task.spec).as_ref() == Some(runs_on)) {
            match Stage::of(task) {
                Stage::Running { epoch, admitted_at } => {
                    queue.running(TaskKey::of(task), epoch, admitted_at);
                    running.push(task);
                }
                Stage::Waiting { epoch } if !stop_requested(task) && joins_later(task, around.now).is_none() => {
                    queue.upsert(waiting(task, epoch, others, around));
                }
                Stage::Waiting { .. } | Stage::Finished { .. } => {}
            }
        }
        running.sort_by_key(|task| (started(task), task.metadata.name.clone()));
        Self { namespace, queue, limits, history, running, others }
    }

    /// Why `task` waits; `None` if it does not.
    pub fn why(&self, task: &Task) -> Option<Wait> {
        self.queue.why(&TaskKey::of(task))
    }

    pub fn runs_on(&self) -> &RunsOn {
        self.queue.runs_on()
    }

    /// The target as an object.
    pub fn target(&self) -> ObjectName {
        let runs_on = self.queue.runs_on();
        ObjectName {
            kind: Some(runs_on.kind().to_owned()),
            namespace: self.namespace.clone(),
            name: runs_on.name().to_owned(),
        }
    }

    /// Running Tasks.
    pub fn running(&self, sight: Sight) -> Vec<Ahead> {
        self.running.iter().take(if sight.tasks { NAMED } else { 0 }).map(|task| ahead(task)).collect()
    }

    /// The queue with the position of `task`; `None` if `task` does not wait.
    pub fn queue_of(&self, task: &Task, sight: Sight) -> Option<QueueState> {
        let Stage::Waiting { .. } = Stage::of(task) else { return None };
        let key = TaskKey::of(task);
        let position = self.queue.position(&key);
        let before = position.map_or(0, |position| position - 1);
        let mut ahead = self.running(sight);
        ahead.extend(self.waiting(sight).take(before).take(NAMED.saturating_sub(ahead.len())));
        Some(QueueState { position, ahead, ..self.queue(sight) })
    }

    /// The queue without a position.
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

    /// Waiting Tasks in queue order.
    fn waiting(&self, sight: Sight) -> impl Iterator<Item = Ahead> {
        let known = |name: &str| self.others.get(name).map(|task| ahead(task));
        self.queue.positions().filter_map(move |(_, key)| known(&key.name)).filter(move |_| sight.tasks)
    }
}

/// Gate, limits and recent starts of the target.
fn circumstances(runs_on: &RunsOn, around: &Surroundings) -> (Gate, Limits, Vec<TaskStart>) {
    let (gate, resolved, history) = match (runs_on, &around.agent, &around.template) {
        (RunsOn::Agent(_), Some(agent), template) => {
            let resolved = resolve_agent(agent, template.as_deref(), &around.platform);
            let history = agent.status.as_ref().and_then(|status| status.task_start_history.clone());
            (Gate::with_settings(agent, &resolved), resolved, history)
        }
        (RunsOn::Template(_), _, Some(template)) => (
            Gate::Ready,
            resolve_template(template, &around.platform),
            template.status.as_ref().and_then(|status| status.task_start_history.clone()),
        ),
        // The grace period of each Task counts from when it started to wait.
        (RunsOn::Agent(_) | RunsOn::Template(_), ..) => {
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
    // Only the controller knows since when a dependency is missing; the status contains it.
    let until = |_: &str| later(since.max(around.now), grace);
    let find = |name: &str| others.get(name).map(|task| Other::of(task));
    Waiting {
        key: TaskKey::of(task),
        epoch,
        priority: task.spec.priority,
        created,
        since,
        own_limit: Allowance::default(),
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
