//! The Pod of one run of a Task.
//!
//! There are two kinds. A Task on an Agent's server needs only a small client that sends the prompt and follows the
//! session: see [`attach_pod`]. A Task on a template, or with a command of its own, works in its own Pod: see
//! [`own_pod`].

use std::time::Duration;

use api::{
    TaskSpec,
    names::labels,
    run::{ApprovalMode, Workspace, WorkspaceAccess},
};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EnvVar, EphemeralVolumeSource, KeyToPath,
    PersistentVolumeClaimTemplate, Pod, PodSpec, ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    contract::{
        environment as variables,
        paths::{self, OPENCODE, OUR_BINARY},
        termination::report_bytes,
    },
    opencode::CompiledConfig,
    platform::Platform,
    run::{
        budget::Allowance,
        progress::{HOUSEKEEPER_CONTAINER, PREP_CONTAINER, TASK_CONTAINER},
        resolved::{ResolvedAgent, ResolvedTarget, ResolvedTask},
        target::RunsOn,
        workspace as run_workspace,
    },
    workload::{
        build::{self, BuildError, Owner},
        collect,
        containers::{self, GIT_VOLUME_PREFIX, SESSION_VOLUME, Shared, git_volume},
        contexts::{self, Bundle, ContextPlan, FileItem},
        environment::{self, TASK_SHELL_ENV, Traced, var},
        names, security,
        volumes::{self, Mounted, amount},
        workbench::{self, Materials},
    },
};

/// Memory request of `opencode run`: it is killed at 512Mi and works at 640Mi.
const RUN_MEMORY: &str = "640Mi";
/// Default memory limit.
const MOST_MEMORY: &str = "4Gi";
/// Memory request and limit of the attach client; a user's own attach image with the real OpenCode needs more, hence
/// the limit.
const ATTACH_MEMORY: (&str, &str) = ("64Mi", "512Mi");
/// Request and limit of local storage, for logs, the workspace and other volumes without a claim. Without a limit, one
/// Task can fill the disk of its node. The request is zero because a limit alone would be requested whole, and because
/// some nodes report no local storage: those of rootless clusters, for example, take no Pod that requests it.
const STORAGE: (&str, &str) = ("0", "20Gi");

#[derive(Clone, Copy, Debug)]
pub struct TaskIdentity<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// A Task of the same name that is created later has another UID.
    pub uid: &'a str,
    pub epoch: i64,
}

/// Input of the builders.
#[derive(Clone, Copy, Debug)]
pub struct TaskPodInput<'a> {
    pub task: TaskIdentity<'a>,
    pub resolved: &'a ResolvedTask,
    pub platform: &'a Platform,
    pub contexts: &'a ContextPlan,
    /// Tokens and cost that the run may use.
    pub allowance: Allowance,
}

/// The objects of a run, in the order in which they are created.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObjects {
    /// Context files.
    pub config_maps: Vec<ConfigMap>,
    pub pod: Pod,
}

/// Whether the Task runs on an Agent's server through the attach client. A Task with a command has a Pod of its own.
pub fn attaches(task: &ResolvedTask) -> bool {
    matches!(task.target, ResolvedTarget::Agent { .. }) && task.agent.command.is_none()
}

/// Refuses settings of a Task that have no effect where it runs.
pub fn check(task: &TaskSpec, resolved: &ResolvedTask) -> Result<(), BuildError> {
    let agent = &resolved.agent;
    match &resolved.target {
        ResolvedTarget::Agent { name, .. } if attaches(resolved) => {
            let refused = |field, advice| Err(BuildError::OfTheAgent { field, agent: name.clone(), advice });
            if task.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
                return refused("tools", "set tools on the Agent");
            }
            if task.executor_image_build.is_some() {
                return refused("executorImageBuild", "set executorImageBuild on the Agent");
            }
            if task.workspace.is_some() {
                return refused("workspace", "set persistence.workspace on the Agent");
            }
            if task.run.services.as_ref().is_some_and(|services| !services.is_empty()) {
                return refused("services", "let the Agent reach them through a Service of Kubernetes");
            }
            Ok(())
        }
        // A custom command does not use our approvals.
        _ if agent.command.is_none() && agent.approval.mode != ApprovalMode::Never => {
            Err(BuildError::NoApprover(agent.approval.mode))
        }
        _ => Ok(()),
    }
}

