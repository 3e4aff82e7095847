//! The objects of an Agent: a Deployment with an OpenCode server, its Service, claims and contexts.
//!
//! Deterministic to the byte: any difference restarts the server and ends every session on it.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    kinds::agent::{ServerAuth, ServerAuthMode},
    names::{annotations, defaults, labels},
    refs::SecretKeyRef,
    workload::{Persistence, VolumePersistence},
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            ConfigMap, Container, ContainerPort, EnvVar, ExecAction, HTTPGetAction, PersistentVolumeClaim,
            PersistentVolumeClaimSpec, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
            VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use sha2::{Digest as _, Sha256};

use crate::{
    contract::{
        companion, environment as variables,
        paths::{self, OPENCODE, OUR_BINARY},
    },
    opencode::CompiledConfig,
    platform::{Addressing, Platform},
    run::resolved::ResolvedAgent,
    workload::{
        build::{self, BuildError, Owner},
        collect,
        containers::{self, Shared},
        contexts::{ContextPlan, hex},
        environment::{self, SERVER_SHELL_ENV, Traced, expanded, field, var},
        names, pod, security,
        volumes::{self, Mounted, amount},
        workbench::{self, Materials, Workbench},
    },
};

/// Memory request of `opencode serve`: it is killed at 512Mi with five prompts and works at 768Mi.
const SERVE_MEMORY: &str = "768Mi";

#[derive(Clone, Copy, Debug)]
pub struct AgentIdentity<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Input of [`agent_objects`].
#[derive(Clone, Copy, Debug)]
pub struct AgentWorkloadInput<'a> {
    pub agent: AgentIdentity<'a>,
    pub resolved: &'a ResolvedAgent,
    pub platform: &'a Platform,
    pub contexts: &'a ContextPlan,
    /// OpenCode's configuration.
    pub config: &'a CompiledConfig,
    pub port: i32,
    /// Whether it is scaled to zero.
    pub suspended: bool,
    /// Claims that outlive its Pods.
    pub persistence: Option<&'a Persistence>,
    /// Secret key with the password of its server; `None` if it has none.
    pub password: Option<&'a SecretKeyRef>,
    /// Commits to roll out, by the name of the repository in the plan.
    pub git_hashes: &'a BTreeMap<String, String>,
    /// Digest of the Secret values that the configuration refers to, so that a new value rolls out.
    pub secrets_digest: Option<&'a str>,
    /// Certificates of a `caBundle` in a ConfigMap, so that new ones roll out. A Secret is part of `secrets_digest`.
    pub authorities: Option<&'a str>,
}

/// The objects of an Agent, in the order in which they are applied.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentObjects {
    /// Context files.
    pub config_maps: Vec<ConfigMap>,
    /// Created once; they only grow.
    pub claims: Vec<PersistentVolumeClaim>,
    pub deployment: Deployment,
    pub service: Service,
}

/// Address of an Agent's server. With local addressing it is known once the Service has an address.
pub fn agent_url(
    platform: &Platform,
    namespace: &str,
    name: &str,
    port: i32,
    service: Option<&Service>,
) -> Option<String> {
    match platform.addressing {
        Addressing::Cluster => Some(format!("http://{name}.{namespace}.svc.{}:{port}", platform.cluster_domain)),
        Addressing::Local => {
            let address = service?.spec.as_ref()?.cluster_ip.as_deref()?;
            Some(format!("http://{address}:{port}")).filter(|_| !address.is_empty() && address != "None")
        }
    }
}

/// Secret key with the password of an Agent's server; `None` if it has none.
pub fn password_ref(agent: &str, server: Option<&ServerAuth>) -> Option<SecretKeyRef> {
    let server = server.cloned().unwrap_or_default();
    match server.auth {
        ServerAuthMode::None => None,
        ServerAuthMode::Generated => Some(
            server
                .password_secret_ref
                .unwrap_or_else(|| SecretKeyRef { name: names::agent_password(agent), key: "password".to_owned() }),
        ),
    }
}

