//! # How a process observes a cluster
//!
//! | type | what it is |
//! |---|---|
//! | [`Kind`] | the objects of one kind, kept by one watch, and who is told of a [`Change`] |
//! | [`Queue`] | what is to be done about changes: one pass over a key at a time, none missed, failures later and later |
//! | [`watch`] | how a [`Kind`] follows its objects, for those who keep them in another way |
//! | [`Readable`] | a client whose answers can always be read, whatever somebody put into the cluster (I9) |
//!
//! It knows nothing of what is followed: the controllers, the server and the platform on one machine use it alike.

mod kind;
mod raw;
mod readable;
mod watch;
mod work;

pub use kind::{Change, Key, Kind, Seen};
pub use readable::Readable;
pub use watch::watch;
pub use work::{Next, Queue};
