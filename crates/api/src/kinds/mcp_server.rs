//! MCPServer: an MCP server that we run.

use k8s_openapi::{
    api::core::v1::{EnvFromSource, EnvVar, ResourceRequirements},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{refs::AllowedNamespaces, schema::IntoRule as _, workload::PodSettings};

/// An MCP server that we run: a Deployment, a Service, and a RemoteMCPServer of the same name.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "MCPServer",
    plural = "mcpservers",
    shortname = "mcps",
    category = "kubeopencode",
    namespaced,
    status = "MCPServerStatus",
    derive = "PartialEq",
    doc = "An MCP server that we run: a Deployment, a Service, and a RemoteMCPServer of the same name.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas", label_selector_path = ".status.selector"),
    printcolumn(name = "Transport", type_ = "string", json_path = ".spec.transport"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')", "an MCPServer's name starts with a letter, has only a-z, 0-9 and '-', and at most 63 characters: its Service has the same name").into_rule()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.transport != 'stdio' || has(self.command)", "command is required when transport is stdio: it is what our bridge starts").into_rule())]
pub struct MCPServerSpec {
    /// http: the image serves HTTP itself. stdio: our bridge starts the command and serves it.
    #[serde(default)]
    pub transport: McpTransport,
    /// Image of the server.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Command instead of the image's own.
    #[schemars(length(max = 256))]
    pub command: Option<Vec<String>>,
    /// Arguments of the command.
    #[schemars(length(max = 256))]
    pub args: Option<Vec<String>>,
    /// Environment of the server.
    pub env: Option<Vec<EnvVar>>,
    /// Environment from ConfigMaps and Secrets.
    pub env_from: Option<Vec<EnvFromSource>>,
    /// Port that it serves.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Path that it serves; `/mcp` when unset.
    #[schemars(length(max = 4096), regex(pattern = r"^/[^\x00\s]*$"))]
    pub path: Option<String>,
    /// How many Pods run; left to an autoscaler when unset.
    #[schemars(range(min = 0, max = 100))]
    pub replicas: Option<i32>,
    /// Resources of the server's container.
    pub resources: Option<ResourceRequirements>,
    /// Scheduling, security and extras of its Pods.
    pub pod_spec: Option<PodSettings>,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// How the server in the image speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpTransport {
    /// By HTTP.
    #[default]
    Http,
    /// By its standard input and output.
    Stdio,
}

/// Observed state of an MCPServer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Its Deployment.
    pub deployment_name: Option<String>,
    /// Its Service.
    pub service_name: Option<String>,
    /// Pods that run.
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Labels of those Pods, for an autoscaler.
    pub selector: Option<String>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

fn port() -> i32 {
    3000
}
