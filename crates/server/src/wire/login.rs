//! Login, the authenticated user and rights on the wire.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Liveness of the server.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Health {
    pub status: String,
    pub version: String,
    pub uptime: String,
}

/// Whether the server can answer.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Readiness {
    pub status: Ready,
}

/// Whether a server knows the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum Ready {
    #[serde(rename = "ready")]
    Yes,
    #[serde(rename = "not ready")]
    No,
}

/// Namespaces, in order.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Namespaces {
    pub namespaces: BTreeSet<String>,
}

/// About this server.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Info {
    pub version: String,
    pub authentication: AuthenticationInfo,
    pub features: Vec<String>,
}

/// How to log in here.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticationInfo {
    /// Reading needs no login.
    pub anonymous: bool,
    /// Neither does writing.
    pub anonymous_write: bool,
    /// The identity provider, if there is one.
    pub oidc: Option<ProviderInfo>,
}

/// An identity provider to log in with.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProviderInfo {
    /// Display name: Sign in with …
    pub name: String,
    /// Where a browser begins; `?next=` is the page to go to afterwards.
    pub path: String,
}

/// A token to log in with.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginRequest {
    pub token: String,
}

/// The authenticated user.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoAmI {
    pub user: String,
    pub groups: Vec<String>,
    pub anonymous: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    pub via: AuthenticatedBy,
    /// CSRF token of a session, required as X-KubeOpenCode-CSRF with every change.
    pub csrf_token: Option<String>,
    /// The session ends then.
    pub expires_at: Option<Timestamp>,
}

/// How the caller was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthenticatedBy {
    /// By a token in the request.
    Bearer,
    /// By a cookie.
    Session,
    /// Not at all.
    Anonymous,
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
