//! Agents: fetch, validate, build, apply, status.

mod git_sync;
mod secrets;
mod share;
pub mod standby;

use std::{collections::BTreeMap, fmt::Debug};

use api::{
    Agent, AgentStatus,
    conditions::{reasons, types},
    kinds::agent::{AgentPhase, Rollout, RuntimeMode, RuntimeStatus},
    names::{annotations, field_managers, labels},
};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Resource, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use kubeopencode_core::{
    agent_workload::{AgentIdentity, AgentObjects, AgentWorkloadInput, agent_objects, agent_url, password_ref},
    build::BuildError,
    contexts::{self, ContextError, ContextInput},
    names,
    opencode::{CompiledConfig, ConfigError},
    resolve::{ResolveError, resolve_agent},
    resolved::ResolvedAgent,
    share::ShareLink,
    standby::{StandbyPlan, Suspension},
    status,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use self::git_sync::Followed;
use crate::{
    apply, bindings,
    context::{Context, instant, now},
    parts::{Part, Uses, version_of},
    task::queues::Target,
    watch::{Key, Kind, Seen},
    work::Next,
};

/// Why an Agent is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its settings cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// Its contexts cannot be delivered.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Something that it refers to cannot be used.
    #[error(transparent)]
    Bindings(#[from] bindings::Error),
    /// OpenCode's configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its Pods cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Its objects cannot be applied.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The API server did not answer.
    #[error("the API server did not answer: {0}")]
    Api(#[from] kube::Error),
}

impl Error {
    /// Stable word for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Resolve(error) => error.reason(),
            Self::Context(error) => error.reason(),
            Self::Bindings(error) => error.reason(),
            Self::Config(error) => error.reason(),
            Self::Build(error) => error.reason(),
            Self::Apply(apply::Error::Taken { .. }) => reasons::NAME_CONFLICT,
            Self::Apply(_) | Self::Api(_) => reasons::APPLY_FAILED,
        }
    }

    /// The condition that tells of it.
    fn condition(&self) -> &'static str {
        match self {
            Self::Bindings(_) | Self::Resolve(ResolveError::TemplateNotFound { .. }) => types::REFERENCES_RESOLVED,
            Self::Config(_) | Self::Resolve(ResolveError::Config { .. }) => types::CONFIG_VALID,
            _ => types::ACCEPTED,
        }
    }

    /// Whether something that it refers to is not there yet.
    fn is_missing(&self) -> bool {
        match self {
            Self::Context(error) => error.is_missing(),
            Self::Bindings(_) | Self::Resolve(ResolveError::TemplateNotFound { .. }) => true,
            _ => false,
        }
    }

    /// Whether the next change of an object, and nothing else, can help.
    fn waits_for_change(&self) -> bool {
        match self {
            Self::Bindings(error) => error.waits_for_change(),
            Self::Resolve(_)
            | Self::Context(_)
            | Self::Config(_)
            | Self::Build(_)
            | Self::Apply(apply::Error::Json { .. }) => true,
            Self::Apply(_) | Self::Api(_) => false,
        }
    }
}

/// One pass over an Agent.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, Error> {
    let agent = match ctx.seen.agents.get(key) {
        None => {
            ctx.applied.forget("Deployment", &Key::new(&key.namespace, names::agent_deployment(&key.name)));
            ctx.applied.forget("Service", &Key::new(&key.namespace, names::agent_service(&key.name)));
            ctx.parts.uses(key).done();
            return Ok(Next::Wait);
        }
        Some(Seen::Unreadable(why)) => {
            ctx.report_unreadable::<Agent>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Seen::Object(agent)) => agent,
    };
    if agent.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    track_template(ctx, &agent).await?;
    let idle = standby::pass(ctx, &agent).await?;
    let mut uses = ctx.parts.uses(key);
    let mut done = Box::pin(reconcile(ctx, &agent, &mut uses)).await;
    uses.done();
    let ready = is_ready(ctx, &agent);
    let link = share::pass(ctx, &agent, ready).await.unwrap_or_else(|error| {
        done = Err(error);
        ShareLink::Off
    });
    let look = done.as_ref().ok().and_then(|applied| applied.followed.next_look);
    let wake = [idle.next_wake, link.next_wake(), look].into_iter().flatten().min();
    let next = match &done {
        Err(error) if !error.waits_for_change() => Next::Retry,
        _ => wake.map_or(Next::Wait, |wake| Next::At(instant(wake))),
    };
    if let Err(error) = &done {
        ctx.metrics.failed("agent", error.reason());
        ctx.events.warning(&*agent, error.reason(), error.to_string());
    }
    report(ctx, &agent, done, &idle, link).await?;
    Ok(next)
}

