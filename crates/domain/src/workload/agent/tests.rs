use insta::assert_yaml_snapshot;
use serde_json::json;

use super::*;
use crate::{
    opencode::{ConfigInput, compile},
    sample::{agent, from_json, map, platform},
    workload::contexts::{ConfigMaps, ContextInput, assemble},
};

struct Case {
    resolved: ResolvedAgent,
    platform: Platform,
    suspended: bool,
    persistence: Option<Persistence>,
    git_hashes: BTreeMap<String, String>,
    secrets_digest: Option<&'static str>,
    authorities: Option<&'static str>,
    guide: &'static str,
}

impl Case {
    fn of(resolved: ResolvedAgent) -> Self {
        Self {
            resolved,
            platform: platform(),
            suspended: false,
            persistence: None,
            git_hashes: BTreeMap::new(),
            secrets_digest: None,
            authorities: None,
            guide: "Use go fmt.",
        }
    }

    fn build(&self) -> Result<AgentObjects, BuildError> {
        let config_maps = ConfigMaps::from([("guides".to_owned(), Some(map([("go.md", self.guide)])))]);
        let contexts = assemble(&ContextInput::of_agent("team", "reviewer", &self.resolved, &config_maps)).unwrap();
        let config = compile(&ConfigInput {
            agent: &self.resolved,
            model: None,
            small_model: None,
            instructions: &[],
            tools: &[],
            contexts: &contexts,
            llm_traces: false,
        });
        agent_objects(&AgentWorkloadInput {
            agent: AgentIdentity { namespace: "team", name: "reviewer", uid: "a-uid" },
            resolved: &self.resolved,
            platform: &self.platform,
            contexts: &contexts,
            config: &config.unwrap(),
            port: 4096,
            suspended: self.suspended,
            persistence: self.persistence.as_ref(),
            password: password_ref("reviewer", None).as_ref(),
            git_hashes: &self.git_hashes,
            secrets_digest: self.secrets_digest,
            authorities: self.authorities,
        })
    }

    fn objects(&self) -> AgentObjects {
        self.build().unwrap()
    }
}

fn template(objects: &AgentObjects) -> &PodTemplateSpec {
    &objects.deployment.spec.as_ref().unwrap().template
}

fn annotation<'a>(objects: &'a AgentObjects, key: &str) -> Option<&'a str> {
    template(objects).metadata.as_ref()?.annotations.as_ref()?.get(key).map(String::as_str)
}

#[test]
fn a_plain_agent() {
    let AgentObjects { config_maps, claims, deployment, service } = Case::of(agent()).objects();
    assert_yaml_snapshot!("plain_config_maps", config_maps);
    assert_yaml_snapshot!("plain_deployment", deployment);
    assert_yaml_snapshot!("plain_service", service);
    assert!(claims.is_empty());
}

#[test]
fn an_agent_with_everything() {
    let mut case = Case::of(pod::tests::rich_agent());
    case.resolved.extra_ports = from_json(json!([{ "name": "web", "port": 80, "targetPort": 3000 }]));
    case.persistence =
        Some(from_json(json!({ "sessions": {}, "workspace": { "size": "50Gi", "storageClassName": "ssd" } })));
    case.git_hashes = map([("library", "abc123"), ("gone", "x")]);
    let AgentObjects { claims, deployment, service, .. } = case.objects();
    assert_yaml_snapshot!("everything_deployment", deployment);
    assert_yaml_snapshot!("everything_service", service);
    assert_yaml_snapshot!("everything_claims", claims);
}

#[test]
fn an_agent_on_one_machine() {
    let mut case = Case::of(agent());
    case.platform.addressing = Addressing::Local;
    assert_yaml_snapshot!("local_deployment", case.objects().deployment);
}

#[test]
fn ports_are_the_same_in_container_and_service() {
    // P2: upstream gives the container the template's ports and the Service only the Agent's own.
    let mut case = Case::of(agent());
    case.resolved.extra_ports = from_json(json!([
        { "name": "web", "port": 80, "targetPort": 3000 },
        { "name": "dns", "port": 53, "protocol": "UDP" },
    ]));
    let objects = case.objects();
    let containers = &template(&objects).spec.as_ref().unwrap().containers;
    let of = |container: &Container| {
        let ports = container.ports.iter().flatten();
        ports.map(|port| (port.name.clone(), port.container_port)).collect::<Vec<_>>()
    };
    let mut of_container = of(&containers[0]);
    of_container.splice(1..1, of(&containers[1]));
    let of_service: Vec<_> = objects.service.spec.unwrap().ports.unwrap();
    let of_service: Vec<_> = of_service
        .iter()
        .map(|port| (port.name.clone(), if let Some(IntOrString::Int(target)) = port.target_port { target } else { 0 }))
        .collect();
    assert_eq!(of_container, of_service);
    assert_eq!(of_container.len(), 4);
    case.resolved.extra_ports = from_json(json!([{ "name": "http", "port": 80 }]));
    let error = case.build().unwrap_err().to_string();
    assert_eq!(error, "extraPorts has a port \"http\", and there is another of that name; give it another name");
}

