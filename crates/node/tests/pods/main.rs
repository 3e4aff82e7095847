//! Pods on a real API server, run by the node. There is no kubelet, no scheduler and no controller: every change of
//! a Pod comes from the case or the node.
//!
//! This program is more than the cases: the node starts it for containers, containers run it as a server, and a case
//! that kills a node runs the node in a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails says so"
)]

mod commands;
mod endings;
mod engine;
mod events;
mod isolation;
mod lifecycle;
mod limits;
mod logs;
mod many;
mod probes;
mod restart;
mod services;
mod volumes;
mod world;

use std::process::ExitCode;

/// The cases share two cores and one API server: more at once only slow each other down.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(kubeopencode_node::CONTAINER_ARGUMENT) => ExitCode::from(kubeopencode_node::container_main()),
        Some("serve") => world::serve(&args.collect::<Vec<_>>()),
        Some("serve-tls") => probes::serve_tls(&args.collect::<Vec<_>>()),
        Some("watch-processes") => isolation::watch_processes(),
        Some("host-a-node") => restart::host(&args.collect::<Vec<_>>()),
        _ => testenv::runner::run(
            [
                lifecycle::CASES,
                endings::CASES,
                probes::CASES,
                events::CASES,
                volumes::CASES,
                logs::CASES,
                commands::CASES,
                isolation::CASES,
                limits::CASES,
                engine::CASES,
                services::CASES,
                restart::CASES,
                many::CASES,
            ]
            .concat(),
            AT_ONCE,
        ),
    }
}
