//! What the controllers make of stored objects, tried with the real binary on a real API server.

mod agents;
mod config;
mod contexts;
mod cron;
mod ends;
mod fire;
mod flows;
mod lease;
mod proxy;
mod queue;
mod stop;
mod world;

use std::process::ExitCode;

/// More at once only make each other wait: two cores serve the API servers, the controllers and the cases.
const AT_ONCE: usize = 24;

fn main() -> ExitCode {
    // Those that wait for their turn or for the clock come first.
    let cases = [
        lease::CASES,
        fire::CASES,
        config::CASES,
        ends::CASES,
        cron::CASES,
        queue::CASES,
        agents::CASES,
        flows::CASES,
        stop::CASES,
        contexts::CASES,
    ];
    blackbox::runner::run(cases.concat(), AT_ONCE)
}
