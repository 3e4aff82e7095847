//! Agents on the wire.

use api::{
    Agent,
    context::{ContextType, GitSync, PluginSpec, SkillSource},
    kinds::agent::{GitSyncStatus, ToolStatus},
    refs::ObjectRef,
    settings::AgentSettings,
    workload::{CredentialSecretRef, Persistence, Quota, Standby},
};
use jiff::Timestamp;
use kubeopencode_core::standby::Suspension;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{Condition, Identity, NameRef, conditions, time};

/// An Agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentResponse {
    #[serde(flatten)]
    pub identity: Identity,
    /// What it is for.
    pub profile: Option<String>,
    pub template_ref: Option<NameRef>,
    pub executor_image: Option<String>,
    pub agent_image: Option<String>,
    pub attach_image: Option<String>,
    pub workspace_dir: Option<String>,
    pub service_account_name: Option<String>,
    pub contexts_count: usize,
    pub credentials_count: usize,
    pub skills_count: usize,
    pub plugins_count: usize,
    pub max_concurrent_tasks: Option<i32>,
    #[schema(value_type = Option<Object>)]
    pub quota: Option<Quota>,
    /// Names of Secrets, never their values.
    pub credentials: Vec<Credential>,
    pub contexts: Vec<ContextSummary>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub skills: Option<Vec<SkillSource>>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub plugins: Option<Vec<PluginSpec>>,
    /// OpenCode's own configuration.
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
    #[schema(value_type = Option<Object>)]
    pub standby: Option<Standby>,
    pub share: Option<ShareSummary>,
    pub conditions: Vec<Condition>,
    pub server_status: ServerStatus,
    /// Pending, Running, Failed or Suspended.
    pub phase: Option<String>,
    /// Whether its spec says that it is suspended.
    pub suspend: bool,
    /// User or Standby, when it is suspended.
    pub suspended_by: Option<String>,
    /// Tasks that run on it, and how many may.
    pub slots: Slots,
    /// Tasks that wait for it.
    pub queue_length: usize,
    #[schema(value_type = Option<Object>)]
    pub model_ref: Option<ObjectRef>,
    /// Model that it uses, as provider/model.
    pub resolved_model: Option<String>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<ToolStatus>>,
    #[schema(value_type = Option<Object>)]
    pub persistence: Option<Persistence>,
}

/// Slots of an Agent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Slots {
    /// Tasks that run.
    pub used: usize,
    /// Tasks that may run at once; any number when absent.
    pub total: Option<u32>,
}

/// A Secret that an agent gets, by name.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub name: String,
    #[schema(value_type = Object)]
    pub secret_ref: CredentialSecretRef,
    pub mount_path: Option<String>,
    pub env: Option<String>,
}

/// A context, without its content.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSummary {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Text, ConfigMap, Git, Runtime or URL.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: ContextType,
    pub mount_path: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub sync: Option<GitSync>,
}

/// A share link, without its token.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareSummary {
    pub enabled: bool,
    pub active: bool,
    pub secret_name: Option<String>,
    pub url: Option<String>,
    pub expires_at: Option<Timestamp>,
    #[serde(rename = "allowedIPs")]
    pub allowed_ips: Option<Vec<String>>,
}

/// The server of an Agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    pub deployment_name: Option<String>,
    pub service_name: Option<String>,
    /// Address inside the cluster.
    pub url: Option<String>,
    pub ready: bool,
    pub port: i32,
    pub suspended: bool,
    pub idle_since: Option<Timestamp>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub git_sync_statuses: Option<Vec<GitSyncStatus>>,
}

/// A share link with its token, for those who may read its Secret.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareResponse {
    pub enabled: bool,
    pub active: bool,
    /// Only for those who may read its Secret.
    pub token: Option<String>,
    /// Path of the link.
    pub path: Option<String>,
    pub expires_at: Option<Timestamp>,
    #[serde(rename = "allowedIPs")]
    pub allowed_ips: Option<Vec<String>>,
}

