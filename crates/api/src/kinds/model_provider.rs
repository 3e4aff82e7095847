//! ModelProvider: where models are, and the key to them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{AllowedNamespaces, HeaderFromSecret, Headers, SecretKeyRef, Tls},
    schema::IntoRule as _,
};

/// An endpoint that serves models, and the credential for it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "ModelProvider",
    plural = "modelproviders",
    shortname = "mp",
    category = "kubeopencode",
    namespaced,
    status = "ModelProviderStatus",
    derive = "PartialEq",
    doc = "An endpoint that serves models, and the credential for it.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.baseURL", priority = 1),
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].status"),
    printcolumn(
        name = "Secrets",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='SecretsReady')].status"
    ),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Reachable')].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(self.type in ['ollama', 'openai-compatible', 'azure']) || has(self.baseURL)", "baseURL is required when type is ollama, openai-compatible or azure").into_rule())]
#[x_kube(validation = ("!has(self.tls) || !has(self.baseURL) || self.baseURL.startsWith('https://')", "tls has no effect on an http:// baseURL: use https:// or remove tls").into_rule())]
pub struct ModelProviderSpec {
    /// What protocol it speaks.
    #[serde(rename = "type")]
    pub kind: ModelProviderType,
    /// Address of the API; the provider's own when unset.
    #[serde(rename = "baseURL")]
    #[schemars(length(max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub base_url: Option<String>,
    /// The API key, in a Secret of the same namespace.
    pub api_key_secret_ref: Option<SecretKeyRef>,
    /// Headers to send.
    pub headers: Option<Headers>,
    /// Headers to send whose values are secret.
    #[schemars(length(max = 32))]
    pub headers_from: Option<Vec<HeaderFromSecret>>,
    /// Cloud region, for bedrock and vertex.
    #[schemars(length(max = 63))]
    pub region: Option<String>,
    /// Cloud project, for vertex.
    #[schemars(length(max = 253))]
    pub project: Option<String>,
    /// Trust settings.
    pub tls: Option<Tls>,
    /// Ask the provider for its models and list them in the status.
    #[serde(default)]
    pub discover_models: bool,
    /// From which namespaces Models may use it.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// What protocol a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelProviderType {
    /// OpenAI.
    OpenAI,
    /// Anthropic.
    Anthropic,
    /// Google AI Studio.
    Google,
    /// Google Vertex AI.
    Vertex,
    /// Amazon Bedrock.
    Bedrock,
    /// Azure OpenAI.
    Azure,
    /// Ollama.
    Ollama,
    /// Anything that speaks OpenAI's chat completions.
    #[serde(rename = "openai-compatible")]
    OpenAICompatible,
    /// OpenCode's hosted models.
    OpenCode,
}

/// Observed state of a ModelProvider.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelProviderStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Models that it offers.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub models: Option<Vec<String>>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}
