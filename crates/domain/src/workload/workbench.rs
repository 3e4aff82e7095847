//! Everything around an OpenCode process: its tools, workspace, contexts, repositories, plugins and environment, for a
//! Task in a Pod of its own and for an Agent's server.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, Volume, VolumeMount};

use crate::{
    contract::{environment as variables, paths},
    opencode::CompiledConfig,
    workload::{
        build::BuildError,
        containers::{Shared, git_volume},
        contexts::{self, Bundle, ContextPlan, FileItem, GitMount, GitTarget},
        environment::{self, var},
        volumes::{self, Mounted},
    },
};

/// Input of [`set_up`].
pub(crate) struct Materials<'a> {
    pub shared: Shared<'a>,
    pub plan: &'a ContextPlan,
    pub config: &'a CompiledConfig,
    pub workspace_volume: Volume,
    /// Name of the first ConfigMap with files.
    pub config_map: String,
    /// Content of the file that the agent's shell reads first.
    pub shell_env: &'static str,
}

/// The parts of a Pod around OpenCode.
pub(crate) struct Workbench {
    pub bundle: Bundle,
    pub init_containers: Vec<Container>,
    /// Repositories in the order of their volumes.
    pub git: Vec<GitMount>,
    pub volumes: Vec<Volume>,
    pub mounts: Vec<Mounted>,
    pub env: Vec<EnvVar>,
    pub env_from: Vec<EnvFromSource>,
}

/// Builds a workbench.
pub(crate) fn set_up(materials: &Materials<'_>) -> Result<Workbench, BuildError> {
    let Materials { shared, plan, config, workspace_volume, config_map, shell_env } = materials;
    let agent = shared.agent;
    let bundle = contexts::pack(config_map, &files(plan, config, shell_env))?;
    let mut git = plan.git.clone();
    git.extend(contexts::skill_mounts(&agent.skills)?);

    let mut init_containers = vec![shared.opencode_init(), shared.context_init(plan, &bundle, true)];
    init_containers.extend(git.iter().enumerate().map(|(index, mount)| shared.git_init(index, mount)));
    init_containers.extend(plan.urls.iter().enumerate().map(|(index, url)| shared.url_init(index, url)));
    if !config.plugin_packages.is_empty() {
        init_containers.push(shared.plugin_init(&config.plugin_packages));
    }

    let credentials = volumes::credentials(&agent.credentials, &plan.workspace_dir);
    let mut all = vec![volumes::empty("tools"), workspace_volume.clone(), volumes::empty("tmp")];
    all.push(bundle.volume("context-files"));
    for (index, directory) in plan.directories.iter().enumerate() {
        all.push(volumes::config_map(&format!("dir-mount-{index}"), &directory.config_map, directory.optional));
    }
    // The home directory is a volume already.
    all.extend(
        plan.outside
            .iter()
            .filter(|path| *path != paths::HOME)
            .map(|path| volumes::empty(&volumes::directory_volume(path))),
    );
    all.extend((0..git.len()).map(|index| volumes::empty(&git_volume(index))));
    if !config.plugin_packages.is_empty() {
        all.push(volumes::empty("plugins-volume"));
    }
    all.extend(agent.ca_bundle.as_ref().and_then(volumes::authorities));
    all.extend(credentials.volumes);

    Ok(Workbench {
        mounts: mounts(materials, &git, credentials.mounts),
        env: env(materials, credentials.env, !git.is_empty()),
        env_from: credentials.env_from,
        bundle,
        init_containers,
        git,
        volumes: all,
    })
}

/// Mounts of the directories outside of the workspace, for every container that uses them.
pub(crate) fn outside(plan: &ContextPlan) -> Vec<VolumeMount> {
    let volume = |path: &String| if path == paths::HOME { "tmp".to_owned() } else { volumes::directory_volume(path) };
    plan.outside.iter().map(|path| volumes::mount(&volume(path), path)).collect()
}

