//! The containers that prepare a Pod and run next to the agent, each with one job.

use api::{
    context::{GitSync, GitSyncPolicy},
    kinds::config::ImagePullPolicy,
    run::SideService,
    workload::{ContainerExtras, Protocol, SystemContainers},
};
use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, EnvVar, Probe, TCPSocketAction, VolumeMount},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::json;

use crate::{
    contract::{
        environment as variables,
        mappings::{self, DirMapping},
        paths,
    },
    platform::{Addressing, Platform},
    run::{progress::SESSION_CONTAINER, resolved::ResolvedAgent},
    workload::{
        contexts::{Bundle, ContextPlan, DirectoryMount, GitMount, GitTarget, UrlFetch},
        environment::{self, var},
        pod::memory,
        security, volumes,
    },
};

/// Default of `sync.interval`.
const SYNC_INTERVAL_SECONDS: u64 = 300;

/// Name of the volume with the socket for records.
pub(crate) const SESSION_VOLUME: &str = "session-records";
/// Memory request and limit of the container that prints records: it copies a stream.
const SESSION_MEMORY: (&str, &str) = ("16Mi", "64Mi");

/// Settings that all containers of a Pod share.
pub(crate) struct Shared<'a> {
    pub platform: &'a Platform,
    pub agent: &'a ResolvedAgent,
    /// Proxy and traces.
    pub env: Vec<EnvVar>,
    /// The workspace.
    pub workspace: VolumeMount,
    /// Directories outside of the workspace that receive contexts.
    pub outside: Vec<VolumeMount>,
}

