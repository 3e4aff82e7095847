//! The setup of a first model on the wire. Keys come in and never go out.

use domain::onboarding;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use super::piece::one_of;

fn providers() -> RefOr<Schema> {
    one_of(onboarding::Provider::ALL.map(onboarding::Provider::name))
}

/// How to reach a provider. Its key is in no debug output.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetupTest {
    #[schema(schema_with = providers)]
    pub provider: onboarding::Provider,
    /// Address of the API; required for `openai-compatible`, otherwise the provider's own when unset.
    #[schema(max_length = 4096)]
    pub base_url: Option<String>,
    /// API key; never returned.
    #[schema(write_only, max_length = 8192)]
    pub key: Option<String>,
    /// Model to test too.
    #[schema(max_length = 253)]
    pub model: Option<String>,
}

/// A provider, its key and a model.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetupRequest {
    #[schema(schema_with = providers)]
    pub provider: onboarding::Provider,
    /// Address of the API; required for `openai-compatible`, otherwise the provider's own when unset.
    #[schema(max_length = 4096)]
    pub base_url: Option<String>,
    /// API key; never returned.
    #[schema(write_only, max_length = 8192)]
    pub key: Option<String>,
    /// Name of the model at the provider.
    #[schema(min_length = 1, max_length = 253)]
    pub model: String,
    /// Name of the ModelProvider and the template; that of the provider when unset.
    #[schema(max_length = 50)]
    pub name: Option<String>,
}

fn connection(provider: onboarding::Provider, base_url: Option<String>, key: Option<&str>) -> onboarding::Connection {
    onboarding::Connection { provider, base_url, key: key.and_then(onboarding::ApiKey::read) }
}

impl SetupTest {
    /// The connection and the model, as decisions take them.
    pub fn into_parts(self) -> (onboarding::Connection, Option<String>) {
        (connection(self.provider, self.base_url, self.key.as_deref()), self.model)
    }
}

impl From<SetupRequest> for onboarding::Setup {
    fn from(request: SetupRequest) -> Self {
        let SetupRequest { provider, base_url, key, model, name } = request;
        Self {
            connection: connection(provider, base_url, key.as_deref()),
            name: name.filter(|name| !name.is_empty()),
            model,
        }
    }
}

/// The result of a test.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupFinding {
    /// Whether the provider accepts the key and, if one is chosen, offers the model.
    pub works: bool,
    /// The result for people.
    pub message: String,
    /// Models that the provider lists.
    pub models: Vec<String>,
    /// The model to offer first.
    pub suggested_model: Option<String>,
}

impl From<onboarding::Finding> for SetupFinding {
    fn from(finding: onboarding::Finding) -> Self {
        let onboarding::Finding { works, message, models, suggested } = finding;
        Self { works, message, models, suggested_model: suggested }
    }
}

/// What a setup saved.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupResponse {
    /// The objects, in the order in which they were saved.
    pub objects: Vec<SavedObject>,
    /// Name of the template for Tasks.
    pub template: String,
}

/// An object that was saved.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SavedObject {
    pub kind: String,
    pub name: String,
}
