//! The causes of a CronTask's state.

use std::sync::Arc;

use api::{
    CronTask, Task, TaskPhase,
    conditions::{reasons, types},
};

use super::{Cause, Level, ObjectName, chain::NO_CONTROLLER};
use crate::{
    cron,
    status::{find, holds},
};

/// At most this many Tasks are named.
const NAMED: usize = 3;

/// The causes of the state of `cron`; `tasks` are those that the caller may see.
pub fn causes(cron: &CronTask, tasks: &[Arc<Task>]) -> Vec<Cause> {
    let about = ObjectName::of("CronTask", &cron.metadata);
    let status = cron.status.clone().unwrap_or_default();
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let Some(ready) = find(conditions, types::READY) else {
        return vec![Cause::new(Level::Error, "no controller has looked at it", &about).reason(NO_CONTROLLER)];
    };
    let mut chain = Vec::new();
    let level = match ready.reason.as_str() {
        reasons::SUSPENDED | reasons::ACTIVE_TASK_EXISTS => Level::Wait,
        _ if ready.status == "True" => Level::Done,
        _ => Level::Error,
    };
    match &status.next_schedule_time {
        Some(next) if ready.reason == reasons::SCHEDULED => {
            let message = format!("its next run is due at {}", next.0);
            chain.push(Cause::new(Level::Done, message, &about).reason(&ready.reason));
        }
        _ => chain.push(Cause::from_condition(level, ready, &about)),
    }
    let blocked = find(conditions, types::BLOCKED).filter(|blocked| blocked.status == "True");
    chain.extend(blocked.map(|blocked| Cause::from_condition(Level::Error, blocked, &about)));

    let mut ours: Vec<_> = tasks.iter().filter(|task| cron::ChildTask::of_cron(cron, task).is_some()).collect();
    let phase = |task: &Task| task.status.as_ref().and_then(|status| status.phase).unwrap_or_default();
    ours.sort_by_key(|task| task.metadata.creation_timestamp.as_ref().map(|time| time.0));
    for task in ours.iter().rev().filter(|task| !phase(task).is_finished()).take(NAMED) {
        let object = ObjectName::of("Task", &task.metadata);
        let message = format!("Task '{}' is {}", object.name, phase(task).as_str());
        let since = task.metadata.creation_timestamp.as_ref().map(|time| time.0);
        chain.push(Cause::new(Level::Info, message, &object).since(since));
    }
    if let Some(last) = ours.iter().rev().find(|task| phase(task).is_finished()) {
        chain.extend(last_end(last));
    }
    chain
}

/// How the last Task ended, unless it succeeded.
fn last_end(task: &Task) -> Option<Cause> {
    let status = task.status.clone().unwrap_or_default();
    let stopped = holds(status.conditions.as_deref(), types::STOPPED);
    let how = match status.phase {
        Some(TaskPhase::Failed) => "failed",
        _ if stopped => "was stopped",
        _ => return None,
    };
    let object = ObjectName::of("Task", &task.metadata);
    let why = status.message.map(|why| format!(": {why}")).unwrap_or_default();
    let cause = Cause::new(Level::Info, format!("its last Task '{}' {how}{why}", object.name), &object);
    Some(cause.reason(status.reason.as_deref().unwrap_or_default()).since(status.completion_time.map(|time| time.0)))
}
