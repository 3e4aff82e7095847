//! # The API of KubeOpenCode: group `kubeopencode.io`, version `v1alpha1`
//!
//! | kind | what it is |
//! |---|---|
//! | [`Task`] | one piece of work for an agent |
//! | [`CronTask`] | Tasks by the clock |
//! | [`Agent`] | an agent that keeps running and takes Tasks |
//! | [`AgentTemplate`] | settings that Agents share; the blueprint of Tasks without an Agent |
//! | [`KubeOpenCodeConfig`] | settings of the whole platform |
//! | [`ModelProvider`], [`Model`] | where models are, and how to use one |
//! | [`Instruction`] | a text that many agents follow |
//! | [`RemoteMCPServer`], [`MCPServer`], [`AgentTool`] | tools: an endpoint that exists, a server that we run, an HTTP API |
//! | [`AgentWorkflow`] | steps as a graph |
//! | [`Registry`] | a catalogue of images, skills and plugins |
//!
//! This crate holds the types, their schemas and rules, and the [names](mod@names) and [conditions](mod@conditions)
//! that other tools rely on. It does no I/O and decides nothing.
//!
//! Invariants, each with a test:
//! - a manifest for upstream KubeOpenCode v0.1.7 applies unchanged;
//! - every string, list and map of a spec is bounded, and no text holds a NUL byte;
//! - a definition fits into the annotation of a client-side `kubectl apply`;
//! - whatever the API server accepts, these types can read.

#![deny(missing_docs)]
#![allow(clippy::duplicated_attributes, reason = "the lint takes the columns of a definition for one attribute")]

pub mod conditions;
pub mod context;
mod key;
pub mod kinds;
pub mod names;
pub mod refs;
pub mod run;
mod schema;
pub mod settings;
pub mod tools;
pub mod workload;

use kube::CustomResourceExt;
use serde_json::Value;

pub use key::Key;
pub use kinds::{
    agent::{Agent, AgentSpec, AgentStatus},
    agent_template::{AgentTemplate, AgentTemplateSpec, AgentTemplateStatus},
    agent_tool::{AgentTool, AgentToolSpec, AgentToolStatus},
    agent_workflow::{AgentWorkflow, AgentWorkflowSpec, AgentWorkflowStatus},
    config::{KubeOpenCodeConfig, KubeOpenCodeConfigSpec, KubeOpenCodeConfigStatus},
    cron_task::{CronTask, CronTaskSpec, CronTaskStatus},
    instruction::{Instruction, InstructionSpec, InstructionStatus},
    mcp_server::{MCPServer, MCPServerSpec, MCPServerStatus},
    model::{Model, ModelSpec, ModelStatus},
    model_provider::{ModelProvider, ModelProviderSpec, ModelProviderStatus},
    registry::{Registry, RegistrySpec, RegistryStatus},
    remote_mcp_server::{RemoteMCPServer, RemoteMCPServerSpec, RemoteMCPServerStatus},
    task::{Task, TaskPhase, TaskSpec, TaskStatus},
};
pub use schema::{Duration, piece};

/// The definitions of all kinds as JSON, ready for the API server, in the order in which people learn them.
pub fn crds() -> Vec<Value> {
    [
        Task::crd(),
        CronTask::crd(),
        Agent::crd(),
        AgentTemplate::crd(),
        KubeOpenCodeConfig::crd(),
        ModelProvider::crd(),
        Model::crd(),
        Instruction::crd(),
        RemoteMCPServer::crd(),
        MCPServer::crd(),
        AgentTool::crd(),
        AgentWorkflow::crd(),
        Registry::crd(),
    ]
    .iter()
    .map(schema::finish)
    .collect()
}