/// Whether a Pod of the Agent's server is ready.
fn is_ready(ctx: &Context, agent: &Agent) -> bool {
    let key = Key::new(agent.namespace().unwrap_or_default(), names::agent_deployment(&agent.name_any()));
    let deployment = ctx.seen.deployments.object(&key);
    let ready = deployment.as_ref().and_then(|d| d.status.as_ref()).and_then(|status| status.ready_replicas);
    ready.unwrap_or(0) > 0 && !agent.spec.suspend
}

/// What was made true.
struct Applied {
    resolved: ResolvedAgent,
    config: CompiledConfig,
    followed: Followed,
    /// What is wrong with the Secrets that it needs.
    secrets: Option<String>,
    /// A changed Deployment waits until no Task runs.
    held: bool,
}

async fn reconcile(ctx: &Context, agent: &Agent, uses: &mut Uses<'_>) -> Result<Applied, Error> {
    let platform = ctx.platform();
    let key = Key::of(agent);
    let template = ctx.template_of(agent);
    let resolved = resolve_agent(agent, template.as_deref(), &platform)?;

    let needed = contexts::needed_config_maps(&resolved.contexts);
    for name in &needed {
        uses.add(Part::of::<ConfigMap>(&key.namespace, name));
    }
    let config_maps = ctx.read_config_maps(&key.namespace, needed).await?;
    let plan = contexts::assemble(&ContextInput::of_agent(&key.namespace, &key.name, &resolved, &config_maps))?;
    let bindings = bindings::read(ctx, &key.namespace, &resolved, uses).await?;
    let config = bindings.compile(&resolved, &plan, &platform)?;
    let followed = git_sync::look(ctx, agent, &plan).await;
    let password = password_ref(&key.name, agent.spec.server.as_ref());
    if let Some(reference) = &password
        && agent.spec.server.as_ref().is_none_or(|server| server.password_secret_ref.is_none())
    {
        ensure_password(ctx, agent, &reference.name, &reference.key).await?;
    }
    let uid = agent.uid().unwrap_or_default();
    let git_hashes = followed.commits();
    let mut input = AgentWorkloadInput {
        agent: AgentIdentity { namespace: &key.namespace, name: &key.name, uid: &uid },
        resolved: &resolved,
        platform: &platform,
        contexts: &plan,
        config: &config,
        port: agent.spec.port.unwrap_or(api::names::defaults::PORT),
        suspended: agent.spec.suspend,
        persistence: agent.spec.persistence.as_ref(),
        password: password.as_ref(),
        git_hashes: &git_hashes,
        secrets_digest: None,
    };
    // Built once to see which Secrets it needs, and once more so that it changes with them.
    let needs = secrets::needs(&agent_objects(&input)?.deployment);
    let digest = secrets::digest(ctx, &key.namespace, &needs, uses);
    input.secrets_digest = digest.as_deref();
    let held = make_true(ctx, agent, agent_objects(&input)?).await?;
    let secrets = secrets::trouble(ctx, &key.namespace, &needs).await?;
    Ok(Applied { resolved, config, followed, secrets, held })
}

/// Applies everything, storage and contexts first, so that Pods find what they mount.
async fn make_true(ctx: &Context, agent: &Agent, objects: AgentObjects) -> Result<bool, Error> {
    let AgentObjects { config_maps, claims, deployment, service } = objects;
    for config_map in &config_maps {
        apply(ctx, &ctx.seen.config_maps, config_map).await?;
    }
    for claim in claims {
        // A claim is created once: Kubernetes refuses most changes, and data hangs on it.
        if ctx.seen.claims.object(&Key::of(&claim)).is_none() {
            let api = ctx.api(&claim.namespace().unwrap_or_default());
            match api.create(&PostParams::default(), &claim).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    apply(ctx, &ctx.seen.services, &service).await?;
    let busy = ctx.queues.running(&Target::agent(Key::of(agent))) > 0;
    if busy && agent.spec.rollout == Rollout::WhenIdle && restarts(ctx, &deployment) {
        return Ok(true);
    }
    apply(ctx, &ctx.seen.deployments, &deployment).await?;
    Ok(false)
}

/// Whether applying a Deployment replaces Pods that run.
fn restarts(ctx: &Context, wanted: &Deployment) -> bool {
    let hash = |deployment: &Deployment| {
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default()
    };
    let live = ctx.seen.deployments.object(&Key::of(wanted));
    live.is_some_and(|live| {
        let (live, wanted) = (hash(&live), hash(wanted));
        [annotations::CONFIG_HASH, annotations::CONTEXT_HASH].iter().any(|key| live.get(*key) != wanted.get(*key))
    })
}

/// Applies one object, and remembers it ahead of the watch.
async fn apply<K>(ctx: &Context, seen: &Kind<K>, wanted: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let live = seen.object(&Key::of(wanted));
    if let Some(made) = ctx.applied.apply(&ctx.client, field_managers::AGENT, wanted, live.as_deref()).await? {
        seen.learn(made);
    }
    Ok(())
}

/// Labels an Agent with its template, so that people can find all Agents of one.
async fn track_template(ctx: &Context, agent: &Agent) -> Result<(), kube::Error> {
    let wanted = agent.spec.template_ref.as_ref().map(|template| template.name.clone());
    if agent.labels().get(labels::AGENT_TEMPLATE) == wanted.as_ref() {
        return Ok(());
    }
    let patch = json!({ "metadata": { "labels": { labels::AGENT_TEMPLATE: wanted } } });
    let key = Key::of(agent);
    ctx.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Makes the password of an Agent's server, once.
async fn ensure_password(ctx: &Context, agent: &Agent, name: &str, key: &str) -> Result<(), Error> {
    let namespace = agent.namespace().unwrap_or_default();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace),
            labels: Some(BTreeMap::from([
                (labels::APP.to_owned(), labels::APP_VALUE.to_owned()),
                (labels::AGENT.to_owned(), agent.name_any()),
            ])),
            owner_references: agent.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(crate::secret::password()?.into_bytes()))])),
        ..Secret::default()
    };
    create_secret_once(ctx, agent, secret).await
}

