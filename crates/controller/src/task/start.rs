//! From admission to a Pod: resolve, build, claim, create.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::{reasons, types},
    kinds::task::{ResolvedStatus, TaskTimings},
    names::{annotations, labels},
    refs::LocalRef,
};
use domain::{
    explain::settings_of_run,
    image::progress::Request,
    platform::Platform,
    run::{
        milestones,
        origin::Origins,
        queue::Admission,
        resolve::{Sources, resolve_task},
        resolved::ResolvedTask,
        target::{RunsOn, Target},
        terms::RunTerms,
        unsupported,
        workspace::placed,
    },
    status,
    workload::{
        contexts::{self, ConfigMaps, ContextInput},
        names,
        pod::{self, TaskIdentity, TaskObjects, TaskPodInput, attach_pod, attaches, own_pod},
    },
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use super::{budget, needs, record, workspace};
use crate::{
    image,
    shared::{
        Shared,
        apply::controller_uid,
        bindings,
        dependents::{Dependency, Dependent, Uses},
        failpoint, now,
        settings::SettingsError,
    },
};

/// Why a Task cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request or did not answer.
    #[error("the API server refused a write: {0}")]
    Api(#[from] kube::Error),
    /// The settings cannot be turned into a Pod.
    #[error(transparent)]
    Settings(SettingsError),
    /// A Secret or ConfigMap that the Pod needs does not exist, or a Secret may not be used.
    #[error("{message}")]
    Lacks {
        /// One of [`reasons`].
        reason: &'static str,
        /// A sentence that names the object.
        message: String,
    },
    /// The image of `executorImageBuild` does not exist yet, or cannot be built.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// The Agent or template was deleted after the admission.
    #[error("{0} does not exist any more")]
    Gone(String),
    /// An object of that name has another owner.
    #[error("{kind} '{name}' exists and does not belong to this Task: delete it, or give the Task another name")]
    Taken {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// An object of that name is being deleted.
    #[error("{kind} '{name}' of an earlier Task is still being deleted")]
    Leaving {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The claim that runs share is being deleted.
    #[error("PersistentVolumeClaim '{0}', the shared workspace, is being deleted; the next one is created after that")]
    WorkspaceLeaving(String),
    /// A claim of the name of the shared workspace belongs to something else.
    #[error(
        "PersistentVolumeClaim '{claim}' exists and is not the shared workspace of {target}: delete it, or share it by \
         workspace.claimName"
    )]
    WorkspaceTaken {
        /// Name of the claim.
        claim: String,
        /// Agent or template.
        target: String,
    },
}

impl<E: Into<SettingsError>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Settings(error.into())
    }
}

impl Error {
    /// Stable reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => reasons::POD_CREATION_ERROR,
            Self::Settings(error) => error.reason(),
            Self::Lacks { reason, .. } => reason,
            Self::Image(error) => error.reason(),
            Self::Gone(_) => reasons::AGENT_GONE,
            Self::Taken { .. } | Self::Leaving { .. } | Self::WorkspaceLeaving(_) | Self::WorkspaceTaken { .. } => {
                reasons::NAME_CONFLICT
            }
        }
    }

    /// Whether an object that the Task refers to cannot be used yet: it may still be created, or opened to Tasks.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Settings(error) => error.is_missing(),
            Self::Lacks { .. } => true,
            Self::Image(error) => error.is_missing(),
            _ => false,
        }
    }

    /// How long a Task waits for what is missing.
    pub fn patience(&self, platform: &Platform) -> Duration {
        match self {
            Self::Image(error) => error.patience(platform),
            _ => platform.reference_grace_period,
        }
    }

    /// When to look again for what is missing, if no change of an object leads there.
    pub fn look_again(&self) -> Option<Timestamp> {
        match self {
            Self::Image(error) => error.look_again(),
            _ => None,
        }
    }

    /// Whether a retry is useless.
    pub fn is_permanent(&self) -> bool {
        match self {
            // A ResourceQuota that is used up has room again after other Pods end.
            Self::Api(kube::Error::Api(status)) if status.message.contains("exceeded quota") => false,
            // The API server rejected the object itself, and will reject it again.
            Self::Api(kube::Error::Api(status)) => matches!(status.code, 400 | 403 | 413 | 422),
            Self::Api(_)
            | Self::Leaving { .. }
            | Self::WorkspaceLeaving(_)
            | Self::Settings(SettingsError::Bindings(bindings::Error::Api(_))) => false,
            Self::Settings(SettingsError::Resolve(error)) => error.is_permanent(),
            Self::Image(error) => error.is_permanent(),
            Self::Settings(_)
            | Self::Lacks { .. }
            | Self::Gone(_)
            | Self::Taken { .. }
            | Self::WorkspaceTaken { .. } => true,
        }
    }
}

