//! What a run fetches from the store before its start and keeps after its end: the containers `prep` and `housekeeper`,
//! their volumes and their environment.
//!
//! For a Task on an Agent's server they work on the Agent's workspace, through its companion.
//!
//! Both prove to the depot who they are by a token with its audience; the agent's container has neither the token nor the
//! credential for publishing.

use std::time::Duration;

use api::refs::SecretKeyRef;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, ProjectedVolumeSource, ResourceRequirements, SecurityContext, ServiceAccountTokenProjection,
    Volume, VolumeMount, VolumeProjection,
};

use crate::{
    contract::{
        collect::{COMPARE_AFTER_STOP, Fetch, Keep, PublishPlan},
        companion::{self, Begin},
        depot, environment as variables, paths,
    },
    platform::Platform,
    run::{
        progress::{HOUSEKEEPER_CONTAINER, PREP_CONTAINER},
        publish,
        resolved::ResolvedTask,
        title::title,
    },
    workload::{
        build::BuildError,
        containers::Shared,
        contexts::{ContextPlan, GitMount, GitTarget, task_directory},
        environment::{optional_secret, secret, var},
        names,
        pod::{TaskIdentity, attaches, server_host},
        volumes::{self, Mounted, amount},
    },
};

const RESULTS_VOLUME: &str = "results";
const COLLECT_VOLUME: &str = "collect";
const TOKEN_VOLUME: &str = "depot-token";
/// Requests and limits are explicit: those of a LimitRange could kill the housekeeper.
const MEMORY: (&str, &str) = ("64Mi", "512Mi");
const CPU: &str = "10m";
/// Bytes of `KUBEOPENCODE_KEEP` and `KUBEOPENCODE_FETCH`: Linux starts no program with a variable of 128 KiB.
const MOST_SETTINGS: usize = 120 << 10;

/// What a run keeps and fetches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collecting {
    keep: Keep,
    fetch: Fetch,
    /// Secret with the credential for publishing.
    secret: Option<String>,
    /// The companion of the Agent on whose server the Task runs.
    companion: Option<Companion>,
}

/// The companion of an Agent, as the Pods of its Tasks reach it.
#[derive(Clone, Debug, PartialEq)]
struct Companion {
    url: String,
    token: SecretKeyRef,
    /// Directory of the Task's files, in the Pod and in the Agent's workspace; `None` if it has none.
    delivery: Option<String>,
}

/// Whether the Pod of a run has a housekeeper.
pub(crate) fn keeps(task: &ResolvedTask, platform: &Platform) -> bool {
    let ResolvedTask { artifacts, caches, outputs, publish, .. } = task;
    let files = !artifacts.is_empty() || !outputs.is_empty() || has_repositories(task);
    let stored = platform.depot_url.is_some();
    if attaches(task) {
        return files && stored;
    }
    publish.is_some() || ((files || !caches.is_empty()) && stored)
}

/// Whether the contexts of a run contain a repository whose changes can be stored as a patch.
fn has_repositories(task: &ResolvedTask) -> bool {
    // Those of a Task on an Agent's server are in its own directory, which is not compared.
    let own = task.contexts.iter().filter(|_| !attaches(task));
    task.agent.contexts.iter().chain(own).any(|context| context.git.is_some())
}

