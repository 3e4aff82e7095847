use std::collections::BTreeSet;

use api::context::ContextItem;
use insta::assert_yaml_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::{
    opencode::{ConfigInput, compile},
    platform::Addressing,
    run::workspace::placed,
    sample::{agent, from_json, map, platform, task, task_on_agent},
    workload::contexts::{ConfigMaps, ContextInput, assemble},
};

const TASK: TaskIdentity<'_> =
    TaskIdentity { namespace: "team", name: "fix", uid: "5f0c2b1a-0000-4000-8000-000000000001", epoch: 1 };

fn built(resolved: &ResolvedTask, platform: &Platform, identity: TaskIdentity<'_>) -> Result<TaskObjects, BuildError> {
    let allowance = resolved.budget.as_ref().map(Allowance::from).unwrap_or_default();
    let config_maps = ConfigMaps::from([("guides".to_owned(), Some(map([("go.md", "Use go fmt.")])))]);
    let contexts = assemble(&ContextInput::of_task("team", identity.name, resolved, &config_maps)).unwrap();
    let input = TaskPodInput { task: identity, resolved, platform, contexts: &contexts, allowance };
    if attaches(resolved) {
        return attach_pod(&input);
    }
    let config = compile(&ConfigInput {
        agent: &resolved.agent,
        model: None,
        small_model: None,
        instructions: &[],
        tools: &[],
        contexts: &contexts,
        llm_traces: platform.open_telemetry.as_ref().is_some_and(|traces| traces.enable_llm_traces),
    });
    own_pod(&input, &config.unwrap())
}

fn objects(resolved: &ResolvedTask) -> TaskObjects {
    built(resolved, &platform(), TASK).unwrap()
}

fn spec(objects: &TaskObjects) -> &PodSpec {
    objects.pod.spec.as_ref().unwrap()
}

fn main_container(objects: &TaskObjects) -> &Container {
    &spec(objects).containers[0]
}

fn env<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    container.env.iter().flatten().find(|var| var.name == name)?.value.as_deref()
}

/// An agent that uses everything there is.
pub(crate) fn rich_agent() -> ResolvedAgent {
    let mut agent = agent();
    agent.contexts = contexts(json!([
        { "name": "style", "type": "Text", "text": "Be brief." },
        { "name": "guides", "type": "ConfigMap", "mountPath": "guides", "fileMode": 365, "configMap": { "name": "guides" } },
        { "name": "code", "type": "Git", "mountPath": ".", "git": {
            "repository": "https://git.example/code.git", "ref": "main", "depth": 0, "secretRef": { "name": "git" } } },
        { "name": "library", "type": "Git", "mountPath": "vendor/library", "optional": true, "git": {
            "repository": "https://git.example/library.git", "path": "lib", "recurseSubmodules": true,
            "sync": { "enabled": true, "interval": "90s" } } },
        { "name": "spec", "type": "URL", "mountPath": "docs/spec.md", "fileMode": 292, "url": {
            "source": "https://docs.example/spec.md", "headers": { "Accept": "text/markdown" },
            "secretRef": { "name": "docs" }, "maxBytes": 1000 } },
        { "name": "rc", "type": "Text", "mountPath": "/home/agent/.config/tool.rc", "text": "x=$(HOME)" },
    ]));
    agent.skills = from_json(json!([
        { "name": "team", "git": { "repository": "https://git.example/skills.git", "names": ["go"] } }
    ]));
    agent.plugins = from_json(json!([
        { "name": "@team/audit@1.2.0", "options": { "level": 2 } },
        { "name": "pretty", "target": "tui" },
    ]));
    agent.config = Some(from_json(json!({ "model": "anthropic/claude-sonnet-4-5" })));
    agent.credentials = from_json(json!([
        { "name": "anthropic", "secretRef": { "name": "llm", "key": "key" }, "env": "ANTHROPIC_API_KEY" },
        { "name": "aws", "secretRef": { "name": "aws" } },
        { "name": "ssh", "secretRef": { "name": "ssh", "key": "id" }, "mountPath": "/home/agent/.ssh/id" },
        { "name": "certificates", "secretRef": { "name": "certs" }, "mountPath": "/certs", "fileMode": 256 },
    ]));
    agent.pod = from_json(json!({
        "labels": { "team": "blue", "app": "theirs", "kubeopencode.io/agent": "somebody-else" },
        "annotations": { "example.com/cost": "42" },
        "scheduling": { "nodeSelector": { "pool": "agents" }, "tolerations": [{ "key": "agents", "operator": "Exists" }] },
        "runtimeClassName": "gvisor",
        "resources": { "requests": { "memory": "1Gi" } },
        "extraVolumes": [{ "name": "cache", "emptyDir": {} }],
        "extraVolumeMounts": [{ "name": "cache", "mountPath": "/cache" }],
        "extraEnv": [{ "name": "GOFLAGS", "value": "-mod=mod" }],
        "systemContainers": { "gitInit": { "extraEnv": [{ "name": "GIT_TRACE", "value": "1" }] } },
    }));
    agent.ca_bundle = Some(from_json(json!({ "configMapRef": { "name": "corporate-ca" } })));
    agent.proxy = Some(from_json(json!({ "httpsProxy": "http://proxy.example:3128" })));
    agent.image_pull_secrets = vec!["pull".into()];
    agent
}

