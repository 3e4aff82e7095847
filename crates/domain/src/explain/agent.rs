//! The causes of an Agent's state.

use api::{
    Agent,
    conditions::{reasons, types},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Cause, Level, ObjectName, Surroundings, pod};
use crate::status::find;

/// Conditions of the spec that keep the server from being ready, the deepest cause last.
const OBSTACLES: [&str; 5] =
    [types::IMAGE_READY, types::CONFIG_VALID, types::SECRETS_READY, types::REFERENCES_RESOLVED, types::ACCEPTED];
/// Conditions of the server itself. They are only of interest if nothing is wrong with the spec.
const SERVER: [&str; 2] = [types::SERVER_READY, types::SERVER_HEALTHY];

/// Problems reported by an Agent's conditions, its model and the Pods of its server.
pub fn causes(agent: &Agent, around: &Surroundings) -> Vec<Cause> {
    let about = ObjectName::of("Agent", &agent.metadata);
    let status = agent.status.as_ref();
    if status.and_then(|status| status.ready) == Some(true) {
        return vec![Cause::new(Level::Done, "its server is ready", &about).reason(reasons::DEPLOYMENT_READY)];
    }
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if let Some(suspended) = find(conditions, types::SUSPENDED).filter(|condition| condition.status == "True") {
        return vec![Cause::from_condition(Level::Wait, suspended, &about)];
    }
    if conditions.is_empty() {
        let cause = Cause::new(Level::Error, "no controller has looked at it", &about);
        return vec![cause.reason(super::chain::NO_CONTROLLER)];
    }
    let of_pod = around.server_pods.iter().find_map(|pod| {
        let unscheduled = pod::unscheduled(pod);
        unscheduled.or_else(|| pod::broken(pod).into_iter().next())
    });
    // A condition that only repeats the Pod is less precise: it names neither the Pod nor the time.
    let repeats = |condition: &Condition| of_pod.as_ref().is_some_and(|cause| cause.message == condition.message);
    let wrong_of = |kinds: &[&str]| -> Vec<&Condition> {
        let wrong = kinds.iter().filter_map(|kind| find(conditions, kind));
        wrong.filter(|one| one.status == "False" && !repeats(one)).collect()
    };
    let mut wrong = wrong_of(&OBSTACLES);
    if wrong.is_empty() {
        wrong = wrong_of(&SERVER);
    }
    let mut chain: Vec<_> = wrong
        .into_iter()
        .map(|wrong| {
            let waits = wrong.type_ == types::SERVER_READY || wrong.reason == reasons::BUILDING_IMAGE;
            let level = if waits { Level::Wait } else { Level::Error };
            Cause::from_condition(level, wrong, &about)
        })
        .collect();
    if let Some(model) = &around.model {
        let about = ObjectName::of("Model", &model.metadata);
        let conditions = model.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let wrong = conditions.filter(|condition| condition.status == "False");
        chain.extend(wrong.map(|wrong| Cause::from_condition(Level::Error, wrong, &about)));
    }
    chain.extend(of_pod);
    if chain.is_empty() {
        let cause = Cause::new(Level::Wait, "its server has not been started yet", &about);
        chain.push(cause.reason(reasons::AGENT_NOT_READY));
    }
    chain
}
