//! What the controllers make of stored objects, tried with the real binary on a real API server.

mod ends;
mod flows;
mod queue;
mod stop;
mod world;

use std::process::ExitCode;

/// More at once only make each other wait: two cores serve the API server, the controllers and the cases.
const AT_ONCE: usize = 16;

fn main() -> ExitCode {
    let cases = [ends::CASES, queue::CASES, flows::CASES, stop::CASES].concat();
    blackbox::runner::run(cases, AT_ONCE)
}
