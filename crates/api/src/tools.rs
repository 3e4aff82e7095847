//! Tools that an agent may call.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{refs::HeaderFromSecret, schema::IntoRule as _};

/// Tools of one server, API or Agent, with permissions.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.requireApproval) || !has(self.toolNames) || self.toolNames.size() == 0 || self.requireApproval.all(t, t in self.toolNames)", "every tool in requireApproval must be in toolNames").into_rule())]
pub struct ToolBinding {
    /// Who offers the tools.
    #[serde(rename = "ref")]
    pub reference: ToolRef,
    /// Only these tools; all of them when empty.
    #[schemars(length(max = 64), inner(length(min = 1, max = 64)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Set)]
    pub tool_names: Option<Vec<String>>,
    /// Tools that need a person's approval.
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Set)]
    pub require_approval: Option<Vec<String>>,
    /// Headers of this agent's calls, from Secrets in its own namespace.
    #[schemars(length(max = 32))]
    pub headers_from: Option<Vec<HeaderFromSecret>>,
    /// Offer the tools to the agent.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// An object that offers tools.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRef {
    /// Kind of the object.
    pub kind: ToolKind,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the object; its own namespace when unset. The object must allow it.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Kinds that offer tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ToolKind {
    /// An MCP endpoint.
    #[default]
    RemoteMCPServer,
    /// An MCP server that we run.
    MCPServer,
    /// An HTTP API with an OpenAPI document.
    AgentTool,
    /// Another Agent.
    Agent,
}

fn yes() -> bool {
    true
}
