//! The Pod that builds an image and pushes it.
//!
//! What a Dockerfile runs must not reach a credential. So the repository is checked out by one container, the image is
//! built by another that has neither the credential of the repository nor that of the registry, and pushed by a third, which
//! runs nothing of the repository and takes the image as an archive.

use api::{
    names::{annotations, labels},
    workload::PodSettings,
};
use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, EnvVar, KeyToPath, Pod, ResourceRequirements, SeccompProfile, SecretVolumeSource,
        SecurityContext, Volume, VolumeMount,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{Plan, Recipe};
use crate::{
    contract::{environment as variables, image::BuildOrder, paths},
    platform::Platform,
    run::resolved::ResolvedAgent,
    workload::{
        build::{self, BuildError},
        containers::{self, Shared, git_volume},
        contexts::{ContextPlan, GitMount, GitTarget},
        environment::{self, var},
        pod::with_storage,
        volumes,
    },
};

/// Value of [`labels::APP_COMPONENT`] on the Pod.
pub const COMPONENT: &str = "image-builder";
/// A build ends within this time, in seconds.
pub const LONGEST: i64 = 3600;
/// User of the builder image, for which it has a range of subordinate IDs.
const USER: i64 = 1000;
/// Default requests.
const MEMORY: &str = "256Mi";
const CPU: &str = "100m";
const TOOLS: &str = "tools";
const IMAGE_VOLUME: &str = "image";
const BUILD_VOLUME: &str = "build-storage";
const PUSH_VOLUME: &str = "push-storage";
const LOGIN_VOLUME: &str = "registry-login";

/// The Pod of a build, and what it needs to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Builder {
    pub pod: Pod,
    /// The repository, whose Secret must have a key that is of use.
    pub sources: ContextPlan,
}

/// Builds the Pod.
pub fn builder(recipe: &Recipe<'_>, plan: &Plan, namespace: &str, platform: &Platform) -> Result<Builder, BuildError> {
    let settings = recipe.settings;
    let agent = &ResolvedAgent {
        pod: PodSettings { scheduling: recipe.agent.pod.scheduling.clone(), ..PodSettings::default() },
        ..recipe.agent.clone()
    };
    let proxy = environment::proxy(agent.proxy.as_ref(), platform, None);
    let tools = volumes::mount(TOOLS, paths::TOOLS);
    let shared = Shared { platform, agent, env: proxy.clone(), workspace: tools.clone(), outside: Vec::new() };
    let source = GitMount {
        name: "executorImageBuild".to_owned(),
        repository: recipe.build.repository.clone(),
        reference: plan.about.commit.clone(),
        depth: 1,
        recurse_submodules: false,
        secret: recipe.build.secret_ref.as_ref().map(|secret| secret.name.clone()),
        target: GitTarget::Mount { path: paths::GIT.to_owned(), sub_path: None },
        optional: false,
        sync: None,
        of_task: false,
    };
    let copy = vec![var(variables::WORKSPACE_DIR, paths::TOOLS), var(variables::COPY_SELF_TO, paths::OUR_BINARY)];
    let init_containers = vec![
        shared.finished_helper("tools", "context-init", copy, vec![tools]),
        shared.git_init(0, &source),
        container(
            recipe,
            plan,
            "build",
            &proxy,
            vec![
                read_only(&git_volume(0), paths::GIT),
                volumes::mount(IMAGE_VOLUME, paths::IMAGE),
                volumes::mount(BUILD_VOLUME, paths::BUILD_STORAGE),
            ],
        ),
    ];
    let login = settings.secret_ref.as_ref().map(|secret| login(&secret.name));
    let mut push_mounts =
        vec![read_only(IMAGE_VOLUME, paths::IMAGE), volumes::mount(PUSH_VOLUME, paths::BUILD_STORAGE)];
    push_mounts.extend(login.is_some().then(|| read_only(LOGIN_VOLUME, paths::REGISTRY_LOGIN_DIRECTORY)));
    let push = container(recipe, plan, "push", &proxy, push_mounts);
    let mut all: Vec<Volume> =
        [TOOLS, &git_volume(0), IMAGE_VOLUME, BUILD_VOLUME, PUSH_VOLUME].map(volumes::empty).into();
    all.extend(login);
    all.extend(agent.ca_bundle.as_ref().and_then(volumes::authorities));
    let mut spec = build::pod_spec(agent, init_containers, vec![push], all, &[])?;
    spec.restart_policy = Some("Never".to_owned());
    spec.active_deadline_seconds = Some(LONGEST);
    spec.automount_service_account_token = Some(false);
    let about = serde_json::to_string(&plan.about).unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(plan.pod.clone()),
        namespace: Some(namespace.to_owned()),
        labels: Some(build::labels_of([build::app(), (labels::APP_COMPONENT, COMPONENT)])),
        annotations: Some(build::labels_of([(annotations::IMAGE_BUILD, &about)])),
        ..ObjectMeta::default()
    };
    let pod = Pod { metadata, spec: Some(spec), status: None };
    Ok(Builder { pod, sources: ContextPlan { git: vec![source], ..ContextPlan::default() } })
}

