//! The volumes with the files of runs.
//!
//! The claim of a single run is deleted when the run is over, unless the run failed and its terms retain it. Kubernetes
//! deletes it with its Pod; [`pass`] deletes what was left behind. The claim that the runs of a target share is created
//! once; the directory of a run in it is removed after its Task was deleted, by a Pod that lives only as long.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{Task, names::labels, run::Workspace};
use domain::{
    agent::claims::{ClaimChange, claim_change},
    run::{
        resolve::{resolve_agent, resolve_template},
        resolved::{ResolvedAgent, ResolvedTask},
        target::{RunsOn, Target},
        terms::RunTerms,
        workspace::{
            Afterwards, LEAK_GRACE, Owners, afterwards, claim_name, claim_of, own_claim, owners, retained,
            shared_claim, shared_claim_name, shares_our_claim, target_of, whereabouts,
        },
    },
    workload::{
        cleaner::{self, AT_ONCE, CleanerInput, MOST_KNOWN, cleaner_name, cleaner_pod, report_of},
        names,
    },
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use observe::{Change, Key, Next};
use serde_json::json;
use tokio::time::Instant;

use super::{start::Error, still_runs};
use crate::shared::{Shared, apply::controller_uid, instant, now};

/// Tasks that are deleted within this time share one Pod that removes their directories.
const PAUSE: Duration = Duration::from_secs(10);
/// A Pod that has not started after this time is deleted.
const STUCK: SignedDuration = SignedDuration::from_mins(15);
/// After trouble, a shared workspace is cleaned again at this interval.
const AGAIN: SignedDuration = SignedDuration::from_hours(1);
/// Deleted Tasks that are remembered for one claim. Beyond that the volume is listed.
const MOST_REMEMBERED: usize = 1024;
/// How often the write that keeps a claim is tried.
const KEEP_ATTEMPTS: u32 = 3;
/// Runs of a deleted Task whose claims are looked for.
const MOST_RUNS: i64 = 16;

/// What is known about claims between passes.
#[derive(Debug, Default)]
pub struct Workspaces(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Since when the claim of a run is not needed.
    orphans: HashMap<Key, Timestamp>,
    shared: HashMap<Key, SharedVolume>,
}

/// A claim that runs share.
#[derive(Debug, Default)]
struct SharedVolume {
    /// UIDs of deleted Tasks that may have a directory.
    gone: BTreeSet<String>,
    /// UIDs whose directories the current Pod removes.
    in_work: BTreeSet<String>,
    /// UIDs whose directories cannot be removed, which was reported.
    given_up: BTreeSet<String>,
    /// The volume may hold directories of Tasks that were deleted unseen.
    look: bool,
    /// The current Pod looks for them.
    looking: bool,
    /// The UID after which the next Pod goes on to look.
    looked_to: Option<String>,
    /// After trouble: not before.
    not_before: Option<Timestamp>,
}

impl SharedVolume {
    fn look_anew(&mut self) {
        (self.look, self.looked_to) = (true, None);
    }
}

impl Workspaces {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_shared<T>(&self, key: &Key, work: impl FnOnce(&mut SharedVolume) -> T) -> T {
        work(self.lock().shared.entry(key.clone()).or_default())
    }
}

/// Schedules a pass over a claim of runs that changed.
pub fn claim_changed(shared: &Shared, change: &Change<'_, PersistentVolumeClaim>) {
    let Some(claim) = change.object() else {
        let mut known = shared.tasks.workspaces.lock();
        known.orphans.remove(change.key);
        known.shared.remove(change.key);
        return;
    };
    if !claim.labels().contains_key(labels::RUN_CLAIM) {
        return;
    }
    if change.first_list && target_of(claim).is_some() {
        // Tasks may have been deleted while no controller ran.
        shared.tasks.workspaces.with_shared(change.key, SharedVolume::look_anew);
    }
    shared.work.claims.add(change.key.clone());
}

/// Schedules the removal of what a deleted Task left.
pub fn task_gone(shared: &Shared, task: &Task) {
    let (Some(target), Some(uid)) = (Target::of(task), task.uid()) else { return };
    let Some(last) = task.status.as_ref().and_then(|status| status.run_epoch) else { return };
    let is_known = |key: &Key| shared.cache.claims.get(key).is_some();
    for epoch in (1..=last).rev().take(usize::try_from(MOST_RUNS).unwrap_or_default()) {
        let claim = Key::new(&target.namespace, claim_of(&names::task_pod(&task.name_any(), epoch)));
        if is_known(&claim) {
            shared.work.claims.add(claim);
        }
    }
    let claim = Key::new(&target.namespace, shared_claim_name(&target.runs_on));
    if is_known(&claim) {
        shared.tasks.workspaces.with_shared(&claim, |volume| {
            if volume.gone.len() < MOST_REMEMBERED {
                volume.gone.insert(uid);
            } else {
                volume.look_anew();
            }
        });
        shared.work.claims.add_at(claim, Instant::now() + PAUSE);
    }
}

/// Schedules a pass over the claims that a changed Pod is about.
pub fn pod_changed(shared: &Shared, change: &Change<'_, Pod>) {
    let Some(pod) = change.last() else { return };
    let namespace = &change.key.namespace;
    if let Some(claim) = cleaner::claim_of(pod) {
        shared.work.claims.add(Key::new(namespace, claim));
    } else if change.now.is_none() {
        if let Some(claim) = own_claim(pod) {
            shared.work.claims.add(Key::new(namespace, claim));
        } else if let Some(claim) = claim_name(pod) {
            // Directories are removed only after the Pods of their Task.
            shared.work.claims.add_at(Key::new(namespace, claim), Instant::now() + PAUSE);
        }
    }
}

/// The claim with the files of a run, as far as it is ours.
pub fn volume_of(shared: &Shared, pod: &Pod) -> Option<std::sync::Arc<PersistentVolumeClaim>> {
    let claim = claim_name(pod)?;
    shared.cache.claims.object(&Key::new(pod.namespace().unwrap_or_default(), claim))
}

/// Deletes or keeps the claim of a run that is over. An error is reported and not retried: Kubernetes deletes the claim
/// with the Pod.
pub async fn ended(shared: &Shared, task: &Task, terms: &RunTerms, pod: &Pod, failed: bool) {
    match afterwards(pod, terms.retain_workspace, failed) {
        Afterwards::Nothing => {}
        Afterwards::Keep(claim) => {
            let place = whereabouts(pod, &claim, &shared.platform());
            match keep(shared, task, pod, &claim).await {
                Ok(()) => {
                    let note = format!("the files of the failed run are {place} until the Task is deleted");
                    shared.telemetry.events.normal(task, "WorkspaceRetained", note);
                }
                Err(error) => {
                    let note = format!("the files of the failed run are {place} only as long as its Pod: {error}");
                    shared.telemetry.events.warning(task, "WorkspaceRetained", note);
                }
            }
        }
        Afterwards::Free(claim) => {
            if let Err(error) = free(shared, pod, &claim).await {
                let note = format!("PersistentVolumeClaim '{claim}' stays until the Task is deleted: {error}");
                shared.telemetry.events.warning(task, "WorkspaceNotFreed", note);
            }
        }
    }
}

/// Makes the Task an owner of the claim too, so that the claim outlives the Pod. The embedded node has no claim: there the
/// Pod, which stays as long as its Task, has the files.
async fn keep(shared: &Shared, task: &Task, pod: &Pod, claim: &str) -> Result<(), kube::Error> {
    let claims = shared.api::<PersistentVolumeClaim>(&pod.namespace().unwrap_or_default());
    let mut attempts = 0;
    loop {
        let Some(found) = claims.get_metadata_opt(claim).await? else { return Ok(()) };
        if controller_uid(&found) != pod.metadata.uid.as_deref() {
            return Ok(());
        }
        let Some(metadata) = retained(&found.metadata, &task.name_any(), &task.uid().unwrap_or_default()) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        attempts += 1;
        match claims.patch(claim, &PatchParams::default(), &patch).await {
            Ok(written) => {
                shared.cache.claims.insert_written(written);
                return Ok(());
            }
            // The volume controller wrote the claim in between.
            Err(kube::Error::Api(status)) if status.code == 409 && attempts < KEEP_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Deletes a claim if the Pod owns it. A claim of that name with another owner stays.
async fn free(shared: &Shared, pod: &Pod, claim: &str) -> Result<(), kube::Error> {
    let claims = shared.api::<PersistentVolumeClaim>(&pod.namespace().unwrap_or_default());
    let Some(found) = claims.get_metadata_opt(claim).await? else { return Ok(()) };
    if found.metadata.deletion_timestamp.is_some() || controller_uid(&found) != pod.metadata.uid.as_deref() {
        return Ok(());
    }
    delete(&claims, &found).await
}

/// Deletes exactly this object.
async fn delete<K, O>(objects: &kube::Api<K>, object: &O) -> Result<(), kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    O: kube::ResourceExt,
{
    let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
    match objects.delete(&object.name_any(), &DeleteParams { preconditions, ..DeleteParams::background() }).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

/// Creates the claim that the runs of a target share, if the run works in it.
pub async fn ensure(shared: &Shared, task: &Task, resolved: &ResolvedTask) -> Result<(), Error> {
    let (true, Some(settings), Some(target)) = (shares_our_claim(resolved), &resolved.workspace, Target::of(task))
    else {
        return Ok(());
    };
    let Some((uid, _)) = owner_of(shared, &target) else { return Err(Error::Gone(target.runs_on.to_string())) };
    let wanted = shared_claim(&target.namespace, &target.runs_on, &uid, settings);
    let key = Key::of(&wanted);
    let claims = shared.api::<PersistentVolumeClaim>(&key.namespace);
    let live = match shared.cache.claims.object(&key) {
        Some(live) => live,
        None => match claims.create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                shared.cache.claims.insert_written(made);
                return Ok(());
            }
            // The watch shows only claims with our label, and with a delay.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => match claims.get_opt(&key.name).await?
            {
                Some(found) => found.into(),
                None => return Err(Error::WorkspaceLeaving(key.name)),
            },
            Err(error) => return Err(error.into()),
        },
    };
    let of_target = |claim: &PersistentVolumeClaim| target_of(claim).as_ref() == Some(&target.runs_on);
    if live.metadata.deletion_timestamp.is_some() {
        return Err(Error::WorkspaceLeaving(key.name));
    }
    if controller_uid(&*live) != Some(&uid) {
        return Err(if of_target(&live) {
            // Of an earlier target of this name: it is garbage collected.
            Error::WorkspaceLeaving(key.name)
        } else {
            Error::WorkspaceTaken { claim: key.name, target: target.runs_on.to_string() }
        });
    }
    adapt(shared, task, &claims, &live, &wanted, settings).await
}

/// Grows a shared claim. Other changes are impossible; the run works in the claim as it is.
async fn adapt(
    shared: &Shared,
    task: &Task,
    claims: &kube::Api<PersistentVolumeClaim>,
    live: &PersistentVolumeClaim,
    wanted: &PersistentVolumeClaim,
    settings: &Workspace,
) -> Result<(), Error> {
    let refused = |why: String| shared.telemetry.events.warning(task, "WorkspaceUnchanged", why);
    let mut wanted = wanted.clone();
    if let Some(spec) = wanted.spec.as_mut().filter(|_| settings.size.is_none()) {
        // The default size is no wish: another Task may have asked for another size.
        spec.resources = None;
    }
    match claim_change(live, &wanted) {
        ClaimChange::Nothing => {}
        ClaimChange::Impossible(why) => refused(why),
        ClaimChange::Grow(size) => {
            let patch = Patch::Merge(json!({ "spec": { "resources": { "requests": { "storage": size } } } }));
            match claims.patch(&live.name_any(), &PatchParams::default(), &patch).await {
                Ok(grown) => shared.cache.claims.insert_written(grown),
                // Not every storage class allows growth, and no claim grows before it is bound.
                Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
                    refused(format!("claim '{}' cannot grow to {size}: {}", live.name_any(), status.message));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// UID and settings of a target, if it exists and its settings are valid.
fn owner_of(shared: &Shared, target: &Target) -> Option<(String, Option<ResolvedAgent>)> {
    let platform = shared.platform();
    match &target.runs_on {
        RunsOn::Agent(_) => {
            let agent = shared.cache.agents.object(&target.key())?;
            let resolved = resolve_agent(&agent, shared.template_of(&agent).as_deref(), &platform).ok();
            Some((agent.uid()?, resolved))
        }
        RunsOn::Template(_) => {
            let template = shared.cache.templates.object(&target.key())?;
            Some((template.uid()?, resolve_template(&template, &platform).ok()))
        }
    }
}

/// Deletes the claim of a run that nothing needs, or cleans a claim that runs share.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(claim) = shared.cache.claims.object(key) else { return Ok(Next::Wait) };
    if let Some(runs_on) = target_of(&claim) {
        let target = Target { namespace: key.namespace.clone(), runs_on };
        return if claim.metadata.deletion_timestamp.is_some() {
            Ok(Next::Wait)
        } else {
            clean(shared, key, &claim, &target).await
        };
    }
    match owners(&claim) {
        Some(owners) => sweep(shared, key, &claim, &owners).await,
        None => Ok(Next::Wait),
    }
}

/// Deletes the claim of a run whose Pod is gone, unless its Task keeps it.
async fn sweep(
    shared: &Shared,
    key: &Key,
    claim: &PersistentVolumeClaim,
    owners: &Owners,
) -> Result<Next, kube::Error> {
    let Owners { pod, task } = owners;
    let owned = |name: &str| Key::new(&key.namespace, name);
    let has_pod = pod.as_ref().is_some_and(|(name, uid)| {
        shared.cache.pods.object(&owned(name)).is_some_and(|pod| pod.uid().as_ref() == Some(uid))
    });
    let has_task = task.as_ref().is_some_and(|(name, uid)| {
        shared.cache.tasks.object(&owned(name)).is_some_and(|task| task.uid().as_ref() == Some(uid))
    });
    if has_pod || has_task {
        shared.tasks.workspaces.lock().orphans.remove(key);
        return Ok(Next::Wait);
    }
    let since = *shared.tasks.workspaces.lock().orphans.entry(key.clone()).or_insert_with(now);
    if now() < since + LEAK_GRACE {
        return Ok(Next::At(instant(since + LEAK_GRACE)));
    }
    // The caches may be behind.
    if exists::<Pod>(shared, &key.namespace, pod.as_ref()).await?
        || exists::<Task>(shared, &key.namespace, task.as_ref()).await?
    {
        return Ok(Next::At(instant(now() + LEAK_GRACE)));
    }
    delete(&shared.api::<PersistentVolumeClaim>(&key.namespace), claim).await?;
    tracing::info!(claim = %key, "deleted the claim of a run whose Pod is gone");
    let task = claim.labels().get(labels::TASK).and_then(|name| shared.cache.tasks.object(&owned(name)));
    if let Some(task) = task {
        let note =
            format!("PersistentVolumeClaim '{}' was left behind by a Pod that is gone, and was deleted", key.name);
        shared.telemetry.events.normal(&*task, "WorkspaceRemoved", note);
    }
    Ok(Next::Wait)
}

/// Whether the object of this name and UID exists.
async fn exists<K>(shared: &Shared, namespace: &str, owner: Option<&(String, String)>) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let Some((name, uid)) = owner else { return Ok(false) };
    let found = shared.api::<K>(namespace).get_metadata_opt(name).await?;
    Ok(found.is_some_and(|found| found.uid().as_ref() == Some(uid)))
}

/// Removes the directories of deleted Tasks from a shared claim, by one Pod at a time.
async fn clean(
    shared: &Shared,
    key: &Key,
    claim: &PersistentVolumeClaim,
    target: &Target,
) -> Result<Next, kube::Error> {
    let cleaner = Key::new(&key.namespace, cleaner_name(&key.name));
    if let Some(pod) = shared.cache.pods.object(&cleaner) {
        return watch_over(shared, key, claim, &pod).await;
    }
    let workspaces = &shared.tasks.workspaces;
    // The files of a Task whose Pod is still there may be in use.
    let pods = shared.cache.pods.in_namespace(&key.namespace, |_| true);
    let in_use: BTreeSet<&str> = pods.iter().filter_map(|pod| controller_uid(&**pod)).collect();
    let (due, look, looked_to, not_before) = workspaces.with_shared(key, |volume| {
        volume.in_work.clear();
        let unused = volume.gone.iter().filter(|uid| !in_use.contains(uid.as_str()));
        let due: Vec<String> = unused.take(AT_ONCE).cloned().collect();
        (due, volume.look, volume.looked_to.clone().filter(|_| volume.look), volume.not_before)
    });
    if due.is_empty() && !look {
        return Ok(Next::Wait);
    }
    if let Some(at) = not_before.filter(|at| now() < *at) {
        return Ok(Next::At(instant(at)));
    }
    // Without its target, the claim is garbage collected.
    let Some((uid, settings)) = owner_of(shared, target) else { return Ok(Next::Wait) };
    let Some(agent) = settings else { return Ok(Next::At(instant(now() + AGAIN))) };
    let tasks = shared.cache.tasks.in_namespace(&key.namespace, |_| true);
    let mut known: Vec<_> = tasks.iter().filter_map(|task| Some((Target::of(task)? != *target, task.uid()?))).collect();
    known.sort();
    let known: Vec<String> = known.into_iter().map(|(_, uid)| uid).take(MOST_KNOWN).collect();
    let input = CleanerInput {
        namespace: &key.namespace,
        runs_on: &target.runs_on,
        uid: &uid,
        agent: &agent,
        platform: &shared.platform(),
        removed: &due,
        known: &known,
        list_after: looked_to.as_deref(),
    };
    let pod = match cleaner_pod(&input) {
        Ok(pod) => pod,
        Err(error) => return Ok(give_up(shared, key, claim, &error.to_string())),
    };
    match shared.api::<Pod>(&key.namespace).create(&PostParams::default(), &pod).await {
        Ok(made) => {
            workspaces.with_shared(key, |volume| {
                volume.looking = std::mem::take(&mut volume.look);
                volume.in_work = due.into_iter().collect();
            });
            shared.cache.pods.insert_written(made);
            Ok(Next::At(instant(now() + STUCK)))
        }
        // One that the cache does not show yet, or one that is no Pod of ours.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(Next::Retry),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            Ok(give_up(shared, key, claim, &status.message))
        }
        Err(error) => Err(error),
    }
}

/// Follows the Pod that cleans a shared claim, and deletes it when it is over.
async fn watch_over(shared: &Shared, key: &Key, claim: &PersistentVolumeClaim, pod: &Pod) -> Result<Next, kube::Error> {
    if pod.metadata.deletion_timestamp.is_some() || cleaner::claim_of(pod) != Some(key.name.as_str()) {
        return Ok(Next::Wait);
    }
    let pods = shared.api::<Pod>(&key.namespace);
    let created = pod.metadata.creation_timestamp.as_ref().map_or_else(now, |time| time.0);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if still_runs(pod) {
        if phase == Some("Running") {
            return Ok(Next::Wait);
        }
        if now() < created + STUCK {
            return Ok(Next::At(instant(created + STUCK)));
        }
        let next = give_up(shared, key, claim, "its Pod does not start");
        delete(&pods, pod).await?;
        return Ok(next);
    }
    let Some(report) = report_of(pod).filter(|_| phase == Some("Succeeded")) else {
        let why = pod.status.as_ref().and_then(|status| status.message.clone());
        let next = give_up(shared, key, claim, &why.unwrap_or_else(|| "its Pod failed".to_owned()));
        delete(&pods, pod).await?;
        return Ok(next);
    };
    let others: BTreeSet<String> = if report.others.is_empty() {
        BTreeSet::new()
    } else {
        let existing = existing_tasks(shared, &key.namespace).await?;
        report.others.iter().filter(|uid| !existing.contains(*uid)).cloned().collect()
    };
    let continues_after = report.continues_after().map(str::to_owned);
    if !report.failed.is_empty() {
        let problems = report.problems.join("; ");
        let note = format!(
            "the directories of {} deleted Tasks cannot be removed from the shared workspace: {problems}",
            report.failed.len()
        );
        shared.telemetry.events.warning(claim, "WorkspaceNotCleaned", note);
    }
    shared.tasks.workspaces.with_shared(key, |volume| {
        let done = std::mem::take(&mut volume.in_work);
        volume.gone.retain(|uid| !done.contains(uid));
        // A list that is full may consist of Tasks that exist, and hide others behind them.
        if std::mem::take(&mut volume.looking) && !volume.look {
            volume.looked_to = continues_after;
            volume.look = volume.looked_to.is_some();
        }
        volume.given_up.extend(report.failed);
        let given_up = &volume.given_up;
        volume.gone.extend(others.into_iter().filter(|uid| !given_up.contains(uid)));
        volume.not_before = None;
    });
    tracing::info!(claim = %key, removed = report.removed, "removed the directories of deleted Tasks");
    delete(&pods, pod).await?;
    // The event of the deletion brings the claim back here.
    Ok(Next::Wait)
}

/// UIDs of the Tasks of a namespace, as the API server has them: a directory whose Task is not among them is of a Task
/// that was deleted, because a Task exists before its directory.
async fn existing_tasks(shared: &Shared, namespace: &str) -> Result<BTreeSet<String>, kube::Error> {
    let tasks = shared.api::<Task>(namespace);
    let mut params = ListParams::default().limit(500);
    let mut all = BTreeSet::new();
    loop {
        let page = tasks.list_metadata(&params).await?;
        let more = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        all.extend(page.items.into_iter().filter_map(|task| task.metadata.uid));
        match more {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Reports that a shared claim could not be cleaned, and schedules the next attempt.
fn give_up(shared: &Shared, key: &Key, claim: &PersistentVolumeClaim, why: &str) -> Next {
    let note = format!("directories of deleted Tasks stay in the shared workspace for now: {why}");
    shared.telemetry.events.warning(claim, "WorkspaceNotCleaned", note);
    let at = now() + AGAIN;
    shared.tasks.workspaces.with_shared(key, |volume| {
        volume.in_work.clear();
        volume.look |= std::mem::take(&mut volume.looking) || volume.gone.is_empty();
        volume.not_before = Some(at);
    });
    Next::At(instant(at))
}
