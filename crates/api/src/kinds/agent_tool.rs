//! AgentTool: an HTTP API as tools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{AllowedNamespaces, ConfigMapKeyRef, Headers, LocalRef, ServiceRef},
    schema::IntoRule as _,
};

/// An HTTP API with an OpenAPI document, offered to agents as tools.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "AgentTool",
    plural = "agenttools",
    shortname = "at",
    category = "kubeopencode",
    namespaced,
    status = "AgentToolStatus",
    derive = "PartialEq",
    doc = "An HTTP API with an OpenAPI document, offered to agents as tools.",
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.openApi.url", priority = 1),
    printcolumn(name = "Accepted", type_ = "string", json_path = ".status.conditions[?(@.type=='Accepted')].status"),
    printcolumn(
        name = "Schema",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='SchemaResolved')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolSpec {
    /// Description of the API; agents read it.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// The API.
    pub open_api: OpenApi,
    /// How calls are authenticated.
    pub auth: Option<ToolAuth>,
    /// Only these operations, by operationId; all of them when unset.
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub operations: Option<Vec<String>>,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// An HTTP API.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.url) != has(self.serviceRef)", "set exactly one of url and serviceRef").into_rule())]
pub struct OpenApi {
    /// Address of the API.
    #[schemars(length(max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub url: Option<String>,
    /// Service in front of the API.
    pub service_ref: Option<ServiceRef>,
    /// Its OpenAPI document.
    pub open_api_schema: OpenApiSchema,
    /// Headers to send.
    pub headers: Option<Headers>,
    /// Give up a call after this many seconds.
    #[serde(default = "thirty")]
    #[schemars(range(min = 1, max = 300))]
    pub timeout_seconds: i32,
}

/// Where an OpenAPI document is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("[has(self.value), has(self.valueFrom), has(self.endpointPath)].filter(x, x).size() == 1", "set exactly one of value, valueFrom and endpointPath").into_rule())]
pub struct OpenApiSchema {
    /// Here.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub value: Option<serde_json::Value>,
    /// In a ConfigMap.
    pub value_from: Option<ConfigMapKeyRef>,
    /// At the API itself.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^/[^\x00\s]*$"))]
    pub endpoint_path: Option<String>,
}

/// How calls are authenticated.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'OAuth2ClientCredentials' || has(self.tokenURL)", "tokenURL is required when type is OAuth2ClientCredentials").into_rule())]
pub struct ToolAuth {
    /// The scheme.
    #[serde(rename = "type")]
    pub kind: ToolAuthType,
    /// Secret with `key`, `token`, `username` and `password`, or `clientId` and `clientSecret`.
    pub secret_ref: LocalRef,
    /// Header that carries an API key; `X-API-Key` when unset.
    #[schemars(length(min = 1, max = 256))]
    pub header: Option<String>,
    /// Where OAuth 2 tokens come from.
    #[serde(rename = "tokenURL")]
    #[schemars(length(max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub token_url: Option<String>,
}

/// Schemes of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolAuthType {
    /// A key in a header.
    ApiKey,
    /// A bearer token.
    Bearer,
    /// User name and password.
    Basic,
    /// OAuth 2 client credentials.
    OAuth2ClientCredentials,
}

/// Observed state of an AgentTool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentToolStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Operations that were found.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub operations: Option<Vec<String>>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

fn thirty() -> i32 {
    30
}
