//! The status of an Agent.

use api::{
    Agent, AgentStatus,
    conditions::{reasons, types},
    kinds::agent::{AgentPhase, BuiltImage, RuntimeMode, RuntimeStatus},
};
use domain::{
    agent::{
        rollout,
        share::ShareLink,
        standby::{StandbyPlan, Suspension},
    },
    run::{queue::Gate, target::Target},
    status::{self, Truth},
    workload::{agent::agent_url, names},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use observe::Key;

use super::{Applied, Error, is_ready, server, share};
use crate::{
    image::Image,
    shared::{Shared, bindings, now, settings::SettingsError},
};

/// Writes the status if it differs, and asks for a decision about the Tasks that wait for the Agent.
pub(super) async fn report(
    shared: &Shared,
    agent: &Agent,
    done: Result<Applied, Error>,
    idle: &StandbyPlan,
    link: ShareLink,
) -> Result<(), kube::Error> {
    let key = Key::of(agent);
    let before = agent.status.clone().unwrap_or_default();
    let mut after = status_of(shared, agent, &before, &done);
    after.idle_since = idle.idle_since.map(Time);
    after.share = share::status(agent, link);
    note_extras(agent, &mut after, idle, link);
    note_rollout(shared, agent, &mut after, done.as_ref().is_ok_and(|applied| applied.objects.held));
    if let Ok(applied) = done {
        applied.followed.note(agent, &mut after);
    }
    if let Some(written) = shared.write_status::<Agent>(&key, &before, &after, None).await? {
        let news = Gate::of(&written) != Gate::of(agent) || before.url != after.url;
        shared.cache.agents.insert_written(written);
        if news {
            shared.work.admissions.add(Target::agent(key.clone()));
        }
    }
    if before.ready != after.ready || before.url != after.url {
        let what = if after.ready == Some(true) { "Ready" } else { "NotReady" };
        shared.telemetry.events.normal(agent, what, format!("the server of Agent '{}' is {what}", key.name));
        // Tasks may have been deleted while the server could not be reached.
        shared.work.sweeps.add(key);
    }
    Ok(())
}

/// The conditions that only some Agents have.
fn note_extras(agent: &Agent, after: &mut AgentStatus, idle: &StandbyPlan, link: ShareLink) {
    let (generation, now) = (agent.metadata.generation, now());
    let conditions = after.conditions.get_or_insert_default();
    match &idle.warning {
        Some(warning) => {
            let (kind, reason) = (types::STANDBY_CONFIG_WARNING, reasons::IDLE_TIMEOUT_TOO_SHORT);
            status::set(conditions, kind, true, reason, warning, generation, now);
        }
        None => status::remove(conditions, types::STANDBY_CONFIG_WARNING),
    }
    match link.reason() {
        Some(reason) => {
            let message = match link {
                ShareLink::Active { .. } => "the share link opens",
                ShareLink::Expired => "the share link has expired; set share.expiresAt to a later time",
                ShareLink::AgentNotReady { .. } | ShareLink::Off => "the share link opens when the Agent is ready",
            };
            let active = link.is_active();
            status::set(conditions, types::SHARE_READY, active, reason, message, generation, now);
        }
        None => status::remove(conditions, types::SHARE_READY),
    }
}

/// Reports whether a changed server replaces the running one, or waits to do so.
fn note_rollout(shared: &Shared, agent: &Agent, after: &mut AgentStatus, held: bool) {
    let (key, generation) = (Key::of(agent), agent.metadata.generation);
    let deployment = shared.cache.deployments.object(&Key::new(&key.namespace, names::agent_deployment(&key.name)));
    let why = || {
        let why = deployment.as_deref().and_then(|deployment| obstacle(shared, agent, deployment));
        why.map(|why| format!(": {why}")).unwrap_or_default()
    };
    let conditions = after.conditions.get_or_insert_default();
    if held {
        let (reason, message) = if rollout::drains_from(conditions, now()) <= now() {
            (reasons::DRAINING, "a change has waited long for a moment without Tasks; new ones wait for it now")
        } else {
            (reasons::ROLLOUT_HELD, "a change waits until no Task runs on this Agent")
        };
        status::set(conditions, types::PROGRESSING, false, reason, message, generation, now());
        shared.telemetry.events.normal(agent, reason, message);
    } else if after.ready == Some(true) && deployment.as_deref().is_some_and(rollout::is_under_way) {
        let message = format!("a changed server takes over; new Tasks wait for it{}", why());
        status::set(conditions, types::PROGRESSING, true, reasons::ROLLING_OUT, message, generation, now());
    } else if after.ready == Some(true) && deployment.as_deref().is_some_and(rollout::is_stuck) {
        let message = format!("a changed server does not become ready, the one before it goes on{}", why());
        status::set(conditions, types::PROGRESSING, false, reasons::DEPLOYMENT_NOT_READY, message, generation, now());
    } else {
        status::remove(conditions, types::PROGRESSING);
    }
}

/// Conditions about the spec of an Agent, in the order of the checks.
const STEPS: [&str; 3] = [types::ACCEPTED, types::REFERENCES_RESOLVED, types::CONFIG_VALID];

/// Reason and message of a check that succeeded.
fn passed(step: &str) -> (&'static str, &'static str) {
    match step {
        types::REFERENCES_RESOLVED => (reasons::RESOLVED, "everything that it refers to was found"),
        types::CONFIG_VALID => (reasons::VALID, "the configuration of OpenCode is valid"),
        _ => (reasons::VALID, "the spec is valid"),
    }
}

/// Reports an error, and resets the conditions of the other checks.
fn note_failure(conditions: &mut Vec<Condition>, error: &Error, generation: Option<i64>, now: Timestamp) {
    let wrong = error.condition();
    status::set(conditions, wrong, false, error.reason(), error.to_string(), generation, now);
    let Some(good) = steps_before(error) else { return };
    let unseen = "Not checked: an earlier check failed";
    for step in STEPS.into_iter().filter(|step| *step != wrong) {
        if good.contains(&step) {
            let (reason, message) = passed(step);
            status::set(conditions, step, true, reason, message, generation, now);
        } else {
            status::set(conditions, step, Truth::Unknown, reasons::NOT_CHECKED, unseen, generation, now);
        }
    }
    if !matches!(error, Error::Apply(_)) {
        let kind = types::SECRETS_READY;
        status::set(conditions, kind, Truth::Unknown, reasons::NOT_CHECKED, unseen, generation, now);
    }
}

/// Checks that succeeded before the error; `None` if the failed check is unknown.
fn steps_before(error: &Error) -> Option<&'static [&'static str]> {
    use SettingsError::{Bindings, Build, Config, Contexts, Resolve};
    match error {
        Error::Api(_) | Error::Settings(Bindings(bindings::Error::Api(_))) => None,
        Error::Settings(Resolve(_) | Contexts(_)) => Some(&[]),
        Error::Settings(Bindings(_)) => Some(&[types::ACCEPTED]),
        Error::Settings(Config(_)) => Some(&[types::ACCEPTED, types::REFERENCES_RESOLVED]),
        Error::Image(_) => Some(&STEPS),
        Error::Settings(Build(_)) | Error::Apply(_) => Some(&[types::REFERENCES_RESOLVED, types::CONFIG_VALID]),
    }
}

