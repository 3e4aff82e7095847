//! Conditions of Agents: suspended or running, and the reasons that keep them from working.

use anyhow::ensure;
use api::{
    Agent, AgentTemplate, KubeOpenCodeConfig, MCPServer, Model, ModelProvider, RemoteMCPServer,
    kinds::agent::AgentPhase,
};
use blackbox::{
    cases,
    controller::{Controller, Options},
    history::History,
    install,
    runner::Case,
    server::Remote,
    stub_kubelet::Act,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    agents::{condition_message, conditions},
    config::{create_once_served, dynamic, loosen},
    world::{Alone, condition, explain, message, shared},
};

pub const CASES: &[Case] = cases![
    one_that_its_user_resumes_has_all_its_time_again,
    one_that_was_asleep_can_be_suspended_by_its_user,
    a_person_wakes_an_agent_and_keeps_it_awake,
    an_agent_says_what_is_wrong_with_its_pod,
    an_agent_says_that_its_pods_are_refused,
    an_agent_whose_template_cannot_be_named_says_so,
    a_template_that_cannot_work_says_so_and_heals,
    what_can_be_read_again_is_as_before,
    one_without_a_model_says_how_to_add_one_and_its_tasks_wait,
    a_task_on_an_agent_that_lacks_something_fails_with_that_reason,
    a_tool_of_a_kind_that_is_not_served_is_not_called_missing,
];

fn asleep(agent: &Agent) -> bool {
    agent.spec.suspend && conditions(agent, "Suspended") == "True Standby"
}

fn marked(agent: &Agent) -> bool {
    agent.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("kubeopencode.io/suspended-by"))
}

fn idle_since(agent: &Agent) -> Option<Timestamp> {
    agent.status.as_ref()?.idle_since.as_ref().map(|time| time.0)
}

async fn one_that_its_user_resumes_has_all_its_time_again() -> anyhow::Result<()> {
    shared(async |world| {
        // From the beginning: it may be awake for the blink of an eye.
        let agents = world.record::<Agent>();
        world.agent("a", json!({"standby": {"idleTimeout": "1s"}})).await?;
        let sleeper = agents.until_object("a", "asleep", asleep).await?;
        world.merge::<Agent>("a", json!({"spec": {"suspend": false}})).await?;
        // It may sleep again by now, but not before its time began anew.
        let anew = |agent: &Agent| !agent.spec.suspend && idle_since(agent) > idle_since(&sleeper);
        let began = |history: &History<Agent>| history.versions().into_iter().find(|agent| anew(agent));
        agents.until("a: idle from now on", began).await?;
        let again = |agent: &Agent| asleep(agent) && idle_since(agent) > idle_since(&sleeper);
        agents.until_object("a", "asleep again", again).await?;
        Ok(())
    })
    .await
}

async fn one_that_was_asleep_can_be_suspended_by_its_user() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"standby": {"idleTimeout": "1s"}})).await?;
        world.agent_is("a", "asleep", asleep).await?;
        world.merge::<Agent>("a", json!({"spec": {"suspend": false, "standby": {"idleTimeout": "1h"}}})).await?;
        world.agent_is("a", "no mark of ours", |agent| !agent.spec.suspend && !marked(agent)).await?;
        world.merge::<Agent>("a", json!({"spec": {"suspend": true}})).await?;
        world.agent_is("a", "its user's", |agent| conditions(agent, "Suspended") == "True UserRequested").await?;
        world.task("t", json!({"agentRef": {"name": "a"}})).await?;
        world.waits("t", "AgentSuspended").await?;
        Ok(())
    })
    .await
}

async fn a_person_wakes_an_agent_and_keeps_it_awake() -> anyhow::Result<()> {
    shared(async |world| {
        world.agent("a", json!({"standby": {"idleTimeout": "1s"}})).await?;
        world.agent_is("a", "asleep", asleep).await?;
        let now = Timestamp::now().to_string();
        world.annotate::<Agent>("a", "kubeopencode.io/last-connection-active", &now).await?;
        let used = |agent: &Agent| {
            let awake = agent.status.as_ref().is_some_and(|status| status.suspended == Some(false));
            awake && !agent.spec.suspend && !marked(agent) && idle_since(agent).is_none()
        };
        world.agent_is("a", "awake", used).await?;
        Ok(())
    })
    .await
}