fn contexts(value: Value) -> Vec<ContextItem> {
    from_json(value)
}

#[test]
fn a_plain_task_on_a_template() {
    let TaskObjects { config_maps, pod } = objects(&task(agent()));
    assert_yaml_snapshot!("template_plain_config_maps", config_maps);
    assert_yaml_snapshot!("template_plain_pod", pod);
}

fn with_depot() -> Platform {
    Platform { depot_url: Some("http://depot.example:2748".into()), ..platform() }
}

#[test]
fn a_task_on_an_agent_that_keeps_and_fetches_works_through_the_companion() {
    let mut task = task_on_agent(agent());
    task.artifacts = from_json(json!([{ "name": "report", "paths": ["out/**"] }]));
    task.inputs = from_json(json!([{ "fromTask": "build", "artifact": "dist", "mountPath": "in" }]));
    task.outputs = vec!["verdict".into()];
    task.caches = from_json(json!([{ "name": "go", "key": "go", "paths": ["go"] }]));
    let built = built(&task, &with_depot(), TASK).unwrap();
    assert_yaml_snapshot!("attach_results_pod", built.pod);
    for container in spec(&built).init_containers.iter().flatten().chain(&spec(&built).containers) {
        let knows = serde_json::to_string(container).unwrap().contains("reviewer-companion");
        assert_eq!(knows, ["prep", "housekeeper"].contains(&container.name.as_str()), "{}", container.name);
    }
    assert_eq!(env(main_container(&built), "KUBEOPENCODE_OUTPUTS"), None, "the environment there is the server's");

    // Without a depot there is nothing to do.
    let names = |task: &ResolvedTask, platform: &Platform| {
        let built = self::built(task, platform, TASK).unwrap();
        let all = spec(&built).init_containers.iter().flatten().chain(&spec(&built).containers);
        all.map(|container| container.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&task, &platform()), ["session", "agent"]);
    assert_eq!(names(&task_on_agent(agent()), &with_depot()), ["session", "agent"]);
    // The changes of the Agent's repositories are kept, and those of a Task's own directory are not.
    let git = json!([{ "name": "code", "type": "Git", "mountPath": "code", "git": { "repository": "https://h/r" } }]);
    let mut changes = task_on_agent(agent());
    changes.agent.contexts = contexts(git.clone());
    assert_eq!(names(&changes, &with_depot()), ["prep", "session", "agent", "housekeeper"]);
    let mut own = task_on_agent(agent());
    own.contexts = contexts(git);
    assert_eq!(names(&own, &with_depot()), ["context-init", "git-init-0", "prep", "session", "agent"]);
}

#[test]
fn a_task_that_keeps_and_fetches_has_a_housekeeper_and_prep() {
    let mut task = task(rich_agent());
    task.artifacts = from_json(json!([{ "name": "report", "paths": ["out/**"], "when": "Always" }]));
    task.outputs = vec!["verdict".into()];
    task.inputs = from_json(json!([{ "fromTask": "build", "artifact": "dist", "mountPath": "dist" }]));
    task.caches =
        from_json(json!([{ "name": "npm", "key": "npm-{{ hash \"package-lock.json\" }}", "paths": ["node_modules"] }]));
    task.publish = Some(from_json(
        json!({ "context": "code", "secretRef": { "name": "push" }, "pullRequest": { "draft": true } }),
    ));
    let objects = built(&task, &with_depot(), TASK).unwrap();
    let spec = spec(&objects);
    let named = |name: &str| {
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        all.clone().find(|container| container.name == name).unwrap()
    };
    assert_yaml_snapshot!("template_housekeeper", named("housekeeper"));
    assert_yaml_snapshot!("template_prep", named("prep"));
    let only = |name: &str| name == "results" || name == "collect" || name == "depot-token";
    let volumes: Vec<_> = spec.volumes.iter().flatten().filter(|volume| only(&volume.name)).collect();
    assert_yaml_snapshot!("template_collecting_volumes", volumes);
    assert_eq!(spec.termination_grace_period_seconds, Some(650));
    // The agent has neither the token nor the credential, nor the files in transit.
    let agent = serde_json::to_string(main_container(&objects)).unwrap();
    for secret in ["depot", "push", "collect", "GIT_PASSWORD"] {
        assert!(!agent.contains(secret), "{secret}: {agent}");
    }
    assert_eq!(env(main_container(&objects), "KUBEOPENCODE_OUTPUTS"), Some("/results/outputs"));
}

#[test]
fn a_task_that_keeps_nothing_is_the_same_with_a_depot() {
    let platform = |url: Option<&str>| Platform { depot_url: url.map(str::to_owned), ..platform() };
    let pod = |url| built(&task(agent()), &platform(url), TASK).unwrap();
    assert_eq!(pod(None), pod(Some("http://depot.example")));
    // And so is one whose settings have no effect without a depot.
    let mut keeping = task(agent());
    keeping.outputs = vec!["verdict".into()];
    assert_eq!(built(&keeping, &platform(None), TASK).unwrap(), pod(None));
}