/// Starts a run that was admitted.
pub async fn start(shared: &Shared, task: &Task, admission: &Admission) -> Result<Next, Error> {
    let key = Key::of(task);
    let labelled = label(shared, task).await?;
    let task = labelled.as_ref().unwrap_or(task);
    failpoint::reach("labelled");
    // Every error in the Task itself is found before the run is claimed.
    let prepared = prepare(shared, task, admission.epoch).await?;
    let claimed = match claim(shared, task, admission, &prepared).await {
        Ok(claimed) => claimed,
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
            // The cached Task is out of date: the watch delivers the new version, which is decided afresh.
            shared.tasks.queues.with(|index| index.withdrawn(admission));
            shared.observe_task(&key);
            return Ok(Next::Wait);
        }
        Err(error) => return Err(error.into()),
    };
    failpoint::reach("claimed");
    shared.tasks.queues.with(|index| index.claimed(admission));
    shared.telemetry.metrics.admitted(waited(&claimed, admission));
    shared.cache.tasks.insert_written(claimed.clone());
    shared.images.forget(&Dependent::Task(key));
    let without_effect = unsupported::without_effect(&prepared.resolved, &shared.platform());
    if !without_effect.is_empty() {
        shared.telemetry.events.warning(&claimed, "NotSupported", without_effect.join("; "));
    }
    Box::pin(create(shared, &claimed, admission.epoch, prepared)).await?;
    Ok(Next::Wait)
}

/// Checks that every object to which a waiting Task refers exists. Other errors are found when the Task starts.
pub async fn check(shared: &Shared, task: &Task, epoch: i64) -> Result<(), Error> {
    prepare(shared, task, epoch).await.map(drop)
}

/// Creates the Pod of a run whose claimant died before it created one.
///
/// Nothing of the run has started, so its settings are those of now. Where they differ from those of the claim, the claim
/// is renewed first: the status always describes the Pod.
pub async fn resume(shared: &Shared, task: &Task, epoch: i64) -> Result<(), Error> {
    let prepared = prepare(shared, task, epoch).await?;
    let renewed = renew(shared, task, resolved_status(shared, task, epoch, &prepared)).await?;
    Box::pin(create(shared, renewed.as_ref().unwrap_or(task), epoch, prepared)).await
}

/// Creates the objects of a run and archives its settings.
async fn create(shared: &Shared, task: &Task, epoch: i64, prepared: Prepared) -> Result<(), Error> {
    let Prepared { resolved, origins, objects, .. } = prepared;
    workspace::ensure(shared, task, &resolved).await?;
    Box::pin(create_objects(shared, task, epoch, objects)).await?;
    // After the Pod, which may have to be built again from other settings: the archive keeps the first ones.
    if shared.records.archive.is_some() {
        record::keep_settings(shared, task, epoch, &settings_of_run(task, &resolved, &origins)).await;
    }
    Ok(())
}

/// The objects of a run, not yet created, and the settings they were built from.
struct Prepared {
    resolved: ResolvedTask,
    origins: Origins,
    terms: RunTerms,
    objects: TaskObjects,
}