/// The Pod of a Task that works in the Pod itself.
pub fn own_pod(input: &TaskPodInput<'_>, config: &CompiledConfig) -> Result<TaskObjects, BuildError> {
    let TaskPodInput { task, resolved, platform, contexts: plan, allowance: _ } = *input;
    let agent = &resolved.agent;
    let WorkspaceMounts { volume: workspace_volume, own: workspace, whole } = workspace(input);
    let shared = Shared {
        platform,
        agent,
        env: shared_env(input),
        workspace: workspace.clone(),
        outside: workbench::outside(plan),
    };
    let config_map = names::task_context(task.name);
    let session = shared.session();
    let collecting = collect::plan(&task, resolved, plan, platform)?;
    let bench = workbench::set_up(&Materials {
        shared,
        plan,
        config,
        workspace_volume,
        config_map,
        shell_env: TASK_SHELL_ENV,
    })?;

    let title = names::session_title(task.namespace, task.name, task.uid);
    let mut command = vec![OUR_BINARY.to_owned(), "shim".to_owned(), "--".to_owned()];
    let mut env = environment::home();
    env.extend(task_env(input));
    env.extend(password_env(input));
    if let Some(own) = &agent.command {
        command.extend(own.iter().cloned());
        env.push(var(variables::SHIM_FORMAT, "plain"));
    } else {
        let run = [OPENCODE, "run", "--format", "json", "--title", &title];
        command.extend(run.map(str::to_owned));
        env.push(var(variables::SHIM_FORMAT, "opencode-json"));
        env.extend(plan.prompt_file.as_ref().map(|path| var(variables::SHIM_STDIN_FILE, path)));
    }
    env.extend(bench.env);
    env.extend(collecting.agent_env());
    let files = agent_files(&bench.mounts, agent, &plan.workspace_dir);
    let mut mounts = bench.mounts;
    mounts.extend(whole.map(|mount| Mounted { mount, what: "the workspaces of all runs".to_owned() }));
    mounts.push(session_mount());
    mounts.extend(collecting.agent_mount());
    let mut all = bench.volumes;
    all.push(volumes::empty(SESSION_VOLUME));
    all.extend(collecting.volumes());
    let container = Container {
        name: "agent".to_owned(),
        image: Some(agent.executor_image.clone()),
        image_pull_policy: Some(containers::pull_policy(&agent.executor_image).to_owned()),
        command: Some(command),
        working_dir: Some(plan.workspace_dir.clone()),
        env: Some(environment::settle(env)),
        env_from: Some(bench.env_from).filter(|sources| !sources.is_empty()),
        volume_mounts: Some(build::distinct(mounts)?),
        resources: Some(with_storage(resources(agent, RUN_MEMORY))),
        lifecycle: agent.pod.lifecycle.clone(),
        termination_message_policy: Some("File".to_owned()),
        security_context: Some(security::agent_container(&agent.pod)),
        ..Container::default()
    };
    let helpers = self::shared(input, workspace);
    let mut init_containers = bench.init_containers;
    init_containers.extend(collecting.prep(&helpers, Vec::new(), &files, &container, resolved.startup_timeout));
    init_containers.push(session);
    let limit = resolved.collect_timeout;
    let housekeeper = collecting.housekeeper(&helpers, identity_env(&task), &files, &container, limit);
    for service in &resolved.services {
        let ours = [TASK_CONTAINER, HOUSEKEEPER_CONTAINER];
        if ours.contains(&service.name.as_str()) || init_containers.iter().any(|other| other.name == service.name) {
            return Err(BuildError::ServiceName(service.name.clone()));
        }
        init_containers.push(containers::side_service(service));
    }
    let extra_volumes = agent.pod.extra_volumes.as_deref().unwrap_or_default();
    let containers = [Some(container), housekeeper].into_iter().flatten().collect();
    let mut spec = build::pod_spec(agent, init_containers, containers, all, extra_volumes)?;
    collect_in_time(&mut spec, collecting.stop_time(limit));
    Ok(objects(input, spec, bench.bundle))
}

