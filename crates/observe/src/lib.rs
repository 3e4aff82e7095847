//! # Watches, caches and work queues
//!
//! | type | purpose |
//! | --- | --- |
//! | [`Cache`] | the objects of one kind in memory, kept by one watch, with a callback for every [`Change`] |
//! | [`Queue`] | a work queue: one worker per key at a time, no change missed, failures retried with backoff |
//! | [`watch`] | the watch that a [`Cache`] uses, for callers with their own storage |
//! | [`Readable`] | a client whose responses always parse, whatever the cluster contains (I9) |
//!
//! The crate is generic over the watched kinds; the controllers, the server and `workloads` share it. It promises that
//! a cache never goes back behind a write of this process, that every change is reported once the watch delivers it,
//! and that an object that does not deserialize affects only itself.

mod cache;
mod depth;
mod queue;
mod raw;
mod readable;
mod watch;

pub use api::Key;
pub use cache::{Cache, Cached, Change};
pub use queue::{Next, Queue};
pub use readable::Readable;
pub use watch::watch;