impl Shared<'_> {
    fn extras(&self, choose: impl Fn(&SystemContainers) -> Option<&ContainerExtras>) -> Option<&ContainerExtras> {
        self.agent.pod.system_containers.as_ref().and_then(choose)
    }

    /// Adds the common settings to a container.
    fn finish(&self, mut container: Container, extras: Option<&ContainerExtras>) -> Container {
        let mut env = container.env.take().unwrap_or_default();
        let mut mounts = container.volume_mounts.take().unwrap_or_default();
        if self.agent.ca_bundle.is_some() {
            env.extend(environment::authorities());
            mounts.push(volumes::authorities_mount());
        }
        env.extend(self.env.iter().cloned());
        if let Some(extras) = extras {
            env.extend(extras.extra_env.iter().flatten().cloned());
            mounts.extend(extras.extra_volume_mounts.iter().flatten().cloned());
        }
        container.env = Some(environment::settle(env));
        container.volume_mounts = Some(mounts).filter(|mounts| !mounts.is_empty());
        container.security_context = Some(security::container());
        // A container that fails without a message, such as a user's own agentImage, at least leaves its log.
        container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
        container
    }

    fn helper(&self, name: &str, subcommand: &str, env: Vec<EnvVar>, mounts: Vec<VolumeMount>) -> Container {
        Container {
            name: name.to_owned(),
            image: Some(self.platform.system_image.clone()),
            image_pull_policy: Some(pull_policy_name(self.platform.system_image_pull_policy).to_owned()),
            command: Some(vec![paths::HELPER.to_owned(), subcommand.to_owned()]),
            env: Some(environment::home().into_iter().chain(env).collect()),
            volume_mounts: Some(mounts),
            ..Container::default()
        }
    }

    /// A helper with the common settings.
    pub(crate) fn finished_helper(
        &self,
        name: &str,
        subcommand: &str,
        env: Vec<EnvVar>,
        mounts: Vec<VolumeMount>,
    ) -> Container {
        self.finish(self.helper(name, subcommand, env, mounts), None)
    }

    /// Copies OpenCode to `/tools`.
    pub(crate) fn opencode_init(&self) -> Container {
        let container = Container {
            name: "opencode-init".to_owned(),
            image: Some(self.agent.agent_image.clone()),
            image_pull_policy: Some(pull_policy(&self.agent.agent_image).to_owned()),
            env: Some(vec![var(variables::TOOLS_DIR, paths::TOOLS)]),
            volume_mounts: Some(vec![volumes::mount("tools", paths::TOOLS)]),
            ..Container::default()
        };
        self.finish(container, self.extras(|all| all.open_code_init.as_ref()))
    }

    /// Copies context files; in a Pod where OpenCode runs, our own binary too.
    pub(crate) fn context_init(&self, plan: &ContextPlan, bundle: &Bundle, with_tools: bool) -> Container {
        let mut env = vec![
            var(variables::WORKSPACE_DIR, &plan.workspace_dir),
            var(variables::CONFIGMAP_PATH, paths::CONTEXT_FILES),
            var(variables::FILE_MAPPINGS, bundle.mappings_json()),
        ];
        if !plan.directories.is_empty() {
            env.push(var(variables::DIR_MAPPINGS, directory_mappings(&plan.directories)));
        }
        let mut mounts =
            vec![VolumeMount { read_only: Some(true), ..volumes::mount("context-files", paths::CONTEXT_FILES) }];
        for index in 0..plan.directories.len() {
            let path = context_directory(index);
            mounts.push(VolumeMount { read_only: Some(true), ..volumes::mount(&format!("dir-mount-{index}"), &path) });
        }
        mounts.push(self.workspace.clone());
        if with_tools {
            env.push(var(variables::COPY_SELF_TO, paths::OUR_BINARY));
            mounts.push(volumes::mount("tools", paths::TOOLS));
            if self.agent.ca_bundle.is_some() {
                env.push(var(variables::COMBINED_CA_BUNDLE, paths::COMBINED_CA_FILE));
            }
        }
        mounts.extend(self.outside.iter().cloned());
        let container = self.helper("context-init", "context-init", env, mounts);
        self.finish(container, self.extras(|all| all.context_init.as_ref()))
    }

    pub(crate) fn git_init(&self, index: usize, mount: &GitMount) -> Container {
        let (env, mounts) = self.git_parts(index, mount);
        let container = self.helper(&format!("git-init-{index}"), "git-init", env, mounts);
        self.finish(container, self.extras(|all| all.git_init.as_ref()))
    }

    /// Updates a repository while the agent runs.
    pub(crate) fn git_sync(&self, index: usize, mount: &GitMount, sync: &GitSync) -> Container {
        let (mut env, mounts) = self.git_parts(index, mount);
        let interval = sync.interval.map(|interval| interval.to_std().as_secs()).filter(|seconds| *seconds > 0);
        env.push(var(variables::GIT_SYNC_INTERVAL, interval.unwrap_or(SYNC_INTERVAL_SECONDS).to_string()));
        let container = self.helper(&format!("git-sync-{index}"), "git-sync", env, mounts);
        self.finish(container, self.extras(|all| all.git_sync.as_ref()))
    }

    fn git_parts(&self, index: usize, mount: &GitMount) -> (Vec<EnvVar>, Vec<VolumeMount>) {
        let mut env = vec![
            var(variables::GIT_REPO, &mount.repository),
            var(variables::GIT_REF, &mount.reference),
            var(variables::GIT_DEPTH, mount.depth.max(0).to_string()),
            var(variables::GIT_ROOT, paths::GIT),
            var(variables::GIT_LINK, paths::GIT_CHECKOUT),
        ];
        if mount.recurse_submodules {
            env.push(var(variables::GIT_RECURSE_SUBMODULES, "true"));
        }
        if mount.optional {
            env.push(var(variables::GIT_OPTIONAL, "true"));
        }
        if let Some(secret) = &mount.secret {
            let keys = variables::GIT_CREDENTIALS;
            env.extend(keys.map(|(name, key)| environment::optional_secret(name, secret, key)));
        }
        let mut mounts = vec![volumes::mount(&git_volume(index), paths::GIT)];
        // Kubernetes mounts an empty directory for a missing part, so git-init has to check it.
        let parts: Vec<&String> = match &mount.target {
            GitTarget::Merge { directory, sub_path } => {
                env.push(var(variables::GIT_WORKSPACE_DIR, directory));
                env.extend(sub_path.as_ref().map(|path| var(variables::GIT_REPO_SUBPATH, path)));
                mounts.push(self.workspace.clone());
                Vec::new()
            }
            GitTarget::Mount { sub_path, .. } => sub_path.iter().collect(),
            GitTarget::Parts(parts) => parts.iter().filter_map(|part| part.sub_path.as_ref()).collect(),
        };
        if !parts.is_empty() {
            env.push(var(variables::GIT_REPO_PARTS, json!(parts).to_string()));
        }
        if mount.sync.is_some() {
            env.push(var(variables::GIT_FOLLOW, "true"));
        }
        (env, mounts)
    }

    pub(crate) fn url_init(&self, index: usize, url: &UrlFetch) -> Container {
        let mut env = vec![
            var(variables::URL_SOURCE, &url.source),
            var(variables::URL_TARGET, &url.target_path),
            var(variables::URL_TIMEOUT, url.timeout.max(1).to_string()),
        ];
        if !url.headers.is_empty() {
            env.push(var(variables::URL_HEADERS, json!(url.headers).to_string()));
        }
        if let Some(bytes) = url.max_bytes {
            env.push(var(variables::URL_MAX_BYTES, bytes.to_string()));
        }
        if let Some(mode) = url.mode {
            env.push(var(variables::URL_FILE_MODE, format!("{mode:04o}")));
        }
        if url.insecure {
            env.push(var(variables::URL_INSECURE, "true"));
        }
        if url.optional {
            env.push(var(variables::URL_OPTIONAL, "true"));
        }
        if self.platform.addressing == Addressing::Local {
            // With local addressing every server, ours too, has a loopback address.
            env.push(var(variables::URL_ALLOW_LOOPBACK, "true"));
        }
        if let Some(secret) = &url.secret {
            let keys = [
                (variables::URL_AUTH_TOKEN, "token"),
                (variables::URL_AUTH_USERNAME, "username"),
                (variables::URL_AUTH_PASSWORD, "password"),
            ];
            env.extend(keys.map(|(name, key)| environment::optional_secret(name, secret, key)));
        }
        let mut mounts = vec![self.workspace.clone()];
        mounts.extend(self.outside.iter().cloned());
        let container = self.helper(&format!("url-init-{index}"), "url-fetch", env, mounts);
        self.finish(container, self.extras(|all| all.url_init.as_ref()))
    }

    /// Prints the records of the session, which the agent's container sends through a socket. As a restartable init
    /// container it listens before the agent starts, and ends after it.
    pub(crate) fn session(&self) -> Container {
        let env = vec![var(variables::RECORDS_SOCKET, paths::RECORDS_SOCKET)];
        Container {
            restart_policy: Some("Always".to_owned()),
            resources: Some(memory(SESSION_MEMORY.0, SESSION_MEMORY.1)),
            security_context: Some(security::container()),
            ..self.helper(SESSION_CONTAINER, "session-log", env, vec![session_mount()])
        }
    }

    pub(crate) fn plugin_init(&self, packages: &[String]) -> Container {
        let env = vec![
            var(variables::PLUGIN_PACKAGES, json!(packages).to_string()),
            var(variables::PLUGIN_DIR, paths::PLUGINS),
        ];
        let mounts = vec![volumes::mount("plugins-volume", paths::PLUGINS)];
        let container = self.helper("plugin-init", "plugin-init", env, mounts);
        self.finish(container, self.extras(|all| all.plugin_init.as_ref()))
    }
}