/// A run that is stopped or evicted keeps its results too. The shim ends the agent within the usual time.
fn collect_in_time(spec: &mut PodSpec, limit: Option<Duration>) {
    if let (Some(limit), Some(seconds)) = (limit, &mut spec.termination_grace_period_seconds) {
        *seconds = seconds.saturating_add(i64::try_from(limit.as_secs()).unwrap_or(i64::MAX / 2));
    }
}

/// The mounts with the files on which the agent works: the workspace, repositories, and volumes of the user below the
/// workspace.
pub(crate) fn agent_files(mounts: &[Mounted], agent: &ResolvedAgent, workspace: &str) -> Vec<VolumeMount> {
    let below = |path: &str| path.strip_prefix(workspace).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let own = agent.pod.extra_volume_mounts.as_deref().unwrap_or_default();
    let has_files = |mount: &VolumeMount| {
        mount.name == "workspace" || mount.name.starts_with(GIT_VOLUME_PREFIX) || own.contains(mount)
    };
    let chosen = mounts.iter().map(|mounted| &mounted.mount);
    chosen.filter(|mount| below(&mount.mount_path) && has_files(mount)).cloned().collect()
}

/// The Pod of a Task on an Agent's server. It contains a client, the prompt and the files that `prep` delivers; the
/// agent's credentials, volumes, hooks and resources belong to the server.
pub fn attach_pod(input: &TaskPodInput<'_>) -> Result<TaskObjects, BuildError> {
    let TaskPodInput { task, resolved, contexts: plan, .. } = *input;
    let agent = &resolved.agent;
    // The platform's own image contains our client. Another image may contain the real OpenCode, which reads its prompt
    // from standard input and ignores SIGTERM as PID 1: it gets the shim.
    let shimmed = agent.attach_image != input.platform.attach_image;
    let mut given = plan.files.clone();
    let stdin = if shimmed { with_contexts(plan, &mut given) } else { None };
    let bundle = contexts::pack(&names::task_context(task.name), &given)?;
    let collecting = collect::plan(&task, resolved, plan, input.platform)?;
    let files = AttachFiles::plan(input, &bundle, shimmed, collecting.delivers());

    let mut env = environment::home();
    env.push(var(variables::TMPDIR, paths::HOME));
    env.extend(task_env(input));
    env.extend(plan.prompt_file.as_ref().map(|path| var(variables::PROMPT_FILE, path)));
    env.extend(plan.context_file.as_ref().map(|path| var(variables::KUBEOPENCODE_SYSTEM_FILE, path)));
    env.extend(collecting.agent_env());
    env.extend(password_env(input));
    if shimmed {
        env.push(var(variables::SHIM_FORMAT, "client"));
        env.extend(stdin.map(|path| var(variables::SHIM_STDIN_FILE, path)));
    }
    let mut mounts = vec![Mounted { mount: files.mount.clone(), what: "the workspace".to_owned() }];
    mounts.push(Mounted { mount: volumes::mount("tmp", paths::HOME), what: "the home directory".to_owned() });
    if shimmed {
        mounts.push(Mounted { mount: volumes::mount("tools", paths::TOOLS), what: "our tools".to_owned() });
    }
    mounts.push(session_mount());
    mounts.extend(collecting.agent_mount());
    if agent.ca_bundle.is_some() {
        env.extend(environment::authorities());
        mounts.push(Mounted { mount: volumes::authorities_mount(), what: "caBundle".to_owned() });
    }
    env.extend(shared_env(input));
    env.extend(agent.pod.extra_env.iter().flatten().cloned());

    let title = names::session_title(task.namespace, task.name, task.uid);
    let url = server_url(resolved).unwrap_or_default();
    let mut command: Vec<String> = Vec::new();
    if shimmed {
        command.extend([OUR_BINARY, "shim", "--"].map(str::to_owned));
    }
    command.extend(["opencode", "run", "--attach", url, "--title", &title].map(str::to_owned));
    let container = Container {
        name: "agent".to_owned(),
        image: Some(agent.attach_image.clone()),
        image_pull_policy: Some(containers::pull_policy(&agent.attach_image).to_owned()),
        command: Some(command),
        working_dir: Some(plan.workspace_dir.clone()),
        env: Some(environment::settle(env)),
        volume_mounts: Some(build::distinct(mounts)?),
        resources: Some(with_storage(memory(ATTACH_MEMORY.0, ATTACH_MEMORY.1))),
        termination_message_policy: Some("File".to_owned()),
        security_context: Some(security::agent_container(&agent.pod)),
        ..Container::default()
    };
    let mut all = files.volumes;
    all.push(volumes::empty("tmp"));
    all.push(volumes::empty(SESSION_VOLUME));
    all.extend(collecting.volumes());
    all.extend(agent.ca_bundle.as_ref().and_then(volumes::authorities));
    let extra_volumes = mounted_by(&files.init_containers, agent.pod.extra_volumes.as_deref().unwrap_or_default());
    let helpers = shared(input, files.mount.clone());
    let mut init_containers = files.init_containers;
    let delivered: Vec<VolumeMount> = collecting.delivers().then_some(files.mount).into_iter().collect();
    init_containers.extend(collecting.prep(
        &helpers,
        identity_env(&task),
        &delivered,
        &container,
        resolved.startup_timeout,
    ));
    init_containers.push(helpers.session());
    let limit = resolved.collect_timeout;
    let housekeeper = collecting.housekeeper(&helpers, identity_env(&task), &[], &container, limit);
    let containers = [Some(container), housekeeper].into_iter().flatten().collect();
    let mut spec = build::pod_spec(agent, init_containers, containers, all, &extra_volumes)?;
    collect_in_time(&mut spec, collecting.stop_time(limit));
    Ok(objects(input, spec, bundle))
}

