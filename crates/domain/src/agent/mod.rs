//! An Agent and its server over time: template merge, roll-outs, standby, share links, claims, followed repositories.

pub mod claims;
pub mod delivered;
pub mod git_sync;
pub mod merge;
pub mod model;
pub mod rollout;
pub mod share;
pub mod standby;
