#![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn agent(spec: Value) -> Agent {
    let mut agent = Agent::new("a", serde_json::from_value(spec).unwrap());
    agent.metadata.namespace = Some("ns".into());
    agent
}

fn template(spec: Value) -> AgentTemplate {
    AgentTemplate::new("t", serde_json::from_value(spec).unwrap())
}

fn task(spec: Value) -> Task {
    Task::new("k", serde_json::from_value(spec).unwrap())
}

/// Resolves an Agent on its template, or only a template, and compares the named fields.
#[track_caller]
fn check(agent_spec: Option<Value>, template_spec: Option<Value>, expected: Value) {
    let platform = Platform::default();
    let template = template_spec.map(template);
    let resolved = match agent_spec {
        Some(mut spec) => {
            if template.is_some() {
                spec["templateRef"] = json!({"name": "t"});
            }
            resolve_agent(&agent(spec), template.as_ref(), &platform)
        }
        None => resolve_template(template.as_ref().unwrap(), &platform),
    };
    let resolved = serde_json::to_value(resolved.unwrap()).unwrap();
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&resolved[field], value, "{field}");
    }
}

#[test]
fn a_lone_agent_image_is_where_the_agent_works() {
    let (init, work) = (Platform::default().agent_image, Platform::default().executor_image);
    check(Some(json!({"agentImage": "x"})), None, json!({"agentImage": init, "executorImage": "x"}));
    check(
        Some(json!({"agentImage": "x", "executorImage": "y"})),
        None,
        json!({"agentImage": "x", "executorImage": "y"}),
    );
    check(Some(json!({"executorImage": "y"})), None, json!({"agentImage": init, "executorImage": "y"}));
    check(Some(json!({})), None, json!({"agentImage": init, "executorImage": work}));
    // The rule applies to the merged settings of the Agent and its template.
    check(
        Some(json!({"agentImage": "x"})),
        Some(json!({"executorImage": "y"})),
        json!({"agentImage": "x", "executorImage": "y"}),
    );
    check(None, Some(json!({"agentImage": "x"})), json!({"agentImage": init, "executorImage": "x"}));
    // A built image is an executor image.
    let build = json!({"repository": "https://example.com/r.git"});
    check(Some(json!({"agentImage": "x", "executorImageBuild": build})), None, json!({"agentImage": "x"}));
}

#[test]
fn an_image_that_an_agent_names_takes_precedence_over_one_that_its_template_builds() {
    let build = json!({"repository": "https://example.com/r.git"});
    let template = || Some(json!({"executorImageBuild": build}));
    check(Some(json!({"executorImage": "x"})), template(), json!({"executorImage": "x", "executorImageBuild": null}));
    check(Some(json!({})), template(), json!({"executorImageBuild": build}));
    // Of one object, or against an image of the template, the build counts.
    let both = json!({"executorImage": "x", "executorImageBuild": build});
    check(Some(both.clone()), None, both);
    check(
        Some(json!({"executorImageBuild": build})),
        Some(json!({"executorImage": "x"})),
        json!({"executorImageBuild": build}),
    );
}

#[test]
fn defaults_hold_where_nobody_says_otherwise() {
    check(
        Some(json!({})),
        None,
        json!({
            "workspaceDir": "/workspace", "serviceAccountName": "default", "command": null, "contexts": [],
            "config": null, "maxConcurrentTasks": null, "quota": null, "stallTimeout": {"secs": 900, "nanos": 0},
        }),
    );
}

#[test]
fn no_limit_is_written_as_zero_or_less() {
    for (written, most) in [(json!(0), json!(null)), (json!(-1), json!(null)), (json!(2), json!(2))] {
        check(Some(json!({"maxConcurrentTasks": written})), None, json!({"maxConcurrentTasks": most}));
    }
    // An Agent removes its template's limit.
    check(
        Some(json!({"maxConcurrentTasks": 0})),
        Some(json!({"maxConcurrentTasks": 3})),
        json!({"maxConcurrentTasks": null}),
    );
}

