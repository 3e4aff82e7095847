//! `kubeopencode up` and `down` as whole commands, with the real kubectl.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agent_access;
mod agent_results;
mod agents;
mod command;
mod kills;
mod limits;
mod logs;
mod readme;
mod refusals;
mod results;
mod state;
mod work;
mod workspaces;