/// Builds the objects of an Agent.
pub fn agent_objects(input: &AgentWorkloadInput<'_>) -> Result<AgentObjects, BuildError> {
    let AgentIdentity { namespace, name, uid } = input.agent;
    let owner = Owner { kind: "Agent", namespace, name, uid };
    let ports = ports(input)?;
    let bench = workbench::set_up(&Materials {
        shared: shared(input),
        plan: input.contexts,
        config: input.config,
        workspace_volume: match persisted(input, |kept| kept.workspace.as_ref()) {
            Some(_) => volumes::claim("workspace", &names::agent_workspace_claim(name)),
            None => volumes::empty("workspace"),
        },
        config_map: names::agent_context(name),
        shell_env: SERVER_SHELL_ENV,
    })?;
    let context_labels = build::labels_of([
        build::app(),
        (labels::APP_COMPONENT, "server"),
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::AGENT, name),
    ]);
    Ok(AgentObjects {
        config_maps: owner.config_maps(bench.bundle.clone(), &context_labels),
        claims: claims(input, &owner),
        deployment: deployment(input, &owner, &ports, bench)?,
        service: service(input, &owner, &ports),
    })
}

fn shared<'a>(input: &AgentWorkloadInput<'a>) -> Shared<'a> {
    let AgentWorkloadInput { agent, resolved, platform, contexts: plan, .. } = *input;
    let mut env = environment::proxy(resolved.proxy.as_ref(), platform, None);
    let traced = Traced { namespace: agent.namespace, task: None, agent: Some(agent.name), pod: None };
    env.extend(environment::telemetry(platform.open_telemetry.as_ref(), &traced));
    let workspace = volumes::mount("workspace", &plan.workspace_dir);
    Shared { platform, agent: resolved, env, workspace, outside: workbench::outside(plan) }
}

fn persisted<'a>(
    input: &AgentWorkloadInput<'a>,
    choose: impl Fn(&'a Persistence) -> Option<&'a VolumePersistence>,
) -> Option<&'a VolumePersistence> {
    input.persistence.and_then(choose)
}

struct Port {
    name: String,
    number: i32,
    target: i32,
    protocol: &'static str,
}

/// Ports of the container and the Service.
fn ports(input: &AgentWorkloadInput<'_>) -> Result<Vec<Port>, BuildError> {
    let ours = |name: &str, number| Port { name: name.to_owned(), number, target: number, protocol: "TCP" };
    if input.port == companion::PORT {
        return Err(BuildError::CompanionPort { field: "port" });
    }
    let mut ports = vec![ours("http", input.port), ours(companion::NAME, companion::PORT)];
    for extra in &input.resolved.extra_ports {
        if ports.iter().any(|port| port.name == extra.name) {
            return Err(BuildError::PortName(extra.name.clone()));
        }
        let (number, protocol) = (extra.port, containers::protocol(extra.protocol));
        if let Some(same) = ports.iter().find(|port| port.number == number && port.protocol == protocol) {
            if same.name == companion::NAME {
                return Err(BuildError::CompanionPort { field: "extraPorts" });
            }
            let (name, other) = (extra.name.clone(), same.name.clone());
            return Err(BuildError::PortNumber { name, number, other });
        }
        let target = extra.target_port.unwrap_or(number);
        if target == companion::PORT && protocol == "TCP" {
            return Err(BuildError::CompanionPort { field: "extraPorts" });
        }
        ports.push(Port { name: extra.name.clone(), number, target, protocol });
    }
    Ok(ports)
}

fn server_labels(name: &str) -> BTreeMap<String, String> {
    build::labels_of([
        build::app(),
        (labels::APP_NAME, "kubeopencode-server"),
        (labels::APP_INSTANCE, name),
        (labels::APP_COMPONENT, "server"),
        (labels::MANAGED_BY, labels::MANAGER),
        (labels::AGENT, name),
    ])
}

