//! Controllers.
pub mod events;
pub mod fence;
pub mod http;
pub mod lease;
pub mod metrics;
pub mod watch;
pub mod work;