/// The agent's end of the connection to the container `session`.
fn session_mount() -> Mounted {
    Mounted { mount: containers::session_mount(), what: "the records of the session".to_owned() }
}

/// The volumes that these containers mount. The other volumes of an Agent belong to its server.
fn mounted_by(containers: &[Container], volumes: &[Volume]) -> Vec<Volume> {
    let mounts = || containers.iter().flat_map(|container| container.volume_mounts.iter().flatten());
    volumes.iter().filter(|volume| mounts().any(|mount| mount.name == volume.name)).cloned().collect()
}

/// The input of a client that reads only one text: the contexts without a path, and the prompt. Returns its path.
fn with_contexts(plan: &ContextPlan, files: &mut Vec<FileItem>) -> Option<String> {
    let (Some(system), Some(prompt)) = (plan.system(), plan.prompt()) else { return plan.prompt_file.clone() };
    let target_path = format!("{}/{}/prompt.md", plan.workspace_dir, paths::PLATFORM_DIRECTORY);
    files.push(FileItem {
        target_path: target_path.clone(),
        content: format!("{system}\n{prompt}"),
        mode: None,
        about: "contexts without a path, and the prompt".to_owned(),
    });
    Some(target_path)
}

/// How the prompt and the files reach the attach client.
struct AttachFiles {
    init_containers: Vec<Container>,
    volumes: Vec<Volume>,
    mount: VolumeMount,
}