/// Mount of the volume with the socket for records.
pub(crate) fn session_mount() -> VolumeMount {
    volumes::mount(SESSION_VOLUME, paths::SESSION)
}

/// A container next to the task. As a restartable init container it is ready before the task starts, and Kubernetes
/// stops it when the task ends.
pub(crate) fn side_service(service: &SideService) -> Container {
    let ports: Vec<ContainerPort> = service
        .ports
        .iter()
        .flatten()
        .map(|port| ContainerPort {
            name: port.name.clone(),
            container_port: port.container_port,
            protocol: Some(protocol(port.protocol).to_owned()),
            ..ContainerPort::default()
        })
        .collect();
    let first = service.ports.iter().flatten().find(|port| port.protocol == Protocol::Tcp);
    let probe = service.startup_probe.clone().or_else(|| first.map(|port| tcp_probe(port.container_port, 2, 60)));
    Container {
        name: service.name.clone(),
        image: Some(service.image.clone()),
        image_pull_policy: Some(pull_policy(&service.image).to_owned()),
        env: service.env.clone().map(environment::settle),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
        startup_probe: probe,
        restart_policy: Some("Always".to_owned()),
        security_context: Some(security::container()),
        ..Container::default()
    }
}

/// A probe that succeeds with a TCP connection.
pub(crate) fn tcp_probe(port: i32, period: i32, failures: i32) -> Probe {
    Probe {
        tcp_socket: Some(TCPSocketAction { port: IntOrString::Int(port), host: None }),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Names of the volumes of repositories start with this.
pub(crate) const GIT_VOLUME_PREFIX: &str = "git-context-";

/// Name of the volume of a repository.
pub(crate) fn git_volume(index: usize) -> String {
    format!("{GIT_VOLUME_PREFIX}{index}")
}

/// The sync settings of a repository that a sidecar follows.
pub(crate) fn hot_reload(mount: &GitMount) -> Option<&GitSync> {
    mount.sync.as_ref().filter(|sync| sync.enabled && sync.policy == GitSyncPolicy::HotReload)
}

/// A protocol in Kubernetes' spelling.
pub(crate) fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

/// A moving tag is pulled before every start, a fixed one once.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let moves = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if moves { "Always" } else { "IfNotPresent" }
}

fn pull_policy_name(policy: ImagePullPolicy) -> &'static str {
    match policy {
        ImagePullPolicy::Always => "Always",
        ImagePullPolicy::Never => "Never",
        ImagePullPolicy::IfNotPresent => "IfNotPresent",
    }
}

/// Mount of a ConfigMap that is copied as a directory.
fn context_directory(index: usize) -> String {
    format!("{}{index}", paths::CONTEXT_DIRECTORY)
}

fn directory_mappings(directories: &[DirectoryMount]) -> String {
    let mappings = directories.iter().enumerate().map(|(index, mount)| DirMapping {
        source_path: context_directory(index).into(),
        target_path: mount.target_path.clone().into(),
        file_mode: mappings::mode(mount.mode),
        optional: mount.optional,
    });
    json!(mappings.collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_that_move_are_always_pulled() {
        let check = |image: &str, expected: &str| assert_eq!(pull_policy(image), expected, "{image}");
        check("quay.io/x/y:latest", "Always");
        check("quay.io/x/y", "Always");
        check("localhost:5000/y", "Always");
        check("localhost:5000/y:v1", "IfNotPresent");
        check("quay.io/x/y@sha256:abc", "IfNotPresent");
        check("quay.io/x/y:latest@sha256:abc", "IfNotPresent");
    }
}
