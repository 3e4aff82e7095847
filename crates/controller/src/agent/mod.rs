//! Agents: fetch, validate, build, apply, status.
//!
//! [`pass`] is one such round: [`standby`], then the objects are built, `objects` applies them, `share` keeps the share
//! link, and `report` writes the status. [`server`] and [`delivered`] talk to the running server.

mod companion;
pub mod delivered;
pub mod git_sync;
mod objects;
mod report;
mod secrets;
pub mod server;
mod share;
pub mod standby;
pub mod template;

use api::{
    Agent,
    conditions::{reasons, types},
    kinds::agent::BuiltImage,
    names::labels,
    run::Budget,
};
use domain::{
    agent::{rollout, share::ShareLink, standby::StandbyPlan},
    image::progress::Request,
    opencode::CompiledConfig,
    run::{
        resolve::{ResolveError, resolve_agent},
        resolved::ResolvedAgent,
        target::Target,
    },
    workload::{
        agent::{AgentIdentity, AgentWorkloadInput, agent_objects, password_ref},
        collect,
        contexts::{self, ContextInput, ContextPlan},
        names,
    },
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use observe::{Cached, Key, Next};
use serde_json::json;

use self::{
    git_sync::Followed,
    objects::{AppliedObjects, apply_objects, ensure_password},
    report::report,
};
use crate::{
    image::{self, Image},
    shared::{
        Shared, apply,
        bindings::{self, Bindings},
        dependents::{Dependency, Dependent, Uses},
        instant, now,
        settings::SettingsError,
    },
};

/// Why the objects of an Agent cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its settings cannot be turned into objects.
    #[error(transparent)]
    Settings(SettingsError),
    /// The image of `executorImageBuild` does not exist yet, or cannot be built.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// Its objects cannot be applied.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The API server refused a request or did not answer.
    #[error("{}", apply::answer(.0))]
    Api(#[from] kube::Error),
}

impl<E: Into<SettingsError>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Settings(error.into())
    }
}

impl Error {
    /// Reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Settings(error) => error.reason(),
            Self::Image(error) => error.reason(),
            Self::Apply(apply::Error::Taken { .. }) => reasons::NAME_CONFLICT,
            Self::Apply(_) | Self::Api(_) => reasons::APPLY_FAILED,
        }
    }

    /// The condition that reports the error.
    fn condition(&self) -> &'static str {
        use SettingsError::{Bindings, Config, Resolve};
        match self {
            Self::Settings(Bindings(_) | Resolve(ResolveError::TemplateNotFound { .. })) => types::REFERENCES_RESOLVED,
            Self::Settings(Config(_) | Resolve(ResolveError::Config { .. })) => types::CONFIG_VALID,
            Self::Image(_) => types::IMAGE_READY,
            _ => types::ACCEPTED,
        }
    }

    /// Whether an object that the Agent refers to does not exist yet.
    fn is_missing(&self) -> bool {
        match self {
            Self::Settings(SettingsError::Resolve(ResolveError::TemplateNotFound { .. })) => true,
            Self::Settings(error) => error.is_missing(),
            Self::Image(error) => error.is_missing(),
            Self::Apply(_) | Self::Api(_) => false,
        }
    }

    /// Whether only a change of an object can help, so that a retry is useless.
    pub fn waits_for_change(&self) -> bool {
        match self {
            Self::Settings(SettingsError::Bindings(error)) => error.waits_for_change(),
            // A builder Pod or a Secret that changes leads here.
            Self::Settings(_)
            | Self::Apply(apply::Error::Json { .. })
            | Self::Image(image::Error::Building(_) | image::Error::Lacks { .. }) => true,
            Self::Image(error) => error.is_permanent(),
            Self::Apply(_) | Self::Api(_) => false,
        }
    }
}

