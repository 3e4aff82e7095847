//! What it means to be a Kubernetes object, as pure functions over JSON values.
//!
//! The embedded API server (`apiserver`) keeps every object as JSON and asks this crate what to do with it:
//! [`schema`] reads structural schemas, prunes, defaults and validates; [`patch`] and [`apply`] change objects; [`selector`] chooses
//! them and [`table`] shows them.
//! No I/O, no clock, no randomness.
#![cfg_attr(test, allow(clippy::needless_pass_by_value, reason = "a table of cases reads best with plain literals"))]

pub mod apply;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod table;