fn selector(name: &str) -> BTreeMap<String, String> {
    build::labels_of([(labels::AGENT, name)])
}

fn deployment(
    input: &AgentWorkloadInput<'_>,
    owner: &Owner<'_>,
    ports: &[Port],
    bench: Workbench,
) -> Result<Deployment, BuildError> {
    let agent = input.resolved;
    let annotations = pod_annotations(input, &bench);
    let shared = shared(input);
    let sidecars: Vec<Container> = bench
        .git
        .iter()
        .enumerate()
        .filter_map(|(index, mount)| Some(shared.git_sync(index, mount, containers::hot_reload(mount)?)))
        .collect();
    let files = pod::agent_files(&bench.mounts, agent, &input.contexts.workspace_dir);
    let mut volumes = bench.volumes;
    let mut mounts = bench.mounts;
    let mut env = environment::home();
    env.push(var(variables::WORKSPACE_DIR, &input.contexts.workspace_dir));
    env.extend(server_env(input));
    if persisted(input, |kept| kept.sessions.as_ref()).is_some() {
        volumes.push(volumes::claim("session-data", &names::agent_sessions_claim(input.agent.name)));
        let mount = volumes::mount("session-data", paths::SESSIONS);
        mounts.push(Mounted { mount, what: "the sessions".to_owned() });
        env.push(var(variables::OPENCODE_DB, format!("{}/opencode.db", paths::SESSIONS)));
    }
    env.extend(bench.env);
    let container = Container {
        name: "opencode-server".to_owned(),
        image: Some(agent.executor_image.clone()),
        image_pull_policy: Some(containers::pull_policy(&agent.executor_image).to_owned()),
        command: Some(serve_command(input)),
        working_dir: Some(input.contexts.workspace_dir.clone()),
        ports: Some(container_ports(ports)),
        env: Some(environment::settle(env)),
        env_from: Some(bench.env_from).filter(|sources| !sources.is_empty()),
        volume_mounts: Some(build::distinct(mounts)?),
        resources: Some(pod::resources(agent, SERVE_MEMORY)),
        startup_probe: Some(answers(2, 30)),
        readiness_probe: Some(answers(10, 3)),
        liveness_probe: Some(containers::tcp_probe(input.port, 30, 3)),
        lifecycle: agent.pod.lifecycle.clone(),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(security::agent_container(&agent.pod)),
        ..Container::default()
    };
    let strategy = strategy(&volumes, agent);
    let companion = companion_container(input, &shared, files, &container);
    volumes.push(volumes::empty(companion::NAME));
    let all = [container, companion].into_iter().chain(sidecars).collect();
    let extra_volumes = agent.pod.extra_volumes.as_deref().unwrap_or_default();
    let spec = build::pod_spec(agent, bench.init_containers, all, volumes, extra_volumes)?;
    let labels = build::with_user_labels(server_labels(input.agent.name), &agent.pod);
    Ok(Deployment {
        metadata: owner.metadata(names::agent_deployment(input.agent.name), labels.clone()),
        spec: Some(DeploymentSpec {
            replicas: Some(i32::from(!input.suspended)),
            selector: LabelSelector { match_labels: Some(selector(input.agent.name)), match_expressions: None },
            strategy: Some(strategy),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    annotations: Some(annotations),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    })
}

/// Our own container beside the server: it sees the agent's files, and knows the token of those who may ask for them.
fn companion_container(
    input: &AgentWorkloadInput<'_>,
    shared: &Shared<'_>,
    files: Vec<VolumeMount>,
    agent: &Container,
) -> Container {
    let mut env = vec![var(variables::WORKSPACE_DIR, &input.contexts.workspace_dir)];
    let host = match input.platform.addressing {
        Addressing::Cluster => "0.0.0.0",
        Addressing::Local => {
            env.push(field(variables::POD_IP, "status.podIP"));
            "$(POD_IP)"
        }
    };
    env.push(expanded(variables::COMPANION_LISTEN, format!("{host}:{}", companion::PORT)));
    env.push(environment::secret(variables::COMPANION_TOKEN, &collect::companion_token(input.agent.name)));
    // What is written there while git works is none of the agent's.
    env.push(var(variables::TMPDIR, paths::COMPANION));
    let mut mounts = files;
    mounts.push(volumes::mount(companion::NAME, paths::COMPANION));
    let port = ContainerPort {
        name: Some(companion::NAME.to_owned()),
        container_port: companion::PORT,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let ready = Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/healthz".to_owned()),
            port: IntOrString::Int(companion::PORT),
            ..HTTPGetAction::default()
        }),
        // The Agent is ready when both are: a look that comes too early must not cost more than the server's start.
        period_seconds: Some(2),
        timeout_seconds: Some(5),
        failure_threshold: Some(5),
        ..Probe::default()
    };
    let container = Container {
        ports: Some(vec![port]),
        readiness_probe: Some(ready),
        resources: Some(collect::resources()),
        ..shared.finished_helper(companion::NAME, companion::NAME, env, mounts)
    };
    collect::as_user_of(container, agent)
}

