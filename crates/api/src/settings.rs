//! Settings that Agent and AgentTemplate share. An Agent's value wins over its template's; a list replaces a list.

use k8s_openapi::api::core::v1::LocalObjectReference;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    context::{ContextItem, PluginSpec, SkillSource},
    refs::ObjectRef,
    run::{Approval, Workspace},
    schema::Duration,
    tools::ToolBinding,
    workload::{CaBundle, Credential, ExtraPort, ImageBuild, NetworkPolicy, PodSettings, Proxy, Quota},
};

/// The settings of an agent, wherever they are written.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSettings {
    /// Image that copies OpenCode to `/tools`. Set alone, without `executorImage`, it is where the agent works.
    #[schemars(length(max = 1024))]
    pub agent_image: Option<String>,
    /// Image in which the agent works.
    #[schemars(length(max = 1024))]
    pub executor_image: Option<String>,
    /// Image of the small client of Tasks on an Agent.
    #[schemars(length(max = 1024))]
    pub attach_image: Option<String>,
    /// Build the executor image from a repository instead.
    pub executor_image_build: Option<ImageBuild>,
    /// Directory in which the agent works; `/workspace` when unset.
    #[schemars(length(max = 4096), regex(pattern = r"^/[^\x00]*$"))]
    pub workspace_dir: Option<String>,
    /// Command of Task Pods instead of ours.
    #[schemars(length(max = 256))]
    pub command: Option<Vec<String>>,
    /// Contexts of every Task of the agent.
    #[schemars(length(max = 64))]
    pub contexts: Option<Vec<ContextItem>>,
    /// Skills of the agent.
    #[schemars(length(max = 100))]
    pub skills: Option<Vec<SkillSource>>,
    /// Plugins of OpenCode.
    #[schemars(length(max = 100))]
    pub plugins: Option<Vec<PluginSpec>>,
    /// OpenCode's own configuration, as a JSON text or as an object. Typed fields win over it. A text keeps the order
    /// of keys, which matters for permissions.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub config: Option<serde_json::Value>,
    /// Secrets for the agent.
    #[schemars(length(max = 100))]
    pub credentials: Option<Vec<Credential>>,
    /// Scheduling, security, resources and extras of its Pods.
    pub pod_spec: Option<PodSettings>,
    /// ServiceAccount of its Pods; `default` when unset.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// At most this many of its Tasks run at once; 0 or unset means any number.
    pub max_concurrent_tasks: Option<i32>,
    /// At most this many of its Tasks start in a window of time.
    pub quota: Option<Quota>,
    /// Certificate authorities of private servers.
    pub ca_bundle: Option<CaBundle>,
    /// HTTP proxy of every container.
    pub proxy: Option<Proxy>,
    /// Secrets for pulling images.
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// Further ports of the server.
    #[schemars(length(max = 64))]
    pub extra_ports: Option<Vec<ExtraPort>>,
    /// Where the files of its runs live.
    pub workspace: Option<Workspace>,
    /// A run without any event for this long ends; 15m when unset.
    pub stall_timeout: Option<Duration>,
    /// Model to use.
    pub model_ref: Option<ObjectRef>,
    /// Model for small work such as titles.
    pub small_model_ref: Option<ObjectRef>,
    /// Instructions, in this order, before contexts.
    #[schemars(length(max = 100))]
    pub instruction_refs: Option<Vec<ObjectRef>>,
    /// Tools that it may call.
    #[schemars(length(max = 64))]
    pub tools: Option<Vec<ToolBinding>>,
    /// How its permission requests are answered.
    pub approval: Option<Approval>,
    /// Which network connections its Pods may open.
    pub network_policy: Option<NetworkPolicy>,
}
