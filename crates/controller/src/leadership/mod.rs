//! Of several controllers one is active: the leader lease, and the fence that keeps the others from writing.

pub mod fence;
pub mod lease;