/// Creates a Secret of an Agent unless it is there. One that belongs to somebody else is left alone.
async fn create_secret_once(ctx: &Context, agent: &Agent, secret: Secret) -> Result<(), Error> {
    let key = Key::of(&secret);
    let secrets = ctx.api::<Secret>(&key.namespace);
    let part = Part::of::<Secret>(&key.namespace, &key.name);
    if let Some(existing) = secrets.get_metadata_opt(&key.name).await? {
        ctx.parts.learn(part, version_of(&existing));
        if apply::controller_uid(&existing) == agent.metadata.uid.as_deref() {
            return Ok(());
        }
        let owner = format!("Agent {}", agent.name_any());
        return Err(apply::Error::Taken { kind: "Secret".into(), key, owner }.into());
    }
    match secrets.create(&PostParams::default(), &secret).await {
        Ok(made) => {
            // The Deployment that is built next must already know it, or it would be rolled out twice.
            ctx.parts.learn(part, version_of(&made));
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn report(
    ctx: &Context,
    agent: &Agent,
    done: Result<Applied, Error>,
    idle: &StandbyPlan,
    link: ShareLink,
) -> Result<(), kube::Error> {
    let key = Key::of(agent);
    let before = agent.status.clone().unwrap_or_default();
    let mut after = status_of(ctx, agent, &before, &done);
    after.idle_since = idle.idle_since.map(Time);
    after.share = share::status(agent, link);
    note_extras(agent, &mut after, idle, link);
    if let Ok(applied) = done {
        if applied.held {
            ctx.events.normal(agent, "RolloutHeld", "a change waits until no Task runs on this Agent");
        }
        applied.followed.note(agent, &mut after);
    }
    if let Some(written) = ctx.write_status::<Agent>(&key, &before, &after, None).await? {
        ctx.seen.agents.learn(written);
    }
    if before.ready != after.ready || before.url != after.url {
        let what = if after.ready == Some(true) { "Ready" } else { "NotReady" };
        ctx.events.normal(agent, what, format!("the server of Agent '{}' is {what}", key.name));
        ctx.work.admissions.add(Target::agent(key));
    }
    Ok(())
}

/// The conditions that only some Agents have.
fn note_extras(agent: &Agent, after: &mut AgentStatus, idle: &StandbyPlan, link: ShareLink) {
    let (generation, now) = (agent.metadata.generation, now());
    let conditions = after.conditions.get_or_insert_default();
    match &idle.warning {
        Some(warning) => {
            let (kind, reason) = (types::STANDBY_CONFIG_WARNING, reasons::IDLE_TIMEOUT_TOO_SHORT);
            status::set(conditions, kind, true, reason, warning, generation, now);
        }
        None => status::remove(conditions, types::STANDBY_CONFIG_WARNING),
    }
    match link.reason() {
        Some(reason) => {
            let message = match link {
                ShareLink::Active { .. } => "the share link opens",
                ShareLink::Expired => "the share link has expired; set share.expiresAt to a later time",
                ShareLink::AgentNotReady { .. } | ShareLink::Off => "the share link opens when the Agent is ready",
            };
            let active = link.is_active();
            status::set(conditions, types::SHARE_READY, active, reason, message, generation, now);
        }
        None => status::remove(conditions, types::SHARE_READY),
    }
}

fn status_of(ctx: &Context, agent: &Agent, before: &AgentStatus, done: &Result<Applied, Error>) -> AgentStatus {
    let (key, generation, now) = (Key::of(agent), agent.metadata.generation, now());
    let platform = ctx.platform();
    let mut after = before.clone();
    let deployment = ctx.seen.deployments.object(&Key::new(&key.namespace, names::agent_deployment(&key.name)));
    let service = ctx.seen.services.object(&Key::new(&key.namespace, names::agent_service(&key.name)));
    let suspended = agent.spec.suspend;
    let ready = is_ready(ctx, agent);

    after.observed_generation = generation;
    after.deployment_name = Some(names::agent_deployment(&key.name));
    after.service_name = Some(names::agent_service(&key.name));
    let port = agent.spec.port.unwrap_or(api::names::defaults::PORT);
    after.url = agent_url(&platform, &key.namespace, &key.name, port, service.as_deref());
    after.ready = Some(ready);
    after.suspended = Some(suspended);
    after.phase = Some(match done {
        Err(error) if error.waits_for_change() && !error.is_missing() => AgentPhase::Failed,
        Ok(_) if suspended => AgentPhase::Suspended,
        Ok(_) if ready => AgentPhase::Running,
        Ok(_) | Err(_) => AgentPhase::Pending,
    });
    let mut conditions = after.conditions.take().unwrap_or_default();
    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        status::set(&mut conditions, type_, holds, reason, message, generation, now);
    };
    match done {
        Ok(applied) => {
            after.config_hash = Some(applied.config.hash.clone());
            after.resolved_model.clone_from(&applied.config.model);
            let own_image = applied.resolved.executor_image != platform.executor_image;
            let mode = if own_image { RuntimeMode::Standard } else { RuntimeMode::Template };
            after.runtime = Some(RuntimeStatus { mode });
            set(types::ACCEPTED, true, reasons::VALID, "the spec is valid");
            set(types::REFERENCES_RESOLVED, true, reasons::RESOLVED, "everything that it refers to was found");
            set(types::CONFIG_VALID, true, reasons::VALID, "the configuration of OpenCode is valid");
            match &applied.secrets {
                None => set(types::SECRETS_READY, true, reasons::RESOLVED, "every Secret that it needs is there"),
                Some(trouble) => set(types::SECRETS_READY, false, reasons::SECRET_MISSING, trouble),
            }
        }
        Err(error) => set(error.condition(), false, error.reason(), &error.to_string()),
    }
    match (suspended, &deployment, ready) {
        (true, ..) => {
            set(types::SERVER_READY, false, reasons::SUSPENDED, "the Agent is suspended");
            set(types::SERVER_HEALTHY, false, reasons::SUSPENDED, "the Agent is suspended");
        }
        (false, None, _) => {
            set(types::SERVER_READY, false, reasons::DEPLOYMENT_NOT_READY, "the Deployment does not exist yet");
            set(types::SERVER_HEALTHY, false, reasons::DEPLOYMENT_NOT_FOUND, "the Deployment does not exist yet");
        }
        (false, Some(_), true) => {
            set(types::SERVER_READY, true, reasons::DEPLOYMENT_READY, "the server is ready");
            set(types::SERVER_HEALTHY, true, reasons::DEPLOYMENT_HEALTHY, "the server answers");
        }
        (false, Some(_), false) => {
            set(types::SERVER_READY, false, reasons::DEPLOYMENT_NOT_READY, "no Pod of the Deployment is ready");
            set(types::SERVER_HEALTHY, false, reasons::DEPLOYMENT_NOT_READY, "no Pod of the Deployment is ready");
        }
    }
    match Suspension::of(agent) {
        Suspension::ByStandby => {
            set(types::SUSPENDED, true, reasons::STANDBY, "nobody used the Agent; a Task wakes it");
        }
        Suspension::ByUser => set(types::SUSPENDED, true, reasons::USER_REQUESTED, "spec.suspend is true"),
        Suspension::Awake => set(types::SUSPENDED, false, reasons::ACTIVE, "the Agent is not suspended"),
    }
    after.conditions = Some(conditions);
    after
}

/// Tells everything that uses a template that it changed.
pub fn template_changed(ctx: &Context, key: &Key) {
    let users = ctx.seen.agents.all(|agent| {
        agent.metadata.namespace.as_deref() == Some(&key.namespace)
            && agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name)
    });
    for agent in users {
        ctx.work.agents.add(Key::of(&*agent));
    }
    ctx.work.templates.add(key.clone());
    ctx.work.admissions.add(Target::template(key.clone()));
}
