//! From admission to a Pod: resolve, build, claim, create.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::{reasons, types},
    kinds::task::{ResolvedStatus, TaskTimings},
    names::{annotations, labels},
    refs::LocalRef,
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use kubeopencode_core::{
    contexts::{self, ConfigMaps, ContextError, ContextInput},
    explain::settings_of_run,
    milestones, names, not_yet,
    opencode::ConfigError,
    origin::Origins,
    pod::{self, TaskIdentity, TaskObjects, TaskPodInput, attach_pod, attaches, own_pod},
    queue::Admission,
    resolve::{ResolveError, Target as On, resolve_task},
    resolved::ResolvedTask,
    status,
};
use observe::{Key, Next};
use serde_json::{Value, json};

use super::{
    budget, needs, record,
    target::{Target, TargetKind},
};
use crate::{
    apply::controller_uid,
    bindings,
    context::{Context, now},
    failpoint,
    parts::{Part, User, Uses},
};

/// Why a Task cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused something or did not answer.
    #[error("the API server did not take a write: {0}")]
    Api(#[from] kube::Error),
    /// Its settings cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Its contexts cannot be delivered.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Something that its agent refers to cannot be used.
    #[error(transparent)]
    Bindings(#[from] bindings::Error),
    /// OpenCode's configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its Pod cannot be built.
    #[error(transparent)]
    Build(#[from] kubeopencode_core::build::BuildError),
    /// A Secret or ConfigMap that its Pod needs is not there.
    #[error("{message}")]
    Lacks {
        /// Stable word.
        reason: &'static str,
        /// What is missing.
        message: String,
    },
    /// Its Agent or template vanished after it was admitted.
    #[error("{0} does not exist any more")]
    Gone(String),
    /// An object of that name belongs to somebody else.
    #[error("{kind} '{name}' exists and does not belong to this Task: delete it, or give the Task another name")]
    Taken {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An object of that name is going away.
    #[error("{kind} '{name}' of an earlier Task is still being deleted")]
    Leaving {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl Error {
    /// Stable word for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => reasons::POD_CREATION_ERROR,
            Self::Resolve(error) => error.reason(),
            Self::Context(error) => error.reason(),
            Self::Bindings(error) => error.reason(),
            Self::Config(error) => error.reason(),
            Self::Build(error) => error.reason(),
            Self::Lacks { reason, .. } => reason,
            Self::Gone(_) => reasons::AGENT_GONE,
            Self::Taken { .. } | Self::Leaving { .. } => reasons::NAME_CONFLICT,
        }
    }

    /// Whether something that the Task refers to is not there, and may still come.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Context(error) => error.is_missing(),
            Self::Bindings(error) => !matches!(error, bindings::Error::Api(_)),
            Self::Lacks { .. } => true,
            _ => false,
        }
    }

    /// Whether trying again is useless.
    pub fn is_permanent(&self) -> bool {
        match self {
            // A ResourceQuota that is used up has room again when other Pods have ended.
            Self::Api(kube::Error::Api(status)) if status.message.contains("exceeded quota") => false,
            // The API server looked at it and said no: it will say no again.
            Self::Api(kube::Error::Api(status)) => matches!(status.code, 400 | 403 | 413 | 422),
            Self::Api(_) | Self::Leaving { .. } | Self::Bindings(bindings::Error::Api(_)) => false,
            Self::Resolve(error) => error.is_permanent(),
            Self::Bindings(_)
            | Self::Context(_)
            | Self::Config(_)
            | Self::Build(_)
            | Self::Lacks { .. }
            | Self::Gone(_)
            | Self::Taken { .. } => true,
        }
    }
}

/// Starts a run that was admitted.
pub async fn start(ctx: &Context, task: &Task, admission: &Admission) -> Result<Next, Error> {
    let key = Key::of(task);
    let labelled = label(ctx, task).await?;
    let task = labelled.as_ref().unwrap_or(task);
    failpoint::reach("labelled");
    // Everything that can be wrong with the Task itself is found before the run is claimed.
    let objects = gather(ctx, task, admission.epoch).await?;
    let claimed = match claim(ctx, task, admission, &objects.resolved).await {
        Ok(claimed) => claimed,
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
            // Somebody changed the Task since we looked: the watch tells how, and it is decided anew.
            ctx.queues.withdraw(&key, admission);
            ctx.observe_task(&key);
            return Ok(Next::Wait);
        }
        Err(error) => return Err(error.into()),
    };
    failpoint::reach("claimed");
    ctx.queues.claimed(&key, admission);
    ctx.metrics.admitted(waited(&claimed, admission));
    ctx.seen.tasks.learn(claimed.clone());
    let without_effect = not_yet::without_effect(&objects.resolved);
    if !without_effect.is_empty() {
        ctx.events.warning(&claimed, "NotSupported", without_effect.join("; "));
    }
    make(ctx, &claimed, admission.epoch, objects).await?;
    Ok(Next::Wait)
}

