//! Whole commands, as a person or a script calls them, against a real API server. Statuses are written by the tests:
//! no controller is needed to show objects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod clusters;
mod objects;
mod results;
mod setup;
mod tasks;
mod tools;
mod world;
