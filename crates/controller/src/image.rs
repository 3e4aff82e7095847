//! Images of `executorImageBuild`: equal builds of a namespace share one Pod.
//!
//! Read in this order: [`ensure`] (the image for a run or an Agent, or what it waits for), [`pod_changed`] (who hears of a
//! build that goes on), [`pass`] (a finished build is remembered, and its Pod deleted when it is due).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::{
    conditions::reasons,
    names::{field_managers, labels},
};
use domain::{
    image::{
        Plan, Recipe, RecipeError,
        builder::{self, LONGEST},
        memory::{self, Built},
        progress::{Progress, Request, Step, about, decide},
    },
    platform::Platform,
    run::resolved::ResolvedAgent,
    workload::build::BuildError,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use observe::{Change, Key, Next};
use serde_json::json;

use crate::{
    lookup::{self, route},
    registry::git_credentials,
    shared::{
        Shared,
        dependents::{Dependent, Uses},
        instant, now,
    },
    task::{
        needs,
        start::{self, replaced},
    },
};

/// A Pod gets this much longer than its build may take, to be scheduled.
const SCHEDULING: Duration = Duration::from_mins(10);
/// After a failed look-up of a commit, a run tries again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// The commit of a ref is looked up once for runs that start together.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// Looked-up commits that are remembered.
const MOST_COMMITS: usize = 1000;

/// Why there is no image yet, or none at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request or did not answer.
    #[error("the API server refused a write: {0}")]
    Api(#[from] kube::Error),
    /// No image can be built with these settings.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The Pod cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A Secret or ConfigMap of the Pod is missing.
    #[error("executorImageBuild: {message}")]
    Lacks { reason: &'static str, message: String },
    /// The commit cannot be looked up.
    #[error("the commit of executorImageBuild cannot be looked up: {0}")]
    Source(lookup::Error),
    /// The image is being built.
    #[error("{0}")]
    Building(String),
    /// The build failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Stable reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Api(_) => reasons::POD_CREATION_ERROR,
            Self::Recipe(error) => error.reason(),
            Self::Build(error) => error.reason(),
            Self::Lacks { reason, .. } => reason,
            Self::Source(_) => reasons::IMAGE_SOURCE_UNAVAILABLE,
            Self::Building(_) => reasons::BUILDING_IMAGE,
            Self::Failed(_) => reasons::IMAGE_BUILD_FAILED,
        }
    }

    /// Whether the image can still come about without a change of the settings.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Source(error) => !is_final(error),
            Self::Lacks { .. } | Self::Building(_) => true,
            Self::Api(_) | Self::Recipe(_) | Self::Build(_) | Self::Failed(_) => false,
        }
    }

    /// Whether a retry is useless.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => {
                matches!(status.code, 400 | 403 | 413 | 422) && !status.message.contains("exceeded quota")
            }
            Self::Source(error) => is_final(error),
            Self::Recipe(_) | Self::Build(_) | Self::Failed(_) => true,
            Self::Api(_) | Self::Lacks { .. } | Self::Building(_) => false,
        }
    }

    /// How long a run waits for the image.
    pub fn patience(&self, platform: &Platform) -> Duration {
        match self {
            Self::Building(_) => Duration::from_secs(LONGEST.unsigned_abs()) + SCHEDULING,
            _ => platform.reference_grace_period,
        }
    }

    /// When to try again, if no change of an object leads there.
    pub fn look_again(&self) -> Option<Timestamp> {
        matches!(self, Self::Source(_)).then(|| now() + LOOK_AGAIN)
    }
}

/// Whether only a change of the settings helps.
fn is_final(error: &lookup::Error) -> bool {
    matches!(error, lookup::Error::Unsupported(_) | lookup::Error::Forbidden(_))
}

impl From<start::Error> for Error {
    fn from(error: start::Error) -> Self {
        match error {
            start::Error::Api(error) => Self::Api(error),
            error => Self::Lacks { reason: error.reason(), message: error.to_string() },
        }
    }
}

/// An image that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// By digest.
    pub image: String,
    pub commit: String,
    /// Hash of the settings that it was built with.
    pub settings: String,
}

