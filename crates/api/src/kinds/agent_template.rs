//! AgentTemplate: settings that many Agents share, and the blueprint of Tasks without an Agent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    run::{RunSettings, WarmPool},
    schema::IntoRule as _,
    settings::AgentSettings,
};

/// Settings that many Agents share, and the blueprint of Tasks that run without an Agent.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "AgentTemplate",
    plural = "agenttemplates",
    shortname = "agt",
    category = "kubeopencode",
    namespaced,
    status = "AgentTemplateStatus",
    derive = "PartialEq",
    doc = "Settings that many Agents share, and the blueprint of Tasks that run without an Agent.",
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.executorImage", priority = 1),
    printcolumn(name = "WorkspaceDir", type_ = "string", json_path = ".spec.workspaceDir", priority = 1),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccountName"),
    printcolumn(name = "Agents", type_ = "integer", json_path = ".status.agents", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 63", "an AgentTemplate's name has at most 63 characters: it becomes a label of its Agents and Tasks").into_rule()
)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateSpec {
    /// Settings of Agents and Tasks.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// Settings that a Task can set too.
    #[serde(flatten)]
    pub run: RunSettings,
    /// Prepared Pods that wait for Tasks.
    pub warm_pool: Option<WarmPool>,
}

/// Observed state of an AgentTemplate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Agents that use it.
    pub agents: Option<i32>,
    /// Recent starts of Tasks on it, for the quota.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub task_start_history: Option<Vec<super::agent::TaskStart>>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}