fn waiting(reason: &str, message: &str) -> Act {
    let container = json!({"name": "opencode-server", "image": "i:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}}});
    Act::Status(json!({"phase": "Pending", "containerStatuses": [container]}))
}

async fn an_agent_says_what_is_wrong_with_its_pod() -> anyhow::Result<()> {
    shared(async |world| {
        world.kubelet.script("a-server", Act::Unscheduled);
        world.agent("a", json!({})).await?;
        let reports = |text: &'static str| move |agent: &Agent| condition_message(agent, "ServerReady").contains(text);
        world.agent_is("a", "that no node takes it", reports("0/1 nodes are available")).await?;
        world.kubelet.script("a-server", waiting("ImagePullBackOff", "no such image"));
        let agent = world.agent_is("a", "that there is no image", reports("cannot start: no such image")).await?;
        ensure!(conditions(&agent, "ServerReady") == "False DeploymentNotReady", "{:?}", agent.status);
        ensure!(
            condition_message(&agent, "ServerHealthy") == condition_message(&agent, "ServerReady"),
            "{:?}",
            agent.status
        );
        world.kubelet.script("a-server", Act::Hold);
        world.agent_is("a", "ready", |agent| condition_message(agent, "ServerReady") == "the server is ready").await?;
        // A server that works goes on, and a condition reports the reason why the changed one does not take over.
        world.kubelet.script("a-server", waiting("ErrImagePull", "not this one"));
        world.merge::<Agent>("a", json!({"spec": {"executorImage": "another"}})).await?;
        let blocked = |agent: &Agent| condition_message(agent, "Progressing").contains("cannot start: not this one");
        let agent = world.agent_is("a", "what keeps it", blocked).await?;
        ensure!(conditions(&agent, "ServerReady").starts_with("True"), "{:?}", agent.status);
        Ok(())
    })
    .await
}

async fn an_agent_says_that_its_pods_are_refused() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.agent("a", json!({"serviceAccountName": "typo"})).await?;
        world.agent_is("a", "created", |agent| conditions(agent, "Accepted") == "True Valid").await?;
        let refused = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": "serviceaccount \"typo\" not found"});
        world.merge_status::<Deployment>("a-server", json!({ "conditions": [refused] })).await?;
        let refusal_shown =
            |agent: &Agent| condition_message(agent, "ServerReady").contains("serviceaccount \"typo\" not found");
        world.agent_is("a", "why", refusal_shown).await?;
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}

async fn an_agent_whose_template_cannot_be_named_says_so() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        // One that was stored before the rule was there.
        let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        let rules = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
        let patch: Patch<()> = Patch::Json(serde_json::from_value(json!([{"op": "remove", "path": rules}]))?);
        crds.patch("agents.kubeopencode.io", &PatchParams::default(), &patch).await?;
        let agent = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": {"name": "a"},
            "spec": {"templateRef": {"name": "no/label"}}});
        create_once_served(&dynamic(world, "Agent"), &agent).await?;
        install::install(&Remote::new(world.client.clone())).await?;
        let missing = |agent: &Agent| conditions(agent, "ReferencesResolved") == "False TemplateNotFound";
        let agent = world.agent_is("a", "its condition", missing).await?;
        ensure!(conditions(&agent, "ConfigValid") == "Unknown NotChecked", "{:?}", agent.status);
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}

