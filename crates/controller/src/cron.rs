//! CronTasks: create Tasks by the clock.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use api::{CronTask, CronTaskStatus, Task, conditions::reasons, names::annotations};
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use kubeopencode_core::cron::{self, ChildTask, CronPlan};
use observe::{Change, Key, Next, Seen};
use serde_json::json;

use crate::{
    apply::controller_uid,
    context::{Context, instant, now},
};

/// Which Tasks each CronTask owns, so that a pass looks at no others.
#[derive(Debug, Default)]
pub struct Children(Mutex<HashMap<Key, BTreeSet<Key>>>);

impl Children {
    /// A Task changed. Answers the CronTask that owns it.
    pub fn observe(&self, change: &Change<'_, Task>) -> Option<Key> {
        let owners = change.last()?.metadata.owner_references.as_ref()?;
        let owner = owners.iter().find(|owner| owner.kind == "CronTask" && owner.controller == Some(true))?;
        let cron = Key::new(&change.key.namespace, &owner.name);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if change.object().is_some() {
            all.entry(cron.clone()).or_default().insert(change.key.clone());
        } else if let Some(children) = all.get_mut(&cron) {
            children.remove(change.key);
            if children.is_empty() {
                all.remove(&cron);
            }
        }
        Some(cron)
    }

    fn of(&self, cron: &Key) -> Vec<Key> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(cron).into_iter().flatten().cloned().collect()
    }
}

/// One pass over a CronTask. The plan is carried out in the order of its fields; if a step fails, it is planned anew.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, kube::Error> {
    let cron = match ctx.seen.crons.get(key) {
        None => return Ok(Next::Wait),
        Some(Seen::Unreadable(why)) => {
            ctx.report_unreadable::<CronTask>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(cron)) => cron,
    };
    if cron.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let uid = cron.metadata.uid.as_deref();
    let of_ours = |task: &Task| (controller_uid(task) == uid).then(|| ChildTask::of(task));
    let children = ctx.children.of(key);
    let mut known: Vec<ChildTask> =
        children.iter().filter_map(|task| ctx.seen.tasks.object(task)).filter_map(|task| of_ours(&task)).collect();
    let mut plan = cron::plan(&cron, &known, now());
    let tasks = ctx.api::<Task>(&key.namespace);
    if plan.refusal.is_some() {
        // A refusal is final, and what was seen of the Tasks may be a moment old.
        known.clear();
        for child in &children {
            known.extend(tasks.get_opt(&child.name).await?.as_ref().and_then(of_ours));
        }
        plan = cron::plan(&cron, &known, now());
    }
    let CronPlan { stop, accept_trigger, create, clear_trigger, refusal, status, next_wake } = plan;

    for name in stop {
        let patch = json!({ "metadata": { "annotations": { annotations::STOP: "true" } } });
        match tasks.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(at) = accept_trigger
        && !set_trigger(ctx, key, &cron, Some(at)).await?
    {
        return Ok(Next::Retry);
    }
    if let Some(task) = create {
        let made = match tasks.create(&PostParams::default(), &task).await {
            Ok(made) => Some(made),
            // An earlier pass made it and could not say so.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => None,
            Err(error) => {
                ctx.events.warning(&*cron, reasons::TASK_NOT_CREATED, error.to_string());
                if let kube::Error::Api(answer) = &error {
                    let status = cron::refused(&cron, &known, &answer.message, now());
                    say(ctx, key, &cron, &status).await?;
                }
                return Err(error);
            }
        };
        if let Some(made) = made {
            ctx.events.normal(&*cron, "TaskCreated", format!("created Task '{}'", made.name_any()));
            ctx.learn_task(made);
        }
    }
    say(ctx, key, &cron, &status).await?;
    if clear_trigger && !set_trigger(ctx, key, &cron, None).await? {
        return Ok(Next::Retry);
    }
    if let Some(refusal) = refusal {
        ctx.events.warning(&*cron, refusal.reason, refusal.message);
    }
    Ok(next_wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
}

/// Writes into the trigger when it was seen, or removes it. Answers whether it was still as it was when `cron` was seen:
/// somebody who pulls it again must not be overlooked.
async fn set_trigger(
    ctx: &Context,
    key: &Key,
    cron: &CronTask,
    seen_at: Option<Timestamp>,
) -> Result<bool, kube::Error> {
    let trigger = |cron: &CronTask| cron.annotations().get(annotations::TRIGGER).cloned();
    let Some(latest) = ctx.seen.crons.object(key).filter(|latest| trigger(latest) == trigger(cron)) else {
        return Ok(false);
    };
    let patch = json!({ "metadata": {
        "resourceVersion": latest.resource_version(),
        "annotations": { annotations::TRIGGER: seen_at.map(|at| at.to_string()) },
    } });
    let crons = ctx.api::<CronTask>(&key.namespace);
    match crons.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(written) => {
            ctx.seen.crons.learn(written);
            Ok(true)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn say(ctx: &Context, key: &Key, cron: &CronTask, status: &CronTaskStatus) -> Result<(), kube::Error> {
    let before = cron.status.clone().unwrap_or_default();
    if let Some(written) = ctx.write_status::<CronTask>(key, &before, status, None).await? {
        ctx.seen.crons.learn(written);
    }
    Ok(())
}
