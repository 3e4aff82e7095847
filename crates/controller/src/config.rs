//! KubeOpenCodeConfig: applies the platform settings at once.

use api::{
    KubeOpenCodeConfig,
    conditions::{reasons, types},
};
use domain::{run::target::Target, status};
use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
};
use observe::{Cached, Change, Key, Next};

use crate::shared::{Shared, now, report_unreadable, status_patch};

/// Applies a configuration, and queues everything that depends on it.
pub fn changed(shared: &Shared, change: &Change<'_, KubeOpenCodeConfig>) {
    shared.work.configs.add(change.key.clone());
    // An unreadable configuration changes nothing: the last readable one stays in use.
    if change.now.is_some() && change.object().is_none() {
        return;
    }
    if !shared.configure(change.object()) {
        return;
    }
    for agent in shared.cache.agents.all(|_| true) {
        shared.work.agents.add(Key::of(&*agent));
        shared.work.admissions.add(Target::agent(Key::of(&*agent)));
    }
    for template in shared.cache.templates.all(|_| true) {
        shared.work.templates.add(Key::of(&*template));
        shared.work.admissions.add(Target::template(Key::of(&*template)));
    }
    for task in shared.tasks.queues.with(|index| index.unfinished()) {
        shared.observe_task(&task);
    }
    for namespace in shared.tasks.finished.namespaces() {
        shared.work.cleanups.add(namespace);
    }
}

/// Reports that the configuration is in use, or that it cannot be read.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let config = match shared.cache.configs.get(key) {
        None => return Ok(Next::Wait),
        Some(Cached::Unreadable(why)) => {
            let kind = ApiResource::erase::<KubeOpenCodeConfig>(&());
            let configs = Api::all_with(shared.client.clone(), &kind);
            let why = format!("{why}; the last one that could be read holds");
            report_unreadable(&configs, &key.name, types::APPLIED, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(config)) => config,
    };
    let before = config.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = config.metadata.generation;
    after.observed_generation = generation;
    let mut conditions = after.conditions.take().unwrap_or_default();
    status::set(&mut conditions, types::APPLIED, true, reasons::VALID, "the controller uses it", generation, now());
    after.conditions = Some(conditions);
    if let Some(patch) = status_patch(&before, &after)? {
        let configs: Api<KubeOpenCodeConfig> = Api::all(shared.client.clone());
        configs.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Next::Wait)
}
