//! The depot as Pods see it: over HTTP, with tokens of the embedded API server and a store in a directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod callers;
mod protocol;
mod uploads;
mod world;
