//! Numbers for the dashboard.

use std::collections::BTreeMap;

use api::kinds::{agent::AgentPhase, task::TokenUsage};
use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{Slots, TaskResponse, piece::piece};

/// Totals for the dashboard.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub tasks: TaskTotals,
    pub usage: UsageTotals,
    pub agents: AgentTotals,
    pub cron_tasks: CronTotals,
    /// The ten newest Tasks.
    pub recent: Vec<TaskResponse>,
}

/// Tasks in numbers.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskTotals {
    pub total: usize,
    pub by_phase: BTreeMap<String, usize>,
    pub waiting_by_reason: BTreeMap<String, usize>,
    #[serde(rename = "failedByReason24h")]
    pub failed_by_reason_24h: BTreeMap<String, usize>,
    #[serde(rename = "failedByReason7d")]
    pub failed_by_reason_7d: BTreeMap<String, usize>,
    #[serde(rename = "completed24h")]
    pub completed_24h: usize,
    /// Stopped by a user or a timeout; not in completed24h.
    #[serde(rename = "stopped24h")]
    pub stopped_24h: usize,
    #[serde(rename = "failed24h")]
    pub failed_24h: usize,
    pub awaiting_approval: usize,
}

/// Tokens and cost.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UsageTotals {
    #[schema(schema_with = piece::<TokenUsage>)]
    pub tokens: TokenUsage,
    /// Decimal number.
    pub cost: String,
    pub buckets: Vec<Bucket>,
}

/// One hour or day.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Bucket {
    pub start: Timestamp,
    pub tokens: i64,
    /// Decimal number.
    pub cost: String,
    pub completed: usize,
    pub failed: usize,
    pub stopped: usize,
}

/// Agents in numbers.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct AgentTotals {
    pub total: usize,
    pub ready: usize,
    pub suspended: usize,
    pub items: Vec<AgentLoad>,
}

/// How busy an Agent is.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentLoad {
    pub namespace: String,
    pub name: String,
    #[schema(schema_with = piece::<AgentPhase>)]
    pub phase: Option<AgentPhase>,
    pub ready: bool,
    pub slots: Slots,
    pub queue_length: usize,
}

/// CronTasks in numbers.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct CronTotals {
    pub total: usize,
    pub suspended: usize,
    /// CronTasks that create no Tasks until a person acts.
    pub blocked: usize,
    /// The five that are due next.
    pub next: Vec<Due>,
}

/// A CronTask that is due.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Due {
    pub namespace: String,
    pub name: String,
    pub at: Timestamp,
}
