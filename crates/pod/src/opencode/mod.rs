//! Talking to OpenCode: what its messages look like, its HTTP API, its events, and how they are shown.
//!
//! Facts measured with 1.18.33. Unknown fields and event types are ignored, so a newer server works as long as what we
//! use stays.

pub mod changes;
pub mod client;
pub mod events;
pub mod message;
pub mod show;
