//! Settings with every default applied: the only input of the builders, which never read a raw spec.

use std::time::Duration;

use api::{
    context::{ContextItem, PluginSpec, SkillSource},
    refs::{ObjectRef, SecretKeyRef},
    run::{Approval, Artifact, Budget, Cache, Input, Retry, SideService, Workspace},
    tools::ToolBinding,
    workload::{CaBundle, Credential, ExtraPort, ImageBuild, NetworkPolicy, PodSettings, Proxy, Quota},
};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The settings of an Agent, merged with its template and the platform's defaults; for a Task on a template, those of the
/// template.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedAgent {
    /// Image that copies OpenCode to `/tools`.
    pub agent_image: String,
    /// Image in which the agent works.
    pub executor_image: String,
    /// Image of the attach client.
    pub attach_image: String,
    /// Build the executor image from a repository instead.
    pub executor_image_build: Option<ImageBuild>,
    /// Where the agent works; absolute, without a trailing slash.
    pub workspace_dir: String,
    /// Command of Task Pods instead of ours; never empty.
    pub command: Option<Vec<String>>,
    /// Contexts of every Task.
    pub contexts: Vec<ContextItem>,
    /// Skills.
    pub skills: Vec<SkillSource>,
    /// Plugins.
    pub plugins: Vec<PluginSpec>,
    /// OpenCode's own configuration, parsed, in the order of its keys.
    pub config: Option<Map<String, Value>>,
    /// Secrets for the agent.
    pub credentials: Vec<Credential>,
    /// Scheduling, security, resources and extras of Pods.
    #[serde(rename = "podSpec")]
    pub pod: PodSettings,
    /// ServiceAccount of Pods.
    pub service_account_name: String,
    /// Most Tasks at once; `None` is any number.
    pub max_concurrent_tasks: Option<u32>,
    /// Most starts in a window.
    pub quota: Option<Quota>,
    /// Certificate authorities.
    pub ca_bundle: Option<CaBundle>,
    /// HTTP proxy; the platform's if the Agent sets none.
    pub proxy: Option<Proxy>,
    /// Secrets for pulling images.
    pub image_pull_secrets: Vec<String>,
    /// Further ports of the server.
    pub extra_ports: Vec<ExtraPort>,
    /// Where the files of runs live.
    pub workspace: Option<Workspace>,
    /// A run without any event for this long ends.
    pub stall_timeout: Duration,
    /// Model to use.
    #[serde(rename = "modelRef")]
    pub model: Option<ObjectRef>,
    /// Model for small work.
    #[serde(rename = "smallModelRef")]
    pub small_model: Option<ObjectRef>,
    /// Instructions, in order.
    #[serde(rename = "instructionRefs")]
    pub instructions: Vec<ObjectRef>,
    /// Tools.
    pub tools: Vec<ToolBinding>,
    /// How permission requests are answered.
    pub approval: Approval,
    /// Which network connections Pods may open.
    pub network_policy: Option<NetworkPolicy>,
}

/// The settings of one run of a Task, merged with those of the Agent or template and the platform's defaults.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedTask {
    /// Settings of the agent.
    pub agent: ResolvedAgent,
    /// On the server of an Agent, or in a Pod of its own.
    pub target: ResolvedTarget,
    /// The prompt; never empty.
    pub description: Option<String>,
    /// Contexts of this Task alone; the agent's come before them.
    pub contexts: Vec<ContextItem>,
    /// Stop the run after this time, counted from the start of the task container.
    pub timeout: Option<Duration>,
    /// From admission to the start of the task container.
    pub startup_timeout: Duration,
    /// Where the files of the run live.
    pub workspace: Option<Workspace>,
    /// Files that are kept.
    pub artifacts: Vec<Artifact>,
    /// Artefacts of other Tasks, put in place before the start.
    pub inputs: Vec<Input>,
    /// Files that later runs can reuse.
    pub caches: Vec<Cache>,
    /// Keys that the result must have.
    pub outputs: Vec<String>,
    /// Containers beside the task.
    pub services: Vec<SideService>,
    /// Whether the run is tried again when it fails.
    pub retry: Retry,
    /// Limits of tokens and cost.
    pub budget: Option<Budget>,
}

/// The Agent or template of a run, with the address of the Agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all_fields = "camelCase", tag = "kind")]
pub enum ResolvedTarget {
    /// On an Agent's server.
    Agent {
        /// Name of the Agent.
        name: String,
        /// Address of its server.
        url: String,
        /// Secret with the server's password, if it has one.
        password_secret: Option<SecretKeyRef>,
    },
    /// In a Pod of its own.
    Template {
        /// Name of the template.
        name: String,
    },
}

impl ResolvedAgent {
    /// The hash of these settings: equal settings, equal hash.
    pub fn hash(&self) -> String {
        hash(self, "/config")
    }
}

impl ResolvedTask {
    /// The hash of these settings, for `status.resolved.hash`: equal settings, equal hash.
    pub fn hash(&self) -> String {
        hash(self, "/agent/config")
    }
}

/// SHA-256, in hexadecimal, of the settings as JSON with sorted keys, so that moving a field in our source changes
/// no hash. OpenCode's own configuration enters as text: there the order of keys has a meaning.
fn hash(settings: &impl Serialize, config: &str) -> String {
    let mut value = serde_json::to_value(settings).unwrap_or_default();
    if let Some(config) = value.pointer_mut(config).filter(|config| config.is_object()) {
        *config = Value::String(config.to_string());
    }
    value.sort_all_objects();
    format!("{:x}", Sha256::digest(value.to_string()))
}