/// Why the server of an Agent is not ready.
fn obstacle(shared: &Shared, agent: &Agent, deployment: &Deployment) -> Option<String> {
    rollout::obstacle(deployment, &server::pods(shared, agent))
}

fn status_of(shared: &Shared, agent: &Agent, before: &AgentStatus, done: &Result<Applied, Error>) -> AgentStatus {
    let (key, generation, now) = (Key::of(agent), agent.metadata.generation, now());
    let platform = shared.platform();
    let mut after = before.clone();
    let deployment = shared.cache.deployments.object(&Key::new(&key.namespace, names::agent_deployment(&key.name)));
    let service = shared.cache.services.object(&Key::new(&key.namespace, names::agent_service(&key.name)));
    let suspended = agent.spec.suspend;
    let ready = is_ready(shared, agent);

    after.observed_generation = generation;
    after.deployment_name = Some(names::agent_deployment(&key.name));
    after.service_name = Some(names::agent_service(&key.name));
    let port = agent.spec.port.unwrap_or(api::names::defaults::PORT);
    after.url = agent_url(&platform, &key.namespace, &key.name, port, service.as_deref());
    after.ready = Some(ready);
    after.suspended = Some(suspended);
    after.phase = Some(match done {
        // The server before goes on.
        Err(Error::Image(_)) if ready => AgentPhase::Running,
        Err(error) if error.waits_for_change() && !error.is_missing() => AgentPhase::Failed,
        Ok(_) if suspended => AgentPhase::Suspended,
        Ok(_) if ready => AgentPhase::Running,
        Ok(_) | Err(_) => AgentPhase::Pending,
    });
    let mut conditions = after.conditions.take().unwrap_or_default();
    if done.as_ref().is_ok_and(|applied| applied.image.is_none()) {
        status::remove(&mut conditions, types::IMAGE_READY);
    }
    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        status::set(&mut conditions, type_, holds, reason, message, generation, now);
    };
    match done {
        Ok(applied) => {
            after.config_hash = Some(applied.config.hash.clone());
            after.resolved_model.clone_from(&applied.config.model);
            let own_image = applied.resolved.executor_image != platform.executor_image;
            let mode = if own_image { RuntimeMode::Standard } else { RuntimeMode::Template };
            after.runtime = Some(RuntimeStatus { mode });
            for step in STEPS {
                let (reason, message) = passed(step);
                set(step, true, reason, message);
            }
            if let Some(image) = &applied.image {
                let message = format!("the image was built from commit {}", image.commit);
                set(types::IMAGE_READY, true, reasons::IMAGE_BUILT, &message);
            }
            match &applied.secrets {
                None => set(types::SECRETS_READY, true, reasons::RESOLVED, "every Secret that it needs is there"),
                Some(trouble) => set(types::SECRETS_READY, false, reasons::SECRET_MISSING, trouble),
            }
            after.executor_image = applied
                .image
                .clone()
                .map(|Image { image, commit, settings }| Box::new(BuiltImage { image, commit, settings }));
            match &applied.objects.claims {
                Some(trouble) => set(types::PERSISTENCE_APPLIED, false, reasons::CLAIM_KEPT, trouble),
                None => status::remove(&mut conditions, types::PERSISTENCE_APPLIED),
            }
        }
        Err(error) => {
            note_failure(&mut conditions, error, generation, now);
        }
    }
    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        status::set(&mut conditions, type_, holds, reason, message, generation, now);
    };
    match (suspended, &deployment, ready) {
        (true, ..) => {
            set(types::SERVER_READY, false, reasons::SUSPENDED, "the Agent is suspended");
            set(types::SERVER_HEALTHY, false, reasons::SUSPENDED, "the Agent is suspended");
        }
        (false, None, _) => {
            set(types::SERVER_READY, false, reasons::DEPLOYMENT_NOT_READY, "the Deployment does not exist yet");
            set(types::SERVER_HEALTHY, false, reasons::DEPLOYMENT_NOT_FOUND, "the Deployment does not exist yet");
        }
        (false, Some(_), true) => {
            set(types::SERVER_READY, true, reasons::DEPLOYMENT_READY, "the server is ready");
            set(types::SERVER_HEALTHY, true, reasons::DEPLOYMENT_HEALTHY, "the server answers");
        }
        (false, Some(deployment), false) => {
            let why = obstacle(shared, agent, deployment);
            let why = why.as_deref().unwrap_or("no Pod of the Deployment is ready");
            set(types::SERVER_READY, false, reasons::DEPLOYMENT_NOT_READY, why);
            set(types::SERVER_HEALTHY, false, reasons::DEPLOYMENT_NOT_READY, why);
        }
    }
    match Suspension::of(agent) {
        Suspension::ByStandby => {
            set(types::SUSPENDED, true, reasons::STANDBY, "the Agent was idle; a Task resumes it");
        }
        Suspension::ByUser => set(types::SUSPENDED, true, reasons::USER_REQUESTED, "spec.suspend is true"),
        Suspension::Awake => set(types::SUSPENDED, false, reasons::ACTIVE, "the Agent is not suspended"),
    }
    after.conditions = Some(conditions);
    after
}