/// As PID 1, OpenCode ignores SIGTERM and is killed after the grace period; the shim forwards the signal.
fn serve_command(input: &AgentWorkloadInput<'_>) -> Vec<String> {
    let port = input.port.to_string();
    let address = match input.platform.addressing {
        Addressing::Cluster => "0.0.0.0",
        Addressing::Local => "$(POD_IP)",
    };
    [OUR_BINARY, "shim", "--", OPENCODE, "serve", "--port", &port, "--hostname", address].map(str::to_owned).into()
}

fn server_env(input: &AgentWorkloadInput<'_>) -> Vec<EnvVar> {
    let mut env = vec![var(variables::SHIM_FORMAT, "plain")];
    let host = match input.platform.addressing {
        Addressing::Cluster => "127.0.0.1",
        Addressing::Local => {
            env.push(field(variables::POD_IP, "status.podIP"));
            "$(POD_IP)"
        }
    };
    // Not /global/health: that is healthy even if the configuration is broken.
    env.push(expanded(variables::PROBE_URL, format!("http://{host}:{}/config", input.port)));
    env.extend(input.password.map(|password| environment::secret(variables::OPENCODE_SERVER_PASSWORD, password)));
    env
}

/// Our own binary sends the request with the password. A probe of the kubelet would need the password in the Pod's
/// spec. The limits are generous: under load a start takes a minute.
fn answers(period: i32, failures: i32) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(vec![OUR_BINARY.to_owned(), "probe".to_owned()]) }),
        period_seconds: Some(period),
        timeout_seconds: Some(10),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// A claim that only one Pod can mount, and a database that only one process can write, require that the old Pod ends
/// first.
fn strategy(volumes: &[Volume], agent: &ResolvedAgent) -> DeploymentStrategy {
    let extra = agent.pod.extra_volumes.iter().flatten();
    if volumes.iter().chain(extra).any(|volume| volume.persistent_volume_claim.is_some()) {
        return DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None };
    }
    DeploymentStrategy {
        type_: Some("RollingUpdate".to_owned()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: Some(IntOrString::Int(1)),
            max_unavailable: Some(IntOrString::Int(0)),
        }),
    }
}