/// A container of the builder image that runs a helper of ours, `image-build` or `image-push`.
fn container(
    recipe: &Recipe<'_>,
    plan: &Plan,
    step: &str,
    proxy: &[EnvVar],
    mut mounts: Vec<VolumeMount>,
) -> Container {
    let settings = recipe.settings;
    let order = BuildOrder {
        image: plan.about.image.clone(),
        dockerfile: plan.about.dockerfile.clone(),
        context: recipe.context().to_owned(),
        args: recipe.build.build_args.clone().unwrap_or_default(),
        insecure: settings.insecure,
    };
    let mut env = environment::home();
    env.push(var(variables::IMAGE_BUILD, serde_json::to_string(&order).unwrap_or_default()));
    env.extend(proxy.iter().cloned());
    mounts.insert(0, read_only(TOOLS, paths::TOOLS));
    if recipe.agent.ca_bundle.is_some() {
        env.extend(environment::authorities());
        mounts.push(volumes::authorities_mount());
    }
    let image = recipe.builder_image();
    Container {
        name: step.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some(containers::pull_policy(image).to_owned()),
        command: Some(vec![paths::OUR_BINARY.to_owned(), format!("image-{step}")]),
        env: Some(environment::settle(env)),
        volume_mounts: Some(mounts),
        resources: Some(with_storage(settings.resources.clone().unwrap_or_else(resources))),
        security_context: Some(settings.security_context.clone().unwrap_or_else(rootless)),
        // A failure that the helper could not report is in the log.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// What buildah needs without root: newuidmap and newgidmap, which map the subordinate IDs, and the system calls that
/// create user namespaces, which the default seccomp profile of most runtimes blocks.
fn rootless() -> SecurityContext {
    SecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        allow_privilege_escalation: Some(true),
        capabilities: Some(Capabilities {
            add: Some(["SETGID", "SETUID"].map(str::to_owned).into()),
            drop: Some(vec!["ALL".to_owned()]),
        }),
        seccomp_profile: Some(SeccompProfile { type_: "Unconfined".to_owned(), localhost_profile: None }),
        ..SecurityContext::default()
    }
}

fn resources() -> ResourceRequirements {
    let mut requests = volumes::amount("memory", MEMORY);
    requests.extend(volumes::amount("cpu", CPU));
    ResourceRequirements { requests: Some(requests), limits: None, claims: None }
}

fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..volumes::mount(volume, path) }
}

/// The login of the registry, as the file that buildah reads.
fn login(secret: &str) -> Volume {
    let item =
        KeyToPath { key: ".dockerconfigjson".to_owned(), path: paths::REGISTRY_LOGIN_NAME.to_owned(), mode: None };
    let source = SecretVolumeSource {
        secret_name: Some(secret.to_owned()),
        items: Some(vec![item]),
        default_mode: Some(0o440),
        ..SecretVolumeSource::default()
    };
    Volume { name: LOGIN_VOLUME.to_owned(), secret: Some(source), ..Volume::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::{kinds::config::ImageBuilding, refs::LocalRef, workload::ImageBuild};

    use super::*;
    use crate::image::{progress, tests};

    fn built(agent: &ResolvedAgent, platform: &Platform) -> Builder {
        let recipe = Recipe::of(agent, platform).unwrap().unwrap();
        builder(&recipe, &recipe.at("team-a", tests::COMMIT), "team-a", platform).unwrap()
    }

    fn rich() -> (ResolvedAgent, Platform) {
        let build = ImageBuild {
            dockerfile: Some("build/Dockerfile".into()),
            context: Some("build".into()),
            build_args: Some(BTreeMap::from([("GO".into(), "1.25".into())])),
            secret_ref: Some(LocalRef::new("git")),
            ..tests::build()
        };
        let rich = crate::workload::pod::tests::rich_agent();
        let agent = ResolvedAgent { executor_image_build: Some(build), ..rich };
        let image_build = ImageBuilding {
            registry: "127.0.0.1:5000".into(),
            insecure: true,
            secret_ref: Some(LocalRef::new("push")),
            ..ImageBuilding::default()
        };
        (agent, Platform { image_build: Some(image_build), ..tests::platform() })
    }

    #[test]
    fn the_pod_has_nothing_of_the_agent_but_its_way_to_the_network() {
        let (agent, platform) = rich();
        insta::assert_yaml_snapshot!("builder_pod", built(&agent, &platform).pod);
    }

    #[test]
    fn no_container_that_runs_the_dockerfile_has_a_credential() {
        let (agent, platform) = rich();
        let Builder { pod, .. } = built(&agent, &platform);
        let spec = pod.spec.unwrap();
        let init = spec.init_containers.unwrap();
        let build = init.iter().find(|container| container.name == "build").unwrap();
        assert!(build.env.iter().flatten().all(|var| var.value_from.is_none()));
        assert!(build.env_from.is_none());
        let mounts: Vec<_> = build.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
        let secrets = spec.volumes.iter().flatten().filter(|volume| volume.secret.is_some());
        for volume in secrets.filter(|volume| volume.name != volumes::CA_BUNDLE) {
            assert!(!mounts.contains(&volume.name.as_str()), "{}", volume.name);
        }
        let words = |container: &Container| format!("{:?}{:?}", container.command, container.args);
        assert!(init.iter().chain(&spec.containers).all(|container| !words(container).contains("push-secret")));
    }

    #[test]
    fn the_pod_says_what_it_builds() {
        let agent = tests::agent(tests::build());
        let platform = tests::platform();
        let pod = built(&agent, &platform).pod;
        let recipe = Recipe::of(&agent, &platform).unwrap().unwrap();
        assert_eq!(progress::about(&pod), Some(recipe.at("team-a", tests::COMMIT).about));
        assert_eq!(progress::about(&Pod::default()), None);
    }
}
