//! The demo: an Agent, an AgentTemplate, a CronTask and Tasks that run OpenCode against a scripted model.
//!
//! [`Demo::start`] applies the manifests of `crates/demo/manifests` and [`Demo::follow`] reports until every Task has
//! finished. The annotations of each Task name what it demonstrates and the reason it must finish with, so a demo that
//! behaves differently fails. [`template::offer`] creates the template of the scripted model for Tasks of users.

mod demo;
mod report;
pub mod scripted_model;
pub mod template;

pub use demo::{Demo, Error, NAMESPACE};
pub use report::Report;