/// Resolves the settings of a run from the Task and the current Agent or template, with the origin of each setting.
fn resolve(shared: &Shared, task: &Task, platform: &Platform) -> Result<(ResolvedTask, Origins), Error> {
    let target = Target::of(task).ok_or_else(|| Error::Gone("what the Task refers to".into()))?;
    let key = target.key();
    Ok(match target.runs_on {
        RunsOn::Agent(name) => {
            let agent = shared.cache.agents.object(&key);
            let agent = agent.ok_or_else(|| Error::Gone(format!("Agent '{name}'")))?;
            let template = shared.template_of(&agent);
            let url = agent.status.as_ref().and_then(|status| status.url.clone()).unwrap_or_default();
            resolve_task(task, Sources::Agent { agent: &agent, template: template.as_deref(), url: &url }, platform)?
        }
        RunsOn::Template(name) => {
            let template = shared.cache.templates.object(&key);
            let template = template.ok_or_else(|| Error::Gone(format!("AgentTemplate '{name}'")))?;
            resolve_task(task, Sources::Template(&template), platform)?
        }
    })
}

/// Builds the objects of a run. If one that the run refers to is missing, the Task is reconciled again when that changes.
async fn prepare(shared: &Shared, task: &Task, epoch: i64) -> Result<Prepared, Error> {
    let waiter = Dependent::Task(Key::of(task));
    let mut uses = shared.dependents.uses(&waiter);
    let built = build(shared, task, epoch, &mut uses).await;
    if built.as_ref().is_err_and(Error::is_missing) {
        uses.done();
    } else {
        shared.dependents.remove(&waiter);
    }
    built
}

async fn build(shared: &Shared, task: &Task, epoch: i64, uses: &mut Uses<'_>) -> Result<Prepared, Error> {
    let platform = shared.platform();
    let key = Key::of(task);
    let (mut resolved, mut origins) = resolve(shared, task, &platform)?;
    Box::pin(shared.tasks.secrets.check(shared, task, uses)).await?;
    pod::check(&task.spec, &resolved)?;
    if !attaches(&resolved) {
        Box::pin(use_built_image(shared, task, &mut resolved, &mut origins, uses)).await?;
    }
    let config_maps = read_config_maps(shared, &key, &resolved, uses).await?;
    let uid = task.uid().unwrap_or_default();
    let identity = TaskIdentity { namespace: &key.namespace, name: &key.name, uid: &uid, epoch };
    let placed = placed(&identity, &resolved);
    let input = ContextInput::of_task(&key.namespace, &key.name, &placed, &config_maps);
    let mut plan = contexts::assemble(&input)?;
    if attaches(&resolved) {
        // The server has the Agent's own instructions.
        let own = task.spec.instruction_refs.as_deref().unwrap_or_default();
        plan.instruct(&key.namespace, &bindings::instructions(shared, &key.namespace, own, uses).await?);
        if platform.depot_url.is_some() {
            plan.name_results(&key.name, &resolved);
        }
    }
    let allowance = budget::allowance(shared, task, &resolved);
    let input = TaskPodInput { task: identity, resolved: &placed, platform: &platform, contexts: &plan, allowance };
    let budget = resolved.budget.as_ref();
    let mut objects = if attaches(&resolved) {
        if budget.is_some_and(|budget| budget.max_cost.is_some()) {
            let bindings = bindings::read(shared, &key.namespace, &resolved.agent, uses).await?;
            bindings.check_price(&resolved.agent, &platform)?;
        }
        attach_pod(&input)?
    } else {
        let bindings = bindings::read(shared, &key.namespace, &resolved.agent, uses).await?;
        own_pod(&input, &bindings.compile(&placed.agent, &plan, &platform, budget)?)?
    };
    needs::check(shared, &key.namespace, &objects.pod, &plan, uses).await?;
    if let Some(runs_on) = RunsOn::of(&task.spec) {
        objects.pod.annotations_mut().insert(annotations::RUNS_ON.into(), runs_on.to_string());
    }
    for sentence in &plan.left_out {
        shared.telemetry.events.normal(task, "ContextLeftOut", sentence);
    }
    drop(placed);
    let terms = RunTerms::of(&resolved, &platform);
    Ok(Prepared { resolved, origins, terms, objects })
}