/// Reconciles one Agent.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, Error> {
    let agent = match shared.cache.agents.get(key) {
        None => {
            shared.agents.applied.forget("Deployment", &Key::new(&key.namespace, names::agent_deployment(&key.name)));
            shared.agents.applied.forget("Service", &Key::new(&key.namespace, names::agent_service(&key.name)));
            shared.agents.looks.forget(key);
            shared.dependents.remove(&Dependent::Agent(key.clone()));
            shared.images.forget(&Dependent::Agent(key.clone()));
            return Ok(Next::Wait);
        }
        Some(Cached::Unreadable(why)) => {
            shared.report_unreadable::<Agent>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(agent)) => agent,
    };
    if agent.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let tracked = track_template(shared, &agent).await;
    let slept = standby::pass(shared, &agent).await;
    let mut uses = shared.dependents.uses(&Dependent::Agent(key.clone()));
    let mut done = Box::pin(reconcile(shared, &agent, &mut uses)).await;
    let link = share::pass(shared, &agent, is_ready(shared, &agent), &mut uses).await;
    uses.done();
    // A refused object is reported; the others are still applied.
    let mut failed = |error: Error| {
        if done.is_ok() {
            done = Err(error);
        }
    };
    if let Err(error) = tracked {
        failed(error.into());
    }
    let idle = slept.unwrap_or_else(|error| {
        failed(error.into());
        let since = agent.status.as_ref().and_then(|status| status.idle_since.as_ref());
        StandbyPlan::unchanged(since.map(|time| time.0))
    });
    let link = link.unwrap_or_else(|error| {
        failed(error);
        ShareLink::Off
    });
    let look = done.as_ref().ok().and_then(|applied| applied.followed.next_look);
    let drain = done.as_ref().ok().filter(|applied| applied.objects.held).and_then(|_| drains_from(&agent));
    let wake = [idle.next_wake, link.next_wake(), look, drain].into_iter().flatten().min();
    let next = match &done {
        Err(error) if !error.waits_for_change() => Next::Retry,
        _ => wake.map_or(Next::Wait, |wake| Next::At(instant(wake))),
    };
    if let Err(Error::Image(image::Error::Building(sentence))) = &done {
        shared.telemetry.events.normal(&*agent, reasons::BUILDING_IMAGE, sentence);
    } else if let Err(error) = &done {
        shared.telemetry.metrics.failed("agent", error.reason());
        shared.telemetry.events.warning(&*agent, error.reason(), error.to_string());
    }
    report(shared, &agent, done, &idle, link).await?;
    Ok(next)
}

/// When new Tasks start to wait for a roll-out that is held back; `None` if they wait already.
fn drains_from(agent: &Agent) -> Option<Timestamp> {
    let conditions = agent.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    Some(rollout::drains_from(conditions, now())).filter(|at| *at > now())
}

/// Whether a Pod of the Agent's server is ready.
fn is_ready(shared: &Shared, agent: &Agent) -> bool {
    let key = Key::new(agent.namespace().unwrap_or_default(), names::agent_deployment(&agent.name_any()));
    let deployment = shared.cache.deployments.object(&key);
    let ready = deployment.as_ref().and_then(|d| d.status.as_ref()).and_then(|status| status.ready_replicas);
    ready.unwrap_or(0) > 0 && !agent.spec.suspend
}

/// The result of a reconciliation.
struct Applied {
    resolved: ResolvedAgent,
    config: CompiledConfig,
    followed: Followed,
    /// A sentence about missing Secrets or keys; `None` if there are none.
    secrets: Option<String>,
    /// The image that was built for it.
    image: Option<Image>,
    objects: AppliedObjects,
}

/// The input from which an Agent, or each Agent of a template, is built.
pub struct Prepared {
    pub contexts: ContextPlan,
    pub bindings: Bindings,
    /// OpenCode's configuration.
    pub config: CompiledConfig,
}

/// Reads the objects that settings refer to, adds them to `uses`, and compiles the configuration.
pub async fn prepare(
    shared: &Shared,
    key: &Key,
    resolved: &ResolvedAgent,
    budget: Option<&Budget>,
    uses: &mut Uses<'_>,
) -> Result<Prepared, Error> {
    let needed = contexts::needed_config_maps(&resolved.contexts);
    for name in &needed {
        uses.add(Dependency::of::<ConfigMap>(&key.namespace, name));
    }
    let config_maps = shared.read_config_maps(&key.namespace, needed).await?;
    let contexts = contexts::assemble(&ContextInput::of_agent(&key.namespace, &key.name, resolved, &config_maps))?;
    let bindings = bindings::read(shared, &key.namespace, resolved, uses).await?;
    let config = bindings.compile(resolved, &contexts, &shared.platform(), budget)?;
    Ok(Prepared { contexts, bindings, config })
}