/// Plans what a run keeps and fetches.
pub(crate) fn plan(
    task: &TaskIdentity<'_>,
    resolved: &ResolvedTask,
    contexts: &ContextPlan,
    platform: &Platform,
) -> Result<Collecting, BuildError> {
    if attaches(resolved) {
        return plan_on_agent(task, resolved, contexts, platform);
    }
    let stored = platform.depot_url.is_some();
    let kept = keeps(resolved, platform);
    let keep = Keep {
        artifacts: if stored { resolved.artifacts.clone() } else { Vec::new() },
        outputs: if stored { resolved.outputs.clone() } else { Vec::new() },
        caches: if stored { resolved.caches.clone() } else { Vec::new() },
        changes: stored && kept && contexts.git.iter().any(|mount| is_checkout_below(mount, &contexts.workspace_dir)),
        publish: publish_plan(task, resolved, contexts)?,
    };
    let mut fetch = Fetch {
        inputs: if stored { resolved.inputs.clone() } else { Vec::new() },
        caches: if stored { resolved.caches.clone() } else { Vec::new() },
    };
    for input in &mut fetch.inputs {
        input.mount_path = absolute(&input.mount_path, &contexts.workspace_dir)
            .ok_or_else(|| BuildError::InputPath { path: input.mount_path.clone() })?;
    }
    check_size(&keep, &fetch)?;
    let secret = keep.publish.as_ref().map(|plan| plan.settings.secret_ref.name.clone());
    Ok(Collecting { keep, fetch, secret, companion: None })
}

/// The same for a Task on an Agent's server: the workspace is the Agent's, and its inputs are put into the directory of
/// the Task there. Caches belong to a Pod, and publishing needs the checkout: they have no effect here.
fn plan_on_agent(
    task: &TaskIdentity<'_>,
    resolved: &ResolvedTask,
    contexts: &ContextPlan,
    platform: &Platform,
) -> Result<Collecting, BuildError> {
    let stored = platform.depot_url.is_some();
    let keep = Keep {
        artifacts: if stored { resolved.artifacts.clone() } else { Vec::new() },
        outputs: if stored { resolved.outputs.clone() } else { Vec::new() },
        changes: stored && has_repositories(resolved),
        ..Keep::default()
    };
    let mut fetch = Fetch { inputs: if stored { resolved.inputs.clone() } else { Vec::new() }, caches: Vec::new() };
    for input in &mut fetch.inputs {
        input.mount_path = input_on_agent(&input.mount_path, &contexts.workspace_dir, task.name)
            .ok_or_else(|| BuildError::InputPath { path: input.mount_path.clone() })?;
    }
    check_size(&keep, &fetch)?;
    let delivery = contexts.delivery.clone();
    let delivery =
        delivery.or_else(|| (!fetch.inputs.is_empty()).then(|| task_directory(&contexts.workspace_dir, task.name)));
    let companion = server_host(resolved).map(|(agent, host)| Companion {
        url: format!("http://{host}:{}", companion::PORT),
        token: companion_token(agent),
        delivery,
    });
    Ok(Collecting { keep, fetch, secret: None, companion })
}

/// Refuses settings with which Linux starts no container.
fn check_size(keep: &Keep, fetch: &Fetch) -> Result<(), BuildError> {
    for (what, json) in [("kept", serde_json::to_string(keep)), ("fetched", serde_json::to_string(fetch))] {
        let bytes = json.map(|json| json.len()).unwrap_or_default();
        if bytes > MOST_SETTINGS {
            return Err(BuildError::TooManyResults { what, bytes });
        }
    }
    Ok(())
}

/// Path of an input of a Task on an Agent's server; `None` if it leads out of the workspace.
pub(crate) fn input_on_agent(path: &str, workspace: &str, task: &str) -> Option<String> {
    let path = absolute(path, workspace)?;
    Some(format!("{}{}", task_directory(workspace, task), path.strip_prefix(workspace)?))
}

/// Secret key with the token of an Agent's companion.
pub fn companion_token(agent: &str) -> SecretKeyRef {
    SecretKeyRef { name: names::agent_companion(agent), key: companion::TOKEN_KEY.to_owned() }
}

