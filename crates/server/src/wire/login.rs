//! Who somebody is and what they may do.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// The server lives.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
    pub uptime: String,
}

/// About this server.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Info {
    pub version: String,
    pub authentication: AuthenticationInfo,
    pub features: Vec<String>,
}

/// How to log in here.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticationInfo {
    /// Reading needs no login.
    pub anonymous: bool,
    /// Neither does writing.
    pub anonymous_write: bool,
}

/// A token to log in with.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    pub token: String,
}

/// Who somebody is.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmI {
    pub user: String,
    pub groups: Vec<String>,
    pub anonymous: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// bearer, session or anonymous.
    pub via: String,
    /// Send it as X-KubeOpenCode-CSRF with every change.
    pub csrf_token: Option<String>,
    /// The session ends then.
    pub expires_at: Option<Timestamp>,
}

/// Questions about rights.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    #[schema(max_items = 100)]
    pub checks: Vec<Check>,
}

/// May I do this?
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub verb: String,
    pub resource: String,
    /// kubeopencode.io when unset.
    pub group: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

/// The answers, in order.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Allowed {
    pub allowed: Vec<bool>,
}