/// Whether everything that a waiting Task refers to is there. Whatever else is wrong shows when it starts.
pub async fn check(ctx: &Context, task: &Task, epoch: i64) -> Result<(), Error> {
    gather(ctx, task, epoch).await.map(drop)
}

/// Creates the Pod of a run that was claimed by a process that died before it could.
pub async fn resume(ctx: &Context, task: &Task, epoch: i64) -> Result<Arc<Pod>, Error> {
    let objects = gather(ctx, task, epoch).await?;
    make(ctx, task, epoch, objects).await
}

/// Creates what a run needs, and keeps what it is made with.
async fn make(ctx: &Context, task: &Task, epoch: i64, objects: Objects) -> Result<Arc<Pod>, Error> {
    let Objects { resolved, origins, made } = objects;
    let settings = if ctx.archive.is_some() { settings_of_run(task, &resolved, &origins) } else { Vec::new() };
    // Beside each other: the Pod does not wait for the archive.
    let pod = Box::pin(create(ctx, task, epoch, made));
    let (pod, ()) = tokio::join!(pod, record::keep_settings(ctx, task, epoch, &settings));
    pod
}

/// What a run needs, and the settings it was made from.
struct Objects {
    resolved: ResolvedTask,
    origins: Origins,
    made: TaskObjects,
}

/// The settings of a run, from the Task and what it runs on as they are now, and where each came from.
pub fn resolve(ctx: &Context, task: &Task) -> Result<(ResolvedTask, Origins), Error> {
    let platform = ctx.platform();
    let target = Target::of(task).ok_or_else(|| Error::Gone("what the Task refers to".into()))?;
    Ok(match target.kind {
        TargetKind::Agent => {
            let agent = ctx.seen.agents.object(&target.key);
            let agent = agent.ok_or_else(|| Error::Gone(format!("Agent '{}'", target.key.name)))?;
            let template = ctx.template_of(&agent);
            let url = agent.status.as_ref().and_then(|status| status.url.clone()).unwrap_or_default();
            resolve_task(task, On::Agent { agent: &agent, template: template.as_deref(), url: &url }, &platform)?
        }
        TargetKind::Template => {
            let template = ctx.seen.templates.object(&target.key);
            let template = template.ok_or_else(|| Error::Gone(format!("AgentTemplate '{}'", target.key.name)))?;
            resolve_task(task, On::Template(&template), &platform)?
        }
    })
}

/// Builds what a run needs. If something that it refers to is missing, the Task is looked at again when that changes.
async fn gather(ctx: &Context, task: &Task, epoch: i64) -> Result<Objects, Error> {
    let waiter = User::Task(Key::of(task));
    let mut uses = ctx.parts.uses(&waiter);
    let built = build(ctx, task, epoch, &mut uses).await;
    if built.as_ref().is_err_and(Error::is_missing) {
        uses.done();
    } else {
        ctx.parts.forget_user(&waiter);
    }
    built
}

async fn build(ctx: &Context, task: &Task, epoch: i64, uses: &mut Uses<'_>) -> Result<Objects, Error> {
    let platform = ctx.platform();
    let key = Key::of(task);
    let (resolved, origins) = resolve(ctx, task)?;
    let config_maps = read_config_maps(ctx, &key, &resolved, uses).await?;
    let input = ContextInput::of_task(&key.namespace, &key.name, &resolved, &config_maps);
    let mut plan = contexts::assemble(&input)?;
    pod::check(&task.spec, &resolved)?;
    if attaches(&resolved) {
        // The server has those of its Agent.
        let own = task.spec.instruction_refs.as_deref().unwrap_or_default();
        plan.instruct(&key.namespace, &bindings::instructions(ctx, &key.namespace, own, uses).await?);
    }
    let uid = task.uid().unwrap_or_default();
    let identity = TaskIdentity { namespace: &key.namespace, name: &key.name, uid: &uid, epoch };
    let allowance = budget::allowance(ctx, task, &resolved);
    let input = TaskPodInput { task: identity, resolved: &resolved, platform: &platform, contexts: &plan, allowance };
    let mut made = if attaches(&resolved) {
        attach_pod(&input)?
    } else {
        let bindings = bindings::read(ctx, &key.namespace, &resolved.agent, uses).await?;
        own_pod(&input, &bindings.compile(&resolved.agent, &plan, &platform)?)?
    };
    needs::check(ctx, &key.namespace, &made.pod, &plan, uses).await?;
    if let Some(target) = Target::of(task) {
        made.pod.annotations_mut().insert(annotations::RUNS_ON.into(), target.to_string());
    }
    for sentence in &plan.left_out {
        ctx.events.normal(task, "ContextLeftOut", sentence);
    }
    Ok(Objects { resolved, origins, made })
}

/// Reads the ConfigMaps that contexts name.
async fn read_config_maps(
    ctx: &Context,
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
        uses.add(Part::of::<ConfigMap>(&key.namespace, name));
    }
    ctx.read_config_maps(&key.namespace, needed).await
}