/// Puts the image that was built for a run in the place of its executor image.
async fn use_built_image(
    shared: &Shared,
    task: &Task,
    resolved: &mut ResolvedTask,
    origins: &mut Origins,
    uses: &mut Uses<'_>,
) -> Result<(), image::Error> {
    let key = Key::of(task);
    let request = Request::Run(waits_since(task).unwrap_or_else(now));
    let waiter = Dependent::Task(key.clone());
    let image = image::ensure(shared, &key.namespace, &resolved.agent, &waiter, request, None, uses).await?;
    if let Some(image) = image {
        resolved.agent.executor_image = image.image;
        origins.copy("agent.executorImageBuild", "agent.executorImage");
    }
    Ok(())
}

/// Reads the ConfigMaps that contexts name.
async fn read_config_maps(
    shared: &Shared,
    key: &Key,
    task: &ResolvedTask,
    uses: &mut Uses<'_>,
) -> Result<ConfigMaps, kube::Error> {
    let items: Vec<_> = if attaches(task) {
        task.contexts.iter().collect()
    } else {
        task.agent.contexts.iter().chain(&task.contexts).collect()
    };
    let needed = contexts::needed_config_maps(items);
    for name in &needed {
        uses.add(Dependency::of::<ConfigMap>(&key.namespace, name));
    }
    shared.read_config_maps(&key.namespace, needed).await
}