#[test]
fn only_a_whole_repository_in_the_workspace_has_changes_to_keep() {
    let check = |context: Value, expected: bool| {
        let mut task = task(agent());
        let git = json!({ "repository": "https://git.example/x.git" });
        let mut item = json!({ "name": "code", "type": "Git", "git": git });
        for (key, value) in context.as_object().unwrap() {
            item[key] = value.clone();
        }
        task.contexts = from_json(json!([item]));
        let objects = built(&task, &with_depot(), TASK).unwrap();
        let keeps = spec(&objects).containers.iter().any(|container| container.name == HOUSEKEEPER_CONTAINER);
        assert_eq!(keeps, expected, "{context}");
    };
    check(json!({ "mountPath": "code" }), true);
    check(json!({ "mountPath": "." }), true);
    check(json!({ "mountPath": "/opt/tools" }), false);
    let part = json!({ "repository": "https://git.example/x.git", "path": "docs" });
    check(json!({ "mountPath": "code", "git": part }), false);
}

#[test]
fn settings_that_no_container_could_be_started_with_are_refused() {
    let mut task = task(rich_agent());
    let body = "\u{6587}".repeat(45_000);
    task.publish =
        Some(from_json(json!({ "context": "code", "secretRef": { "name": "push" }, "pullRequest": { "body": body } })));
    let problem = built(&task, &with_depot(), TASK).unwrap_err().to_string();
    assert!(problem.contains("what is kept for the run takes 13"), "{problem}");

    let mut task = task_on_agent(rich_agent());
    let paths = vec!["x".repeat(4096); 40];
    task.artifacts = from_json(json!([{ "name": "report", "paths": paths }]));
    let problem = built(&task, &with_depot(), TASK).unwrap_err().to_string();
    assert!(problem.contains("what is kept for the run takes 16"), "{problem}");
}

#[test]
fn the_containers_that_read_files_have_the_user_of_the_agent() {
    let mut task = task(agent());
    task.outputs = vec!["verdict".into()];
    task.agent.pod.security_context = Some(from_json(json!({ "runAsUser": 0, "runAsGroup": 5 })));
    let objects = built(&task, &with_depot(), TASK).unwrap();
    let housekeeper = spec(&objects).containers.iter().find(|container| container.name == "housekeeper").unwrap();
    let security = housekeeper.security_context.clone().unwrap();
    assert_eq!((security.run_as_user, security.run_as_group, security.privileged), (Some(0), Some(5), None));
    assert_eq!(security.allow_privilege_escalation, Some(false));
}

