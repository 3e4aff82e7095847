//! CronTasks: create Tasks on a schedule.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use api::{CronTask, CronTaskStatus, Task, conditions::reasons, names::annotations};
use domain::cron::{self, ChildTask, CronPlan};
use jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use observe::{Cached, Change, Key, Next};
use serde_json::json;

use crate::shared::{Shared, instant, now};

/// The Tasks of each CronTask, so that a pass does not scan all Tasks.
#[derive(Debug, Default)]
pub struct Children(Mutex<HashMap<Key, BTreeSet<Key>>>);

impl Children {
    /// Records a change of a Task. Returns the CronTasks that it belonged to before and belongs to now.
    pub fn observe(&self, change: &Change<'_, Task>) -> BTreeSet<Key> {
        let cron_of = |task: &Task| cron::parent(task).map(|name| Key::new(&change.key.namespace, name));
        let (before, now) = (change.was().and_then(cron_of), change.object().and_then(cron_of));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cron) = before.as_ref().filter(|before| Some(*before) != now.as_ref())
            && let Some(children) = all.get_mut(cron)
        {
            children.remove(change.key);
            if children.is_empty() {
                all.remove(cron);
            }
        }
        if let Some(cron) = &now {
            all.entry(cron.clone()).or_default().insert(change.key.clone());
        }
        before.into_iter().chain(now).collect()
    }

    fn of(&self, cron: &Key) -> Vec<Key> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(cron).into_iter().flatten().cloned().collect()
    }
}

/// Reconciles one CronTask. The plan is executed in the order of its fields; if a step fails, the next pass plans
/// again.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let cron = match shared.cache.crons.get(key) {
        None => return Ok(Next::Wait),
        Some(Cached::Unreadable(why)) => {
            shared.report_unreadable::<CronTask>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(cron)) => cron,
    };
    if cron.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let children = shared.children.of(key);
    let mut known = cron::children(&cron, children.iter().filter_map(|task| shared.cache.tasks.object(task)));
    let mut plan = cron::plan(&cron, &known, now());
    let tasks = shared.api::<Task>(&key.namespace);
    if plan.refusal.is_some() {
        // A refusal is final, and the cache of Tasks may be behind.
        known.clear();
        for child in &children {
            let live = tasks.get_opt(&child.name).await?;
            known.extend(live.and_then(|task| ChildTask::of_cron(&cron, &task)));
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
        && !set_trigger(shared, key, &cron, Some(at)).await?
    {
        return Ok(Next::Retry);
    }
    if let Some(task) = create {
        let made = match tasks.create(&PostParams::default(), &task).await {
            Ok(made) => Some(made),
            // An earlier pass created it and could not write the status.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => None,
            Err(error) => {
                shared.telemetry.events.warning(&*cron, reasons::TASK_NOT_CREATED, error.to_string());
                if let kube::Error::Api(answer) = &error {
                    let status = cron::refused(&cron, &known, &answer.message, now());
                    write_status_of(shared, key, &cron, &status).await?;
                }
                return Err(error);
            }
        };
        if let Some(made) = made {
            shared.telemetry.events.normal(&*cron, "TaskCreated", format!("created Task '{}'", made.name_any()));
            shared.insert_written_task(made);
        }
    }
    write_status_of(shared, key, &cron, &status).await?;
    if clear_trigger && !set_trigger(shared, key, &cron, None).await? {
        return Ok(Next::Retry);
    }
    if let Some(refusal) = refusal {
        shared.telemetry.events.warning(&*cron, refusal.reason, refusal.message);
    }
    Ok(next_wake.map_or(Next::Wait, |wake| Next::At(instant(wake))))
}

/// Writes the time at which the trigger was seen into the trigger, or removes the trigger. Returns whether it was
/// unchanged since `cron` was read: a second trigger must not be lost.
async fn set_trigger(
    shared: &Shared,
    key: &Key,
    cron: &CronTask,
    seen_at: Option<Timestamp>,
) -> Result<bool, kube::Error> {
    let trigger = |cron: &CronTask| cron.annotations().get(annotations::TRIGGER).cloned();
    let Some(latest) = shared.cache.crons.object(key).filter(|latest| trigger(latest) == trigger(cron)) else {
        return Ok(false);
    };
    let patch = json!({ "metadata": {
        "resourceVersion": latest.resource_version(),
        "annotations": { annotations::TRIGGER: seen_at.map(|at| at.to_string()) },
    } });
    let crons = shared.api::<CronTask>(&key.namespace);
    match crons.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(written) => {
            shared.cache.crons.insert_written(written);
            Ok(true)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn write_status_of(
    shared: &Shared,
    key: &Key,
    cron: &CronTask,
    status: &CronTaskStatus,
) -> Result<(), kube::Error> {
    let before = cron.status.clone().unwrap_or_default();
    if let Some(written) = shared.write_status::<CronTask>(key, &before, status, None).await? {
        shared.cache.crons.insert_written(written);
    }
    Ok(())
}