#[test]
fn a_number_is_given_to_one_port() {
    // The API server would refuse the Service after everything else was applied.
    let build = |extra: serde_json::Value| {
        let mut case = Case::of(agent());
        case.resolved.extra_ports = from_json(extra);
        case.build()
    };
    let error = build(json!([{ "name": "web", "port": 4096 }])).unwrap_err().to_string();
    let message =
        "extraPorts has a port \"web\" with the number 4096, and so has port \"http\"; give it another number";
    assert_eq!(error, message);
    assert!(build(json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 80, "targetPort": 81 }])).is_err());
    assert!(build(json!([{ "name": "a", "port": 53 }, { "name": "b", "port": 53, "protocol": "UDP" }])).is_ok());
    let both = build(json!([{ "name": "a", "port": 80, "targetPort": 4096 }])).unwrap();
    let container = &template(&both).spec.as_ref().unwrap().containers[0];
    assert_eq!(container.ports.as_ref().unwrap().len(), 1, "two ways to one port of the container");
    assert_eq!(both.service.spec.unwrap().ports.unwrap().len(), 3);
}

#[test]
fn the_port_of_the_companion_is_taken() {
    let mut case = Case::of(agent());
    let refused = |case: &Case| matches!(case.build(), Err(BuildError::CompanionPort { .. }));
    for (port, target) in [(companion::PORT, 80), (80, companion::PORT)] {
        case.resolved.extra_ports = from_json(json!([{ "name": "web", "port": port, "targetPort": target }]));
        assert!(refused(&case), "{port} {target}");
    }
    case.resolved.extra_ports =
        from_json(json!([{ "name": "dns", "port": 53, "targetPort": 14096, "protocol": "UDP" }]));
    assert!(!refused(&case));
}

#[test]
fn only_the_companion_knows_its_token() {
    let mut case = Case::of(pod::tests::rich_agent());
    case.resolved.pod.security_context = Some(from_json(json!({ "runAsUser": 4242 })));
    let spec = template(&case.objects()).spec.clone().unwrap();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        let knows = serde_json::to_string(container).unwrap().contains("reviewer-companion");
        assert_eq!(knows, container.name == companion::NAME, "{}", container.name);
        let mounts = container.volume_mounts.iter().flatten().any(|mount| mount.name == companion::NAME);
        assert_eq!(mounts, container.name == companion::NAME, "{}", container.name);
    }
    let companion = spec.containers.iter().find(|container| container.name == companion::NAME).unwrap();
    let security = companion.security_context.as_ref().unwrap();
    assert_eq!((security.run_as_user, security.allow_privilege_escalation), (Some(4242), Some(false)));
}

#[test]
fn a_volume_that_one_pod_holds_is_given_back_before_the_next_starts() {
    let strategy = |case: &Case| case.objects().deployment.spec.unwrap().strategy.unwrap().type_.unwrap();
    let mut case = Case::of(agent());
    assert_eq!(strategy(&case), "RollingUpdate");
    case.persistence = Some(from_json(json!({ "sessions": {} })));
    assert_eq!(strategy(&case), "Recreate");
    case.persistence = None;
    let claim = json!([{ "name": "mine", "persistentVolumeClaim": { "claimName": "mine" } }]);
    case.resolved.pod.extra_volumes = Some(from_json(claim));
    assert_eq!(strategy(&case), "Recreate");
}

#[test]
fn suspending_changes_only_the_number_of_pods() {
    let running = Case::of(agent()).objects().deployment.spec.unwrap();
    let mut case = Case::of(agent());
    case.suspended = true;
    let suspended = case.objects().deployment.spec.unwrap();
    assert_eq!((running.replicas, suspended.replicas), (Some(1), Some(0)));
    assert_eq!(running.template, suspended.template);
}

