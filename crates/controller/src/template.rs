//! AgentTemplates: whether one can be used, and by how many it is.

use api::{
    AgentTemplate,
    conditions::{reasons, types},
};
use kubeopencode_core::{resolve::resolve_template, status};
use observe::{Key, Next, Seen};

use crate::context::{Context, now};

/// One pass over a template.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, kube::Error> {
    let template = match ctx.seen.templates.get(key) {
        None => return Ok(Next::Wait),
        Some(Seen::Unreadable(why)) => {
            ctx.report_unreadable::<AgentTemplate>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(template)) => template,
    };
    let users = ctx.seen.agents.all(|agent| {
        agent.metadata.namespace.as_deref() == Some(&key.namespace)
            && agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name)
    });
    let before = template.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = template.metadata.generation;
    after.observed_generation = generation;
    after.agents = i32::try_from(users.len()).ok();
    let mut conditions = after.conditions.take().unwrap_or_default();
    // It could not be read before.
    status::remove(&mut conditions, types::ACCEPTED);
    match resolve_template(&template, &ctx.platform()) {
        Ok(_) => {
            status::set(
                &mut conditions,
                types::READY,
                true,
                reasons::VALID,
                "the template is valid",
                generation,
                now(),
            );
        }
        Err(error) => {
            status::set(&mut conditions, types::READY, false, error.reason(), error.to_string(), generation, now());
        }
    }
    after.conditions = Some(conditions);
    ctx.write_status::<AgentTemplate>(key, &before, &after, None).await?;
    Ok(Next::Wait)
}