#[test]
fn what_cannot_be_fetched_or_published_is_refused() {
    let check = |edit: &dyn Fn(&mut ResolvedTask), expected: &str| {
        let mut task = task(rich_agent());
        edit(&mut task);
        assert_eq!(built(&task, &with_depot(), TASK).unwrap_err().to_string(), expected);
    };
    let input = |path: &str| from_json(json!([{ "fromTask": "build", "artifact": "dist", "mountPath": path }]));
    let refused =
        |path: &str| format!("an input cannot be put at {path:?}: mountPath is a path below the workspace, without ..");
    for path in ["/etc", "../x", "a/../../x", "/workspacex"] {
        check(&|task| task.inputs = input(path), &refused(path));
    }
    let publish = |settings: Value| move |task: &mut ResolvedTask| task.publish = Some(from_json(settings.clone()));
    check(
        &publish(json!({ "secretRef": { "name": "push" } })),
        "spec.publish cannot be used: there are several Git contexts; name one in publish.context: code, library",
    );
    check(
        &publish(json!({ "secretRef": { "name": "push" }, "context": "docs" })),
        "spec.publish cannot be used: there is no Git context \"docs\"",
    );
    check(
        &publish(json!({ "secretRef": { "name": "push" }, "context": "library" })),
        "spec.publish cannot be used: the context takes a part of its repository; remove git.path from it",
    );
    let of_task = "spec.publish cannot be used: it is set on the template, whose credential is for the repositories of the template, \
                   and this repository is a context of the Task; set publish on the Task";
    for (context, path, expected) in [
        // In place of the template's.
        (Some("code"), ".", of_task),
        (Some("own"), "own", of_task),
        (None, ".", of_task),
    ] {
        let inherited = |task: &mut ResolvedTask| {
            if context.is_none() {
                task.agent.contexts.clear();
            }
            let name = context.unwrap_or("own");
            task.contexts = contexts(json!([{ "name": name, "type": "Git", "mountPath": path, "git": {
                "repository": "https://git.example/another.git", "ref": "main" } }]));
            task.publish = Some(from_json(json!({ "secretRef": { "name": "push" }, "context": context })));
            task.publish_inherited = true;
        };
        check(&inherited, expected);
        let mut own = task(rich_agent());
        inherited(&mut own);
        own.publish_inherited = false;
        let objects = built(&own, &with_depot(), TASK).unwrap();
        let housekeeper = spec(&objects).containers.iter().find(|container| container.name == "housekeeper").unwrap();
        let keep = env(housekeeper, "KUBEOPENCODE_KEEP").unwrap();
        assert!(keep.contains(r#""repository":"https://git.example/another.git""#), "{keep}");
    }
    check(
        &|task| {
            task.agent.contexts.clear();
            task.publish = Some(from_json(json!({ "secretRef": { "name": "push" } })));
        },
        "spec.publish cannot be used: the Task has no Git context",
    );
}

#[test]
fn a_task_with_everything() {
    let mut task = task(rich_agent());
    task.contexts = contexts(json!([{ "type": "Runtime" }]));
    task.workspace = Some(from_json(json!({ "accessMode": "ReadWriteOnce", "storageClassName": "fast" })));
    task.services = from_json(json!([
        { "name": "postgres", "image": "postgres:17", "env": [{ "name": "POSTGRES_PASSWORD", "value": "x" }],
          "ports": [{ "containerPort": 5432 }] }
    ]));
    let mut platform = platform();
    platform.open_telemetry = Some(from_json(json!({
        "enabled": true, "endpoint": "http://otel:4318", "enableLLMTraces": true, "recordContent": true,
        "headers": { "x-key": { "valueFrom": { "secretKeyRef": { "name": "otel", "key": "key" } } } },
    })));
    let TaskObjects { config_maps, pod } = built(&task, &platform, TASK).unwrap();
    assert_yaml_snapshot!("template_everything_config_maps", config_maps);
    assert_yaml_snapshot!("template_everything_pod", pod);
}

#[test]
fn a_command_of_its_own_runs_verbatim_under_the_shim() {
    let mut task = task_on_agent(agent());
    let own = ["sh", "-c", "/tools/opencode run --format json \"$(cat /workspace/task.md)\""].map(str::to_owned);
    task.agent.command = Some(own.to_vec());
    task.workspace = Some(from_json(json!({ "accessMode": "ReadWriteMany", "claimName": "shared" })));
    let objects = built(&task, &platform(), TaskIdentity { epoch: 3, ..TASK }).unwrap();
    assert_yaml_snapshot!("command_pod", objects.pod);
    assert_eq!(main_container(&objects).image, Some(task.agent.executor_image));
}

/// The volume of the workspace, and its mounts in each container: path and part of the volume.
fn workspaces(objects: &TaskObjects) -> (Value, Vec<(String, Vec<String>)>) {
    let volume = spec(objects).volumes.iter().flatten().find(|volume| volume.name == "workspace").unwrap();
    let mounts = |container: &Container| {
        let all = container.volume_mounts.iter().flatten().filter(|mount| mount.name == "workspace");
        let part = |mount: &VolumeMount| mount.sub_path.clone().unwrap_or_default();
        all.map(|mount| format!("{} <- {}", mount.mount_path, part(mount))).collect::<Vec<_>>()
    };
    let containers = spec(objects).init_containers.iter().flatten().chain(&spec(objects).containers);
    let mounted = containers.map(|container| (container.name.clone(), mounts(container)));
    (serde_json::to_value(volume).unwrap(), mounted.filter(|(_, mounts)| !mounts.is_empty()).collect())
}

#[test]
fn a_run_sees_its_directory_of_a_shared_claim_or_the_whole_volume() {
    let mounted = |containers: &[&str], paths: &[&str]| -> Vec<(String, Vec<String>)> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        containers.iter().map(|name| ((*name).to_owned(), paths.clone())).collect()
    };
    let mut resolved = task(agent());
    resolved.workspace = Some(from_json(json!({ "accessMode": "ReadWriteMany" })));
    let (volume, found) = workspaces(&objects(&resolved));
    assert_eq!(volume["persistentVolumeClaim"], json!({ "claimName": "kubeopencode-workspace-template-go-dev" }));
    let own = format!("/workspace <- {}/{}", TASK.uid, TASK.epoch);
    assert_eq!(found, mounted(&["context-init", "agent"], &[&own]));

    resolved.workspace =
        Some(from_json(json!({ "accessMode": "ReadWriteMany", "sharing": "All", "claimName": "mine" })));
    resolved.contexts = contexts(json!([
        { "name": "code", "type": "Git", "mountPath": ".", "git": { "repository": "https://git.example/r.git" } },
    ]));
    resolved.outputs = vec!["verdict".into()];
    let placed = placed(&TASK, &resolved);
    let objects = built(&placed, &with_depot(), TASK).unwrap();
    let (volume, found) = workspaces(&objects);
    assert_eq!(volume["persistentVolumeClaim"], json!({ "claimName": "mine" }));
    let directory = format!("{}.{}/{}", TASK.name, TASK.uid, TASK.epoch);
    let own = format!("/workspace/{directory} <- {directory}");
    let mut expected = mounted(&["context-init", "git-init-0"], &[&own]);
    // Only the agent sees what is beside its directory.
    expected.extend(mounted(&["agent"], &[&own, "/workspace <- "]));
    expected.extend(mounted(&["housekeeper"], &[&own]));
    assert_eq!(found, expected);
    let work = format!("/workspace/{directory}");
    assert_eq!(main_container(&objects).working_dir.as_deref(), Some(work.as_str()));
    for container in spec(&objects).init_containers.iter().flatten().chain(&spec(&objects).containers) {
        for name in ["WORKSPACE_DIR", "GIT_WORKSPACE_DIR"] {
            assert!(env(container, name).is_none_or(|dir| dir == work), "{name} of {}", container.name);
        }
    }
    let prompt = env(main_container(&objects), "SHIM_STDIN_FILE");
    assert_eq!(prompt, Some(format!("{work}/task.md").as_str()));
}

#[test]
fn a_plain_task_on_an_agent() {
    let TaskObjects { config_maps, pod } = objects(&task_on_agent(agent()));
    assert_yaml_snapshot!("attach_plain_config_maps", config_maps);
    assert_yaml_snapshot!("attach_plain_pod", pod);
}

#[test]
fn a_task_on_an_agent_with_files() {
    let mut task = task_on_agent(rich_agent());
    task.contexts = contexts(json!([
        { "name": "notes", "type": "Text", "mountPath": "notes.md", "text": "N", "fileMode": 420 },
        { "name": "guides", "type": "ConfigMap", "mountPath": "guides", "configMap": { "name": "guides" } },
        { "name": "repo", "type": "Git", "mountPath": "repo", "git": { "repository": "https://git.example/r.git" } },
        { "name": "spec", "type": "URL", "mountPath": "spec.md", "url": { "source": "https://docs.example/s.md" } },
    ]));
    task.agent.approval = from_json(json!({ "mode": "Ask", "timeout": "10m" }));
    assert_yaml_snapshot!("attach_with_files_pod", objects(&task).pod);
}

#[test]
fn what_a_task_would_not_get_where_it_runs_is_refused() {
    let refused = |resolved: &ResolvedTask, spec: Value| {
        check(&from_json(spec), resolved).err().map(|error| (error.reason(), error.to_string()))
    };
    let check = |resolved: &ResolvedTask, spec: Value, expected: Option<&str>| {
        let found = refused(resolved, spec.clone());
        match (&found, expected) {
            (None, None) => {}
            (Some(("Invalid", sentence)), Some(part)) if sentence.contains(part) => {}
            _ => panic!("{spec}: {found:?}, not {expected:?}"),
        }
    };
    let (own, attached) = (task(agent()), task_on_agent(agent()));
    let mut command = attached.clone();
    command.agent.command = Some(vec!["make".to_owned()]);
    let tools = json!({ "tools": [{ "ref": { "kind": "RemoteMCPServer", "name": "t" } }] });
    check(&attached, tools.clone(), Some("set tools on the Agent"));
    check(&own, tools.clone(), None);
    check(&command, tools, None);
    check(&attached, json!({ "workspace": { "size": "1Gi" } }), Some("spec.workspace has no effect on Agent"));
    let services = json!({ "services": [{ "name": "postgres", "image": "postgres:17" }] });
    check(&attached, services.clone(), Some("let the Agent reach them through a Service"));
    check(&attached, json!({ "services": [] }), None);
    check(&own, services.clone(), None);
    check(&command, services, None);
    check(&attached, json!({}), None);
    for mode in ["Ask", "Always"] {
        let asking = |mut task: ResolvedTask| {
            task.agent.approval = from_json(json!({ "mode": mode }));
            task
        };
        check(&asking(own.clone()), json!({}), Some("use agentRef"));
        check(&asking(attached.clone()), json!({}), None);
        check(&asking(command.clone()), json!({}), None);
    }
}

#[test]
fn a_run_is_told_what_it_may_use() {
    for resolved in [task(agent()), task_on_agent(agent())] {
        let limits = |objects: &TaskObjects| {
            ["BUDGET_MAX_TOKENS", "BUDGET_MAX_COST"].map(|name| env(main_container(objects), name).map(str::to_owned))
        };
        assert_eq!(limits(&objects(&resolved)), [None, None], "nobody set a budget");
        let budget = Some(from_json(json!({"maxTokens": 20_000, "maxCost": "2.5"})));
        let limited = objects(&ResolvedTask { budget, ..resolved });
        assert_eq!(limits(&limited), [Some("20000".to_owned()), Some("2.50".to_owned())]);
    }
}

#[test]
fn a_task_that_always_asks_says_so_to_its_client() {
    for (mode, expected) in [("Never", None), ("Ask", Some("Wait")), ("Always", Some("Always"))] {
        let mut task = task_on_agent(agent());
        task.agent.approval = from_json(json!({ "mode": mode }));
        assert_eq!(env(main_container(&objects(&task)), "APPROVAL_MODE"), expected, "{mode}");
    }
}

#[test]
fn a_users_own_attach_image_gets_the_prompt_on_standard_input() {
    let mut task = task_on_agent(agent());
    task.agent.attach_image = "registry.example/opencode:1".to_owned();
    let plain = objects(&task);
    let container = main_container(&plain);
    let words: Vec<&str> = container.command.iter().flatten().map(String::as_str).collect();
    assert_eq!(words[..6], [OUR_BINARY, "shim", "--", "opencode", "run", "--attach"]);
    assert_eq!(env(container, "SHIM_STDIN_FILE"), Some("/workspace/task.md"));
    // Our own client may be in the image as well, and reads the prompt from the usual file.
    assert_eq!(env(container, "PROMPT_FILE"), Some("/workspace/task.md"));
    let prepares = &spec(&plain).init_containers.as_ref().unwrap()[0];
    assert_eq!(env(prepares, "COPY_SELF_TO"), Some(OUR_BINARY));
    for container in [container, prepares] {
        assert!(container.volume_mounts.iter().flatten().any(|mount| mount.name == "tools"), "{}", container.name);
    }
    task.contexts = contexts(json!([{ "name": "style", "type": "Text", "text": "Be brief." }]));
    let with_text = objects(&task);
    assert_eq!(env(main_container(&with_text), "SHIM_STDIN_FILE"), Some("/workspace/.kubeopencode/prompt.md"));
    let texts: Vec<&String> =
        with_text.config_maps.iter().flat_map(|map| map.data.iter().flatten()).map(|(_, text)| text).collect();
    assert!(
        texts.iter().any(|text| text.contains("Be brief.") && text.ends_with("Fix the bug in main.go\n")),
        "{texts:?}"
    );
}

#[test]
fn a_task_on_an_agent_has_the_volumes_that_its_containers_mount_and_no_others() {
    let mut task = task_on_agent(agent());
    task.contexts = contexts(json!([{ "name": "n", "type": "Text", "mountPath": "n.md", "text": "N" }]));
    task.agent.pod = from_json(json!({
        "extraVolumes": [{ "name": "certs", "emptyDir": {} }, { "name": "of-the-server", "emptyDir": {} }],
        "systemContainers": { "contextInit": { "extraVolumeMounts": [{ "name": "certs", "mountPath": "/certs" }] } },
    }));
    let objects = objects(&task);
    let names: Vec<&str> = spec(&objects).volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert!(names.contains(&"certs") && !names.contains(&"of-the-server"), "{names:?}");
}

#[test]
fn a_part_of_a_repository_is_looked_for() {
    let mut task = task(agent());
    task.contexts = contexts(json!([{ "name": "r", "type": "Git", "mountPath": "docs", "git": {
        "repository": "https://git.example/r.git", "path": "guides" } }]));
    let objects = objects(&task);
    let git = spec(&objects).init_containers.iter().flatten().find(|container| container.name == "git-init-0").unwrap();
    assert_eq!(env(git, "GIT_REPO_PARTS"), Some(r#"["guides"]"#));
}

#[test]
fn a_recreated_task_never_adopts_the_old_pod() {
    // P10: the UID of the owner tells them apart, and reruns have a name of their own.
    let other = TaskIdentity { uid: "another", epoch: 2, ..TASK };
    let TaskObjects { config_maps, pod } = built(&task(agent()), &platform(), other).unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("fix-pod-2"));
    for metadata in config_maps.iter().map(|map| &map.metadata).chain([&pod.metadata]) {
        let owner = &metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.uid.as_str(), owner.kind.as_str(), owner.controller), ("another", "Task", Some(true)));
    }
    assert_eq!(pod.metadata.labels.unwrap()["kubeopencode.io/run-epoch"], "2");
}

