//! Whether Tasks may start on an Agent.

use api::{
    Agent,
    conditions::{reasons, types},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    agent::standby::Suspension,
    run::{resolve::ResolveError, resolved::ResolvedAgent},
};

/// Whether a target takes Tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    Ready,
    /// The spec of the Agent is invalid, whatever its server does.
    Unusable {
        reason: &'static str,
        message: String,
    },
    /// Its user suspended the Agent; only its user resumes it.
    SuspendedByUser,
    /// The Agent is suspended because it was idle; a Task resumes it.
    Standby,
    /// The Agent's server is not ready.
    ServerNotReady,
    /// The Agent's server is about to be replaced, and a run on it would be lost.
    ServerReplaced,
    /// The Agent or template does not exist.
    Missing {
        /// Since when; the queue keeps the first of repeated reports.
        since: Timestamp,
    },
}

impl Gate {
    /// The gate of an Agent with these settings. Without valid settings there are no limits for the queue and no
    /// settings for Tasks.
    pub fn with_settings(agent: &Agent, settings: &Result<ResolvedAgent, ResolveError>) -> Self {
        match settings {
            Ok(_) => Self::of(agent),
            Err(error) => Self::Unusable { reason: error.reason(), message: error.to_string() },
        }
    }

    /// The gate of a valid Agent.
    pub fn of(agent: &Agent) -> Self {
        let ready = agent.status.as_ref().and_then(|status| status.ready) == Some(true);
        match Suspension::of(agent) {
            Suspension::ByUser => Self::SuspendedByUser,
            Suspension::ByStandby => Self::Standby,
            Suspension::Awake if !ready => Self::ServerNotReady,
            Suspension::Awake if is_being_replaced(agent) => Self::ServerReplaced,
            Suspension::Awake => Self::Ready,
        }
    }
}

/// Whether the ready server of an Agent is being replaced, or may be: its latest change is not reconciled yet.
fn is_being_replaced(agent: &Agent) -> bool {
    let Some(status) = &agent.status else { return false };
    let unseen = status.observed_generation.is_some_and(|seen| Some(seen) < agent.metadata.generation);
    let mut conditions = status.conditions.iter().flatten();
    let replaced = |one: &Condition| one.status == "True" || one.reason == reasons::DRAINING;
    unseen || conditions.any(|one| one.type_ == types::PROGRESSING && replaced(one))
}
