//! What runs inside Pods.
pub mod context_init;
pub mod env;
pub mod git;
pub mod git_init;
pub mod git_sync;
pub mod place;
pub mod plugin_init;
pub mod redact;
pub mod repository;
pub mod stop;
pub mod trust;
pub mod url_fetch;
