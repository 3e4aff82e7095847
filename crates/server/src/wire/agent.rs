//! Agents on the wire.

use api::{
    Agent,
    kinds::agent::{AgentPhase, GitSyncStatus, ToolStatus},
    refs::SecretKeyRef,
    workload::{Persistence, Standby},
};
use domain::{agent::standby::Suspension, workload::agent::password_ref};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{
    Condition, Identity, NameRef, Settings, conditions,
    piece::{piece, pieces},
    time,
};

/// An Agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentResponse {
    #[serde(flatten)]
    pub identity: Identity,
    /// Short description shown to users.
    pub profile: Option<String>,
    pub template_ref: Option<NameRef>,
    #[serde(flatten)]
    pub settings: Settings,
    #[schema(schema_with = piece::<Standby>)]
    pub standby: Option<Standby>,
    pub share: Option<ShareSummary>,
    pub conditions: Vec<Condition>,
    pub server_status: ServerStatus,
    /// Absent until the controller has seen the Agent.
    #[schema(schema_with = piece::<AgentPhase>)]
    pub phase: Option<AgentPhase>,
    /// Whether the spec suspends the Agent.
    pub suspend: bool,
    /// What suspended the Agent, if it is suspended.
    pub suspended_by: Option<Suspender>,
    /// Running Tasks and their limit.
    pub slots: Slots,
    /// Tasks waiting for a slot.
    pub queue_length: usize,
    /// Main model, as provider/model.
    pub resolved_model: Option<String>,
    #[schema(schema_with = pieces::<ToolStatus>)]
    pub tools: Option<Vec<ToolStatus>>,
    #[schema(schema_with = piece::<Persistence>)]
    pub persistence: Option<Persistence>,
}

/// What suspended an Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum Suspender {
    /// A person.
    User,
    /// Standby, because the Agent was idle.
    Standby,
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

/// A share link without the token.
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
    #[schema(schema_with = pieces::<GitSyncStatus>)]
    pub git_sync_statuses: Option<Vec<GitSyncStatus>>,
    /// Secret key with the password of the user `opencode`; absent if the server asks for none.
    #[schema(schema_with = piece::<SecretKeyRef>)]
    pub password_secret: Option<SecretKeyRef>,
}

/// The Agent of a share link, for the holder of the link.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareInfo {
    pub agent_name: String,
    pub namespace: String,
    /// Short description of the Agent.
    pub profile: Option<String>,
    /// The link stops opening then.
    pub expires_at: Option<Timestamp>,
}

/// A share link; with the token for callers who may read the Secret.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareResponse {
    pub enabled: bool,
    pub active: bool,
    /// Only for callers who may read the Secret.
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
    /// Lifetime of the link, such as 24h.
    pub expires_in: Option<String>,
    /// Only from these addresses or ranges.
    #[serde(rename = "allowedIPs")]
    pub allowed_ips: Option<Vec<String>>,
}

impl AgentResponse {
    /// The Agent, with so many Tasks on it. `total` is the limit after its template was merged in.
    pub fn of(agent: &Agent, running: usize, waiting: usize, total: Option<u32>) -> Self {
        let spec = &agent.spec;
        let status = agent.status.clone().unwrap_or_default();
        Self {
            identity: Identity::of(agent),
            profile: spec.profile.clone(),
            template_ref: spec.template_ref.as_ref().map(NameRef::from),
            settings: Settings::from(&spec.settings),
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
            phase: status.phase,
            suspend: spec.suspend,
            suspended_by: match Suspension::of(agent) {
                Suspension::Awake => None,
                Suspension::ByUser => Some(Suspender::User),
                Suspension::ByStandby => Some(Suspender::Standby),
            },
            slots: Slots { used: running, total },
            queue_length: waiting,
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
                password_secret: password_ref(&agent.name_any(), spec.server.as_ref()),
            },
        }
    }
}
