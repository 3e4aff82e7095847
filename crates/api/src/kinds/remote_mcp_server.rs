//! RemoteMCPServer: an MCP endpoint that exists.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{AllowedNamespaces, HeaderFromSecret, Headers, ServiceRef, Tls},
    schema::{Duration, IntoRule as _},
};

/// An MCP endpoint that exists. Its tools are discovered and put into the catalogue.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "RemoteMCPServer",
    plural = "remotemcpservers",
    shortname = "rmcp",
    category = "kubeopencode",
    namespaced,
    status = "RemoteMCPServerStatus",
    derive = "PartialEq",
    doc = "An MCP endpoint that exists. Its tools are discovered and put into the catalogue.",
    printcolumn(name = "Protocol", type_ = "string", json_path = ".spec.protocol", priority = 1),
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.url"),
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.toolCount"),
    printcolumn(name = "Reachable", type_ = "string", json_path = ".status.conditions[?(@.type=='Reachable')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.url) != has(self.serviceRef)", "set exactly one of url and serviceRef").into_rule())]
#[x_kube(validation = ("!has(self.path) || has(self.serviceRef)", "path goes with serviceRef; with url, put it into the url").into_rule())]
#[x_kube(validation = ("!has(self.tls) || !has(self.url) || self.url.startsWith('https://')", "tls has no effect on an http:// url: use https:// or remove tls").into_rule())]
#[x_kube(validation = ("duration(self.refreshInterval) >= duration('10s')", "refreshInterval must be at least 10s").into_rule())]
pub struct RemoteMCPServerSpec {
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Address of the endpoint.
    #[schemars(length(max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub url: Option<String>,
    /// Service in front of the endpoint.
    pub service_ref: Option<ServiceRef>,
    /// Path at that Service; `/mcp` when unset.
    #[schemars(length(max = 4096), regex(pattern = r"^/[^\x00\s]*$"))]
    pub path: Option<String>,
    /// How it is spoken to.
    #[serde(default)]
    pub protocol: McpProtocol,
    /// Headers to send.
    pub headers: Option<Headers>,
    /// Headers to send whose values are secret.
    #[schemars(length(max = 32))]
    pub headers_from: Option<Vec<HeaderFromSecret>>,
    /// Give up a call after this time; 30s when unset.
    pub timeout: Option<Duration>,
    /// Trust settings.
    pub tls: Option<Tls>,
    /// How often its tools are looked at.
    #[serde(default = "one_minute")]
    pub refresh_interval: Duration,
    /// Whether its tools are looked at.
    #[serde(default)]
    pub discovery: Discovery,
    /// Direct: agents connect to it. Gateway: requests pass through our server, which filters tools and adds secrets.
    #[serde(default)]
    pub access: McpAccess,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// How an MCP endpoint is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpProtocol {
    /// Streamable HTTP.
    #[default]
    StreamableHTTP,
    /// Server-sent events.
    SSE,
}

/// Whether tools are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Discovery {
    /// They are.
    #[default]
    Enabled,
    /// They are not.
    Disabled,
}

/// How agents reach an MCP endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum McpAccess {
    /// Themselves.
    #[default]
    Direct,
    /// Through our server.
    Gateway,
}

/// Observed state of a RemoteMCPServer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteMCPServerStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// How many tools it offers.
    pub tool_count: Option<i32>,
    /// The first of them; the catalogue has all.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub discovered_tools: Option<Vec<DiscoveredTool>>,
    /// When its tools were looked at last.
    pub last_discovery: Option<Time>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// A tool that was found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiscoveredTool {
    /// Its name.
    pub name: String,
    /// Description, shortened.
    pub description: Option<String>,
}

fn one_minute() -> Duration {
    std::time::Duration::from_mins(1).into()
}
