//! Objects read by our own types, which must be able to read whatever the API server accepts.

use anyhow::Context as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Reads an object and writes it again. Two objects that our types take for the same come out the same.
pub fn reread(object: &Value) -> anyhow::Result<Value> {
    let kind = object["kind"].as_str().unwrap_or_default();
    match kind {
        "Task" => through::<api::Task>(object),
        "CronTask" => through::<api::CronTask>(object),
        "Agent" => through::<api::Agent>(object),
        "AgentTemplate" => through::<api::AgentTemplate>(object),
        "KubeOpenCodeConfig" => through::<api::KubeOpenCodeConfig>(object),
        "ModelProvider" => through::<api::ModelProvider>(object),
        "Model" => through::<api::Model>(object),
        "Instruction" => through::<api::Instruction>(object),
        "RemoteMCPServer" => through::<api::RemoteMCPServer>(object),
        "MCPServer" => through::<api::MCPServer>(object),
        "AgentTool" => through::<api::AgentTool>(object),
        "AgentWorkflow" => through::<api::AgentWorkflow>(object),
        "Registry" => through::<api::Registry>(object),
        _ => anyhow::bail!("{kind} is no kind of ours"),
    }
    .with_context(|| format!("our own types cannot read this {kind}"))
}

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(serde_json::from_value::<T>(object.clone())?)?)
}
