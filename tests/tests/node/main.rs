//! What Pods really do: our images and a real OpenCode on a real node, with a model that follows a script.
//!
//! One cluster for all cases, each in a namespace of its own that enforces restricted Pod Security.

mod agents;
mod tasks;
mod world;

use std::process::ExitCode;

/// An OpenCode takes five seconds of a core to start; more at once only make each other wait.
const AT_ONCE: usize = 4;

fn main() -> ExitCode {
    blackbox::runner::run([tasks::CASES, agents::CASES].concat(), AT_ONCE)
}
