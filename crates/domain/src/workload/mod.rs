//! Builders of Kubernetes objects: the Pod of a run, the Deployment of an Agent, and their common parts.
//!
//! Builders are deterministic (I6) and see resolved settings only, never a raw spec.

pub mod agent;
pub mod build;
pub mod cleaner;
pub mod collect;
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
