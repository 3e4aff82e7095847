//! # Every decision of KubeOpenCode, as pure functions
//!
//! No I/O, no clock, no randomness: `now` and ids are arguments. The controllers fetch, decide here, and apply.
//!
//! | module | decides |
//! |---|---|
//! | [`run`] | which Task starts when and with which settings, what a run waits for, how it ended |
//! | [`workload`] | the Pod of a run, the Deployment of an Agent, their volumes, contexts and environment |
//! | [`agent`] | template merge, roll-outs, standby, share links, claims, followed repositories |
//! | [`cron`] | when a CronTask is due and which Tasks it creates |
//! | [`image`] | which image is built from a repository, its Pod, and what became of it |
//! | [`explain`] | why a Task or an Agent is in its state, and what to do next |
//! | [`opencode`] | OpenCode's configuration, compiled from specs |
//! | [`onboarding`] | the objects of a first model, and the test of its provider |
//! | [`contract`] | the interface between controller and Pod: variables, paths, the report, log records |
//! | [`registry`] | the meaning of answers of image registries, Git servers and npm |
//! | [`task_secrets`] | which Secrets a Task names, and whether it may use them |
//! | [`platform`], [`references`], [`lease`], [`status`] | platform settings, cross-namespace rules, leadership, conditions |
//!
//! Invariants:
//! - I3 the queue never admits more than the limits allow, and admits in order;
//! - I5 the outcome of a run is decided here, once, by the precedence of causes;
//! - I6 builders are deterministic: same input, same bytes;
//! - I7 the values of Secrets never come in, so they can never get out: only names and keys do. The exceptions are
//!   `workload::secrets::fingerprint`, which returns a digest, and [`onboarding`], which writes a new key into a Secret.

pub mod agent;
pub mod contract;
pub mod cron;
mod duration;
pub mod explain;
pub mod image;
pub mod lease;
pub mod onboarding;
pub mod opencode;
pub mod platform;
pub mod references;
pub mod registry;
pub mod run;
pub mod status;
pub mod task_secrets;
pub mod workload;

#[cfg(test)]
mod sample;
