//! The next action of a CronTask, from its Tasks and the time.

use std::collections::BTreeMap;

use api::{
    CronTask, CronTaskStatus, Task,
    conditions::{reasons, types},
    kinds::cron_task::ConcurrencyPolicy,
    names::{GROUP, VERSION, annotations, labels},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
};

use super::{ChildTask, Due, Timetable};
use crate::{status, workload::names};

/// Actions, to be executed in this order. If one fails, stop and plan again.
#[derive(Clone, Debug, PartialEq)]
pub struct CronPlan {
    /// Annotate these Tasks with `kubeopencode.io/stop=true`.
    pub stop: Vec<String>,
    /// Write this time into the annotation `kubeopencode.io/trigger`, on the version that was seen, and plan again. The
    /// name of the Task follows from the time, so the Task is created exactly once, whatever fails later.
    pub accept_trigger: Option<Timestamp>,
    /// Create this Task. An existing Task of that name that belongs to the CronTask counts as created.
    pub create: Option<Task>,
    /// Write this status if it differs.
    pub status: CronTaskStatus,
    /// Remove the annotation `kubeopencode.io/trigger`, on the version that was seen: its Task exists, or is refused.
    pub clear_trigger: bool,
    /// Report why a triggered run creates no Task.
    pub refusal: Option<Refusal>,
    /// Plan again at this time, also without an event.
    pub next_wake: Option<Timestamp>,
}

/// Why no Task is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the condition.
    pub reason: &'static str,
    /// The reason as a sentence.
    pub message: String,
}

/// The state of a manual trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// A user set it.
    Requested,
    /// The controller saw it; its Task is named after this time.
    Accepted(Timestamp),
}

/// Plans the next step of `cron`. `children` are all of its Tasks, finished ones included.
pub fn plan(cron: &CronTask, children: &[ChildTask], now: Timestamp) -> CronPlan {
    Planner::new(cron, children, now).plan()
}

/// Why a run that is triggered now creates no Task; `None` if it creates one.
pub fn trigger_refusal(cron: &CronTask, children: &[ChildTask], now: Timestamp) -> Option<Refusal> {
    let planner = Planner::new(cron, children, now);
    planner.refusal(&planner.room())
}

/// The status of a CronTask whose Task the API server refused with the message `why`. The creation is retried.
pub fn refused(cron: &CronTask, children: &[ChildTask], why: &str, now: Timestamp) -> CronTaskStatus {
    let mut planner = Planner::new(cron, children, now);
    planner.report_block();
    planner.plan.status.next_schedule_time = cron.status.as_ref().and_then(|status| status.next_schedule_time.clone());
    planner.ready(false, reasons::TASK_NOT_CREATED, &format!("its Task was not created, and is tried again: {why}"));
    planner.plan.status
}

struct Planner<'a> {
    cron: &'a CronTask,
    children: &'a [ChildTask],
    now: Timestamp,
    plan: CronPlan,
}

/// Whether one more Task may be created.
enum Room {
    Free,
    /// `maxRetainedTasks` is reached.
    Full,
    /// This Task still runs, and the policy forbids another.
    Occupied(String),
    /// This Task still runs and is stopped first.
    Clearing(String),
}

impl<'a> Planner<'a> {
    fn new(cron: &'a CronTask, children: &'a [ChildTask], now: Timestamp) -> Self {
        let old = cron.status.clone().unwrap_or_default();
        let mut active: Vec<&ChildTask> = children.iter().filter(|child| child.active).collect();
        active.sort_by(|a, b| a.name.cmp(&b.name));
        let ended_well = children.iter().filter(|child| child.succeeded).filter_map(|child| child.ended_at);
        let status = CronTaskStatus {
            observed_generation: cron.metadata.generation,
            active: Some(i32::try_from(active.len()).unwrap_or(i32::MAX)),
            active_refs: Some(active.iter().map(|child| reference(cron, child)).collect()),
            // A successful Task may be deleted already.
            last_successful_time: ended_well.max().map(Time).max(old.last_successful_time),
            last_schedule_time: old.last_schedule_time,
            last_skipped_time: old.last_skipped_time,
            next_schedule_time: None,
            total_executions: Some(old.total_executions.unwrap_or(0)),
            conditions: old.conditions,
        };
        let plan = CronPlan {
            stop: Vec::new(),
            accept_trigger: None,
            create: None,
            clear_trigger: false,
            refusal: None,
            status,
            next_wake: None,
        };
        Self { cron, children, now, plan }
    }