fn pod_annotations(input: &AgentWorkloadInput<'_>, bench: &Workbench) -> BTreeMap<String, String> {
    let mut all = build::labels_of([("kubectl.kubernetes.io/default-container", "opencode-server")]);
    all.extend(input.resolved.pod.annotations.clone().unwrap_or_default());
    let mut hasher = Sha256::new();
    hasher.update(&input.config.hash);
    hasher.update([0]);
    hasher.update(input.secrets_digest.unwrap_or_default());
    if let Some(authorities) = input.authorities {
        hasher.update([0]);
        hasher.update(authorities);
    }
    all.insert(annotations::CONFIG_HASH.to_owned(), hex(&hasher.finalize(), 16));
    all.insert(annotations::CONTEXT_HASH.to_owned(), context_hash(input.contexts, bench));
    for mount in &bench.git {
        if let Some(commit) = input.git_hashes.get(&mount.name) {
            all.insert(format!("{}{}", annotations::GIT_HASH_PREFIX, annotation_name(&mount.name)), commit.clone());
        }
    }
    all
}

/// Hash of the files and of the ConfigMaps that are copied as directories.
fn context_hash(contexts: &ContextPlan, bench: &Workbench) -> String {
    let files = bench.bundle.hash();
    if contexts.directories.is_empty() {
        return files;
    }
    let digests = contexts.directories.iter().map(|directory| directory.digest.as_str());
    hex(&Sha256::digest(std::iter::once(files.as_str()).chain(digests).collect::<Vec<_>>().join(" ")), 16)
}

/// A name as the end of an annotation key, for which 54 characters are left after `git-hash-`.
fn annotation_name(name: &str) -> String {
    let fine = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    let ends = name.chars().next_back().is_some_and(|char| char.is_ascii_alphanumeric());
    if ends && name.len() <= 54 && name.chars().all(fine) {
        return name.to_owned();
    }
    let plain: String = name.chars().map(|char| if fine(char) { char } else { '-' }).take(40).collect();
    format!("{plain}-{}", hex(&Sha256::digest(name), 12))
}

/// Two ports of the Service may lead to one port of the container, which Kubernetes accepts only once.
fn container_ports(ports: &[Port]) -> Vec<ContainerPort> {
    let mut taken = BTreeSet::new();
    let own = ports.iter().filter(|port| port.name != companion::NAME);
    let first = own.filter(|port| taken.insert((port.target, port.protocol)));
    first
        .map(|port| ContainerPort {
            name: Some(port.name.clone()),
            container_port: port.target,
            protocol: Some(port.protocol.to_owned()),
            ..ContainerPort::default()
        })
        .collect()
}

fn service(input: &AgentWorkloadInput<'_>, owner: &Owner<'_>, ports: &[Port]) -> Service {
    let name = input.agent.name;
    let ports = ports.iter().map(|port| ServicePort {
        name: Some(port.name.clone()),
        port: port.number,
        target_port: Some(IntOrString::Int(port.target)),
        protocol: Some(port.protocol.to_owned()),
        ..ServicePort::default()
    });
    Service {
        metadata: owner.metadata(names::agent_service(name), server_labels(name)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(name)),
            ports: Some(ports.collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn claims(input: &AgentWorkloadInput<'_>, owner: &Owner<'_>) -> Vec<PersistentVolumeClaim> {
    let name = input.agent.name;
    let sessions = persisted(input, |kept| kept.sessions.as_ref());
    let workspace = persisted(input, |kept| kept.workspace.as_ref());
    let wanted = [
        (names::agent_sessions_claim(name), sessions, defaults::SESSIONS_SIZE),
        (names::agent_workspace_claim(name), workspace, defaults::WORKSPACE_SIZE),
    ];
    let claims = wanted.into_iter().filter_map(|(claim, kept, default)| {
        let kept = kept?;
        let size = kept.size.as_deref().filter(|size| !size.is_empty()).unwrap_or(default);
        Some(PersistentVolumeClaim {
            metadata: owner.metadata(claim, server_labels(name)),
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                storage_class_name: kept.storage_class_name.clone(),
                resources: Some(VolumeResourceRequirements { requests: Some(amount("storage", size)), limits: None }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        })
    });
    claims.collect()
}

#[cfg(test)]
mod tests;
