//! AgentTemplates: whether one can be used, and by how many it is.

use std::collections::BTreeMap;

use api::{
    AgentTemplate,
    conditions::{reasons, types},
};
use kubeopencode_core::{
    agent_workload::{AgentIdentity, AgentWorkloadInput, agent_objects},
    resolve::resolve_template,
    status,
};
use observe::{Key, Next, Seen};

use crate::{
    agent::{self, Prepared},
    context::{Context, now},
    parts::{User, Uses},
};

/// One pass over a template.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, kube::Error> {
    let template = match ctx.seen.templates.get(key) {
        None => {
            ctx.parts.forget_user(&User::Template(key.clone()));
            return Ok(Next::Wait);
        }
        Some(Seen::Unreadable(why)) => {
            ctx.report_unreadable::<AgentTemplate>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(template)) => template,
    };
    let agents = ctx.seen.agents.in_namespace(&key.namespace, |agent| {
        agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name)
    });
    let mut uses = ctx.parts.uses(&User::Template(key.clone()));
    let tried = Box::pin(try_out(ctx, key, &template, &mut uses)).await;
    uses.done();
    let before = template.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = template.metadata.generation;
    after.observed_generation = generation;
    after.agents = i32::try_from(agents.len()).ok();
    let mut conditions = after.conditions.take().unwrap_or_default();
    // It could not be read before.
    status::remove(&mut conditions, types::ACCEPTED);
    let (reason, message) = match &tried {
        Ok(()) => (reasons::VALID, "the template is valid".to_owned()),
        Err(error) => (error.reason(), error.to_string()),
    };
    status::set(&mut conditions, types::READY, tried.is_ok(), reason, message, generation, now());
    after.conditions = Some(conditions);
    ctx.write_status::<AgentTemplate>(key, &before, &after, None).await?;
    Ok(match tried {
        Err(error) if !error.waits_for_change() => Next::Retry,
        _ => Next::Wait,
    })
}

/// Builds an Agent that has nothing but the template, and makes nothing of it: what keeps that from being built keeps
/// every Agent and Task of the template from working.
async fn try_out(ctx: &Context, key: &Key, template: &AgentTemplate, uses: &mut Uses<'_>) -> Result<(), agent::Error> {
    let platform = ctx.platform();
    let resolved = resolve_template(template, &platform)?;
    let Prepared { contexts, bindings, config } = agent::prepare(ctx, key, &resolved, uses).await?;
    agent_objects(&AgentWorkloadInput {
        agent: AgentIdentity { namespace: &key.namespace, name: &key.name, uid: "" },
        resolved: &resolved,
        platform: &platform,
        contexts: &contexts,
        config: &config,
        // An Agent chooses its own, so no port of the template is in its way here.
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