impl AttachFiles {
    fn plan(input: &TaskPodInput<'_>, bundle: &Bundle, with_tools: bool, delivers: bool) -> Self {
        match bundle.config_maps.as_slice() {
            // Most Tasks have a prompt and perhaps a text. No container has to write files before the client.
            [(name, _)] if !delivers && !with_tools => Self::direct(input.contexts, bundle, name),
            _ => Self::prepared(input, bundle, with_tools),
        }
    }

    /// The ConfigMap itself is the workspace.
    fn direct(plan: &ContextPlan, bundle: &Bundle, config_map: &str) -> Self {
        let items = bundle.mappings.iter().filter_map(|mapping| {
            let path = mapping.target_path.strip_prefix(&plan.workspace_dir).ok()?.to_str()?.to_owned();
            let mode = mapping.file_mode.and_then(|mode| i32::try_from(mode).ok());
            Some(KeyToPath { key: mapping.key.clone()?, path, mode })
        });
        let source = ConfigMapVolumeSource {
            name: config_map.to_owned(),
            items: Some(items.collect()),
            ..ConfigMapVolumeSource::default()
        };
        Self {
            init_containers: Vec::new(),
            volumes: vec![Volume { name: "context-files".to_owned(), config_map: Some(source), ..Volume::default() }],
            mount: VolumeMount { read_only: Some(true), ..volumes::mount("context-files", &plan.workspace_dir) },
        }
    }

    /// Init containers prepare the files, as in a Pod of its own.
    fn prepared(input: &TaskPodInput<'_>, bundle: &Bundle, with_tools: bool) -> Self {
        let plan = input.contexts;
        let workspace = volumes::mount("workspace", &plan.workspace_dir);
        let shared = shared(input, workspace.clone());
        let mut init_containers = vec![shared.context_init(plan, bundle, with_tools)];
        init_containers.extend(plan.git.iter().enumerate().map(|(index, mount)| shared.git_init(index, mount)));
        init_containers.extend(plan.urls.iter().enumerate().map(|(index, url)| shared.url_init(index, url)));
        let mut all = vec![volumes::empty("workspace"), bundle.volume("context-files")];
        all.extend(with_tools.then(|| volumes::empty("tools")));
        for (index, directory) in plan.directories.iter().enumerate() {
            all.push(volumes::config_map(&format!("dir-mount-{index}"), &directory.config_map, directory.optional));
        }
        all.extend((0..plan.git.len()).map(|index| volumes::empty(&git_volume(index))));
        Self { init_containers, volumes: all, mount: workspace }
    }
}

/// The settings of the containers that prepare files for the attach client.
fn shared<'a>(input: &TaskPodInput<'a>, workspace: VolumeMount) -> Shared<'a> {
    let agent = &input.resolved.agent;
    Shared { platform: input.platform, agent, env: shared_env(input), workspace, outside: Vec::new() }
}

fn objects(input: &TaskPodInput<'_>, mut spec: PodSpec, bundle: Bundle) -> TaskObjects {
    let TaskIdentity { namespace, name, uid, epoch } = input.task;
    let owner = Owner { kind: "Task", namespace, name, uid };
    let epoch_text = epoch.to_string();
    let ours = build::labels_of([build::app(), (labels::TASK, name)]);
    let mut pod_labels = ours.clone();
    pod_labels.insert(labels::RUN_EPOCH.to_owned(), epoch_text);
    let pod_settings = &input.resolved.agent.pod;
    let pod_labels = build::with_user_labels(pod_labels, pod_settings);
    let mut metadata = owner.metadata(names::task_pod(name, epoch), pod_labels);
    let mut annotations = build::labels_of([("kubectl.kubernetes.io/default-container", "agent")]);
    annotations.extend(pod_settings.annotations.clone().unwrap_or_default());
    metadata.annotations = Some(annotations);
    spec.restart_policy = Some("Never".to_owned());
    limit_reports(&mut spec);
    let asked_for = !input.resolved.contexts.is_empty() || !input.resolved.agent.contexts.is_empty();
    if !asked_for && let Some(files) = bundle.carried(&mut spec, "context-files") {
        metadata.annotations.get_or_insert_default().extend(files);
        return TaskObjects { config_maps: Vec::new(), pod: Pod { metadata, spec: Some(spec), status: None } };
    }
    TaskObjects { config_maps: owner.config_maps(bundle, &ours), pod: Pod { metadata, spec: Some(spec), status: None } }
}

