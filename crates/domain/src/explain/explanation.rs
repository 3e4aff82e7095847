//! The explanation as data.

use api::{TaskPhase, kinds::agent::AgentPhase, run::DependencyCondition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::run::origin::Origin;

/// The explanation of a Task's state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskExplanation {
    /// The Task.
    pub task: ObjectName,
    /// Its stage.
    pub phase: TaskPhase,
    /// Machine-readable reason.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub message: Option<String>,
    /// Causes, from the visible state to the root cause.
    pub chain: Vec<Cause>,
    /// Only while it waits.
    pub queue: Option<QueueState>,
    /// Starts in the window of the quota.
    pub quota: Option<QuotaState>,
    /// Tasks that it depends on.
    pub dependencies: Vec<DependencyState>,
    /// The settings of the run, each with its origin.
    pub settings: Vec<Setting>,
    /// Why the settings are not available.
    pub settings_error: Option<String>,
    /// Suggested steps.
    pub next: Vec<String>,
}

/// The explanation of an Agent's state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentExplanation {
    /// The Agent.
    pub agent: ObjectName,
    /// Its stage.
    pub phase: Option<AgentPhase>,
    /// Whether its server takes Tasks.
    pub ready: bool,
    /// Causes, from the visible state to the root cause.
    pub chain: Vec<Cause>,
    /// What waits for it.
    pub queue: QueueState,
    /// Tasks that run on it.
    pub running: Vec<Ahead>,
    /// Starts in the window of the quota.
    pub quota: Option<QuotaState>,
    /// Its settings, each with its origin.
    pub settings: Vec<Setting>,
    /// Why the settings are not available.
    pub settings_error: Option<String>,
    /// Suggested steps.
    pub next: Vec<String>,
}

/// The explanation of a CronTask's state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskExplanation {
    /// The CronTask.
    pub cron_task: ObjectName,
    /// Whether no run starts until its user acts.
    pub blocked: bool,
    /// Whether its user suspended it.
    pub suspended: bool,
    /// When it is due next; unset if no run is to come.
    #[schemars(schema_with = "moment")]
    pub next_schedule_time: Option<Timestamp>,
    /// Causes, from the visible state to the root cause.
    pub chain: Vec<Cause>,
    /// Suggested steps.
    pub next: Vec<String>,
}

/// Names an object of any kind.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ObjectName {
    /// Its kind.
    pub kind: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The object of a known kind with this metadata.
    pub(super) fn here(metadata: &ObjectMeta) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        Self { kind: None, namespace: metadata.namespace.clone(), name }
    }

    /// The object of this kind with this metadata.
    pub(super) fn of(kind: &str, metadata: &ObjectMeta) -> Self {
        Self { kind: Some(kind.to_owned()), ..Self::here(metadata) }
    }
}

/// One link of a chain of causes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cause {
    /// How bad it is.
    pub level: Level,
    /// Machine-readable reason.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub message: String,
    /// What it is about.
    pub object: Option<ObjectName>,
    /// Since when.
    #[schemars(schema_with = "moment")]
    pub since: Option<Timestamp>,
}

impl Cause {
    pub(super) fn new(level: Level, message: impl Into<String>, object: &ObjectName) -> Self {
        Self { level, reason: None, message: message.into(), object: Some(object.clone()), since: None }
    }

    pub(super) fn reason(self, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()), ..self }
    }

    pub(super) fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// The cause that a condition reports.
    pub(super) fn from_condition(level: Level, condition: &Condition, object: &ObjectName) -> Self {
        Self::new(level, &condition.message, object)
            .reason(&condition.reason)
            .since(Some(condition.last_transition_time.0))
    }
}

/// How bad a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// It waits for this.
    Wait,
    /// This went wrong.
    Error,
    /// This is done.
    Done,
}

/// The queue of an Agent or template.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Whose queue.
    pub target: ObjectName,
    /// Place of the Task, 1 being next.
    pub position: Option<usize>,
    /// Tasks that wait.
    pub waiting: usize,
    /// Tasks that run.
    pub running: usize,
    /// Tasks that may run at once.
    pub max_concurrent_tasks: Option<u32>,
    /// What runs, and what goes before; the first 20.
    pub ahead: Vec<Ahead>,
}

/// A Task that runs or goes before.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    /// Its name.
    pub name: String,
    /// Its stage.
    pub phase: TaskPhase,
    /// Higher goes first.
    pub priority: i32,
    /// When it was created.
    #[schemars(schema_with = "moment")]
    pub created_at: Option<Timestamp>,
    /// When its work began.
    #[schemars(schema_with = "moment")]
    pub start_time: Option<Timestamp>,
}

/// Starts in the window of a quota.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaState {
    /// Starts that are allowed.
    pub max_task_starts: i32,
    /// Length of the window.
    pub window_seconds: i32,
    /// Starts in the window that ends now.
    pub used: usize,
    /// When the next may start, if none is left.
    #[schemars(schema_with = "moment")]
    pub next_start_at: Option<Timestamp>,
}

/// The state of a dependency.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DependencyState {
    /// The other Task.
    pub task: String,
    /// Which end is good enough.
    pub condition: DependencyCondition,
    /// Its stage, if it exists.
    pub phase: Option<TaskPhase>,
    /// Whether it is good enough.
    pub met: bool,
    /// Whether it exists.
    pub exists: bool,
}

/// One resolved setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Its path, such as `agent.executorImage`.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Who decided it.
    #[schemars(schema_with = "origin")]
    pub origin: Origin,
    /// The same in words.
    pub origin_text: String,
}

fn moment(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

fn origin(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["from"],
        "properties": {
            "from": { "type": "string", "enum": ["Task", "Agent", "Template", "Config", "Environment", "BuiltIn"] },
            "name": { "type": "string", "description": "Of the Agent or template." },
        },
    })
}
