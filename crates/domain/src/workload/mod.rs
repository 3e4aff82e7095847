//! The Kubernetes objects that we build: the Pod of a run, the Deployment of an Agent, and what both are made of.
//!
//! Builders are deterministic (I6) and see resolved settings only, never a raw spec.

pub mod agent;
pub mod build;
pub(crate) mod containers;
pub mod contexts;
pub mod environment;
pub mod names;
pub mod pod;
pub mod secrets;
pub(crate) mod security;
pub mod stamp;
pub(crate) mod volumes;
mod workbench;