    fn plan(mut self) -> CronPlan {
        let spec = &self.cron.spec;
        self.report_block();
        if spec.suspend == Some(true) {
            self.ready(false, reasons::SUSPENDED, "the CronTask is suspended; set spec.suspend to false to resume it");
        } else {
            match Timetable::parse(&spec.schedule, spec.time_zone.as_deref()) {
                Ok(timetable) => self.follow(&timetable),
                Err(error) => self.ready(false, error.reason(), &error.to_string()),
            }
        }
        if let Some(trigger) = self.triggered() {
            if self.plan.create.is_none() {
                self.trigger(trigger);
            } else {
                // The schedule is due and a run was triggered: one Task now, the other in the next pass.
                self.plan.next_wake = Some(self.now);
            }
        }
        self.plan
    }

    /// Creates the Task that is due by the timetable, if any.
    fn follow(&mut self, timetable: &Timetable) {
        let is_full = matches!(self.room(), Room::Full);
        if is_full {
            // No time is due until a Task is deleted or the limit is raised, and each of these is an event.
            self.report_room(&Room::Full);
        } else {
            let next = timetable.next_after(self.now);
            self.plan.status.next_schedule_time = next.map(Time);
            self.plan.next_wake = next;
            if !self.still_refuses() {
                self.ready(true, reasons::SCHEDULED, "waits for its next time");
            }
        }

        let status = &self.plan.status;
        let created = self.cron.metadata.creation_timestamp.as_ref();
        let last = status.last_schedule_time.as_ref().max(status.last_skipped_time.as_ref());
        let last = last.or(created).map_or(self.now, |time| time.0);
        let Some(due) = timetable.most_recent_due(last, self.now) else { return };
        let name = self.name_at(due.at);
        if self.children.iter().any(|child| child.name == name) {
            // An earlier pass created it and did not write the status.
            self.record(due.at);
        } else if is_full {
            // The time stays due: it is made up for when there is room again.
        } else if self.is_too_late(due) {
            let seconds = self.cron.spec.starting_deadline_seconds.unwrap_or(0);
            let mut message =
                format!("the time {} was missed by more than startingDeadlineSeconds ({seconds})", due.at);
            if due.missed > 0 {
                message = format!("{message}, and {} before it", due.missed);
            }
            self.ready(true, reasons::MISSED_DEADLINE, &message);
        } else if !self.was_skipped(due) {
            match self.make_room() {
                Room::Free => {
                    self.plan.create = Some(self.task(&name));
                    self.record(due.at);
                }
                // A skipped time stays skipped, also after the running Task is deleted.
                Room::Occupied(_) => self.plan.status.last_skipped_time = Some(Time(due.at)),
                Room::Full | Room::Clearing(_) => {}
            }
        }
    }