/// Labels the Task with what it runs on, so that people can select by it. Answers the Task if it had to be written.
pub(super) async fn label(ctx: &Context, task: &Task) -> Result<Option<Task>, kube::Error> {
    let Some((label, name)) = names::runs_on(&task.spec) else { return Ok(None) };
    // It may have been meant for something else before.
    let other = [labels::AGENT, labels::AGENT_TEMPLATE].into_iter().find(|other| *other != label);
    let other = other.filter(|other| task.labels().contains_key(*other));
    if task.labels().get(label).is_some_and(|known| known == name) && other.is_none() {
        return Ok(None);
    }
    let mut patch = json!({ "metadata": { "labels": { label: name } } });
    if let Some(other) = other {
        patch["metadata"]["labels"][other] = Value::Null;
    }
    let api = ctx.api::<Task>(&task.namespace().unwrap_or_default());
    let written = api.patch(&task.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    ctx.seen.tasks.learn(written.clone());
    Ok(Some(written))
}

/// Claims the run by a write that succeeds only on the version that was seen.
async fn claim(
    ctx: &Context,
    task: &Task,
    admission: &Admission,
    resolved: &ResolvedTask,
) -> Result<Task, kube::Error> {
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
    (after.session, after.usage, after.result, after.logs) = (None, None, None, None);
    let reference = record::settings_of(ctx, task, admission.epoch);
    after.resolved = Some(ResolvedStatus { hash: Some(resolved.hash()), reference });
    after.timings = Some(TaskTimings {
        queued_at: before.timings.as_ref().and_then(|timings| timings.queued_at.clone()),
        admitted_at: Some(Time(admission.at)),
        ..TaskTimings::default()
    });
    let mut conditions = after.conditions.take().unwrap_or_default();
    let of_the_run_before = [types::STOPPED, types::READY, types::AWAITING_APPROVAL];
    conditions.retain(|condition| {
        let kind = condition.type_.as_str();
        !of_the_run_before.contains(&kind) && !milestones::TYPES.contains(&kind)
    });
    if conditions.iter().any(|condition| condition.type_ == types::QUEUED) {
        let message = "it waited and was admitted";
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
    let written = ctx.write_status::<Task>(&key, &before, &after, version.as_deref()).await?;
    // The phase differs, so something was written.
    Ok(written.unwrap_or_else(|| task.clone()))
}

/// What asks for another run of a Task that never ran asks for its first one.
pub(super) fn note_rerun(task: &Task, status: &mut TaskStatus) {
    if status.run_epoch.is_none() {
        status.observed_rerun = task.annotations().get(annotations::RERUN).cloned();
    }
}

/// How long a run waited; another run of a Task has not waited since the Task exists.
fn waited(task: &Task, admission: &Admission) -> std::time::Duration {
    let timings = task.status.as_ref().and_then(|status| status.timings.as_ref());
    let queued = timings.and_then(|timings| timings.queued_at.as_ref());
    let since = queued.or(task.metadata.creation_timestamp.as_ref()).map_or(admission.at, |time| time.0);
    admission.at.duration_since(since).try_into().unwrap_or_default()
}

/// Creates what a run needs, once. What exists already is ours if its owner is.
async fn create(ctx: &Context, task: &Task, epoch: i64, objects: TaskObjects) -> Result<Arc<Pod>, Error> {
    let TaskObjects { config_maps, pod } = objects;
    let namespace = task.namespace().unwrap_or_default();
    for config_map in config_maps {
        let wanted = config_map.data.clone();
        let existing = create_once::<ConfigMap>(ctx, &namespace, task, config_map).await?;
        if existing.data != wanted {
            // It is of an earlier run; contexts are as they are now.
            let name = existing.name_any();
            let patch = Patch::Merge(json!({ "data": replaced(existing.data, wanted) }));
            ctx.api::<ConfigMap>(&namespace).patch(&name, &PatchParams::default(), &patch).await?;
        }
    }
    failpoint::reach("contexts-made");
    let pod = create_once::<Pod>(ctx, &namespace, task, pod).await?;
    failpoint::reach("pod-made");
    ctx.seen.pods.learn(pod.clone());
    let pod = Arc::new(pod);
    ctx.made.note(task, epoch, &pod);
    Ok(pod)
}

/// What to merge into some data to get other data.
fn replaced(
    before: Option<BTreeMap<String, String>>,
    after: Option<BTreeMap<String, String>>,
) -> BTreeMap<String, Option<String>> {
    let gone = before.unwrap_or_default().into_keys().map(|key| (key, None));
    gone.chain(after.unwrap_or_default().into_iter().map(|(key, text)| (key, Some(text)))).collect()
}

async fn create_once<K>(ctx: &Context, namespace: &str, task: &Task, object: K) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api = ctx.api::<K>(namespace);
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
    // What belongs to an earlier Task of this name goes away with it; anything else does not.
    let of_a_task =
        existing.owner_references().iter().any(|owner| owner.kind == "Task" && owner.name == task.name_any());
    if existing.meta().deletion_timestamp.is_some() || of_a_task {
        return Err(Error::Leaving { kind, name });
    }
    Err(Error::Taken { kind, name })
}

#[cfg(test)]
mod tests {
    use kubeopencode_core::queue::TaskKey;

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
