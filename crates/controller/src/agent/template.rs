//! AgentTemplates: whether one is valid, and how many Agents use it.

use std::collections::BTreeMap;

use api::{
    AgentTemplate,
    conditions::{reasons, types},
};
use domain::{
    run::resolve::resolve_template,
    status,
    workload::agent::{AgentIdentity, AgentWorkloadInput, agent_objects},
};
use observe::{Cached, Key, Next};

use crate::{
    agent::{self, Prepared},
    shared::{
        Shared,
        dependents::{Dependent, Uses},
        now,
    },
};

/// Reconciles one template.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let template = match shared.cache.templates.get(key) {
        None => {
            shared.dependents.remove(&Dependent::Template(key.clone()));
            return Ok(Next::Wait);
        }
        Some(Cached::Unreadable(why)) => {
            shared.report_unreadable::<AgentTemplate>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(template)) => template,
    };
    let agents = shared.cache.agents.in_namespace(&key.namespace, |agent| {
        agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name)
    });
    let mut uses = shared.dependents.uses(&Dependent::Template(key.clone()));
    let tried = Box::pin(try_out(shared, key, &template, &mut uses)).await;
    uses.done();
    let before = template.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = template.metadata.generation;
    after.observed_generation = generation;
    after.agents = i32::try_from(agents.len()).ok();
    let mut conditions = after.conditions.take().unwrap_or_default();
    // An earlier version of the template could not be read.
    status::remove(&mut conditions, types::ACCEPTED);
    let (reason, message) = match &tried {
        Ok(()) => (reasons::VALID, "the template is valid".to_owned()),
        Err(error) => (error.reason(), error.to_string()),
    };
    status::set(&mut conditions, types::READY, tried.is_ok(), reason, message, generation, now());
    after.conditions = Some(conditions);
    shared.write_status::<AgentTemplate>(key, &before, &after, None).await?;
    Ok(match tried {
        Err(error) if !error.waits_for_change() => Next::Retry,
        _ => Next::Wait,
    })
}

/// Builds an Agent with only the settings of the template, and creates nothing. An error here affects every Agent and
/// Task of the template.
async fn try_out(
    shared: &Shared,
    key: &Key,
    template: &AgentTemplate,
    uses: &mut Uses<'_>,
) -> Result<(), agent::Error> {
    let platform = shared.platform();
    let resolved = resolve_template(template, &platform)?;
    let Prepared { contexts, bindings, config } = agent::prepare(shared, key, &resolved, None, uses).await?;
    agent_objects(&AgentWorkloadInput {
        agent: AgentIdentity { namespace: &key.namespace, name: &key.name, uid: "" },
        resolved: &resolved,
        platform: &platform,
        contexts: &contexts,
        config: &config,
        // Each Agent sets its own port, so no port of the template can collide here.
        port: 0,
        suspended: false,
        persistence: None,
        password: None,
        git_hashes: &BTreeMap::new(),
        secrets_digest: None,
        authorities: bindings.authorities.as_deref(),
    })?;
    Ok(())
}
