//! Why a Task or an Agent is where it is.

use api::{TaskPhase, kinds::agent::AgentPhase, run::DependencyCondition};
use jiff::Timestamp;
use kubeopencode_core::origin::Origin;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::{
    ToSchema,
    openapi::{ObjectBuilder, schema::Type},
};

use super::{
    ObjectName,
    piece::{anything, one_of, piece},
};

/// Why a Task is where it is.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskExplanation {
    pub task: ObjectName,
    #[schema(schema_with = piece::<TaskPhase>)]
    pub phase: TaskPhase,
    pub reason: Option<String>,
    pub message: Option<String>,
    /// From what is seen to what caused it.
    pub chain: Vec<Cause>,
    /// Only while it waits.
    pub queue: Option<QueueState>,
    pub quota: Option<QuotaState>,
    pub dependencies: Vec<DependencyState>,
    /// The settings of the run, each with its origin.
    pub settings: Vec<Setting>,
    /// Why the settings cannot be told.
    pub settings_error: Option<String>,
    /// What a person can do.
    pub next: Vec<String>,
}

/// Why an Agent is where it is.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentExplanation {
    pub agent: ObjectName,
    #[schema(schema_with = piece::<AgentPhase>)]
    pub phase: Option<AgentPhase>,
    pub ready: bool,
    pub chain: Vec<Cause>,
    pub queue: QueueState,
    /// Tasks that run on it.
    pub running: Vec<Ahead>,
    pub quota: Option<QuotaState>,
    pub settings: Vec<Setting>,
    pub settings_error: Option<String>,
    pub next: Vec<String>,
}

/// One link of a chain of causes.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cause {
    pub level: Level,
    /// Stable word.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub message: String,
    /// What it is about.
    pub object: Option<ObjectName>,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// How bad a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
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
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    pub target: ObjectName,
    /// Place of the Task, 1 being next.
    pub position: Option<usize>,
    pub waiting: usize,
    pub running: usize,
    pub max_concurrent_tasks: Option<u32>,
    /// What runs, and what goes before; the first 20.
    pub ahead: Vec<Ahead>,
}

/// A Task that runs or goes before.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    pub name: String,
    #[schema(schema_with = piece::<TaskPhase>)]
    pub phase: TaskPhase,
    pub priority: i32,
    pub created_at: Option<Timestamp>,
    pub start_time: Option<Timestamp>,
}

/// Starts in the window of a quota.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaState {
    pub max_task_starts: i32,
    pub window_seconds: i32,
    /// Starts in the window that ends now.
    pub used: usize,
    /// When the next may start, if none is left.
    pub next_start_at: Option<Timestamp>,
}

/// Where a dependency stands.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DependencyState {
    pub task: String,
    #[schema(schema_with = piece::<DependencyCondition>)]
    pub condition: DependencyCondition,
    #[schema(schema_with = piece::<TaskPhase>)]
    pub phase: Option<TaskPhase>,
    pub met: bool,
    pub exists: bool,
}

/// One resolved setting.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub path: String,
    #[schema(schema_with = anything)]
    pub value: Value,
    /// `{"from": "Template", "name": "base"}`.
    #[schema(schema_with = origin)]
    pub origin: Origin,
    /// The origin in words.
    pub origin_text: String,
}

/// Where a setting came from.
fn origin() -> ObjectBuilder {
    let from = one_of(["Task", "Agent", "Template", "Config", "Environment", "BuiltIn"]);
    let name = ObjectBuilder::new().schema_type(Type::String).description(Some("Of the Agent or template."));
    ObjectBuilder::new().property("from", from).required("from").property("name", name)
}