/// Whether the agent finds a whole repository below the workspace: the changes of another one cannot be compared.
fn is_checkout_below(mount: &GitMount, workspace: &str) -> bool {
    let directory = match &mount.target {
        GitTarget::Mount { path, sub_path: None } => path,
        GitTarget::Merge { directory, sub_path: None } => directory,
        GitTarget::Mount { .. } | GitTarget::Merge { .. } | GitTarget::Parts(_) => return false,
    };
    directory.strip_prefix(workspace).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path below the workspace; `None` if it leads elsewhere.
fn absolute(path: &str, workspace: &str) -> Option<String> {
    let below = path.strip_prefix(workspace).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if path.starts_with('/') && below.is_none() {
        return None;
    }
    let mut parts = Vec::new();
    for part in below.unwrap_or(path).split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part => parts.push(part),
        }
    }
    parts.insert(0, workspace);
    Some(parts.join("/"))
}

fn publish_plan(
    task: &TaskIdentity<'_>,
    resolved: &ResolvedTask,
    contexts: &ContextPlan,
) -> Result<Option<PublishPlan>, BuildError> {
    let Some(settings) = &resolved.publish else { return Ok(None) };
    let refused = |problem: String| Err(BuildError::Publish(problem));
    let of_others = |mount: &&GitMount| resolved.publish_inherited && mount.of_task;
    let usable: Vec<&GitMount> = contexts.git.iter().filter(|mount| !of_others(mount)).collect();
    let repository = match &settings.context {
        Some(name) => usable.iter().copied().find(|mount| mount.name == *name),
        None if usable.len() > 1 => {
            let names: Vec<&str> = usable.iter().map(|mount| mount.name.as_str()).collect();
            return refused(format!(
                "there are several Git contexts; name one in publish.context: {}",
                names.join(", ")
            ));
        }
        None => usable.first().copied(),
    };
    let by_name = |mount: &&GitMount| settings.context.as_ref().is_none_or(|name| mount.name == *name);
    if repository.is_none() && contexts.git.iter().filter(of_others).any(|mount| by_name(&mount)) {
        return refused(
            "it is set on the template, whose credential is for the repositories of the template, and this repository \
             is a context of the Task; set publish on the Task"
                .to_owned(),
        );
    }
    let Some(GitMount { repository, reference, target, .. }) = repository else {
        return refused(match &settings.context {
            Some(name) => format!("there is no Git context {name:?}"),
            None => "the Task has no Git context".to_owned(),
        });
    };
    let directory = match target {
        GitTarget::Mount { path, sub_path: None } => path.clone(),
        GitTarget::Merge { directory, sub_path: None } => directory.clone(),
        _ => return refused("the context takes a part of its repository; remove git.path from it".to_owned()),
    };
    let branch = publish::branch(settings, task.namespace, task.name, task.epoch)
        .map_err(|problem| BuildError::Publish(problem.to_string()))?;
    Ok(Some(PublishPlan {
        repository: repository.clone(),
        reference: reference.clone(),
        left_out: put_by_contexts(contexts, &directory),
        directory,
        branch,
        title: resolved.description.as_deref().and_then(title).unwrap_or_else(|| format!("Task {}", task.name)),
        settings: settings.clone(),
    }))
}

/// What contexts put below a directory.
fn put_by_contexts(contexts: &ContextPlan, directory: &str) -> Vec<String> {
    let files = contexts.files.iter().map(|file| &file.target_path);
    let directories = contexts.directories.iter().map(|mount| &mount.target_path);
    let documents = contexts.urls.iter().map(|url| &url.target_path);
    let mounted = contexts.git.iter().filter_map(|mount| match &mount.target {
        GitTarget::Mount { path, .. } => Some(path),
        _ => None,
    });
    let below = |path: &&String| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    files.chain(directories).chain(documents).chain(mounted).filter(below).cloned().collect()
}

impl Collecting {
    pub(crate) fn keeps(&self) -> bool {
        !self.keep.is_empty()
    }

    /// How much longer than usual the run may take to stop, so that it keeps its results; `None` if it keeps nothing.
    pub(crate) fn stop_time(&self, limit: Duration) -> Option<Duration> {
        let comparing = if self.keep.changes { COMPARE_AFTER_STOP } else { Duration::ZERO };
        self.keeps().then(|| limit.saturating_add(comparing))
    }

