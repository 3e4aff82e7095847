//! Agent: an AI agent that keeps running and takes Tasks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{AllowedNamespaces, LocalRef, SecretKeyRef},
    run::Budget,
    schema::IntoRule as _,
    settings::AgentSettings,
    tools::ToolRef,
    workload::{Persistence, Standby},
};

/// An AI agent that keeps running: a Deployment with an OpenCode server, and a Service in front of it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Agent",
    plural = "agents",
    shortname = "ag",
    category = "kubeopencode",
    namespaced,
    status = "AgentStatus",
    derive = "PartialEq",
    doc = "An AI agent that keeps running: a Deployment with an OpenCode server, and a Service in front of it.",
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profile", priority = 1),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.executorImage", priority = 1),
    printcolumn(name = "ServiceAccount", type_ = "string", json_path = ".spec.serviceAccountName"),
    printcolumn(name = "MaxTasks", type_ = "integer", json_path = ".spec.maxConcurrentTasks", priority = 1),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')", "an Agent's name starts with a letter, has only a-z, 0-9 and '-', and at most 63 characters: its Service has the same name").into_rule()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.templateRef) || self.templateRef.name.matches('^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$')", "the name in templateRef has only a-z, 0-9, '-' and '.', and at most 63 characters: it becomes a label").into_rule())]
pub struct AgentSpec {
    /// Template to take settings from.
    pub template_ref: Option<LocalRef>,
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub profile: Option<String>,
    /// Settings that win over the template's.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// Port of the OpenCode server.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// What outlives its Pods.
    pub persistence: Option<Persistence>,
    /// Scale to zero.
    #[serde(default)]
    pub suspend: bool,
    /// Suspend the server when idle.
    pub standby: Option<Standby>,
    /// Share its terminal by a link.
    pub share: Option<Share>,
    /// What its Tasks may use together.
    pub budget: Option<Budget>,
    /// Offer it to other agents by the A2A protocol.
    pub a2a: Option<A2a>,
    /// Framework inside, if it is not OpenCode.
    #[schemars(length(max = 63))]
    pub framework: Option<String>,
    /// From which namespaces it may be used as a tool.
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// When a changed Agent restarts.
    #[serde(default)]
    pub rollout: Rollout,
    /// Protection of its OpenCode server.
    pub server: Option<ServerAuth>,
}

/// A link that opens the Agent's terminal.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The link opens.
    pub enabled: bool,
    /// It stops opening at this time.
    pub expires_at: Option<Time>,
    /// Only from these addresses or ranges.
    #[serde(rename = "allowedIPs")]
    #[schemars(length(max = 100), inner(length(max = 64), regex(pattern = r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$")))]
    pub allowed_ips: Option<Vec<String>>,
}

/// How the Agent appears to other agents.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct A2a {
    /// Serve it at our API server.
    #[serde(default)]
    pub enabled: bool,
    /// Its agent card.
    pub card: Option<AgentCard>,
}

/// Agent card that other agents read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCard {
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Version of the agent.
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// Skills that it offers.
    #[schemars(length(max = 64))]
    pub skills: Option<Vec<AgentCardSkill>>,
    /// Who offers it.
    pub provider: Option<AgentCardProvider>,
    /// Where its documentation is.
    #[serde(rename = "documentationURL")]
    #[schemars(length(max = 4096))]
    pub documentation_url: Option<String>,
}

/// One thing that an agent can do.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCardSkill {
    /// Its id.
    #[schemars(length(min = 1, max = 253))]
    pub id: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Search terms.
    #[schemars(length(max = 32))]
    pub tags: Option<Vec<String>>,
    /// Requests that it understands.
    #[schemars(length(max = 32))]
    pub examples: Option<Vec<String>>,
}

/// Who offers an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCardProvider {
    /// Name of the organisation.
    #[schemars(length(min = 1, max = 253))]
    pub organization: String,
    /// Its page.
    #[schemars(length(max = 4096))]
    pub url: Option<String>,
}

/// When a changed Agent restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Rollout {
    /// At once.
    #[default]
    Immediate,
    /// When no Task runs on it. If none such moment comes within five minutes, new Tasks wait for it.
    WhenIdle,
}

