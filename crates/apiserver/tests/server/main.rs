//! The whole server from outside: kubectl, kube's client in process and over TLS, and the state after a crash.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod clients;
mod durability;
mod kills;
mod kubectl;
mod patches;
mod rights;
mod streams;
mod watching;
mod world;