#[test]
fn a_user_cannot_take_our_labels() {
    let objects = objects(&task(rich_agent()));
    let labels = objects.pod.metadata.labels.unwrap();
    assert_eq!(labels["app"], "kubeopencode");
    assert_eq!(labels["team"], "blue");
    // The Agent's Service selects by this label: a Task Pod with it would receive that Agent's requests.
    assert!(!labels.contains_key("kubeopencode.io/agent"));
}

#[test]
fn every_container_is_restricted() {
    for resolved in [task(rich_agent()), task_on_agent(rich_agent())] {
        let objects = objects(&resolved);
        let spec = spec(&objects);
        let pod = spec.security_context.as_ref().unwrap();
        assert_eq!((pod.run_as_non_root, pod.run_as_user, pod.fs_group), (Some(true), Some(1000), Some(1000)));
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            let security = container.security_context.as_ref().unwrap();
            assert_eq!(security.allow_privilege_escalation, Some(false), "{}", container.name);
            assert_eq!(security.capabilities.as_ref().unwrap().drop.as_deref(), Some(["ALL".to_owned()].as_slice()));
            assert_eq!(security.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
        }
        assert_eq!(spec.automount_service_account_token, Some(false));
    }
}

#[test]
fn a_user_who_sets_security_knows_better() {
    let mut resolved = task(agent());
    resolved.agent.pod.pod_security_context = Some(from_json(json!({})));
    assert_eq!(spec(&objects(&resolved)).security_context, Some(from_json(json!({}))));
    resolved.agent.pod.pod_security_context = None;
    resolved.agent.pod.security_context = Some(from_json(json!({ "runAsUser": 0 })));
    let objects = objects(&resolved);
    assert_eq!(spec(&objects).security_context, None);
    assert_eq!(main_container(&objects).security_context.as_ref().unwrap().run_as_user, Some(0));
    let init = &spec(&objects).init_containers.as_ref().unwrap()[0];
    assert_eq!(init.security_context.as_ref().unwrap().allow_privilege_escalation, Some(false));
}