/// Protection of the OpenCode server.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(self.auth == 'None' && has(self.passwordSecretRef))", "passwordSecretRef has no effect when auth is None: remove one of them").into_rule())]
pub struct ServerAuth {
    /// Generated: a password is made and kept in a Secret. None: anyone who reaches the port has a shell.
    #[serde(default)]
    pub auth: ServerAuthMode,
    /// A password of your own instead of a generated one.
    pub password_secret_ref: Option<SecretKeyRef>,
}

/// Whether the server requires a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServerAuthMode {
    /// It does.
    #[default]
    Generated,
    /// It does not.
    None,
}

/// Observed state of an Agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// The stage that the Agent is in.
    pub phase: Option<AgentPhase>,
    /// Recent starts of its Tasks, for the quota.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub task_start_history: Option<Vec<TaskStart>>,
    /// Its Deployment.
    pub deployment_name: Option<String>,
    /// Its Service.
    pub service_name: Option<String>,
    /// Address of its server inside the cluster.
    pub url: Option<String>,
    /// Whether it takes Tasks now.
    pub ready: Option<bool>,
    /// Whether it is scaled to zero.
    pub suspended: Option<bool>,
    /// Start of the current idle period.
    pub idle_since: Option<Time>,
    /// Repositories that it follows.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub git_sync_statuses: Option<Vec<GitSyncStatus>>,
    /// Its share link.
    pub share: Option<ShareStatus>,
    /// Whether it brings its own image or runs on ours.
    pub runtime: Option<RuntimeStatus>,
    /// The image that was built for it from a repository.
    pub executor_image: Option<Box<BuiltImage>>,
    /// Framework that was found inside.
    pub detected_framework: Option<DetectedFramework>,
    /// Hash of the configuration that runs.
    pub config_hash: Option<String>,
    /// Model that it uses, as provider/model.
    pub resolved_model: Option<String>,
    /// Its tools, as found.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tools: Option<Vec<ToolStatus>>,
    /// Address for other agents.
    #[serde(rename = "a2aURL")]
    pub a2a_url: Option<String>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// Stages of an Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentPhase {
    /// Something it needs is missing or not ready; conditions say what.
    Pending,
    /// Its server is ready.
    Running,
    /// Its spec cannot work.
    Failed,
    /// It is scaled to zero.
    Suspended,
}

impl AgentPhase {
    /// Machine-readable reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Failed => "Failed",
            Self::Suspended => "Suspended",
        }
    }
}

/// One start of a Task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStart {
    /// Name of the Task.
    pub task_name: String,
    /// Namespace of the Task.
    pub task_namespace: String,
    /// When it was admitted.
    pub start_time: Time,
}

/// A repository that an Agent follows.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSyncStatus {
    /// Name of the context.
    pub name: String,
    /// Commit that was seen.
    pub commit_hash: Option<String>,
    /// When it was seen.
    pub last_synced: Option<Time>,
}

/// The share link.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareStatus {
    /// Secret with the token.
    pub secret_name: Option<String>,
    /// The link without its token; a path of our server.
    pub url: Option<String>,
    /// Whether it opens now.
    #[serde(default)]
    pub active: bool,
}

/// Whether an Agent brings its own image or runs on ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeStatus {
    /// Standard: its own image. Template: ours.
    pub mode: RuntimeMode,
}

/// An image that was built from a repository. It stays until `executorImageBuild` changes, also when a branch moves on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltImage {
    /// The image, by digest.
    pub image: String,
    /// The commit that it was built from.
    pub commit: String,
    /// Hash of the settings that it was built with.
    pub settings: String,
}

/// Where the agent's image comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RuntimeMode {
    /// From its user.
    Standard,
    /// From us.
    Template,
}

/// What framework was found, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DetectedFramework {
    /// Name of the framework.
    pub name: String,
    /// How it was found: Spec, ImageLabel, AgentCard or Health.
    pub source: String,
}

/// One tool binding, as found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStatus {
    /// Who offers the tools.
    #[serde(rename = "ref")]
    pub reference: ToolRef,
    /// How many the agent may call.
    pub count: Option<i32>,
    /// Names that the server does not offer.
    pub missing: Option<Vec<String>>,
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn port() -> Option<i32> {
    Some(crate::names::defaults::PORT)
}
