//! The controllers, as the real binary, on Kubernetes' API server and on the embedded one: every case runs on both and
//! does not know on which.

mod again;
mod agent_changes;
mod agent_server;
mod agent_states;
mod agents;
mod approval;
mod budget;
mod config;
mod contexts;
mod cron;
mod delivered;
mod dependencies;
mod dies;
mod ends;
mod events;
mod evidence;
mod fire;
mod flows;
mod follows;
mod gateway;
mod image_build;
mod lease;
mod numbers;
mod proxy;
mod queue;
mod registry;
mod restart;
mod results;
mod secrets;
mod sessions;
mod stop;
mod terms;
mod watches;
mod workspaces;
mod world;
mod writes;

use std::process::ExitCode;

use blackbox::{
    control_plane::Server,
    runner::{Case, Ready, run_ready},
};

/// More at once slow each other down: two cores serve the API servers, the controllers and the cases.
const AT_ONCE: usize = 40;

fn main() -> ExitCode {
    // Cases that wait for the clock come first, then those that run one at a time.
    let cases = [
        events::CASES,
        queue::CASES,
        ends::CASES,
        workspaces::CASES,
        lease::CASES,
        fire::CASES,
        dies::CASES,
        watches::CASES,
        restart::CASES,
        evidence::CASES,
        results::CASES,
        terms::CASES,
        dependencies::CASES,
        delivered::CASES,
        follows::CASES,
        config::CASES,
        image_build::CASES,
        cron::CASES,
        agent_states::CASES,
        agent_changes::CASES,
        agents::CASES,
        flows::CASES,
        budget::CASES,
        stop::CASES,
        contexts::CASES,
        secrets::CASES,
        approval::CASES,
        sessions::CASES,
        registry::CASES,
        again::CASES,
        numbers::CASES,
        writes::CASES,
    ];
    // Side by side: a case waits most of the time.
    let on_both = |case: &Case| [on(Server::Real, case), on(Server::Embedded, case)];
    run_ready(cases.concat().iter().flat_map(on_both).collect(), AT_ONCE)
}

/// A case on one of the servers, such as `embedded::queue::a_raised_limit_lets_waiting_tasks_start_at_once`.
fn on(server: Server, (name, case): &Case) -> Ready {
    let prefix = match server {
        Server::Real => "real",
        Server::Embedded => "embedded",
    };
    let name = name.strip_prefix(concat!(module_path!(), "::")).unwrap_or(name);
    (format!("{prefix}::{name}"), Box::pin(world::SERVER.scope(server, case())))
}