#[test]
fn users_text_reaches_the_helpers_as_it_was_written() {
    let mut task = task(agent());
    task.contexts = contexts(json!([
        { "type": "Text", "mountPath": "$(HOME)/a $$ 'b\".md", "text": "x" },
        { "type": "URL", "mountPath": "s", "url": { "source": "https://h/$(TOKEN)", "headers": { "X": "a$$b" } } },
    ]));
    let objects = objects(&task);
    let init = spec(&objects).init_containers.as_ref().unwrap();
    let mappings = env(&init[1], "FILE_MAPPINGS").unwrap();
    assert!(mappings.contains("$$(HOME)/a $$$$ 'b"), "{mappings}");
    assert_eq!(env(&init[2], "URL_SOURCE"), Some("https://h/$$(TOKEN)"));
    assert_eq!(env(&init[2], "URL_HEADERS"), Some(r#"{"X":"a$$$$b"}"#));
}

#[test]
fn the_prompt_is_read_from_a_file_whatever_the_workspace_is() {
    let mut resolved = task(agent());
    resolved.agent.workspace_dir = "/home/agent/my ws".into();
    let own = objects(&resolved);
    assert_eq!(env(main_container(&own), "SHIM_STDIN_FILE"), Some("/home/agent/my ws/task.md"));
    let mut resolved = task_on_agent(agent());
    resolved.agent.workspace_dir = "/home/agent/ws".into();
    let attach = objects(&resolved);
    assert_eq!(env(main_container(&attach), "PROMPT_FILE"), Some("/home/agent/ws/task.md"));
    let volume = &spec(&attach).volumes.as_ref().unwrap()[0];
    let items = volume.downward_api.as_ref().unwrap().items.as_ref().unwrap();
    assert_eq!(items[0].path, "task.md");
    assert_eq!(items[0].field_ref.as_ref().unwrap().field_path, "metadata.annotations['files.kubeopencode.io/0']");
    assert!(attach.config_maps.is_empty());
}

#[test]
fn local_storage_is_limited_unless_the_user_sets_it() {
    let check = |resources: Value, expected: Value| {
        let given = serde_json::from_value(resources).unwrap();
        assert_eq!(serde_json::to_value(with_storage(given)).unwrap(), expected);
    };
    check(
        json!({"limits": {"cpu": "2"}}),
        json!({"limits": {"cpu": "2", "ephemeral-storage": "20Gi"}, "requests": {"ephemeral-storage": "0"}}),
    );
    for own in [json!({"limits": {"ephemeral-storage": "1Gi"}}), json!({"requests": {"ephemeral-storage": "100Gi"}})] {
        check(own.clone(), own);
    }
}

#[test]
fn a_huge_prompt_on_an_agent_is_put_together_first() {
    let mut resolved = task_on_agent(agent());
    resolved.description = Some("x".repeat(1 << 20));
    let objects = objects(&resolved);
    assert_eq!(objects.config_maps.len(), 2);
    let init = spec(&objects).init_containers.as_ref().unwrap();
    assert_eq!(init.iter().map(|container| container.name.as_str()).collect::<Vec<_>>(), ["context-init", "session"]);
    assert!(env(&init[0], "FILE_MAPPINGS").unwrap().contains(r#""keys":["workspace-task.md.part-1""#));
    assert_eq!(env(&init[0], "COPY_SELF_TO"), None);
}

#[test]
fn a_terminal_plugin_alone_still_gets_its_configuration() {
    // P4: upstream forgets to mount /tools.
    let mut resolved = task(agent());
    resolved.agent.plugins = from_json(json!([{ "name": "pretty@2", "target": "tui" }]));
    let objects = objects(&resolved);
    let init = &spec(&objects).init_containers.as_ref().unwrap()[1];
    assert!(init.volume_mounts.iter().flatten().any(|mount| mount.mount_path == "/tools"));
    assert!(env(init, "FILE_MAPPINGS").unwrap().contains("/tools/tui.json"));
    assert_eq!(env(main_container(&objects), "OPENCODE_TUI_CONFIG"), Some("/tools/tui.json"));
    let carried = objects.pod.metadata.annotations.as_ref().unwrap();
    let plugins = r#"{"plugin":["file:///plugins/node_modules/pretty"]}"#;
    assert!(carried.values().any(|content| content == plugins), "{carried:?}");
}

#[test]
fn a_file_in_tmp_uses_the_volume_that_is_there() {
    let mut resolved = task(agent());
    resolved.contexts = contexts(json!([{ "type": "Text", "mountPath": "/tmp/x.md", "text": "x" }]));
    let objects = objects(&resolved);
    let names: Vec<&str> = spec(&objects).volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    let init = &spec(&objects).init_containers.as_ref().unwrap()[1];
    assert!(init.volume_mounts.iter().flatten().any(|mount| mount.name == "tmp" && mount.mount_path == "/tmp"));
}

#[test]
fn what_cannot_be_built_is_said_in_a_sentence() {
    let check = |change: &dyn Fn(&mut ResolvedTask), expected: &str| {
        let mut resolved = task(agent());
        change(&mut resolved);
        let error = built(&resolved, &platform(), TASK).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.reason(), "PodCreationError");
    };
    check(
        &|task| task.agent.pod.extra_volumes = Some(from_json(json!([{ "name": "workspace", "emptyDir": {} }]))),
        "podSpec.extraVolumes has a volume \"workspace\", and so do we; give it another name",
    );
    check(
        &|task| task.agent.pod.extra_volume_mounts = Some(from_json(json!([{ "name": "x", "mountPath": "/tools/" }]))),
        "our tools and podSpec.extraVolumeMounts \"x\" are both mounted at /tools; give one of them another path",
    );
    check(
        &|task| task.services = from_json(json!([{ "name": "agent", "image": "x" }])),
        "services has a container \"agent\", and there is another of that name in the Pod; give it another name",
    );
}

#[test]
fn names_of_secrets_are_all_that_a_pod_holds_of_them() {
    // I7: every variable that could be secret comes by reference.
    let objects = objects(&task(rich_agent()));
    for container in spec(&objects).init_containers.iter().flatten().chain(&spec(&objects).containers) {
        for var in container.env.iter().flatten() {
            let sensitive = ["PASSWORD", "_KEY", "TOKEN"].iter().any(|part| var.name.contains(part));
            assert!(!sensitive || var.value.is_none(), "{} in {}", var.name, container.name);
        }
    }
}

#[test]
fn on_one_machine_the_server_is_reached_without_the_proxy() {
    let mut resolved = task_on_agent(rich_agent());
    resolved.target =
        ResolvedTarget::Agent { name: "a".into(), url: "http://127.80.0.7:4096".into(), password_secret: None };
    let mut platform = platform();
    platform.addressing = Addressing::Local;
    let objects = built(&resolved, &platform, TASK).unwrap();
    let direct = env(main_container(&objects), "NO_PROXY").unwrap();
    assert!(direct.ends_with("127.0.0.0/8,127.80.0.7"), "{direct}");
    assert_eq!(main_container(&objects).command.as_ref().unwrap()[3], "http://127.80.0.7:4096");
}

mod same_input_same_bytes {
    use proptest::prelude::*;

    use super::*;

    fn bytes(resolved: &ResolvedTask, order: &[usize]) -> String {
        // Maps come from watches in any order of arrival.
        let pairs: Vec<(String, String)> = (0..order.len()).map(|n| (format!("k{n}"), format!("v{n}"))).collect();
        let shuffled = order.iter().map(|at| pairs[*at].clone());
        let mut resolved = resolved.clone();
        resolved.agent.pod.labels = Some(shuffled.clone().collect());
        resolved.agent.pod.annotations = Some(shuffled.clone().collect());
        let config_maps: ConfigMaps =
            [("guides".to_owned(), Some(shuffled.collect()))].into_iter().chain([("z".to_owned(), None)]).collect();
        let contexts = assemble(&ContextInput::of_task("team", "fix", &resolved, &config_maps)).unwrap();
        let platform = platform();
        let allowance = Allowance::default();
        let input =
            TaskPodInput { task: TASK, resolved: &resolved, platform: &platform, contexts: &contexts, allowance };
        let objects = if attaches(&resolved) {
            attach_pod(&input).unwrap()
        } else {
            let config = ConfigInput {
                agent: &resolved.agent,
                model: None,
                small_model: None,
                instructions: &[],
                tools: &[],
                contexts: &contexts,
                llm_traces: false,
            };
            own_pod(&input, &compile(&config).unwrap()).unwrap()
        };
        format!("{}{}", json!(objects.config_maps), json!(objects.pod))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn in_any_order(order in Just((0..8).collect::<Vec<usize>>()).prop_shuffle(), on_agent: bool) {
            let mut resolved = if on_agent { task_on_agent(rich_agent()) } else { task(rich_agent()) };
            resolved.contexts = contexts(json!([
                { "type": "ConfigMap", "mountPath": "g2", "configMap": { "name": "guides" } },
                { "type": "ConfigMap", "configMap": { "name": "guides" } },
                { "type": "Text", "mountPath": "/opt/b/x", "text": "1" },
                { "type": "Text", "mountPath": "/opt/a/x", "text": "2" },
            ]));
            let sorted: Vec<usize> = (0..8).collect();
            prop_assert_eq!(bytes(&resolved, &order), bytes(&resolved, &sorted));
        }

        #[test]
        fn any_path_is_refused_or_inside_of_a_volume(paths in proptest::collection::vec("[a-b./$ -]{0,12}", 0..6)) {
            let mut resolved = task(agent());
            let items = paths.iter().map(|path| json!({ "type": "Text", "mountPath": path, "text": path }));
            resolved.contexts = contexts(items.collect());
            let config_maps = ConfigMaps::new();
            let Ok(plan) = assemble(&ContextInput::of_task("team", "fix", &resolved, &config_maps)) else { return Ok(()) };
            for file in &plan.files {
                let roots = std::iter::once(&plan.workspace_dir).chain(&plan.outside);
                prop_assert!(roots.into_iter().any(|root| contexts::within(&file.target_path, root)));
                prop_assert!(file.target_path.split('/').all(|name| name != ".."));
            }
        }
    }
}

/// Every variable of a Pod must be part of the contract, unless its user chose the name.
#[track_caller]
pub(crate) fn check_variables(spec: &PodSpec, chosen: &[&str]) {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for variable in containers.flat_map(|container| container.env.iter().flatten()) {
        let known = variables::find(&variable.name).is_some() || chosen.contains(&variable.name.as_str());
        assert!(known, "{} is not in contract::environment", variable.name);
    }
}

/// Variables whose names [`rich_agent`] chooses.
pub(crate) const CHOSEN: [&str; 4] = ["ANTHROPIC_API_KEY", "GOFLAGS", "GIT_TRACE", "POSTGRES_PASSWORD"];

#[test]
fn every_variable_of_a_task_is_in_the_contract() {
    let mut platform = platform();
    platform.addressing = Addressing::Local;
    platform.open_telemetry = Some(from_json(json!({
        "enabled": true, "endpoint": "http://otel:4318", "recordContent": true,
        "headers": { "x-key": { "valueFrom": { "secretKeyRef": { "name": "otel", "key": "key" } } } },
    })));
    let mut shimmed = task_on_agent(rich_agent());
    shimmed.agent.attach_image = "theirs".to_owned();
    let mut plain = task(rich_agent());
    plain.agent.command = Some(vec!["true".to_owned()]);
    let mut limited = task_on_agent(rich_agent());
    limited.agent.approval.mode = ApprovalMode::Ask;
    limited.agent.approval.timeout = Some(from_json(json!("1m")));
    limited.budget = Some(from_json(json!({ "maxTokens": 1, "maxCost": "1" })));
    for resolved in [task(rich_agent()), plain, shimmed, limited] {
        check_variables(spec(&built(&resolved, &platform, TASK).unwrap()), &CHOSEN);
    }
}