/// Tells the containers that write a report how much of it the node keeps.
fn limit_reports(spec: &mut PodSpec) {
    let count = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let most = var(variables::OUTCOME_BYTES, report_bytes(count).to_string());
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if [TASK_CONTAINER, HOUSEKEEPER_CONTAINER, PREP_CONTAINER].contains(&container.name.as_str()) {
            container.env.get_or_insert_default().push(most.clone());
        }
    }
}

/// Which run it is.
fn identity_env(task: &TaskIdentity<'_>) -> Vec<EnvVar> {
    vec![
        var(variables::TASK_NAME, task.name),
        var(variables::TASK_NAMESPACE, task.namespace),
        var(variables::TASK_UID, task.uid),
        var(variables::TASK_EPOCH, task.epoch.to_string()),
        var(variables::OUTCOME_FILE, paths::TERMINATION_LOG),
    ]
}

/// Identity, limits and approvals of the run.
fn task_env(input: &TaskPodInput<'_>) -> Vec<EnvVar> {
    let TaskPodInput { task, resolved, contexts: plan, .. } = input;
    let agent = &resolved.agent;
    let mut env = identity_env(task);
    env.extend([
        var(variables::WORKSPACE_DIR, &plan.workspace_dir),
        var(variables::RECORDS_SOCKET, paths::RECORDS_SOCKET),
        var(variables::STALL_TIMEOUT_SECONDS, agent.stall_timeout.as_secs().max(1).to_string()),
    ]);
    let waits = match agent.approval.mode {
        ApprovalMode::Never => None,
        ApprovalMode::Ask => Some("Wait"),
        ApprovalMode::Always => Some("Always"),
    };
    if let Some(mode) = waits {
        env.push(var(variables::APPROVAL_MODE, mode));
        let timeout = agent.approval.timeout.and_then(api::Duration::nonzero).map(|timeout| timeout.as_secs().max(1));
        env.extend(timeout.map(|seconds| var(variables::APPROVAL_TIMEOUT_SECONDS, seconds.to_string())));
    }
    let Allowance { tokens, cost } = input.allowance;
    env.extend(tokens.map(|most| var(variables::BUDGET_MAX_TOKENS, most.to_string())));
    env.extend(cost.map(|most| var(variables::BUDGET_MAX_COST, most.to_string())));
    env
}

fn password_env(input: &TaskPodInput<'_>) -> Option<EnvVar> {
    let ResolvedTarget::Agent { password_secret: Some(secret), .. } = &input.resolved.target else { return None };
    Some(environment::secret(variables::OPENCODE_SERVER_PASSWORD, secret))
}

fn server_url(task: &ResolvedTask) -> Option<&str> {
    match &task.target {
        ResolvedTarget::Agent { url, .. } => Some(url),
        ResolvedTarget::Template { .. } => None,
    }
}

/// Proxy and traces, in every container of the Pod.
fn shared_env(input: &TaskPodInput<'_>) -> Vec<EnvVar> {
    let TaskPodInput { task, resolved, platform, .. } = input;
    let host = server_url(resolved).and_then(host_of);
    let mut env = environment::proxy(resolved.agent.proxy.as_ref(), platform, host);
    let pod = names::task_pod(task.name, task.epoch);
    let (ResolvedTarget::Agent { name: agent, .. } | ResolvedTarget::Template { name: agent }) = &resolved.target;
    let traced = Traced { namespace: task.namespace, task: Some(task.name), agent: Some(agent), pod: Some(&pod) };
    env.extend(environment::telemetry(platform.open_telemetry.as_ref(), &traced));
    env
}