/// What is known about builds between passes.
#[derive(Debug, Default)]
pub struct Images(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The Pod that each run or Agent waits for.
    waiters: HashMap<Dependent, Key>,
    /// The commit that a waiting run or Agent has settled on, with the hash of its settings: a branch that moves on in the
    /// meantime must not let it wait for ever.
    commits: HashMap<Dependent, (String, String)>,
    /// The last look-ups, by namespace and hash of the settings.
    looked_up: HashMap<(String, String), (String, Timestamp)>,
}

impl Images {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a run that began or will not begin, or an Agent that has its image.
    pub fn forget(&self, waiter: &Dependent) {
        let mut known = self.lock();
        known.waiters.remove(waiter);
        known.commits.remove(waiter);
    }
}

/// The image of an agent; `None` if it need not be built. `waiter` is reconciled again when the build goes on.
///
/// `last` is the image that an Agent has.
pub async fn ensure(
    shared: &Shared,
    namespace: &str,
    agent: &ResolvedAgent,
    waiter: &Dependent,
    request: Request,
    last: Option<Image>,
    uses: &mut Uses<'_>,
) -> Result<Option<Image>, Error> {
    let platform = shared.platform();
    let Some(recipe) = Recipe::of(agent, &platform)? else {
        shared.images.forget(waiter);
        return Ok(None);
    };
    let settings = recipe.hash();
    if let Some(last) = last.filter(|last| last.settings == settings) {
        shared.images.forget(waiter);
        return Ok(Some(last));
    }
    let commit = commit(shared, namespace, agent, &recipe, waiter, &settings).await?;
    let plan = recipe.at(namespace, &commit);
    let pod_key = Key::new(namespace, &plan.pod);
    // Before the Pod is read: from now on the waiter hears of its changes.
    shared.images.lock().waiters.insert(waiter.clone(), pod_key.clone());
    let built = |image: String| {
        shared.images.lock().waiters.remove(waiter);
        Ok(Some(Image { image, commit: commit.clone(), settings: settings.clone() }))
    };
    if let Some(image) = recall(shared, namespace, &plan).await? {
        return built(image);
    }
    let pods = shared.api::<Pod>(namespace);
    let pod = shared.cache.pods.object(&pod_key);
    match decide(&plan, pod.as_deref(), request, platform.startup_timeout, now()) {
        Step::Use(image) => built(image),
        Step::Wait(sentence) => Err(Error::Building(sentence)),
        Step::Fail(sentence) => Err(Error::Failed(sentence)),
        Step::Repeat(sentence) => {
            // The event of the deletion leads to the next attempt.
            if let Some(pod) = &pod {
                delete(&pods, pod).await?;
            }
            Err(Error::Building(sentence))
        }
        Step::Create => {
            let builder = builder::builder(&recipe, &plan, namespace, &platform)?;
            needs::check(shared, namespace, &builder.pod, &builder.sources, uses).await?;
            let about = &plan.about;
            let sentence =
                format!("the image {} is being built from {} by Pod {}", about.image, about.source(), plan.pod);
            match pods.create(&PostParams::default(), &builder.pod).await {
                Ok(made) => {
                    tracing::info!(pod = %pod_key, image = about.image, "an image is being built");
                    shared.cache.pods.insert_written(made);
                }
                // The cache does not show it yet; its event leads here.
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
                Err(error) => return Err(error.into()),
            }
            Err(Error::Building(sentence))
        }
    }
}

/// The commit that a run or an Agent uses.
async fn commit(
    shared: &Shared,
    namespace: &str,
    agent: &ResolvedAgent,
    recipe: &Recipe<'_>,
    waiter: &Dependent,
    settings: &str,
) -> Result<String, Error> {
    if let Some(commit) = recipe.commit() {
        return Ok(commit);
    }
    let place = (namespace.to_owned(), settings.to_owned());
    {
        let mut known = shared.images.lock();
        if let Some((commit, _)) = known.commits.get(waiter).filter(|(_, of)| of == settings) {
            return Ok(commit.clone());
        }
        let fresh = known.looked_up.get(&place).filter(|(_, at)| now() < *at + FRESH);
        if let Some(commit) = fresh.map(|(commit, _)| commit.clone()) {
            known.commits.insert(waiter.clone(), (commit.clone(), settings.to_owned()));
            return Ok(commit);
        }
    }
    let key = Key::new(namespace, "");
    let look = async {
        let credentials = git_credentials(shared, &key, recipe.build.secret_ref.as_ref().map(|secret| &secret.name));
        let credentials = credentials.await?;
        let route = route::of_agent(shared, &key, agent).await?;
        shared.lookup.through(&route)?.commit(&recipe.build.repository, recipe.reference(), &credentials).await
    };
    let commit = look.await.map_err(Error::Source)?;
    let mut known = shared.images.lock();
    if known.looked_up.len() >= MOST_COMMITS {
        known.looked_up.clear();
    }
    known.looked_up.insert(place, (commit.clone(), now()));
    known.commits.insert(waiter.clone(), (commit.clone(), settings.to_owned()));
    Ok(commit)
}