/// How to share.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShareRequest {
    /// The link opens; true when unset.
    pub enabled: Option<bool>,
    /// It stops opening after this time, such as 24h.
    pub expires_in: Option<String>,
    /// Only from these addresses or ranges.
    #[serde(rename = "allowedIPs")]
    pub allowed_ips: Option<Vec<String>>,
}

impl AgentResponse {
    /// The Agent, with so many Tasks on it. `total` is the limit after its template was merged in.
    pub fn of(agent: &Agent, running: usize, waiting: usize, total: Option<u32>) -> Self {
        let (spec, settings) = (&agent.spec, &agent.spec.settings);
        let status = agent.status.clone().unwrap_or_default();
        Self {
            identity: Identity::of(agent),
            profile: spec.profile.clone(),
            template_ref: spec.template_ref.as_ref().map(NameRef::from),
            executor_image: settings.executor_image.clone(),
            agent_image: settings.agent_image.clone(),
            attach_image: settings.attach_image.clone(),
            workspace_dir: settings.workspace_dir.clone(),
            service_account_name: settings.service_account_name.clone(),
            contexts_count: length(settings.contexts.as_ref()),
            credentials_count: length(settings.credentials.as_ref()),
            skills_count: length(settings.skills.as_ref()),
            plugins_count: length(settings.plugins.as_ref()),
            max_concurrent_tasks: settings.max_concurrent_tasks,
            quota: settings.quota,
            credentials: credentials(settings),
            contexts: contexts(settings),
            skills: settings.skills.clone(),
            plugins: settings.plugins.clone(),
            config: settings.config.clone(),
            standby: spec.standby.clone(),
            share: spec.share.as_ref().map(|share| ShareSummary {
                enabled: share.enabled,
                active: status.share.as_ref().is_some_and(|share| share.active),
                secret_name: status.share.as_ref().and_then(|share| share.secret_name.clone()),
                url: status.share.as_ref().and_then(|share| share.url.clone()),
                expires_at: time(share.expires_at.as_ref()),
                allowed_ips: share.allowed_ips.clone(),
            }),
            conditions: conditions(status.conditions.as_ref()),
            phase: status.phase.map(|phase| format!("{phase:?}")),
            suspend: spec.suspend,
            suspended_by: match Suspension::of(agent) {
                Suspension::Awake => None,
                Suspension::ByUser => Some("User".to_owned()),
                Suspension::ByStandby => Some("Standby".to_owned()),
            },
            slots: Slots { used: running, total },
            queue_length: waiting,
            model_ref: settings.model_ref.clone(),
            resolved_model: status.resolved_model.clone(),
            tools: status.tools.clone(),
            persistence: spec.persistence.clone(),
            server_status: ServerStatus {
                deployment_name: status.deployment_name,
                service_name: status.service_name,
                url: status.url,
                ready: status.ready.unwrap_or_default(),
                port: spec.port.unwrap_or(api::names::defaults::PORT),
                suspended: status.suspended.unwrap_or_default(),
                idle_since: time(status.idle_since.as_ref()),
                git_sync_statuses: status.git_sync_statuses,
            },
        }
    }
}

pub(super) fn length<T>(list: Option<&Vec<T>>) -> usize {
    list.map_or(0, Vec::len)
}

pub(super) fn credentials(settings: &AgentSettings) -> Vec<Credential> {
    let one = |credential: &api::workload::Credential| Credential {
        name: credential.name.clone(),
        secret_ref: credential.secret_ref.clone(),
        mount_path: credential.mount_path.clone(),
        env: credential.env.clone(),
    };
    settings.credentials.iter().flatten().map(one).collect()
}

pub(super) fn contexts(settings: &AgentSettings) -> Vec<ContextSummary> {
    let one = |context: &api::context::ContextItem| ContextSummary {
        name: context.name.clone(),
        description: context.description.clone(),
        kind: context.kind,
        mount_path: context.mount_path.clone(),
        sync: context.git.as_ref().and_then(|git| git.sync.clone()),
    };
    settings.contexts.iter().flatten().map(one).collect()
}
