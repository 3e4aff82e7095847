//! Settings with every default applied: the only input of the builders, which never read a raw spec.

use std::time::Duration;

use api::{
    context::{ContextItem, PluginSpec, SkillSource},
    refs::{ObjectRef, SecretKeyRef},
    run::{Approval, Artifact, Budget, Cache, Input, Publish, Retry, SideService, Workspace},
    tools::ToolBinding,
    workload::{CaBundle, Credential, ExtraPort, ImageBuild, NetworkPolicy, PodSettings, Proxy, Quota},
};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The settings of an Agent, merged with its template and the platform's defaults; for a Task on a template, those of
/// the template.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedAgent {
    /// Image that copies OpenCode to `/tools`.
    pub agent_image: String,
    /// Image in which the agent works.
    pub executor_image: String,
    /// Image of the attach client.
    pub attach_image: String,
    /// The build of the image in which the agent works, in place of `executor_image`; see [`crate::image`].
    pub executor_image_build: Option<ImageBuild>,
    /// Where the agent works; absolute, without a trailing slash.
    pub workspace_dir: String,
    /// Command of Task Pods in place of the default; never empty.
    pub command: Option<Vec<String>>,
    /// Delivered to every Task.
    pub contexts: Vec<ContextItem>,
    pub skills: Vec<SkillSource>,
    pub plugins: Vec<PluginSpec>,
    /// OpenCode's own configuration, parsed, in the order of its keys.
    pub config: Option<Map<String, Value>>,
    /// Secrets as variables or files in the agent's container.
    pub credentials: Vec<Credential>,
    /// Scheduling, security, resources and extras of Pods.
    #[serde(rename = "podSpec")]
    pub pod: PodSettings,
    /// ServiceAccount of Pods.
    pub service_account_name: String,
    /// `None` is no limit.
    pub max_concurrent_tasks: Option<u32>,
    /// `None` is no limit.
    pub quota: Option<Quota>,
    /// Certificate authorities in addition to the system's.
    pub ca_bundle: Option<CaBundle>,
    /// HTTP proxy; the platform's if the Agent sets none.
    pub proxy: Option<Proxy>,
    pub image_pull_secrets: Vec<String>,
    /// Further ports of the server's container and Service.
    pub extra_ports: Vec<ExtraPort>,
    /// Volume for the files of runs; `None` is the default of [`Workspace`].
    pub workspace: Option<Workspace>,
    /// A run without an event for this long is stopped.
    pub stall_timeout: Duration,
    /// `None` leaves the choice to `config`.
    #[serde(rename = "modelRef")]
    pub model: Option<ObjectRef>,
    /// Model for small tasks such as titles.
    #[serde(rename = "smallModelRef")]
    pub small_model: Option<ObjectRef>,
    /// In the order of the spec.
    #[serde(rename = "instructionRefs")]
    pub instructions: Vec<ObjectRef>,
    pub tools: Vec<ToolBinding>,
    pub approval: Approval,
    /// No effect yet; see [`super::unsupported`].
    pub network_policy: Option<NetworkPolicy>,
}

/// The settings of one run of a Task, merged with those of the Agent or template and the platform's defaults.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedTask {
    pub agent: ResolvedAgent,
    /// On the server of an Agent, or in a Pod of its own.
    pub target: ResolvedTarget,
    /// The prompt; never empty. `None` if a context provides it.
    pub description: Option<String>,
    /// Contexts of this Task alone; the agent's come before them.
    pub contexts: Vec<ContextItem>,
    /// The run is stopped after this time, counted from the start of the task container; `None` is no limit.
    pub timeout: Option<Duration>,
    /// Limit from admission to the start of the task container.
    pub startup_timeout: Duration,
    /// Volume for the files of the run; `None` is the default of [`Workspace`].
    pub workspace: Option<Workspace>,
    pub artifacts: Vec<Artifact>,
    pub inputs: Vec<Input>,
    pub caches: Vec<Cache>,
    /// Keys that the run must leave.
    pub outputs: Vec<String>,
    pub services: Vec<SideService>,
    pub retry: Retry,
    /// From the end of the agent until everything that the run keeps is stored.
    pub collect_timeout: Duration,
    pub publish: Option<Publish>,
    /// `publish` is not the Task's own: the Task may not choose where its credential is used.
    #[serde(skip)]
    pub publish_inherited: bool,
    /// `None` is no limit.
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