/// Labels the Task with the Agent or template it runs on, for selectors. Returns the Task if it was written.
pub(super) async fn label(shared: &Shared, task: &Task) -> Result<Option<Task>, kube::Error> {
    let Some((label, name)) = names::runs_on(&task.spec) else { return Ok(None) };
    // The reference may have changed before the first run.
    let other = [labels::AGENT, labels::AGENT_TEMPLATE].into_iter().find(|other| *other != label);
    let other = other.filter(|other| task.labels().contains_key(*other));
    if task.labels().get(label).is_some_and(|known| known == name) && other.is_none() {
        return Ok(None);
    }
    let mut patch = json!({ "metadata": { "labels": { label: name } } });
    if let Some(other) = other {
        patch["metadata"]["labels"][other] = Value::Null;
    }
    let api = shared.api::<Task>(&task.namespace().unwrap_or_default());
    let written = api.patch(&task.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    shared.cache.tasks.insert_written(written.clone());
    Ok(Some(written))
}

/// Claims the run, by a write that succeeds only on the cached version.
async fn claim(shared: &Shared, task: &Task, admission: &Admission, prepared: &Prepared) -> Result<Task, kube::Error> {
    let key = Key::of(task);
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let at = now();
    after.phase = Some(TaskPhase::Running);
    after.observed_generation = task.metadata.generation;
    after.agent_ref = task.spec.agent_ref.as_ref().map(|agent| LocalRef::new(&agent.name));
    after.template_ref = task.spec.template_ref.as_ref().map(|template| LocalRef::new(&template.name));
    note_rerun(task, &mut after);
    after.run_epoch = Some(admission.epoch);
    after.claimed_from = task.resource_version();
    after.attempt = Some(after.attempt.unwrap_or(0) + 1);
    after.pod_name = Some(names::task_pod(&key.name, admission.epoch));
    after.pod_uid = None;
    after.queue_position = None;
    (after.reason, after.message, after.exit_code) = (None, None, None);
    (after.start_time, after.completion_time) = (None, None);
    (after.session, after.usage, after.result, after.changes, after.logs) = (None, None, None, None, None);
    (after.artifacts, after.caches, after.published) = (None, None, None);
    after.resolved = Some(resolved_status(shared, task, admission.epoch, prepared));
    after.timings = Some(TaskTimings {
        queued_at: before.timings.as_ref().and_then(|timings| timings.queued_at.clone()),
        admitted_at: Some(Time(admission.at)),
        ..TaskTimings::default()
    });
    let mut conditions = after.conditions.take().unwrap_or_default();
    let of_previous_run = [types::STOPPED, types::READY, types::AWAITING_APPROVAL];
    conditions.retain(|condition| {
        let kind = condition.type_.as_str();
        !of_previous_run.contains(&kind) && !milestones::TYPES.contains(&kind)
    });
    if conditions.iter().any(|condition| condition.type_ == types::QUEUED) {
        let message = "the Task was admitted";
        status::set(
            &mut conditions,
            types::QUEUED,
            false,
            reasons::CAPACITY_AVAILABLE,
            message,
            task.metadata.generation,
            at,
        );
    }
    after.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    let version = task.resource_version();
    let written = shared.write_status::<Task>(&key, &before, &after, version.as_deref()).await?;
    // The phase differs, so there was something to write.
    Ok(written.unwrap_or_else(|| task.clone()))
}

/// The terms of a run. Those of a run that an older version claimed are resolved now and recorded. Returns the Task too if
/// it was written.
pub(super) async fn terms(shared: &Shared, task: &Task, epoch: i64) -> Result<(RunTerms, Option<Task>), kube::Error> {
    let platform = shared.platform();
    if let Some(terms) = RunTerms::recorded(task, &platform) {
        return Ok((terms, None));
    }
    let Ok((resolved, _)) = resolve(shared, task, &platform) else {
        return Ok((RunTerms::unrecorded(task, &platform), None));
    };
    let terms = RunTerms::of(&resolved, &platform);
    let claimed = task.status.as_ref().and_then(|status| status.resolved.clone()).unwrap_or_default();
    let recorded = ResolvedStatus { terms: Some(Box::new(terms.to_status(epoch))), ..claimed };
    let written = renew(shared, task, recorded).await?;
    if written.as_ref().is_some_and(|written| RunTerms::recorded(written, &platform).is_none()) {
        let message = "the CustomResourceDefinition of Task is older than the controller, so the settings of this run \
                       follow its Agent or template: apply deploy/crds";
        shared.telemetry.events.warning(task, "OutdatedDefinition", message);
    }
    Ok((terms, written))
}

/// Writes the settings of a claimed run if they differ from those in the status. Returns the Task if it was written.
async fn renew(shared: &Shared, task: &Task, resolved: ResolvedStatus) -> Result<Option<Task>, kube::Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.resolved = Some(resolved);
    let version = task.resource_version();
    let written = shared.write_status::<Task>(&Key::of(task), &before, &after, version.as_deref()).await?;
    if let Some(written) = &written {
        shared.cache.tasks.insert_written(written.clone());
    }
    Ok(written)
}

/// The settings of a run as the status records them.
fn resolved_status(shared: &Shared, task: &Task, epoch: i64, prepared: &Prepared) -> ResolvedStatus {
    ResolvedStatus {
        hash: Some(prepared.resolved.hash()),
        reference: record::settings_of(shared, task, epoch),
        terms: Some(Box::new(prepared.terms.to_status(epoch))),
    }
}

/// A rerun that is requested before the first run is the first run.
pub(super) fn note_rerun(task: &Task, status: &mut TaskStatus) {
    if status.run_epoch.is_none() {
        status.observed_rerun = task.annotations().get(annotations::RERUN).cloned();
    }
}

/// How long a run waited: a rerun waits from its request, not from the creation of the Task.
fn waited(task: &Task, admission: &Admission) -> Duration {
    let since = waits_since(task).unwrap_or(admission.at);
    admission.at.duration_since(since).try_into().unwrap_or_default()
}