async fn a_template_that_cannot_work_says_so_and_heals() -> anyhow::Result<()> {
    shared(async |world| {
        let text = |text: &str| json!({"type": "Text", "text": text, "mountPath": "same.md"});
        world.template("twice", json!({"contexts": [text("a"), text("b")]})).await?;
        world.template("config", json!({"config": "{ this is no JSON"})).await?;
        world.template("model", json!({"modelRef": {"name": "later"}})).await?;
        let map = json!([{"type": "ConfigMap", "configMap": {"name": "later", "key": "a"}, "mountPath": "a.md"}]);
        world.template("map", json!({ "contexts": map })).await?;
        world.template("port", json!({"extraPorts": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]})).await?;
        let templates = world.record::<AgentTemplate>();
        let ready = |template: &AgentTemplate| {
            condition(template.status.as_ref().and_then(|status| status.conditions.as_ref()), "Ready")
        };
        for (name, expected) in [
            ("twice", "False ContextError"),
            ("config", "False ConfigInvalid"),
            ("model", "False ReferenceNotFound"),
            ("map", "False ContextError"),
            ("port", "False PodCreationError"),
        ] {
            templates.until_object(name, expected, |template| ready(template) == expected).await?;
        }
        let provider = json!({"type": "openai-compatible", "baseURL": "http://model.example/v1"});
        world.create::<ModelProvider>("p", provider).await?;
        world.create::<Model>("later", json!({"model": "m", "providerRef": {"name": "p"}})).await?;
        world.config_map("later", json!({"a": "text"})).await?;
        world.merge::<AgentTemplate>("twice", json!({"spec": {"contexts": [text("a")]}})).await?;
        for name in ["twice", "model", "map"] {
            templates.until_object(name, "its health", |template| ready(template) == "True Valid").await?;
        }
        world.delete::<ConfigMap>("later").await?;
        templates.until_object("map", "its loss", |template| ready(template) == "False ContextError").await?;
        Ok(())
    })
    .await
}

/// Status and reason of the condition of an object that our types may not be able to read.
fn dynamic_condition(object: &DynamicObject, kind: &str) -> String {
    let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|one| one["type"] == kind);
    found
        .map(|one| format!("{} {}", one["status"].as_str().unwrap_or(""), one["reason"].as_str().unwrap_or("")))
        .unwrap_or_default()
}

