//! KubeOpenCodeConfig: the platform is as it says, at once.

use api::{
    KubeOpenCodeConfig,
    conditions::{reasons, types},
};
use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
};
use kubeopencode_core::status;
use observe::{Change, Key, Next, Seen};

use crate::{
    context::{Context, now, report_unreadable, status_patch},
    task::target::Target,
};

/// Takes over a configuration, and lets everything that it concerns be looked at again.
pub fn changed(ctx: &Context, change: &Change<'_, KubeOpenCodeConfig>) {
    ctx.work.configs.add(change.key.clone());
    // One that cannot be read changes nothing: the last good one stays.
    if change.now.is_some() && change.object().is_none() {
        return;
    }
    if !ctx.configure(change.object()) {
        return;
    }
    for agent in ctx.seen.agents.all(|_| true) {
        ctx.work.agents.add(Key::of(&*agent));
        ctx.work.admissions.add(Target::agent(Key::of(&*agent)));
    }
    for template in ctx.seen.templates.all(|_| true) {
        ctx.work.templates.add(Key::of(&*template));
        ctx.work.admissions.add(Target::template(Key::of(&*template)));
    }
    for task in ctx.queues.everyone() {
        ctx.observe_task(&task);
    }
    for namespace in ctx.finished.namespaces() {
        ctx.work.cleanups.add(namespace);
    }
}

/// Says that the configuration is in use, or that nobody can read it.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, kube::Error> {
    let config = match ctx.seen.configs.get(key) {
        None => return Ok(Next::Wait),
        Some(Seen::Unreadable(why)) => {
            let kind = ApiResource::erase::<KubeOpenCodeConfig>(&());
            let configs = Api::all_with(ctx.client.clone(), &kind);
            let why = format!("{why}; the last one that could be read holds");
            report_unreadable(&configs, &key.name, types::APPLIED, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(config)) => config,
    };
    let before = config.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = config.metadata.generation;
    after.observed_generation = generation;
    let mut conditions = after.conditions.take().unwrap_or_default();
    status::set(&mut conditions, types::APPLIED, true, reasons::VALID, "the controller uses it", generation, now());
    after.conditions = Some(conditions);
    if let Some(patch) = status_patch(&before, &after)? {
        let configs: Api<KubeOpenCodeConfig> = Api::all(ctx.client.clone());
        configs.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Next::Wait)
}