#[cfg(test)]
mod tests {
    use domain::{run::resolve::ResolveError, workload::build::BuildError};

    use super::*;

    /// The conditions after an error, when all of them were False before.
    #[track_caller]
    fn check(error: &Error, expected: [&str; 3]) {
        let mut conditions = Vec::new();
        for step in STEPS {
            status::set(&mut conditions, step, false, "Old", "of long ago", None, Timestamp::UNIX_EPOCH);
        }
        note_failure(&mut conditions, error, Some(2), Timestamp::UNIX_EPOCH);
        let reported =
            STEPS.map(|step| status::find(&conditions, step).map(|one| format!("{} {}", one.status, one.reason)));
        assert_eq!(reported.map(Option::unwrap_or_default), expected, "{error}");
    }

    #[test]
    fn when_a_step_fails_those_before_it_hold_and_nothing_is_known_of_those_after_it() {
        let no_template = Error::from(ResolveError::TemplateNotFound { agent: "a".into(), template: "t".into() });
        check(&no_template, ["Unknown NotChecked", "False TemplateNotFound", "Unknown NotChecked"]);
        let not_found = bindings::Error::NotFound { kind: "Model", namespace: "n".into(), name: "m".into() };
        check(&Error::from(not_found), ["True Valid", "False ReferenceNotFound", "Unknown NotChecked"]);
        let port = Error::from(BuildError::PortName("http".into()));
        check(&port, ["False PodCreationError", "True Resolved", "True Valid"]);
        // The failed step is unknown, so the others are not reported.
        let silent = Error::Api(kube::Error::LinesCodecMaxLineLengthExceeded);
        check(&silent, ["False ApplyFailed", "False Old", "False Old"]);
    }
}