/// The Agent on whose server a Task runs, and the host of the server.
pub(crate) fn server_host(task: &ResolvedTask) -> Option<(&str, &str)> {
    match &task.target {
        ResolvedTarget::Agent { name, url, .. } => Some((name, host_of(url)?)),
        ResolvedTarget::Template { .. } => None,
    }
}

fn host_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    Some(host).filter(|host| !host.is_empty())
}

/// The volume of the workspace and its mounts.
struct WorkspaceMounts {
    volume: Volume,
    /// The directory in which the run works, for every container that needs it.
    own: VolumeMount,
    /// The whole volume, for the agent.
    whole: Option<VolumeMount>,
}

fn workspace(input: &TaskPodInput<'_>) -> WorkspaceMounts {
    let path = &input.contexts.workspace_dir;
    let own = volumes::mount("workspace", path);
    let settings = input.resolved.workspace.clone().unwrap_or_default();
    match settings.access_mode {
        None => WorkspaceMounts { volume: volumes::empty("workspace"), own, whole: None },
        Some(WorkspaceAccess::ReadWriteOnce) => {
            WorkspaceMounts { volume: isolated(&input.task, &settings), own, whole: None }
        }
        Some(WorkspaceAccess::ReadWriteMany) => {
            let ours = || match &input.resolved.target {
                ResolvedTarget::Agent { name, .. } => RunsOn::Agent(name.clone()),
                ResolvedTarget::Template { name } => RunsOn::Template(name.clone()),
            };
            let claim = settings.claim_name.unwrap_or_else(|| run_workspace::shared_claim_name(&ours()));
            let directory = run_workspace::directory(&input.task, settings.sharing.unwrap_or_default());
            // The own directory is a mount too, so that the kubelet creates it for the user of the Pod.
            let root = path.strip_suffix(&format!("/{directory}"));
            WorkspaceMounts {
                volume: volumes::claim("workspace", &claim),
                whole: root.map(|root| volumes::mount("workspace", root)),
                own: volumes::part("workspace", path, Some(directory)),
            }
        }
    }
}

/// A claim of the Pod's own, which Kubernetes deletes with the Pod.
fn isolated(task: &TaskIdentity<'_>, settings: &Workspace) -> Volume {
    let labels = run_workspace::run_labels(task.name, task.epoch);
    let template = PersistentVolumeClaimTemplate {
        metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
        spec: run_workspace::claim_spec(settings, "ReadWriteOnce"),
    };
    Volume {
        name: "workspace".to_owned(),
        ephemeral: Some(EphemeralVolumeSource { volume_claim_template: Some(template) }),
        ..Volume::default()
    }
}

/// A request and a limit of memory.
pub(crate) fn memory(request: &str, limit: &str) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(amount("memory", request)),
        limits: Some(amount("memory", limit)),
        claims: None,
    }
}

/// Adds the default request and limit of local storage, unless either is set.
pub(crate) fn with_storage(mut resources: ResourceRequirements) -> ResourceRequirements {
    const NAME: &str = "ephemeral-storage";
    let all = || [&resources.requests, &resources.limits].into_iter().flatten();
    if !all().any(|amounts| amounts.contains_key(NAME)) {
        resources.requests.get_or_insert_default().extend(amount(NAME, STORAGE.0));
        resources.limits.get_or_insert_default().extend(amount(NAME, STORAGE.1));
    }
    resources
}

/// The resources of an agent, or these defaults if it sets none.
pub(crate) fn resources(agent: &ResolvedAgent, request: &str) -> ResourceRequirements {
    agent.pod.resources.clone().unwrap_or_else(|| memory(request, MOST_MEMORY))
}

#[cfg(test)]
pub(crate) mod tests;
