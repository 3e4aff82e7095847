//! What goes over the wire, in the names that upstream's clients know; what we add is never a new name for an old thing.
//!
//! Times are RFC 3339. What is unset is left out, never null. No type here can hold the value of a Secret, except the
//! token of a share link, which is only given to who may read its Secret.

#![allow(clippy::struct_field_names, reason = "the wire has these names")]

mod agent;
mod cron_task;
mod graph;
mod login;
mod object;
pub mod piece;
mod registry;
mod settings;
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
pub use cron_task::{CronTaskResponse, Upcoming, UpcomingTime};
pub use graph::{Edge, Graph, Node};
pub use login::{
    Allowed, AuthenticationInfo, Checks, Health, Info, LoginRequest, Namespaces, ProviderInfo, Readiness, Ready,
    Recognised, WhoAmI,
};
pub use object::{ConfigResponse, ObjectResponse, ready};
pub use registry::RegistryResponse;
pub use settings::Settings;
pub use summary::{AgentLoad, AgentTotals, Bucket, CronTotals, Due, Summary, TaskTotals, UsageTotals};
pub use task::{
    ContainerState, Containers, CreateTask, Permission, PermissionReply, Permissions, RunResponse, Runs, TaskResponse,
};
pub use template::AgentTemplateResponse;

/// What went wrong, in words for a person and for a program.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// Stable word.
    pub error: Word,
    /// The same as a sentence.
    pub message: String,
    /// HTTP status code.
    pub code: u16,
    /// Path of the field that is wrong.
    pub field: Option<String>,
    /// All of them, when there is more than one.
    pub fields: Option<Vec<FieldError>>,
}

/// What went wrong, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum Word {
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

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Its path, such as `spec.contexts[0].text`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// What was done, in words.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Told {
    pub message: String,
}

/// Where a page lies in the whole list.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pagination {
    /// Most objects of a page.
    pub limit: usize,
    /// Objects before this page.
    pub offset: usize,
    /// Objects in all.
    pub total_count: usize,
    /// Whether another page follows.
    pub has_more: bool,
}

/// Names an object of a known kind.
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
    /// What it tells of.
    #[serde(rename = "type")]
    pub kind: String,
    #[schema(schema_with = condition_status)]
    pub status: String,
    /// Stable word.
    pub reason: String,
    /// The same as a sentence.
    pub message: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}

fn condition_status() -> RefOr<Schema> {
    piece::one_of(["True", "False", "Unknown"])
}

/// Conditions as the wire has them.
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

/// What every object tells of itself.
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
    /// Its version; send it back with a change to be told of a change in between.
    pub resource_version: Option<String>,
    /// Counts changes of its spec.
    pub generation: Option<i64>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// Since when it is being deleted.
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

/// A time of Kubernetes as the wire has it.
pub fn time(time: Option<&meta::Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}
