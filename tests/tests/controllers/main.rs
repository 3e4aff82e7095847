//! What the controllers make of stored objects, tried with the real binary on a real API server.

mod ends;
mod flows;
mod world;

use std::process::ExitCode;

/// More at once only make each other wait: two cores serve the API server, the controllers and the cases.
const AT_ONCE: usize = 12;

fn main() -> ExitCode {
    blackbox::runner::run([flows::CASES, ends::CASES].concat(), AT_ONCE)
}
