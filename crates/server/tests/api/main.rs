//! The REST API against a real Kubernetes API server, over real HTTP.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(missing_docs, clippy::too_many_lines, reason = "tests are sentences of their own")]

extern crate kubeopencode_server as server;

mod agents;
mod artifacts;
mod bad_input;
mod closed;
mod cron;
mod events;
mod explain;
mod harness;
mod hostile;
mod kinds;
mod logs;
mod oidc;
mod overview;
mod provider;
mod rights;
mod schemathesis;
mod secrets;
mod setup;
mod share;
mod tasks;