/// Since when a Task waits for its run.
fn waits_since(task: &Task) -> Option<Timestamp> {
    let timings = task.status.as_ref().and_then(|status| status.timings.as_ref());
    let queued = timings.and_then(|timings| timings.queued_at.as_ref());
    queued.or(task.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

/// Creates the objects of a run, once. An existing object is used if the Task owns it.
async fn create_objects(shared: &Shared, task: &Task, epoch: i64, objects: TaskObjects) -> Result<(), Error> {
    let TaskObjects { config_maps, pod } = objects;
    let namespace = task.namespace().unwrap_or_default();
    for config_map in config_maps {
        let wanted = config_map.data.clone();
        let existing = create_once::<ConfigMap>(shared, &namespace, task, config_map).await?;
        if existing.data != wanted {
            // The ConfigMap is from an earlier run; a run gets the current contexts.
            let name = existing.name_any();
            let patch = Patch::Merge(json!({ "data": replaced(existing.data, wanted) }));
            shared.api::<ConfigMap>(&namespace).patch(&name, &PatchParams::default(), &patch).await?;
        }
    }
    failpoint::reach("contexts-made");
    let pod = create_once::<Pod>(shared, &namespace, task, pod).await?;
    failpoint::reach("pod-made");
    shared.cache.pods.insert_written(pod.clone());
    shared.tasks.last_pods.note(task, epoch, &Arc::new(pod));
    Ok(())
}

/// The merge patch that turns the data `before` into `after`.
pub(crate) fn replaced(
    before: Option<BTreeMap<String, String>>,
    after: Option<BTreeMap<String, String>>,
) -> BTreeMap<String, Option<String>> {
    let gone = before.unwrap_or_default().into_keys().map(|key| (key, None));
    gone.chain(after.unwrap_or_default().into_iter().map(|(key, text)| (key, Some(text)))).collect()
}

async fn create_once<K>(shared: &Shared, namespace: &str, task: &Task, object: K) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api = shared.api::<K>(namespace);
    let name = object.name_any();
    match api.create(&PostParams::default(), &object).await {
        Ok(created) => return Ok(created),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
        Err(error) => return Err(error.into()),
    }
    let kind: &'static str = if K::kind(&()) == "Pod" { "Pod" } else { "ConfigMap" };
    let Some(existing) = api.get_opt(&name).await? else { return Err(Error::Leaving { kind, name }) };
    if controller_uid(&existing) == task.metadata.uid.as_deref() {
        return Ok(existing);
    }
    // An object of an earlier Task of this name is garbage collected; any other object stays.
    let of_a_task =
        existing.owner_references().iter().any(|owner| owner.kind == "Task" && owner.name == task.name_any());
    if existing.meta().deletion_timestamp.is_some() || of_a_task {
        return Err(Error::Leaving { kind, name });
    }
    Err(Error::Taken { kind, name })
}

#[cfg(test)]
mod tests {
    use domain::run::queue::TaskKey;

    use super::*;

    #[test]
    fn a_run_waits_from_when_it_was_queued() {
        let created = "2026-01-01T00:00:00Z";
        let mut task: Task = serde_json::from_value(json!({
            "metadata": { "name": "t", "creationTimestamp": created }, "spec": {},
        }))
        .unwrap();
        let at = "2026-01-08T00:00:10Z".parse().unwrap();
        let admission = Admission { key: TaskKey::of(&task), epoch: 2, at };
        assert_eq!(waited(&task, &admission).as_secs(), 7 * 24 * 3600 + 10);
        let queued_at = Some(Time("2026-01-08T00:00:00Z".parse().unwrap()));
        task.status.get_or_insert_default().timings = Some(TaskTimings { queued_at, ..TaskTimings::default() });
        assert_eq!(waited(&task, &admission).as_secs(), 10);
    }

    #[test]
    fn a_rerun_asked_for_before_the_first_run_is_the_first_run() {
        let metadata = json!({ "name": "t", "annotations": { annotations::RERUN: "1" } });
        let task: Task = serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).unwrap();
        let mut status = TaskStatus::default();
        note_rerun(&task, &mut status);
        assert_eq!(status.observed_rerun.as_deref(), Some("1"));
        let mut status = TaskStatus { run_epoch: Some(1), ..TaskStatus::default() };
        note_rerun(&task, &mut status);
        assert_eq!(status.observed_rerun, None);
    }
}