fn files(plan: &ContextPlan, config: &CompiledConfig, shell_env: &str) -> Vec<FileItem> {
    let ours = |path: &str, content: &str, about: &str| FileItem {
        target_path: path.to_owned(),
        content: content.to_owned(),
        mode: None,
        about: about.to_owned(),
    };
    let mut files = plan.files.clone();
    files.push(ours(paths::OPENCODE_CONFIG_FILE, &config.json, "OpenCode's configuration"));
    files.extend(config.tui_json.as_ref().map(|json| ours(paths::TUI_CONFIG_FILE, json, "OpenCode's terminal")));
    files.push(ours(paths::SHELL_ENV_FILE, shell_env, "environment of the agent's shell"));
    files.extend(config.instruction_files.iter().cloned());
    files
}

fn mounts(materials: &Materials<'_>, git: &[GitMount], credentials: Vec<Mounted>) -> Vec<Mounted> {
    let Materials { shared, plan, config, .. } = materials;
    let mut mounts = Vec::new();
    let mut put = |mount: VolumeMount, what: &str| mounts.push(Mounted { mount, what: what.to_owned() });
    put(volumes::mount("tools", paths::TOOLS), "our tools");
    put(shared.workspace.clone(), "the workspace");
    put(volumes::mount("tmp", paths::HOME), "the home directory");
    for mount in credentials {
        put(mount.mount, &mount.what);
    }
    for mount in outside(plan).into_iter().filter(|mount| mount.mount_path != paths::HOME) {
        let what = format!("the directory {} of context files", mount.mount_path);
        put(mount, &what);
    }
    for (index, repository) in git.iter().enumerate() {
        let volume = git_volume(index);
        let part = |path: &str, sub_path: &Option<String>| {
            let checkout = paths::GIT_CHECKOUT;
            let sub_path = sub_path.as_ref().map_or_else(|| checkout.to_owned(), |path| format!("{checkout}/{path}"));
            volumes::part(&volume, path, Some(sub_path))
        };
        let what = format!("repository {:?}", repository.name);
        match &repository.target {
            GitTarget::Mount { path, sub_path } => put(part(path, sub_path), &what),
            GitTarget::Merge { .. } => {}
            GitTarget::Parts(parts) => {
                for one in parts {
                    put(part(&one.path, &one.sub_path), &what);
                }
            }
        }
    }
    if !config.plugin_packages.is_empty() {
        put(VolumeMount { read_only: Some(true), ..volumes::mount("plugins-volume", paths::PLUGINS) }, "plugins");
    }
    if !git.is_empty() {
        // The whole volume, not only its .gitconfig: `git config --global` replaces the file and needs its directory.
        put(volumes::mount(&git_volume(0), paths::GIT), "git's configuration");
    }
    if shared.agent.ca_bundle.is_some() {
        put(volumes::authorities_mount(), "caBundle");
    }
    for mount in shared.agent.pod.extra_volume_mounts.iter().flatten() {
        put(mount.clone(), &format!("podSpec.extraVolumeMounts {:?}", mount.name));
    }
    mounts
}

/// The environment of the process, without the variables that its Pod adds.
fn env(materials: &Materials<'_>, credentials: Vec<EnvVar>, has_repositories: bool) -> Vec<EnvVar> {
    let Materials { shared, config, .. } = materials;
    let agent = shared.agent;
    let mut env = environment::opencode(config.needs_npm);
    env.push(var(variables::TMPDIR, paths::HOME));
    env.push(var(variables::BASH_ENV, paths::SHELL_ENV_FILE));
    // The image's own PATH stays; upstream replaces it and loses the directories of the image.
    env.push(var(variables::SHIM_PATH_PREPEND, paths::TOOLS));
    env.push(var(variables::OPENCODE_CONFIG, paths::OPENCODE_CONFIG_FILE));
    env.extend(config.tui_json.as_ref().map(|_| var(variables::OPENCODE_TUI_CONFIG, paths::TUI_CONFIG_FILE)));
    env.extend(config.permission.as_ref().map(|rules| var(variables::OPENCODE_PERMISSION, rules)));
    env.push(var(variables::OPENCODE_CONFIG_CONTENT, &config.enforced));
    env.extend(config.env.iter().map(|one| environment::secret(&one.name, &one.secret)));
    env.extend(credentials);
    if has_repositories {
        env.push(var(variables::GIT_CONFIG_GLOBAL, paths::GIT_CONFIG_FILE));
    }
    if agent.ca_bundle.is_some() {
        env.extend(environment::agent_authorities());
    }
    env.extend(shared.env.iter().cloned());
    env.extend(agent.pod.extra_env.iter().flatten().cloned());
    env
}
