//! Request and response bodies, with the field names of upstream's API. Additions never rename an upstream field.
//!
//! Times are RFC 3339. Unset fields are omitted, never null. No response can hold the value of a Secret, except the
//! token of a share link, which is sent only to callers who may read that Secret.

#![allow(clippy::struct_field_names, reason = "the wire has these names")]

mod agent;
mod approval;
mod artifact;
mod changes;
mod cron_task;
pub(crate) mod duration;
mod graph;
mod log_search;
mod login;
mod object;
pub mod piece;
mod registry;
mod search;
mod secret;
mod settings;
mod setup;
mod summary;
mod task;
mod template;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

pub use agent::{AgentResponse, ShareInfo, ShareRequest, ShareResponse, Slots};
pub use approval::{ApprovalResponse, Approvals, Permission, PermissionReply, Permissions};
pub use artifact::{ArtifactFile, ArtifactFiles, ArtifactResponse, Artifacts, Outputs, bytes_of};
pub use changes::TaskChangesResponse;
pub use cron_task::{CronTaskResponse, Upcoming, UpcomingTime, blocked};
pub use graph::{Edge, Graph, Node};
pub use log_search::{LogMatch, LogSearchResponse, RunMatches};
pub use login::{
    Allowed, AuthenticatedBy, AuthenticationInfo, Checks, Health, Info, LoginRequest, Namespaces, ProviderInfo,
    Readiness, Ready, WhoAmI,
};
pub use object::{ConfigResponse, ObjectResponse, ready};
pub use registry::RegistryResponse;
pub use search::{SearchResponse, SearchResult};
pub use secret::{ChangedSecret, NewSecret, SecretList, SecretResponse};
pub use settings::Settings;
pub use setup::{SavedObject, SetupFinding, SetupRequest, SetupResponse, SetupTest};
pub use summary::{AgentLoad, AgentTotals, Bucket, CronTotals, Due, Summary, TaskTotals, UsageTotals};
pub use task::{ContainerState, Containers, CreateTask, RunResponse, Runs, TaskResponse};
pub use template::AgentTemplateResponse;

/// An error, for people and programs.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// Machine-readable reason.
    pub error: ErrorReason,
    /// Message for people.
    pub message: String,
    /// HTTP status code.
    pub code: u16,
    /// Path of the first invalid field.
    pub field: Option<String>,
    /// All invalid fields, if there is more than one.
    pub fields: Option<Vec<FieldError>>,
}

/// Why a request failed, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum ErrorReason {
    AlreadyExists,
    BadGateway,
    BadRequest,
    Conflict,
    Forbidden,
    Internal,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
}

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Path, such as `spec.contexts[0].text`.
    pub field: String,
    /// Why the field is invalid.
    pub message: String,
}

/// The outcome of an action, for people.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Message {
    pub message: String,
}

/// The position of a page in the whole list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pagination {
    /// Page size.
    pub limit: usize,
    /// Number of objects before this page.
    pub offset: usize,
    /// Objects of the whole list.
    pub total_count: usize,
    /// Whether another page follows.
    pub has_more: bool,
}

/// A reference to an object of a known kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameRef {
    /// Name of the object.
    pub name: String,
}

impl From<&api::refs::LocalRef> for NameRef {
    fn from(reference: &api::refs::LocalRef) -> Self {
        Self { name: reference.name.clone() }
    }
}

/// One condition of an object.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    #[schema(schema_with = condition_status)]
    pub status: String,
    /// Machine-readable reason.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// Time of the last change of the status.
    pub last_transition_time: Option<Timestamp>,
}

fn condition_status() -> RefOr<Schema> {
    piece::one_of(["True", "False", "Unknown"])
}

/// Converts conditions of Kubernetes.
pub fn conditions(conditions: Option<&Vec<meta::Condition>>) -> Vec<Condition> {
    let one = |condition: &meta::Condition| Condition {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: Some(condition.last_transition_time.0),
    };
    conditions.into_iter().flatten().map(one).collect()
}

/// Metadata of an object.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// Version of the object. Sent back as If-Match, it prevents lost updates.
    pub resource_version: Option<String>,
    /// Number of changes of the spec.
    pub generation: Option<i64>,
    /// Time of creation.
    pub created_at: Option<Timestamp>,
    /// Time at which deletion was requested.
    pub deletion_timestamp: Option<Timestamp>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
}

impl Identity {
    /// The identity of `object`.
    pub fn of(object: &impl ResourceExt) -> Self {
        let meta = object.meta();
        Self {
            name: object.name_any(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            generation: meta.generation,
            created_at: meta.creation_timestamp.as_ref().map(|time| time.0),
            deletion_timestamp: meta.deletion_timestamp.as_ref().map(|time| time.0),
            labels: meta.labels.clone().filter(|labels| !labels.is_empty()),
        }
    }
}

/// Converts a time of Kubernetes.
pub fn time(time: Option<&meta::Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}
