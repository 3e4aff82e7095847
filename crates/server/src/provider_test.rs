//! Executes the test of a model provider.

use std::time::Duration;

use domain::onboarding::{Finding, Probe, Reply, Step};
use egress::{Loopback, Outgoing, Route, exchange};

/// Time for one request to a provider: a server on this machine may load its model first.
const PATIENCE: Duration = Duration::from_mins(1);
/// Largest answer of a provider, in bytes. A gateway describes thousands of models.
const LARGEST_ANSWER: u64 = 8 * 1024 * 1024;

/// Sends the requests of `probe`, with the address policy, and returns what they show.
pub async fn test_provider(mut probe: Probe, loopback: Loopback) -> Finding {
    let mut request = probe.start();
    loop {
        let outgoing = Outgoing {
            method: request.method,
            url: &request.url,
            headers: &request.headers,
            body: request.body.take(),
        };
        let reply = match exchange(&Route::default(), &loopback.into(), outgoing, PATIENCE, LARGEST_ANSWER).await {
            Ok((status, body)) => Reply::Answer { status, body },
            Err(error) => Reply::Failed(error.to_string()),
        };
        match probe.next(&reply) {
            Step::Send(next) => request = next,
            Step::Done(finding) => return finding,
        }
    }
}