async fn reconcile(shared: &Shared, agent: &Agent, uses: &mut Uses<'_>) -> Result<Applied, Error> {
    let platform = shared.platform();
    let key = Key::of(agent);
    let template = shared.template_of(agent);
    let mut resolved = resolve_agent(agent, template.as_deref(), &platform)?;

    let Prepared { contexts, bindings, config } =
        prepare(shared, &key, &resolved, agent.spec.budget.as_ref(), uses).await?;
    let image = Box::pin(built_image(shared, agent, &resolved, uses)).await?;
    if let Some(image) = &image {
        resolved.executor_image.clone_from(&image.image);
    }
    let followed = git_sync::look(shared, agent, &resolved, &contexts).await;
    let password = password_ref(&key.name, agent.spec.server.as_ref());
    if let Some(reference) = &password
        && agent.spec.server.as_ref().is_none_or(|server| server.password_secret_ref.is_none())
    {
        ensure_password(shared, agent, &reference.name, &reference.key).await?;
    }
    let token = collect::companion_token(&key.name);
    ensure_password(shared, agent, &token.name, &token.key).await?;
    let uid = agent.uid().unwrap_or_default();
    let git_hashes = followed.commits();
    let mut input = AgentWorkloadInput {
        agent: AgentIdentity { namespace: &key.namespace, name: &key.name, uid: &uid },
        resolved: &resolved,
        platform: &platform,
        contexts: &contexts,
        config: &config,
        port: agent.spec.port.unwrap_or(api::names::defaults::PORT),
        suspended: agent.spec.suspend,
        persistence: agent.spec.persistence.as_ref(),
        password: password.as_ref(),
        git_hashes: &git_hashes,
        secrets_digest: None,
        authorities: bindings.authorities.as_deref(),
    };
    // Built once to see which Secrets the Pods need, and once more with the digest of those Secrets.
    let needs = secrets::needs(&agent_objects(&input)?.deployment);
    let secrets = secrets::look(shared, &key.namespace, &needs, uses).await?;
    input.secrets_digest = secrets.digest.as_deref();
    let objects = apply_objects(shared, agent, agent_objects(&input)?).await?;
    Ok(Applied { resolved, config, followed, secrets: secrets.trouble, image, objects })
}

/// The image that is built for an Agent; `None` if it needs none. While it is being built, a server that runs keeps its
/// image.
async fn built_image(
    shared: &Shared,
    agent: &Agent,
    resolved: &ResolvedAgent,
    uses: &mut Uses<'_>,
) -> Result<Option<Image>, image::Error> {
    let key = Key::of(agent);
    let last = agent.status.as_ref().and_then(|status| status.executor_image.as_deref().cloned());
    let last = last.map(|BuiltImage { image, commit, settings }| Image { image, commit, settings });
    let waiter = Dependent::Agent(key.clone());
    image::ensure(shared, &key.namespace, resolved, &waiter, Request::Agent, last, uses).await
}

/// Labels an Agent with its template, so that `kubectl` can select all Agents of a template.
async fn track_template(shared: &Shared, agent: &Agent) -> Result<(), kube::Error> {
    let wanted = agent.spec.template_ref.as_ref().map(|template| template.name.clone());
    if agent.labels().get(labels::AGENT_TEMPLATE) == wanted.as_ref() {
        return Ok(());
    }
    let patch = json!({ "metadata": { "labels": { labels::AGENT_TEMPLATE: wanted } } });
    let key = Key::of(agent);
    shared.api::<Agent>(&key.namespace).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Queues every user of a changed template.
pub fn template_changed(shared: &Shared, key: &Key) {
    let users = shared.cache.agents.all(|agent| {
        agent.metadata.namespace.as_deref() == Some(&key.namespace)
            && agent.spec.template_ref.as_ref().is_some_and(|reference| reference.name == key.name)
    });
    for agent in users {
        shared.work.agents.add(Key::of(&*agent));
    }
    shared.work.templates.add(key.clone());
    let target = Target::template(key.clone());
    // The template may refer to other objects now.
    for task in shared.tasks.queues.with(|index| index.missing_on(&target)) {
        shared.work.tasks.add(task);
    }
    shared.work.admissions.add(target);
}