/// The image of a plan, if it was built before.
async fn recall(shared: &Shared, namespace: &str, plan: &Plan) -> Result<Option<String>, kube::Error> {
    let found = shared.api::<ConfigMap>(namespace).get_opt(memory::CONFIG_MAP).await?;
    Ok(found.and_then(|map| memory::recall(&map.data?, plan)))
}

/// Reconciles everything that a changed builder Pod concerns.
pub fn pod_changed(shared: &Shared, change: &Change<'_, Pod>) {
    if change.last().and_then(about).is_none() {
        return;
    }
    shared.work.images.add(change.key.clone());
    notify(shared, change.key, |_| true);
}

fn notify(shared: &Shared, pod: &Key, chosen: impl Fn(&Dependent) -> bool) {
    let known = shared.images.lock();
    for (waiter, _) in known.waiters.iter().filter(|(waiter, of)| *of == pod && chosen(waiter)) {
        match waiter {
            Dependent::Task(task) => shared.work.tasks.add(task.clone()),
            Dependent::Agent(agent) => shared.work.agents.add(agent.clone()),
            Dependent::Template(template) => shared.work.templates.add(template.clone()),
        }
    }
}

/// Follows the Pod of a build: remembers a finished image, and deletes the Pod when it is due.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(pod) = shared.cache.pods.object(key) else { return Ok(Next::Wait) };
    let Some(about) = about(&pod).filter(|_| pod.metadata.deletion_timestamp.is_none()) else { return Ok(Next::Wait) };
    let now = now();
    let progress = Progress::of(&pod, &about, shared.platform().startup_timeout, now);
    match &progress {
        Progress::Building { until } => return Ok(until.map_or(Next::Wait, |until| Next::At(instant(until)))),
        Progress::Built { image, at } => {
            let plan_key = key.name.rsplit('-').next().unwrap_or_default();
            remember(shared, &key.namespace, plan_key, &Built::new(&about, image.clone(), *at)).await?;
        }
        // Also one that never started, of which no event says so.
        Progress::Failed { .. } => notify(shared, key, |waiter| matches!(waiter, Dependent::Task(_))),
    }
    if let Some(retry) = progress.retry_at() {
        if now < retry {
            return Ok(Next::At(instant(retry)));
        }
        notify(shared, key, |waiter| matches!(waiter, Dependent::Agent(_)));
    }
    let Some(due) = progress.delete_at() else { return Ok(Next::Wait) };
    if now < due {
        return Ok(Next::At(instant(due)));
    }
    delete(&shared.api::<Pod>(&key.namespace), &pod).await?;
    Ok(Next::Wait)
}

/// Writes an image into the ConfigMap of its namespace. There is one writer: the leader.
async fn remember(shared: &Shared, namespace: &str, key: &str, built: &Built) -> Result<(), kube::Error> {
    let maps = shared.api::<ConfigMap>(namespace);
    let Some(found) = maps.get_opt(memory::CONFIG_MAP).await? else {
        let mut data = BTreeMap::new();
        memory::remember(&mut data, key, built);
        let metadata = ObjectMeta {
            name: Some(memory::CONFIG_MAP.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(labels::APP.to_owned(), labels::APP_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        let params = PostParams { field_manager: Some(field_managers::CONTROLLER.to_owned()), ..PostParams::default() };
        return maps.create(&params, &map).await.map(drop);
    };
    let before = found.data.clone().unwrap_or_default();
    let mut after = before.clone();
    if !memory::remember(&mut after, key, built) {
        return Ok(());
    }
    let patch = json!({ "metadata": { "resourceVersion": found.resource_version() }, "data": replaced(Some(before), Some(after)) });
    maps.patch(memory::CONFIG_MAP, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// Deletes exactly this Pod.
async fn delete(pods: &kube::Api<Pod>, pod: &Pod) -> Result<(), kube::Error> {
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    match pods.delete(&pod.name_any(), &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}
