//! Secrets on the wire: names and keys go out, values only come in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::Identity;

/// A Secret without its values.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SecretResponse {
    #[serde(flatten)]
    pub identity: Identity,
    /// Type of the Secret, such as Opaque.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Names of the values.
    pub keys: Vec<String>,
    /// Whether the values can no longer be changed.
    pub immutable: Option<bool>,
}

impl SecretResponse {
    /// The names in `secret`; its values end here.
    pub fn of(secret: &Secret) -> Self {
        Self {
            identity: Identity::of(secret),
            kind: secret.type_.clone(),
            keys: secret.data.iter().flatten().map(|(key, _)| key.clone()).collect(),
            immutable: secret.immutable.filter(|immutable| *immutable),
        }
    }
}

/// The Secrets of a namespace, by name.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SecretList {
    pub items: Vec<SecretResponse>,
    pub total: usize,
}

/// A new Secret. Its values are in no debug output.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSecret {
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    pub labels: Option<BTreeMap<String, String>>,
    /// Values by key; never returned.
    #[schema(write_only)]
    pub data: BTreeMap<String, String>,
}

/// Changes of a Secret; keys that are not named stay as they are. The values are in no debug output.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedSecret {
    /// New values by key; never returned.
    #[schema(write_only)]
    pub data: Option<BTreeMap<String, String>>,
    /// Keys to remove.
    pub remove: Option<Vec<String>>,
}
