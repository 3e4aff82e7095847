//! Pods on a real node: our images and a real OpenCode, with a scripted model.
//!
//! One cluster for all cases, each in a namespace of its own that enforces restricted Pod Security.

mod agents;
mod results;
mod tasks;
mod world;

use std::{io::Write as _, process::ExitCode};

/// An OpenCode takes five seconds of a core to start; more at once slow each other down.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let lists = std::env::args().any(|arg| arg == "--list");
    if !lists && let Err(error) = world::write_images() {
        // A closed standard error leaves nowhere to report it.
        let _ = writeln!(std::io::stderr(), "the images cannot be made: {error:#}");
        return ExitCode::FAILURE;
    }
    blackbox::runner::run([tasks::CASES, results::CASES, agents::CASES].concat(), AT_ONCE)
}