    /// Creates a Task for a manual trigger.
    fn trigger(&mut self, trigger: Trigger) {
        if let Trigger::Accepted(at) = trigger
            && self.children.iter().any(|child| child.name == self.name_at(at))
        {
            // An earlier pass created it and did not remove the trigger.
            self.record_once(at);
            self.plan.clear_trigger = true;
            return;
        }
        let room = self.make_room();
        match (&room, trigger) {
            (Room::Free, Trigger::Accepted(at)) => {
                self.plan.create = Some(self.task(&self.name_at(at)));
                self.plan.clear_trigger = true;
                self.record_once(at);
            }
            (Room::Free, Trigger::Requested) => {
                let mut at = Timestamp::from_second(self.now.as_second()).unwrap_or(self.now);
                while self.children.iter().any(|child| child.name == self.name_at(at)) {
                    at = at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at);
                }
                self.plan.accept_trigger = Some(at);
                self.plan.next_wake = Some(self.now);
            }
            (Room::Full | Room::Occupied(_), _) => {
                self.plan.clear_trigger = true;
                self.plan.refusal = self.refusal(&room).map(|refusal| Refusal {
                    message: format!("the trigger created no Task: {}", refusal.message),
                    ..refusal
                });
            }
            // The trigger stays while an old Task is being stopped.
            (Room::Clearing(_), _) => {}
        }
    }

    /// Whether limit and policy allow one more Task. If not, the condition says why, and policy `Replace` stops the old
    /// Tasks.
    fn make_room(&mut self) -> Room {
        let room = self.room();
        if let Room::Clearing(_) = room {
            let unasked = self.active().filter(|child| !child.stop_requested);
            self.plan.stop = unasked.map(|child| child.name.clone()).collect();
        }
        self.report_room(&room);
        room
    }

    /// Says in the condition `Ready` why no Task is created. A suspended CronTask stays reported as suspended.
    fn report_room(&mut self, room: &Room) {
        if self.cron.spec.suspend == Some(true) {
            return;
        }
        if let Some(Refusal { reason, message }) = self.refusal(room) {
            self.ready(!matches!(room, Room::Full), reason, &message);
        } else if let Room::Clearing(task) = room {
            let message = format!("Task '{task}' is being stopped; the next one replaces it then");
            self.ready(true, reasons::ACTIVE_TASK_EXISTS, &message);
        }
    }

    /// Why no Task is created, unless there is room or room is being made.
    fn refusal(&self, room: &Room) -> Option<Refusal> {
        let (reason, message) = match room {
            Room::Free | Room::Clearing(_) => return None,
            Room::Full => (
                reasons::MAX_RETAINED_TASKS_REACHED,
                format!(
                    "no run starts, because the CronTask has as many Tasks as maxRetainedTasks ({}) allows; delete finished Tasks, raise spec.maxRetainedTasks, or set cleanup in the KubeOpenCodeConfig",
                    self.limit()
                ),
            ),
            Room::Occupied(task) => (
                reasons::ACTIVE_TASK_EXISTS,
                format!("Task '{task}' still runs, and concurrencyPolicy Forbid allows no other"),
            ),
        };
        Some(Refusal { reason, message })
    }

    /// The condition `Blocked` is there while no run can start, neither by the schedule nor by a trigger.
    fn report_block(&mut self) {
        let room = self.room();
        let mut conditions = self.plan.status.conditions.take().unwrap_or_default();
        match self.refusal(&room).filter(|_| matches!(room, Room::Full)) {
            Some(Refusal { reason, message }) => {
                let generation = self.cron.metadata.generation;
                status::set(&mut conditions, types::BLOCKED, true, reason, message, generation, self.now);
            }
            None => status::remove(&mut conditions, types::BLOCKED),
        }
        self.plan.status.conditions = Some(conditions);
    }

    fn limit(&self) -> usize {
        usize::try_from(self.cron.spec.max_retained_tasks).unwrap_or(0).max(1)
    }

    /// Whether the condition still says correctly why no Task is created.
    fn still_refuses(&self) -> bool {
        let conditions = self.plan.status.conditions.as_deref().unwrap_or_default();
        let reported = status::find(conditions, types::READY).map(|ready| ready.reason.as_str());
        match self.room() {
            Room::Free => false,
            Room::Full => reported == Some(reasons::MAX_RETAINED_TASKS_REACHED),
            Room::Occupied(_) | Room::Clearing(_) => reported == Some(reasons::ACTIVE_TASK_EXISTS),
        }
    }

    fn room(&self) -> Room {
        let active = self.active().map(|child| child.name.clone()).min();
        match (self.cron.spec.concurrency_policy, active) {
            // First: no Task is stopped for one that cannot be created.
            _ if self.children.len() >= self.limit() => Room::Full,
            (ConcurrencyPolicy::Forbid, Some(task)) => Room::Occupied(task),
            (ConcurrencyPolicy::Replace, Some(task)) => Room::Clearing(task),
            _ => Room::Free,
        }
    }

    fn active(&self) -> impl Iterator<Item = &ChildTask> {
        self.children.iter().filter(|child| child.active)
    }

    /// Whether the deadline has passed. Time spent on stopping the replaced Task does not count.
    fn is_too_late(&self, due: Due) -> bool {
        let Some(seconds) = self.cron.spec.starting_deadline_seconds else { return false };
        let deadline = due.at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        let replaced = |child: &ChildTask| child.stop_requested && (child.active || child.ended_at >= Some(due.at));
        let replacing =
            self.cron.spec.concurrency_policy == ConcurrencyPolicy::Replace && self.children.iter().any(replaced);
        self.now > deadline && !replacing
    }

    /// Whether the policy skipped this time because of a Task that has ended since. A skipped time stays skipped.
    fn was_skipped(&self, due: Due) -> bool {
        let ran_then = |child: &ChildTask| child.created <= due.at && child.ended_at.is_some_and(|end| end > due.at);
        self.cron.spec.concurrency_policy == ConcurrencyPolicy::Forbid
            && self.active().next().is_none()
            && self.children.iter().any(ran_then)
    }

    fn triggered(&self) -> Option<Trigger> {
        let value = self.cron.metadata.annotations.as_ref()?.get(annotations::TRIGGER)?;
        if value == "true" {
            return Some(Trigger::Requested);
        }
        value.parse().ok().map(Trigger::Accepted)
    }

    /// Records a Task unless an earlier pass recorded it.
    fn record_once(&mut self, at: Timestamp) {
        if self.plan.status.last_schedule_time.as_ref().is_none_or(|last| last.0 < at) {
            self.record(at);
        }
    }

    fn record(&mut self, at: Timestamp) {
        let status = &mut self.plan.status;
        status.last_schedule_time = Some(Time(at)).max(status.last_schedule_time.take());
        status.total_executions = status.total_executions.map(|total| total.saturating_add(1));
    }

    fn ready(&mut self, truth: bool, reason: &str, message: &str) {
        let mut conditions = self.plan.status.conditions.take().unwrap_or_default();
        status::set(&mut conditions, types::READY, truth, reason, message, self.cron.metadata.generation, self.now);
        self.plan.status.conditions = Some(conditions);
    }

    fn name_at(&self, at: Timestamp) -> String {
        format!("{}-{}", self.cron.metadata.name.as_deref().unwrap_or_default(), at.as_second())
    }

    fn task(&self, name: &str) -> Task {
        let metadata = &self.cron.metadata;
        let cron_name = metadata.name.clone().unwrap_or_default();
        let template = self.cron.spec.task_template.clone();
        let given = template.metadata.unwrap_or_default();
        let mut all: BTreeMap<String, String> = given.labels.unwrap_or_default();
        all.insert(labels::CRON_TASK.to_owned(), cron_name.clone());
        all.extend(names::runs_on(&template.spec).map(|(label, name)| (label.to_owned(), name.to_owned())));
        let mut task = Task::new(name, template.spec);
        task.metadata.namespace.clone_from(&metadata.namespace);
        task.metadata.labels = Some(all);
        task.metadata.annotations = given.annotations;
        task.metadata.owner_references = Some(vec![OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "CronTask".to_owned(),
            name: cron_name,
            uid: metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]);
        task
    }
}

fn reference(cron: &CronTask, child: &ChildTask) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some("Task".to_owned()),
        name: Some(child.name.clone()),
        namespace: cron.metadata.namespace.clone(),
        uid: Some(child.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
