//! The semantics of Kubernetes objects, as pure functions over JSON values.
//!
//! The embedded API server (`apiserver`) stores every object as JSON and uses this crate for everything that depends on
//! its content: [`schema`] parses structural schemas, prunes, defaults and validates; [`patch`] and [`apply`] change
//! objects; [`selector`] filters them and [`table`] renders them.
//!
//! No I/O, no clock, no randomness: `now` is an argument. Results and messages are those of kube-apiserver 1.34, which
//! the suite `differential` compares with a real server.
#![cfg_attr(test, allow(clippy::needless_pass_by_value, reason = "a table of cases reads best with plain literals"))]

pub mod apply;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod table;
