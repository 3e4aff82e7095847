//! One module a kind.

pub mod agent;
pub mod agent_template;
pub mod agent_tool;
pub mod agent_workflow;
pub mod config;
pub mod cron_task;
pub mod instruction;
pub mod mcp_server;
pub mod model;
pub mod model_provider;
pub mod registry;
pub mod remote_mcp_server;
pub mod task;
