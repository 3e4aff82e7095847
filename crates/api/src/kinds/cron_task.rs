//! CronTask: Tasks by the clock.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::task::TaskSpec;
use crate::schema::IntoRule as _;

/// Creates Tasks by the clock, as a CronJob creates Jobs.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "CronTask",
    plural = "crontasks",
    shortname = "ct",
    category = "kubeopencode",
    namespaced,
    status = "CronTaskStatus",
    derive = "PartialEq",
    doc = "Creates Tasks by the clock, as a CronJob creates Jobs.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active", priority = 1),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Next Schedule", type_ = "string", json_path = ".status.nextScheduleTime", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 52", "a CronTask's name has at most 52 characters: its Tasks add 11 more and have at most 63").into_rule()
)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskSpec {
    /// When: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly.
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[^\s@\x00]+(\s+[^\s\x00]+){4})$")
    )]
    pub schedule: String,
    /// IANA name of the time zone, such as Europe/Berlin; UTC when unset.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: Option<String>,
    /// What to do while a Task of it still runs.
    #[serde(default)]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Create no further Tasks.
    pub suspend: Option<bool>,
    /// Skip a time that was missed by more than this many seconds.
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// Create no further Task while this many exist, finished ones included.
    #[serde(default = "ten")]
    #[schemars(range(min = 1))]
    pub max_retained_tasks: i32,
    /// The Task to create.
    pub task_template: TaskTemplate,
}

/// What to do when it is time and a Task still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Create another.
    Allow,
    /// Skip this time.
    #[default]
    Forbid,
    /// Stop the running one first.
    Replace,
}

/// The Task that a CronTask creates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTemplate {
    /// Labels and annotations of the Task.
    pub metadata: Option<TaskTemplateMetadata>,
    /// Its spec.
    pub spec: TaskSpec,
}

/// Labels and annotations of created Tasks.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTemplateMetadata {
    /// Labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Observed state of a CronTask.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTaskStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Tasks of it that have not finished.
    pub active: Option<i32>,
    /// Which ones.
    pub active_refs: Option<Vec<ObjectReference>>,
    /// The time for which a Task was created last.
    pub last_schedule_time: Option<Time>,
    /// The time that was let pass last, because a Task still ran and `concurrencyPolicy` is Forbid.
    pub last_skipped_time: Option<Time>,
    /// When a Task of it succeeded last.
    pub last_successful_time: Option<Time>,
    /// When it is due next.
    pub next_schedule_time: Option<Time>,
    /// Tasks created since it exists.
    pub total_executions: Option<i64>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

fn ten() -> i32 {
    10
}
