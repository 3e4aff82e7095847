//! Permission requests of an agent, and the answers to them, on the wire.

use domain::run::approval::{Answered, Decision, Via};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use store::Approval;
use utoipa::ToSchema;

/// Permissions that an agent asks for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Permissions {
    pub permissions: Vec<Permission>,
}

/// A permission request of an agent, as OpenCode reports it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Permission {
    /// Answer under this id.
    pub id: String,
    /// The session that waits.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// Which permission, such as bash.
    pub permission: Option<String>,
    /// Patterns that the request covers.
    pub patterns: Option<Vec<String>>,
    /// Details of the tool.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// Patterns that the reply `always` allows from now on.
    pub always: Option<Vec<String>>,
}

impl From<opencode::Asked> for Permission {
    fn from(asked: opencode::Asked) -> Self {
        let opencode::Asked { id, session, permission, patterns, metadata, always } = asked;
        Self {
            id,
            session_id: session,
            permission: Some(permission),
            patterns: Some(patterns),
            metadata: Some(metadata).filter(|metadata| !metadata.is_null()),
            always: Some(always),
        }
    }
}

/// The answer to a permission request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionReply {
    /// Allow once, allow always, or reject.
    pub reply: Reply,
    /// Sent to the agent with a rejection, so that it can try another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<PermissionReply> for opencode::Reply {
    fn from(PermissionReply { reply, message }: PermissionReply) -> Self {
        match reply {
            Reply::Once => Self::Once,
            Reply::Always => Self::Always,
            Reply::Reject => Self::Reject(message),
        }
    }
}

/// How a permission request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Once,
    Always,
    Reject,
}

impl From<Reply> for Decision {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Once => Self::Once,
            Reply::Always => Self::Always,
            Reply::Reject => Self::Reject,
        }
    }
}

impl From<Decision> for Reply {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Once => Self::Once,
            Decision::Always => Self::Always,
            Decision::Reject => Self::Reject,
        }
    }
}

/// The audit of approvals: answers to permission requests.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Approvals {
    /// Whether answers are recorded: the server has a store.
    pub recorded: bool,
    /// The newest first.
    pub approvals: Vec<ApprovalResponse>,
}

/// An answer to a permission request. Parts of the request that look like a key are left out.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResponse {
    /// The run in which the agent asked.
    pub epoch: i64,
    /// Id of the request.
    pub request: String,
    /// Which permission, such as bash.
    pub permission: String,
    pub patterns: Vec<String>,
    pub reply: Reply,
    /// Sent to the agent with a rejection.
    pub message: Option<String>,
    /// User name.
    pub by: String,
    pub via: AnsweredVia,
    pub at: Timestamp,
    /// Whether the agent received the answer; unset if that is not known.
    pub accepted: Option<bool>,
}

impl ApprovalResponse {
    /// Fails if the record is damaged.
    pub fn of(approval: Approval) -> Result<Self, serde_json::Error> {
        let Approval { epoch, id: _, answered, entry, accepted } = approval;
        let at = answered;
        let Answered { request, permission, patterns, decision, message, by, via } = serde_json::from_slice(&entry)?;
        let (reply, via) = (decision.into(), via.into());
        let accepted = accepted.map(|_| true);
        Ok(Self { epoch, request, permission, patterns, reply, message, by, via, at, accepted })
    }
}

/// The program with which a person answered, as it named itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum AnsweredVia {
    Page,
    CommandLine,
    Api,
}

impl From<Via> for AnsweredVia {
    fn from(via: Via) -> Self {
        match via {
            Via::Page => Self::Page,
            Via::CommandLine => Self::CommandLine,
            Via::Api => Self::Api,
        }
    }
}
