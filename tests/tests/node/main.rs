//! What Pods really do: our images and a real OpenCode on a real node, with a model that follows a script.
//!
//! One cluster for all cases, each in a namespace of its own that enforces restricted Pod Security.

mod agents;
mod tasks;
mod world;

use std::{io::Write as _, process::ExitCode};

/// An OpenCode takes five seconds of a core to start; more at once only make each other wait.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let lists = std::env::args().any(|word| word == "--list");
    if !lists && let Err(error) = world::write_images() {
        // Nobody is left to tell if this fails.
        let _ = writeln!(std::io::stderr(), "the images cannot be made: {error:#}");
        return ExitCode::FAILURE;
    }
    blackbox::runner::run([tasks::CASES, agents::CASES].concat(), AT_ONCE)
}
