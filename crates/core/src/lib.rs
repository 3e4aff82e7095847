//! # Every decision of KubeOpenCode, as pure functions
//!
//! No I/O, no clock, no randomness: `now` and ids come in as arguments. The controllers fetch, ask here, and apply.
//!
//! Invariants:
//! - I3 the queue never admits more than the limits allow, and admits in order;
//! - I5 the outcome of a run is decided here, once, by the precedence of causes;
//! - I6 builders are deterministic: same input, same bytes;
//! - I7 the values of Secrets never come in, so they can never get out: only names and keys do. The one exception is
//!   `secrets::fingerprint`, which lets a digest out.

pub mod agent_workload;
pub mod amounts;
pub mod approval;
pub mod assets;
pub mod budget;
pub mod build;
pub mod claims;
pub mod cleanup;
mod containers;
pub mod contexts;
pub mod cron;
pub mod delivered;
pub mod dependencies;
pub mod depth;
pub mod environment;
pub mod explain;
pub mod git_sync;
pub mod lease;
pub mod merge;
pub mod milestones;
pub mod names;
pub mod needs;
pub mod not_yet;
pub mod opencode;
pub mod origin;
pub mod outcome;
pub mod platform;
pub mod pod;
pub mod pod_progress;
pub mod queue;
pub mod record;
pub mod references;
pub mod report;
pub mod resolve;
pub mod resolved;
pub mod retry;
pub mod rollout;
pub mod runs;
pub mod secrets;
mod security;
pub mod session;
pub mod share;
mod span;
pub mod stamp;
pub mod standby;
pub mod standing;
pub mod startup;
pub mod status;
pub mod trace;
mod volumes;
mod workbench;
pub mod workspace;

#[cfg(test)]
mod sample;
