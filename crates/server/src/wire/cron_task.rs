//! CronTasks on the wire.

use api::{CronTask, conditions::types, context::ContextItem, kinds::cron_task::ConcurrencyPolicy};
use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{
    Condition, Identity, NameRef, conditions,
    piece::{piece, pieces},
    time,
};
use crate::wire::duration;

/// A CronTask.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskResponse {
    #[serde(flatten)]
    pub identity: Identity,
    pub schedule: String,
    pub time_zone: Option<String>,
    #[schema(schema_with = piece::<ConcurrencyPolicy>)]
    pub concurrency_policy: ConcurrencyPolicy,
    pub suspend: bool,
    pub max_retained_tasks: i32,
    pub starting_deadline_seconds: Option<i64>,
    /// Unfinished Tasks of the CronTask.
    pub active: i32,
    /// Their names.
    pub active_tasks: Vec<String>,
    pub last_schedule_time: Option<Timestamp>,
    pub last_successful_time: Option<Timestamp>,
    /// Unset while no run is to come: the CronTask is suspended, blocked or invalid.
    pub next_schedule_time: Option<Timestamp>,
    /// Why no run starts, by the schedule or by a trigger, and how to change that. Unset while runs start.
    pub blocked: Option<String>,
    pub total_executions: i64,
    pub task_template: CronTaskTemplate,
    pub conditions: Vec<Condition>,
}

/// The Task that a CronTask creates.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskTemplate {
    pub description: Option<String>,
    pub agent_ref: Option<NameRef>,
    pub template_ref: Option<NameRef>,
    pub timeout: Option<String>,
    #[schema(schema_with = pieces::<ContextItem>)]
    pub contexts: Option<Vec<ContextItem>>,
}

impl CronTaskResponse {
    /// The CronTask.
    pub fn of(cron: &CronTask) -> Self {
        let spec = &cron.spec;
        let task = &spec.task_template.spec;
        let status = cron.status.clone().unwrap_or_default();
        Self {
            blocked: blocked(cron),
            identity: Identity::of(cron),
            schedule: spec.schedule.clone(),
            time_zone: spec.time_zone.clone(),
            concurrency_policy: spec.concurrency_policy,
            suspend: spec.suspend.unwrap_or_default(),
            max_retained_tasks: spec.max_retained_tasks,
            starting_deadline_seconds: spec.starting_deadline_seconds,
            active: status.active.unwrap_or_default(),
            active_tasks: status.active_refs.into_iter().flatten().filter_map(|reference| reference.name).collect(),
            last_schedule_time: time(status.last_schedule_time.as_ref()),
            last_successful_time: time(status.last_successful_time.as_ref()),
            // A blocked CronTask creates no Task at that time.
            next_schedule_time: time(status.next_schedule_time.as_ref()).filter(|_| blocked(cron).is_none()),
            total_executions: status.total_executions.unwrap_or_default(),
            task_template: CronTaskTemplate {
                description: task.description.clone(),
                agent_ref: task.agent_ref.as_ref().map(NameRef::from),
                template_ref: task.template_ref.as_ref().map(NameRef::from),
                timeout: task.timeout.and_then(api::Duration::nonzero).map(duration::text),
                contexts: task.contexts.clone(),
            },
            conditions: conditions(status.conditions.as_ref()),
        }
    }
}

/// Why no run of `cron` starts; `None` while runs start.
pub fn blocked(cron: &CronTask) -> Option<String> {
    let conditions = cron.status.as_ref()?.conditions.as_ref()?;
    let blocked = conditions.iter().find(|one| one.type_ == types::BLOCKED && one.status == "True")?;
    Some(blocked.message.clone())
}

/// When a schedule is due next.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upcoming {
    pub schedule: String,
    /// Zone of the local times.
    pub time_zone: String,
    /// While suspended, no Tasks are created at these times.
    pub suspended: bool,
    /// Why no Tasks are created, and how to change that. `times` is empty then.
    pub blocked: Option<String>,
    pub times: Vec<UpcomingTime>,
}

/// One time at which a schedule is due.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UpcomingTime {
    pub at: Timestamp,
    /// The same as local time of the zone, with the offset from UTC.
    pub local: String,
}