#[test]
fn a_new_secret_value_or_file_or_commit_rolls_out() {
    let base = Case::of(agent()).objects();
    let mut secrets = Case::of(agent());
    secrets.secrets_digest = Some("new");
    assert_ne!(annotation(&base, annotations::CONFIG_HASH), annotation(&secrets.objects(), annotations::CONFIG_HASH));
    let mut authorities = Case::of(agent());
    authorities.authorities = Some("a certificate");
    let first = authorities.objects();
    assert_ne!(annotation(&base, annotations::CONFIG_HASH), annotation(&first, annotations::CONFIG_HASH));
    authorities.authorities = Some("another certificate");
    assert_ne!(
        annotation(&authorities.objects(), annotations::CONFIG_HASH),
        annotation(&first, annotations::CONFIG_HASH)
    );
    let mut directory = Case::of(agent());
    directory.resolved.contexts =
        from_json(json!([{ "type": "ConfigMap", "mountPath": "guides", "configMap": { "name": "guides" } }]));
    let first = directory.objects();
    directory.guide = "Use gofumpt.";
    assert_ne!(
        annotation(&first, annotations::CONTEXT_HASH),
        annotation(&directory.objects(), annotations::CONTEXT_HASH)
    );
    let mut file = Case::of(agent());
    file.resolved.contexts = from_json(json!([{ "type": "Text", "text": "x", "mountPath": "x.md" }]));
    assert_ne!(annotation(&base, annotations::CONTEXT_HASH), annotation(&file.objects(), annotations::CONTEXT_HASH));
}

#[test]
fn each_repository_has_an_annotation_of_its_own() {
    // P11: upstream writes both under the name "context".
    let git = |name: &str| {
        json!({ "name": name, "type": "Git", "mountPath": name, "git": {
            "repository": "https://h/r", "sync": { "enabled": true, "policy": "Rollout" } } })
    };
    let mut case = Case::of(agent());
    case.resolved.contexts = from_json(json!([git("one"), git("a name with spaces")]));
    case.git_hashes = map([("one", "111"), ("a name with spaces", "222")]);
    let objects = case.objects();
    assert_eq!(annotation(&objects, "kubeopencode.io/git-hash-one"), Some("111"));
    let keys = template(&objects).metadata.as_ref().unwrap().annotations.as_ref().unwrap().keys();
    let odd: Vec<&String> = keys.filter(|key| key.contains("a-name-with-spaces-")).collect();
    assert_eq!(odd.len(), 1);
    // The controller rolls out: there is no sidecar.
    let names = template(&objects).spec.as_ref().unwrap().containers.iter().map(|container| container.name.clone());
    assert_eq!(names.collect::<Vec<_>>(), ["opencode-server", "companion"]);
}

#[test]
fn the_address_follows_the_platform() {
    let mut platform = platform();
    assert_eq!(
        agent_url(&platform, "team", "reviewer", 4096, None).as_deref(),
        Some("http://reviewer.team.svc.cluster.local:4096")
    );
    platform.addressing = Addressing::Local;
    assert_eq!(agent_url(&platform, "team", "reviewer", 4096, None), None);
    let service: Service = from_json(json!({ "spec": { "clusterIP": "127.80.0.1" } }));
    assert_eq!(
        agent_url(&platform, "team", "reviewer", 4096, Some(&service)).as_deref(),
        Some("http://127.80.0.1:4096")
    );
}

#[test]
fn a_password_is_there_unless_somebody_says_none() {
    assert_eq!(password_ref("a", None).unwrap().name, "a-server-auth");
    assert_eq!(password_ref("a", Some(&from_json(json!({ "auth": "None" })))), None);
    let own = json!({ "passwordSecretRef": { "name": "mine", "key": "pw" } });
    assert_eq!(password_ref("a", Some(&from_json(own))).unwrap().key, "pw");
}

#[test]
fn the_same_agent_is_the_same_bytes() {
    // P5: 20 touches of upstream's Agent caused 15 restarts.
    let build = || {
        let AgentObjects { config_maps, claims, deployment, service } = Case::of(pod::tests::rich_agent()).objects();
        format!("{}{}{}{}", json!(config_maps), json!(claims), json!(deployment), json!(service))
    };
    let first = build();
    assert!((0..5).all(|_| build() == first));
}

#[test]
fn every_variable_of_an_agent_is_in_the_contract() {
    for addressing in [Addressing::Cluster, Addressing::Local] {
        let mut case = Case::of(pod::tests::rich_agent());
        case.platform.addressing = addressing;
        let objects = case.objects();
        pod::tests::check_variables(template(&objects).spec.as_ref().unwrap(), &pod::tests::CHOSEN);
    }
}