async fn what_can_be_read_again_is_as_before() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        let odd = [
            ("agenttemplates", "AgentTemplate", "maxConcurrentTasks", json!("many"), json!(2)),
            ("registries", "Registry", "checkInterval", json!(5), json!("1h")),
        ];
        for (plural, kind, field, bad, good) in odd {
            loosen(world, plural, field).await?;
            let objects = dynamic(world, kind);
            let object = |value: &Value| {
                let mut spec = json!({ field: value });
                if kind == "AgentTemplate" {
                    spec["config"] = json!({"model": "test/model"});
                }
                json!({"metadata": {"name": "odd"}, "spec": spec, "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind})
            };
            let history = History::record(objects.clone());
            create_once_served(&objects, &object(&bad)).await?;
            let unreadable = |one: &DynamicObject| dynamic_condition(one, "Accepted") == "False Invalid";
            history.until_object("odd", "its condition", unreadable).await?;
            let patch = Patch::Merge(json!({"spec": {field: good}}));
            objects.patch("odd", &PatchParams::default(), &patch).await?;
            let fine = |one: &DynamicObject| {
                dynamic_condition(one, "Accepted").is_empty() && dynamic_condition(one, "Ready").starts_with("True")
            };
            history.until_object("odd", "its health", fine).await?;
        }
        // The configuration has no namespace; the one that can be read holds on.
        loosen(world, "kubeopencodeconfigs", "cleanup").await?;
        let configs = Api::<KubeOpenCodeConfig>::all(world.client.clone());
        let configs: Api<DynamicObject> =
            Api::all_with(configs.into_client(), &kube::core::ApiResource::erase::<KubeOpenCodeConfig>(&()));
        let history = History::record(configs.clone());
        world.configure(json!({"systemImage": {"image": "ours:1"}})).await?;
        let applied = |one: &DynamicObject| dynamic_condition(one, "Applied") == "True Valid";
        history.until_object("cluster", "its use", applied).await?;
        for _ in 0..300 {
            let patch = Patch::Merge(json!({"spec": {"cleanup": "never"}}));
            match configs.patch("cluster", &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(status)) if status.code == 422 => {}
                other => {
                    other?;
                    break;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let unreadable = |one: &DynamicObject| dynamic_condition(one, "Applied") == "False Invalid";
        history.until_object("cluster", "its condition", unreadable).await?;
        configs.patch("cluster", &PatchParams::default(), &Patch::Merge(json!({"spec": {"cleanup": null}}))).await?;
        history.until_object("cluster", "its use again", applied).await?;
        install::install(&Remote::new(world.client.clone())).await?;
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}

async fn one_without_a_model_says_how_to_add_one_and_its_tasks_wait() -> anyhow::Result<()> {
    shared(async |world| {
        let add = "no model is configured: set modelRef, or config.model and credentials for its provider, or run \
                   `kubeopencode setup`";
        world.create::<Agent>("a", json!({})).await?;
        world.create::<AgentTemplate>("t", json!({})).await?;
        let agent =
            world.agent_is("a", "no model", |agent| conditions(agent, "ConfigValid") == "False NoModel").await?;
        ensure!(condition_message(&agent, "ConfigValid") == add, "{agent:?}");
        ensure!(agent.status.as_ref().and_then(|status| status.phase) == Some(AgentPhase::Pending), "{agent:?}");
        let ready = |template: &AgentTemplate| {
            condition(template.status.as_ref().and_then(|status| status.conditions.as_ref()), "Ready")
        };
        let templates = world.record::<AgentTemplate>();
        templates.until_object("t", "no model", |template| ready(template) == "False NoModel").await?;
        world.task("on-agent", json!({"agentRef": {"name": "a"}})).await?;
        world.task("on-template", json!({"templateRef": {"name": "t"}})).await?;
        for (task, who) in [("on-agent", "Agent 'a' cannot be used: "), ("on-template", "")] {
            let status = world.waits(task, "NoModel").await?;
            ensure!(message(&status).starts_with(&format!("{who}{add}; the Task fails at ")), "{status:?}");
            ensure!(status.run_epoch.is_none(), "{status:?}");
        }
        let model = json!({"spec": {"config": {"model": "test/model"}}});
        world.merge::<Agent>("a", model.clone()).await?;
        world.merge::<AgentTemplate>("t", model).await?;
        templates.until_object("t", "its health", |template| ready(template) == "True Valid").await?;
        for task in ["on-agent", "on-template"] {
            world.succeeds(task).await?;
        }
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_on_an_agent_that_lacks_something_fails_with_that_reason() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    world.configure(json!({"defaults": {"referenceGracePeriod": "1s"}})).await?;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        for (name, spec, reason, expected) in [
            (
                "template",
                json!({"templateRef": {"name": "gone"}}),
                "TemplateNotFound",
                "AgentTemplate 'gone', which does not exist",
            ),
            (
                "model",
                json!({"modelRef": {"name": "gone"}}),
                "ReferenceNotFound",
                "Model 'gone' does not exist in namespace",
            ),
            ("nothing", json!({"config": {}}), "NoModel", "no model is configured"),
        ] {
            world.agent(name, spec).await?;
            world.task(name, json!({"agentRef": {"name": name}})).await?;
            let status = world.fails(name, reason).await?;
            let text = message(&status);
            ensure!(text.starts_with(&format!("Agent '{name}' ")) && text.contains(expected), "{status:?}");
            ensure!(status.run_epoch.is_none(), "it ran: {status:?}");
        }
        Ok(())
    };
    explain(outcome.await, world, &[&controller])
}

async fn a_tool_of_a_kind_that_is_not_served_is_not_called_missing() -> anyhow::Result<()> {
    shared(async |world| {
        world.create::<MCPServer>("github", json!({"image": "mcp:1"})).await?;
        let tools = json!([{"ref": {"kind": "MCPServer", "name": "github"}}]);
        world.agent("a", json!({"config": {"model": "test/model"}, "tools": tools})).await?;
        let refused = |agent: &Agent| conditions(agent, "ReferencesResolved") == "False NotSupported";
        let agent = world.agent_is("a", "its tools refused", refused).await?;
        let text = condition_message(&agent, "ReferencesResolved");
        ensure!(!text.contains("does not exist") && text.contains("create RemoteMCPServer 'github'"), "{text}");
        world.create::<RemoteMCPServer>("github", json!({"url": "http://mcp.example/mcp"})).await?;
        world.agent_is("a", "its tools", |agent| conditions(agent, "ReferencesResolved") == "True Resolved").await?;
        Ok(())
    })
    .await
}