    fn fetches(&self) -> bool {
        !self.fetch.is_empty()
    }

    /// Whether files are delivered to the workspace of an Agent.
    pub(crate) fn delivers(&self) -> bool {
        self.companion.as_ref().is_some_and(|companion| companion.delivery.is_some())
    }

    /// Whether the Pod has a container `prep`.
    fn prepares(&self) -> bool {
        self.fetches() || self.delivers() || (self.companion.is_some() && self.keeps())
    }

    fn uses_depot(&self) -> bool {
        let Keep { artifacts, outputs, caches, changes, publish: _ } = &self.keep;
        self.fetches() || *changes || !(artifacts.is_empty() && outputs.is_empty() && caches.is_empty())
    }

    pub(crate) fn volumes(&self) -> Vec<Volume> {
        let mut all = Vec::new();
        if self.keeps() {
            all.push(volumes::empty(RESULTS_VOLUME));
        }
        if self.keeps() || self.fetches() {
            all.push(volumes::empty(COLLECT_VOLUME));
        }
        if self.uses_depot() {
            all.push(token_volume());
        }
        all
    }

    /// The environment of the agent's container.
    pub(crate) fn agent_env(&self) -> Vec<EnvVar> {
        if !self.keeps() {
            return Vec::new();
        }
        let mut env =
            vec![var(variables::SHIM_LOCK_FILE, paths::RUN_LOCK), var(variables::SHIM_REPORT_FILE, paths::REPORT_COPY)];
        if self.companion.is_some() {
            env.extend(self.keep.changes.then(|| var(variables::EDITS_FILE, paths::EDITS)));
            return env;
        }
        if self.keep.changes {
            env.push(var(variables::SHIM_PATCH_FILE, paths::PATCH));
        }
        if !self.keep.outputs.is_empty() {
            env.push(var(variables::OUTPUTS_FILE, paths::OUTPUTS));
        }
        env
    }

    pub(crate) fn agent_mount(&self) -> Option<Mounted> {
        let mount = || volumes::mount(RESULTS_VOLUME, paths::RESULTS);
        self.keeps().then(|| Mounted { mount: mount(), what: "the results of the run".to_owned() })
    }

    /// The init container that fetches inputs and caches, and prepares the workspace of an Agent. `files` are the mounts
    /// with the agent's files.
    pub(crate) fn prep(
        &self,
        shared: &Shared<'_>,
        task_env: Vec<EnvVar>,
        files: &[VolumeMount],
        agent: &Container,
        startup_timeout: Duration,
    ) -> Option<Container> {
        if !self.prepares() {
            return None;
        }
        let mut env = if self.companion.is_some() { task_env } else { Vec::new() };
        if self.fetches() {
            env.push(var(variables::FETCH, serde_json::to_string(&self.fetch).unwrap_or_default()));
            env.push(var(variables::STARTUP_TIMEOUT, seconds(startup_timeout)));
        }
        if let Some(companion) = &self.companion {
            env.extend(companion.delivery.as_ref().map(|directory| var(variables::DELIVERY_DIR, directory)));
            if self.keeps() {
                let begin = Begin { outputs: !self.keep.outputs.is_empty(), changes: self.keep.changes };
                env.push(var(variables::COMPANION_BEGIN, serde_json::to_string(&begin).unwrap_or_default()));
            }
        }
        env.extend(self.common_env(shared));
        let mut mounts = files.to_vec();
        mounts.extend(self.common_mounts());
        let container =
            Container { resources: Some(resources()), ..shared.finished_helper(PREP_CONTAINER, "prep", env, mounts) };
        Some(as_user_of(container, agent))
    }

