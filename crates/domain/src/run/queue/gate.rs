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
    status::find,
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
    /// The Agent lacks something that can still be added, such as an object that it refers to. Tasks wait for the grace
    /// period and fail then.
    Lacks {
        reason: &'static str,
        message: String,
        since: Timestamp,
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
            Err(error) => {
                let (reason, message) = (error.reason(), error.to_string());
                // Only the condition knows since when a template is missing; it follows at once.
                match lacks(agent) {
                    Some(Self::Lacks { since, .. }) if !error.is_permanent() => Self::Lacks { reason, message, since },
                    _ => Self::Unusable { reason, message },
                }
            }
        }
    }

    /// The gate of a valid Agent.
    pub fn of(agent: &Agent) -> Self {
        let ready = agent.status.as_ref().and_then(|status| status.ready) == Some(true);
        match Suspension::of(agent) {
            Suspension::ByUser => Self::SuspendedByUser,
            Suspension::ByStandby => Self::Standby,
            Suspension::Awake if !ready => lacks(agent).unwrap_or(Self::ServerNotReady),
            Suspension::Awake if is_being_replaced(agent) => Self::ServerReplaced,
            Suspension::Awake => Self::Ready,
        }
    }
}

/// Conditions that report what an Agent lacks, and the reasons for which others can help.
const LACKS: [(&str, &[&str]); 5] = [
    (types::ACCEPTED, &[reasons::CONTEXT_ERROR]),
    (
        types::REFERENCES_RESOLVED,
        &[
            reasons::REFERENCE_NOT_FOUND,
            reasons::REFERENCE_NOT_ALLOWED,
            reasons::TEMPLATE_NOT_FOUND,
            reasons::SECRET_MISSING,
            reasons::NOT_SUPPORTED,
        ],
    ),
    (types::CONFIG_VALID, &[reasons::NO_MODEL, reasons::UNPRICED_MODEL]),
    (types::SECRETS_READY, &[reasons::SECRET_MISSING]),
    (
        types::IMAGE_READY,
        &[
            reasons::IMAGE_BUILD_FAILED,
            reasons::IMAGE_BUILD_UNAVAILABLE,
            reasons::IMAGE_SOURCE_UNAVAILABLE,
            reasons::SECRET_MISSING,
        ],
    ),
];

/// What an Agent lacks, by the conditions of its current spec.
fn lacks(agent: &Agent) -> Option<Gate> {
    let status = agent.status.as_ref()?;
    if status.observed_generation.is_some_and(|seen| Some(seen) < agent.metadata.generation) {
        return None;
    }
    let conditions = status.conditions.as_deref()?;
    LACKS.iter().find_map(|(kind, known)| {
        let condition = find(conditions, kind).filter(|condition| condition.status == "False")?;
        let reason = known.iter().find(|reason| **reason == condition.reason)?;
        let name = agent.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Agent '{name}' cannot be used: {}", condition.message);
        Some(Gate::Lacks { reason, message, since: condition.last_transition_time.0 })
    })
}

/// Whether the ready server of an Agent is being replaced, or may be: its latest change is not reconciled yet.
fn is_being_replaced(agent: &Agent) -> bool {
    let Some(status) = &agent.status else { return false };
    let unseen = status.observed_generation.is_some_and(|seen| Some(seen) < agent.metadata.generation);
    let mut conditions = status.conditions.iter().flatten();
    let replaced = |one: &Condition| one.status == "True" || one.reason == reasons::DRAINING;
    unseen || conditions.any(|one| one.type_ == types::PROGRESSING && replaced(one))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{platform::Platform, run::resolve::resolve_agent, sample::from_json};

    fn agent(generation: i64, ready: bool, conditions: &[(&str, &str)]) -> Agent {
        let condition = |(kind, reason): &(&str, &str)| {
            json!({"type": kind, "status": "False", "reason": reason, "message": "Model 'm' does not exist",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        from_json(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
            "metadata": {"name": "dev", "generation": generation}, "spec": {"templateRef": {"name": "base"}},
            "status": {"ready": ready, "observedGeneration": 1, "conditions": conditions}}))
    }

    #[test]
    fn an_agent_without_something_that_it_refers_to_lacks_it_while_no_server_is_ready() {
        let missing = [("ReferencesResolved", "ReferenceNotFound")];
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let message = "Agent 'dev' cannot be used: Model 'm' does not exist".to_owned();
        let lacks = Gate::Lacks { reason: reasons::REFERENCE_NOT_FOUND, message, since };
        assert_eq!(Gate::of(&agent(1, false, &missing)), lacks);
        // The last good server goes on.
        assert_eq!(Gate::of(&agent(1, true, &missing)), Gate::Ready);
        // A changed spec may have been corrected.
        assert_eq!(Gate::of(&agent(2, false, &missing)), Gate::ServerNotReady);
        // Only an edit helps, and the Agent says so.
        assert_eq!(Gate::of(&agent(1, false, &[("ConfigValid", "ConfigInvalid")])), Gate::ServerNotReady);
        for (kind, reason) in [("SecretsReady", "SecretMissing"), ("ConfigValid", "NoModel")] {
            let gate = Gate::of(&agent(1, false, &[(kind, reason)]));
            assert!(matches!(gate, Gate::Lacks { reason: found, .. } if found == reason), "{gate:?}");
        }
    }

    #[test]
    fn a_missing_template_is_lacked_since_the_condition_says_so() {
        let gate = |agent: &Agent| Gate::with_settings(agent, &resolve_agent(agent, None, &Platform::default()));
        let reason = reasons::TEMPLATE_NOT_FOUND;
        let message = "Agent 'dev' uses AgentTemplate 'base', which does not exist in its namespace".to_owned();
        assert_eq!(gate(&agent(1, true, &[])), Gate::Unusable { reason, message: message.clone() });
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        let reported = agent(1, true, &[("ReferencesResolved", "TemplateNotFound")]);
        assert_eq!(gate(&reported), Gate::Lacks { reason, message, since });
    }
}