#[test]
fn the_configuration_may_be_a_text_or_an_object() {
    let expected = json!({"b": 1, "a": 2});
    check(Some(json!({"config": r#"{"b": 1, "a": 2}"#})), None, json!({"config": expected}));
    check(Some(json!({"config": {"b": 1, "a": 2}})), None, json!({"config": expected}));
    check(Some(json!({"config": ""})), None, json!({"config": null}));
    let resolved = resolve_agent(&agent(json!({"config": r#"{"b": 1, "a": 2}"#})), None, &Platform::default()).unwrap();
    let keys: Vec<String> = resolved.config.unwrap().keys().cloned().collect();
    assert_eq!(keys, ["b", "a"], "the order of keys has a meaning");
}

#[track_caller]
fn check_error(spec: Value, reason: &str, permanent: bool, message: &str) {
    let error = resolve_agent(&agent(spec), None, &Platform::default()).unwrap_err();
    assert_eq!((error.reason(), error.is_permanent(), error.to_string().as_str()), (reason, permanent, message));
}

#[test]
fn errors_say_who_wrote_what_and_where() {
    check_error(
        json!({"config": "{\n  \"a\": }"}),
        reasons::CONFIG_INVALID,
        true,
        "config of Agent 'a' is not valid: it is not valid JSON: expected value at line 2 column 8",
    );
    check_error(
        json!({"config": "[]"}),
        reasons::CONFIG_INVALID,
        true,
        "config of Agent 'a' is not valid: it must be a JSON object such as {\"model\": \"provider/model\"}, but it is a list",
    );
    check_error(
        json!({"workspaceDir": "/a/../b"}),
        reasons::INVALID,
        true,
        "workspaceDir '/a/../b' of Agent 'a' cannot be used: it must not contain '..'",
    );
    check_error(
        json!({"templateRef": {"name": "gone"}}),
        reasons::TEMPLATE_NOT_FOUND,
        false,
        "Agent 'a' uses AgentTemplate 'gone', which does not exist in its namespace",
    );
    let broken = template(json!({"config": "x"}));
    let error = resolve_agent(&agent(json!({"templateRef": {"name": "t"}})), Some(&broken), &Platform::default());
    assert!(error.unwrap_err().to_string().starts_with("config of AgentTemplate 't'"));
}

#[test]
fn workspace_directories_are_written_in_one_way() {
    for (written, dir) in [
        ("/workspace", Some("/workspace")),
        ("/home/agent/ws/", Some("/home/agent/ws")),
        ("//a///b/./c//", Some("/a/b/c")),
        ("/toolshed", Some("/toolshed")),
        ("workspace", None),
        ("/", None),
        ("/./", None),
        ("/a/..", None),
        ("/tools", None),
        ("/proc/self", None),
    ] {
        assert_eq!(normal_dir(written).ok().as_deref(), dir, "{written}");
    }
}

fn full_task(agent: &Agent, template: Option<&AgentTemplate>, task: &Task) -> (ResolvedTask, Origins) {
    let target = Sources::Agent { agent, template, url: "http://a" };
    resolve_task(task, target, &Platform::default()).unwrap()
}

#[test]
fn the_task_wins_over_the_agent_and_that_over_the_template_and_that_over_the_platform() {
    let agent = agent(json!({
        "templateRef": {"name": "t"},
        "stallTimeout": "2m", "workspace": {"accessMode": "ReadWriteOnce"}, "budget": {"maxTokens": 5},
        "tools": [{"ref": {"kind": "MCPServer", "name": "m"}}], "instructionRefs": [{"name": "i"}],
    }));
    let template = template(json!({
        "stallTimeout": "3m", "startupTimeout": "4m", "retry": {"maxRetries": 2}, "outputs": ["o"],
        "artifacts": [{"name": "x", "paths": ["p"]}], "executorImage": "e",
    }));

    let plain = task(json!({"agentRef": {"name": "a"}, "description": "do"}));
    let (run, origins) = full_task(&agent, Some(&template), &plain);
    assert_eq!(run.agent.stall_timeout, Duration::from_mins(2));
    assert_eq!(run.startup_timeout, Duration::from_mins(4));
    assert_eq!(run.workspace, run.agent.workspace);
    assert!(run.publish_inherited);
    let by_agent = Origin::Agent("a".into());
    let by_template = Origin::Template("t".into());
    for (path, origin) in [
        ("agent.stallTimeout", &by_agent),
        ("agent.executorImage", &by_template),
        ("agent.agentImage", &Origin::BuiltIn),
        ("startupTimeout", &by_template),
        ("retry", &by_template),
        ("artifacts", &by_template),
        ("workspace", &by_agent),
        ("budget", &by_agent),
        ("description", &Origin::Task),
        ("timeout", &Origin::BuiltIn),
    ] {
        assert_eq!(origins.get(path), Some(origin), "{path}");
    }

    let own = task(json!({
        "agentRef": {"name": "a"}, "stallTimeout": "1m", "startupTimeout": "1m", "timeout": "1h",
        "workspace": {"accessMode": "ReadWriteMany"}, "artifacts": [], "budget": {"maxTokens": 1},
        "tools": [{"ref": {"kind": "MCPServer", "name": "m"}, "enabled": false}, {"ref": {"kind": "MCPServer", "name": "n"}}],
        "instructionRefs": [{"name": "j"}],
    }));
    let (run, origins) = full_task(&agent, Some(&template), &own);
    assert_eq!(run.agent.stall_timeout, Duration::from_mins(1));
    assert_eq!((run.timeout, run.startup_timeout), (Some(Duration::from_hours(1)), Duration::from_mins(1)));
    assert_eq!((run.artifacts.len(), run.outputs.len()), (0, 1));
    assert_eq!(run.agent.tools.iter().map(|tool| tool.enabled).collect::<Vec<_>>(), [false, true]);
    assert_eq!(run.agent.instructions.len(), 2);
    for path in
        ["agent.stallTimeout", "workspace", "budget", "agent.tools[0]", "agent.tools[1]", "agent.instructionRefs[1]"]
    {
        assert_eq!(origins.get(path), Some(&Origin::Task), "{path}");
    }
    assert_eq!(origins.get("agent.instructionRefs"), Some(&by_agent));
}

#[test]
fn the_smallest_limit_counts_whoever_sets_it() {
    let platform = Platform { budget: serde_json::from_value(json!({"maxTokens": 50})).ok(), ..Platform::default() };
    let check = |of_agent: Value, of_task: Value, expected: Value, by: &Origin| {
        let agent = agent(json!({"budget": of_agent}));
        let task = task(json!({"agentRef": {"name": "a"}, "budget": of_task}));
        let target = Sources::Agent { agent: &agent, template: None, url: "http://a" };
        let (run, origins) = resolve_task(&task, target, &platform).unwrap();
        assert_eq!(serde_json::to_value(run.budget).unwrap(), expected);
        assert_eq!(origins.get("budget"), Some(by));
    };
    let (by_agent, by_platform) = (Origin::Agent("a".into()), platform.origin("budget"));
    let day = json!({"maxTokens": 20, "maxCost": "9.5", "window": "24h"});
    check(Value::Null, Value::Null, json!({"maxTokens": 50}), &by_platform);
    check(Value::Null, json!({"maxTokens": 90}), json!({"maxTokens": 50}), &by_platform);
    check(day.clone(), Value::Null, json!({"maxTokens": 20, "maxCost": "9.5"}), &by_agent);
    check(day.clone(), json!({"maxTokens": 5, "maxCost": "10"}), json!({"maxTokens": 5, "maxCost": "9.5"}), &by_agent);
    check(day, json!({"maxCost": "1.25"}), json!({"maxTokens": 20, "maxCost": "1.25"}), &Origin::Task);
}

#[test]
fn the_service_account_and_the_pull_secrets_come_from_the_nearest_layer_that_sets_them() {
    use crate::contract::environment::{IMAGE_PULL_SECRETS, SERVICE_ACCOUNT};

    let layers = ["agent", "template", "config", "environment"];
    let settings = |layer: &str, named: &[&str]| {
        if named.contains(&layer) {
            json!({"serviceAccountName": layer, "imagePullSecrets": [{"name": layer}]})
        } else {
            json!({})
        }
    };
    // Every combination of layers, against the rule in one line.
    for chosen in 0..16_u32 {
        let named: Vec<&str> = (0..4).filter(|at| chosen & (1 << at) != 0).map(|at| layers[at]).collect();
        let expected = named.first().copied();
        let origin = match expected {
            Some("agent") => Origin::Agent("a".into()),
            Some("template") => Origin::Template("t".into()),
            Some("config") => Origin::Config,
            Some(_) => Origin::Environment,
            None => Origin::BuiltIn,
        };
        let spec = serde_json::from_value(json!({"defaults": settings("config", &named)})).unwrap();
        let config = api::KubeOpenCodeConfig::new("cluster", spec);
        let lookup = |name: &str| {
            let is_set = named.contains(&"environment") && [SERVICE_ACCOUNT, IMAGE_PULL_SECRETS].contains(&name);
            is_set.then(|| "environment".to_owned())
        };
        let platform = Platform::from(Some(&config), &lookup);
        let mut spec = settings("agent", &named);
        spec["templateRef"] = json!({"name": "t"});
        let (agent, template) = (agent(spec), template(settings("template", &named)));
        let target = Sources::Agent { agent: &agent, template: Some(&template), url: "http://a" };
        let (run, origins) = resolve_task(&task(json!({"agentRef": {"name": "a"}})), target, &platform).unwrap();
        assert_eq!(run.agent.service_account_name, expected.unwrap_or("default"), "{named:?}");
        assert_eq!(run.agent.image_pull_secrets, expected.into_iter().collect::<Vec<_>>(), "{named:?}");
        for field in ["agent.serviceAccountName", "agent.imagePullSecrets"] {
            assert_eq!(origins.get(field), Some(&origin), "{field} {named:?}");
        }
    }
}

#[test]
fn every_resolved_field_has_an_origin() {
    let (run, origins) = full_task(&agent(json!({})), None, &task(json!({"agentRef": {"name": "a"}})));
    let value = serde_json::to_value(&run).unwrap();
    for field in value.as_object().unwrap().keys().filter(|field| *field != "agent") {
        assert!(origins.get(field).is_some(), "{field}");
    }
    for field in value["agent"].as_object().unwrap().keys() {
        assert!(origins.get(&format!("agent.{field}")).is_some(), "agent.{field}");
    }
}

#[test]
fn the_password_is_where_the_agent_says() {
    let target = |spec| full_task(&agent(spec), None, &task(json!({"agentRef": {"name": "a"}}))).0.target;
    let secret = |spec| match target(spec) {
        ResolvedTarget::Agent { password_secret, .. } => password_secret.map(|secret| (secret.name, secret.key)),
        ResolvedTarget::Template { .. } => None,
    };
    assert_eq!(secret(json!({})), Some(("a-server-auth".into(), "password".into())));
    assert_eq!(
        secret(json!({"server": {"passwordSecretRef": {"name": "s", "key": "k"}}})),
        Some(("s".into(), "k".into()))
    );
    assert_eq!(secret(json!({"server": {"auth": "None"}})), None);
}

#[test]
fn equal_settings_have_an_equal_hash_and_the_order_of_configuration_keys_counts() {
    let hash = |spec| resolve_agent(&agent(spec), None, &Platform::default()).unwrap().hash();
    let one = json!({"config": {"a": 1, "b": 2}, "podSpec": {"labels": {"x": "1", "y": "2"}}});
    let same = json!({"podSpec": {"labels": {"y": "2", "x": "1"}}, "config": r#"{"a":1,"b":2}"#});
    let other = json!({"config": {"b": 2, "a": 1}, "podSpec": {"labels": {"x": "1", "y": "2"}}});
    assert_eq!(hash(one.clone()), hash(same));
    assert_ne!(hash(one.clone()), hash(other));
    assert_eq!(hash(one).len(), 64);
}