    /// The container that keeps what the run leaves. It sees the agent's files, but cannot change them.
    pub(crate) fn housekeeper(
        &self,
        shared: &Shared<'_>,
        task_env: Vec<EnvVar>,
        files: &[VolumeMount],
        agent: &Container,
        limit: Duration,
    ) -> Option<Container> {
        if !self.keeps() {
            return None;
        }
        let mut env = task_env;
        env.push(var(variables::KEEP, serde_json::to_string(&self.keep).unwrap_or_default()));
        env.push(var(variables::COLLECT_TIMEOUT, seconds(limit)));
        env.extend(self.common_env(shared));
        if let Some(secret) = &self.secret {
            env.extend(variables::GIT_CREDENTIALS.map(|(name, key)| optional_secret(name, secret, key)));
        }
        // Below a read-only mount no directory can be made for another mount.
        let holds_another = |mount: &VolumeMount| {
            files.iter().any(|other| other != mount && other.mount_path.starts_with(&mount.mount_path))
        };
        let as_seen = |mount: &VolumeMount| {
            let read_only = if holds_another(mount) { mount.read_only } else { Some(true) };
            VolumeMount { read_only, ..mount.clone() }
        };
        let mut mounts: Vec<VolumeMount> = files.iter().map(as_seen).collect();
        mounts.push(volumes::mount(RESULTS_VOLUME, paths::RESULTS));
        mounts.extend(self.common_mounts());
        let container = Container {
            resources: Some(resources()),
            ..shared.finished_helper(HOUSEKEEPER_CONTAINER, "housekeeper", env, mounts)
        };
        Some(as_user_of(container, agent))
    }

    fn common_env(&self, shared: &Shared<'_>) -> Vec<EnvVar> {
        let url = shared.platform.depot_url.as_ref().filter(|_| self.uses_depot());
        let mut env: Vec<EnvVar> = url.map(|url| var(variables::DEPOT_URL, url)).into_iter().collect();
        env.push(var(variables::WORKSPACE_DIR, &shared.agent.workspace_dir));
        if let Some(Companion { url, token, .. }) = &self.companion {
            env.extend([var(variables::COMPANION_URL, url), secret(variables::COMPANION_TOKEN, token)]);
        }
        env
    }

    fn common_mounts(&self) -> Vec<VolumeMount> {
        let mut mounts = Vec::new();
        if self.keeps() || self.fetches() {
            mounts.push(volumes::mount(COLLECT_VOLUME, paths::COLLECT));
        }
        if self.uses_depot() {
            let mount = volumes::mount(TOKEN_VOLUME, paths::DEPOT_TOKEN_DIRECTORY);
            mounts.push(VolumeMount { read_only: Some(true), ..mount });
        }
        mounts
    }
}

fn seconds(span: Duration) -> String {
    format!("{}s", span.as_secs().max(1))
}

fn token_volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(depot::AUDIENCE.to_owned()),
        expiration_seconds: Some(depot::TOKEN_SECONDS),
        path: paths::DEPOT_TOKEN_NAME.to_owned(),
    };
    let source = VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    let projected = ProjectedVolumeSource { sources: Some(vec![source]), default_mode: None };
    Volume { name: TOKEN_VOLUME.to_owned(), projected: Some(projected), ..Volume::default() }
}

pub(crate) fn resources() -> ResourceRequirements {
    let mut requests = amount("memory", MEMORY.0);
    requests.extend(amount("cpu", CPU));
    ResourceRequirements { requests: Some(requests), limits: Some(amount("memory", MEMORY.1)), claims: None }
}

/// The container as the user of the agent's container, if that one does not have the user of the Pod: otherwise its files
/// could not be read.
pub(crate) fn as_user_of(mut container: Container, agent: &Container) -> Container {
    if let Some(SecurityContext { run_as_user, run_as_group, run_as_non_root, .. }) = &agent.security_context {
        let own = container.security_context.get_or_insert_default();
        (own.run_as_user, own.run_as_group) = (*run_as_user, *run_as_group);
        own.run_as_non_root = *run_as_non_root;
    }
    container
}
