//! The queue of an Agent or template, put together from what is known: the same decision as the controller's.

use std::{cmp::Reverse, sync::Arc};

use api::{Task, TaskPhase, kinds::agent::TaskStart, workload::Quota};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kubeopencode_core::{
    dependencies::{self, Other},
    queue::{Gate, Lane, Limits, Queue, TaskKey, Wait, Waiting},
    resolve,
};
use observe::Key;

use crate::{
    kind::by_age,
    wire::{Ahead, ObjectName, QueueState, QuotaState},
    world::{Target, World, now},
};

/// Most Tasks that are named.
const NAMED: usize = 20;

/// The Tasks of one Agent or template, and what decides about them.
pub struct Line {
    target: Target,
    queue: Queue,
    limits: Limits,
    history: Vec<TaskStart>,
    /// In the order in which they go.
    waiting: Vec<Arc<Task>>,
    running: Vec<Arc<Task>>,
}

impl Line {
    /// The queue that `task` is in; it counts even if the watch has not seen it.
    pub fn of(world: &World, target: Target, task: &Task) -> Self {
        let mut line = Self::of_target(world, target);
        if phase(task) != TaskPhase::Running
            && !phase(task).is_finished()
            && line.queue.position(&TaskKey::of(task)).is_none()
        {
            line.queue.upsert(waiting(world, task));
        }
        line
    }

    /// The queue of `target`.
    pub fn of_target(world: &World, target: Target) -> Self {
        let platform = world.platform();
        let (lane, gate, resolved, history) = match &target {
            Target::Agent(key) => {
                let agent = world.agents.object(key);
                let gate = agent.as_deref().map_or(Gate::Missing { since: now() }, Gate::of);
                let template = agent.as_deref().and_then(|agent| super::template_of(world, agent));
                let resolved = agent
                    .as_deref()
                    .and_then(|agent| resolve::resolve_agent(agent, template.as_deref(), &platform).ok());
                let history = agent.and_then(|agent| agent.status.as_ref()?.task_start_history.clone());
                (Lane::Agent(key.name.clone()), gate, resolved, history)
            }
            Target::Template(key) => {
                let template = world.templates.object(key);
                let gate = template.as_deref().map_or(Gate::Missing { since: now() }, |_| Gate::Ready);
                let resolved =
                    template.as_deref().and_then(|template| resolve::resolve_template(template, &platform).ok());
                let history = template.and_then(|template| template.status.as_ref()?.task_start_history.clone());
                (Lane::Template(key.name.clone()), gate, resolved, history)
            }
        };
        let limits = resolved.as_ref().map(Limits::from).unwrap_or_default();
        let history = history.unwrap_or_default();
        let mut queue = Queue::new(lane, platform.reference_grace_period);
        queue.set_limits(limits);
        queue.set_gate(gate);
        queue.restore(&history);
        let all =
            world.tasks.filter(|_, task| !phase(task).is_finished() && Target::of(task).as_ref() == Some(&target));
        let (running, mut waits): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|task| phase(task) == TaskPhase::Running);
        for task in &running {
            let status = task.status.clone().unwrap_or_default();
            let admitted = status.timings.and_then(|timings| timings.admitted_at).map(|time| time.0);
            queue.running(TaskKey::of(task), status.run_epoch.unwrap_or(1), admitted);
        }
        for task in &waits {
            queue.upsert(waiting(world, task));
        }
        waits.sort_by(|a, b| Reverse(a.spec.priority).cmp(&Reverse(b.spec.priority)).then_with(|| by_age(&**a, &**b)));
        Self { target, queue, limits, history, waiting: waits, running }
    }

    /// Why `task` waits, as a stable word and a sentence.
    pub fn why(&self, task: &Task) -> Option<(Wait, &'static str, String)> {
        let wait = self.queue.why(&TaskKey::of(task))?;
        let (reason, message) = (wait.reason(self.queue.lane()), wait.message(self.queue.lane()));
        Some((wait, reason, message))
    }

    /// What it is the queue of.
    pub fn target(&self) -> ObjectName {
        let (kind, key) = match &self.target {
            Target::Agent(key) => ("Agent", key),
            Target::Template(key) => ("AgentTemplate", key),
        };
        ObjectName { kind: Some(kind.to_owned()), namespace: Some(key.namespace.clone()), name: key.name.clone() }
    }

    /// What runs.
    pub fn running(&self) -> Vec<Ahead> {
        self.running.iter().take(NAMED).map(|task| ahead(task)).collect()
    }

    /// Where `task` is in it: what runs, and what goes before.
    pub fn state(&self, task: &Task) -> QueueState {
        let key = TaskKey::of(task);
        let before = self.waiting.iter().take_while(|other| TaskKey::of(other) != key);
        let ahead = self.running.iter().chain(before).take(NAMED).map(|task| ahead(task)).collect();
        QueueState { position: self.queue.position(&key), ahead, ..self.empty_state() }
    }

    /// The queue for nobody in particular.
    pub fn empty_state(&self) -> QueueState {
        QueueState {
            target: self.target(),
            position: None,
            waiting: self.queue.len(),
            running: self.queue.running_count(),
            max_concurrent_tasks: self.limits.max_concurrent,
            ahead: self.waiting.iter().take(NAMED).map(|task| ahead(task)).collect(),
        }
    }

    /// Starts in the window.
    pub fn quota(&self) -> Option<QuotaState> {
        self.limits.quota.map(|quota| quota_state(quota, &self.history, now()))
    }
}

fn quota_state(quota: Quota, history: &[TaskStart], now: Timestamp) -> QuotaState {
    let window = SignedDuration::from_secs(i64::from(quota.window_seconds));
    let ends = |start: &TaskStart| start.start_time.0.checked_add(window).unwrap_or(Timestamp::MAX);
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

fn waiting(world: &World, task: &Task) -> Waiting {
    let namespace = task.namespace().unwrap_or_default();
    let created = task.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let status = task.status.as_ref();
    let since = status.and_then(|status| status.timings.as_ref()?.queued_at.as_ref()).map_or(created, |time| time.0);
    let find = |name: &str| world.tasks.object(&Key::new(&namespace, name)).map(|task| Other::of(&task));
    let grace = SignedDuration::try_from(world.platform().reference_grace_period).unwrap_or_default();
    let missing_until = since.checked_add(grace).unwrap_or(Timestamp::MAX);
    Waiting {
        key: TaskKey::of(task),
        epoch: status.and_then(|status| status.run_epoch).unwrap_or(0) + 1,
        priority: task.spec.priority,
        created,
        since,
        dependencies: dependencies::judge(task, &find, missing_until),
    }
}

fn phase(task: &Task) -> TaskPhase {
    task.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
}

fn ahead(task: &Task) -> Ahead {
    Ahead {
        name: task.name_any(),
        phase: phase(task),
        priority: task.spec.priority,
        created_at: task.metadata.creation_timestamp.as_ref().map(|time| time.0),
        start_time: task.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0),
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
