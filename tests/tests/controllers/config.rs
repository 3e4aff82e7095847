//! KubeOpenCodeConfig takes effect at once; objects that cannot be read affect only themselves.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::{KubeOpenCodeConfig, TaskPhase};
use axum::{Json, Router, routing::post};
use blackbox::{
    cases,
    controller::{Controller, Options},
    history::{History, LIMIT},
    install,
    kind::Kind,
    runner::Case,
    server::{ApiServer as _, Remote, Request},
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::world::{Alone, World, condition, explain, message};

pub const CASES: &[Case] = cases![
    a_missing_reference_is_waited_for_as_long_as_the_configuration_says,
    a_changed_configuration_holds_at_once,
    finished_tasks_go_when_their_time_has_come,
    no_more_finished_tasks_stay_than_are_retained,
    an_object_that_cannot_be_read_affects_only_itself,
    an_agent_that_nests_too_deeply_affects_only_itself,
    a_run_is_exported_to_the_collector,
];

/// Runs a case with a controller and the configuration of its own.
async fn with<F>(case: F) -> anyhow::Result<()>
where
    F: AsyncFnOnce(&World) -> anyhow::Result<()>,
{
    let alone = Alone::turn().await?;
    let controller = Controller::start(alone.world.cluster, Options::default()).await?;
    let outcome = async {
        case(&alone.world).await?;
        controller.terminate().await
    };
    explain(outcome.await, &alone.world, &[&controller])
}

/// Sets the configuration and waits until it holds.
async fn configure(world: &World, spec: Value) -> anyhow::Result<()> {
    world.configure(spec).await?;
    let configs = History::record(Api::<KubeOpenCodeConfig>::all(world.client.clone()));
    let applied = |config: &KubeOpenCodeConfig| {
        let status = config.status.as_ref();
        condition(status.and_then(|status| status.conditions.as_ref()), "Applied").starts_with("True")
            && status.and_then(|status| status.observed_generation) == config.metadata.generation
    };
    configs.until_object("cluster", "applied", applied).await?;
    Ok(())
}

async fn a_missing_reference_is_waited_for_as_long_as_the_configuration_says() -> anyhow::Result<()> {
    with(async |world| {
        configure(world, json!({"defaults": {"referenceGracePeriod": "2s"}})).await?;
        world.template("t", json!({})).await?;
        world.task("no-agent", json!({"agentRef": {"name": "nobody"}})).await?;
        world.task("no-template", json!({"templateRef": {"name": "nothing"}})).await?;
        world.task("no-task", json!({"templateRef": {"name": "t"}, "dependsOn": [{"task": "never"}]})).await?;
        world.waits("no-task", "WaitingForDependency").await?;
        let map = |name: &str| {
            json!([{"name": "notes", "type": "ConfigMap", "configMap": {"name": name, "key": "a"}, "mountPath": "a.txt"}])
        };
        world.config_map("there", json!({"b": "x"})).await?;
        world.task("no-map", json!({"templateRef": {"name": "t"}, "contexts": map("nowhere")})).await?;
        world.task("no-key", json!({"templateRef": {"name": "t"}, "contexts": map("there")})).await?;
        let status = world.fails("no-map", "ContextError").await?;
        ensure!(message(&status).contains("ConfigMap nowhere does not exist"), "{status:?}");
        ensure!(status.run_epoch.is_none(), "a run was claimed: {status:?}");
        let status = world.fails("no-key", "ContextError").await?;
        ensure!(message(&status).contains("has no text under the key \"a\""), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued") == "False ContextError", "{status:?}");
        ensure!(world.api::<Pod>().get_opt("no-map-pod").await?.is_none(), "it has a Pod");
        let status = world.fails("no-agent", "AgentNotFound").await?;
        ensure!(message(&status).contains("Agent 'nobody' does not exist"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued") == "False AgentNotFound", "{status:?}");
        world.fails("no-template", "TemplateNotFound").await?;
        world.fails("no-task", "DependencyFailed").await?;
        // Their history shows that they waited.
        for task in ["no-agent", "no-map"] {
            let waited = world.tasks.versions().iter().any(|version| {
                version.metadata.name.as_deref() == Some(task)
                    && version.status.as_ref().is_some_and(|status| status.phase == Some(TaskPhase::Queued))
            });
            ensure!(waited, "{task} failed at once");
        }
        Ok(())
    })
    .await
}

async fn a_changed_configuration_holds_at_once() -> anyhow::Result<()> {
    with(async |world| {
        configure(world, json!({"systemImage": {"image": "ours:1"}, "defaults": {"referenceGracePeriod": "1h"}}))
            .await?;
        world.agent("a", json!({})).await?;
        let deployments = world.record::<Deployment>();
        let uses = |image: &'static str| {
            move |deployment: &Deployment| serde_json::to_string(deployment).is_ok_and(|text| text.contains(image))
        };
        deployments.until_object("a-server", "the image", uses("ours:1")).await?;
        world.task("waits", json!({"templateRef": {"name": "nothing"}})).await?;
        world.task("depends", json!({"templateRef": {"name": "nothing"}, "dependsOn": [{"task": "never"}]})).await?;
        world.waits("waits", "TemplateNotFound").await?;
        world.waits("depends", "WaitingForDependency").await?;
        configure(world, json!({"systemImage": {"image": "ours:2"}, "defaults": {"referenceGracePeriod": "1s"}}))
            .await?;
        world.fails("waits", "TemplateNotFound").await?;
        world.ended("depends").await?;
        deployments.until_object("a-server", "the new image", uses("ours:2")).await?;
        Ok(())
    })
    .await
}

async fn finished_tasks_go_when_their_time_has_come() -> anyhow::Result<()> {
    with(async |world| {
        world.template("t", json!({})).await?;
        world.hold("running");
        world.task("running", json!({"templateRef": {"name": "t"}})).await?;
        world.task("old", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("old").await?;
        // Also Tasks that finished before the policy was set.
        configure(world, json!({"cleanup": {"ttlSecondsAfterFinished": 1}})).await?;
        world.tasks.until_gone("old").await?;
        world.task("new", json!({"templateRef": {"name": "t"}})).await?;
        world
            .tasks
            .until("the end of new", |tasks| {
                tasks
                    .versions()
                    .iter()
                    .any(|task| {
                        let phase = task.status.as_ref().and_then(|status| status.phase);
                        task.metadata.name.as_deref() == Some("new") && phase == Some(TaskPhase::Completed)
                    })
                    .then_some(())
            })
            .await?;
        world.tasks.until_gone("new").await?;
        ensure!(world.tasks.now("running").is_some(), "a Task that runs was deleted");
        Ok(())
    })
    .await
}

async fn no_more_finished_tasks_stay_than_are_retained() -> anyhow::Result<()> {
    with(async |world| {
        configure(world, json!({"cleanup": {"maxRetainedTasks": 2}})).await?;
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        for name in ["a", "b", "c", "d"] {
            world.task(name, json!({"templateRef": {"name": "t"}})).await?;
            world
                .tasks
                .until(&format!("the end of {name}"), |tasks| {
                    tasks
                        .versions()
                        .iter()
                        .any(|task| {
                            let phase = task.status.as_ref().and_then(|status| status.phase);
                            task.metadata.name.as_deref() == Some(name) && phase == Some(TaskPhase::Completed)
                        })
                        .then_some(())
                })
                .await?;
        }
        let left = world.tasks.until("two Tasks", |tasks| Some(tasks.all()).filter(|all| all.len() == 2)).await?;
        let names: Vec<_> = left.iter().filter_map(|task| task.metadata.name.clone()).collect();
        ensure!(names.iter().all(|name| name > &"b".to_owned()), "{names:?}");
        Ok(())
    })
    .await
}

async fn an_object_that_cannot_be_read_affects_only_itself() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    let world = &alone.world;
    // The controller watches all namespaces at once, and our own eyes can read these objects no better than it can.
    let beside = World::on(world.cluster).await?;
    let first = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        beside.template("t", json!({})).await?;
        // An API server that accepts fields that our types do not know: a newer or changed definition.
        let odd = [
            (
                "tasks",
                "Task",
                "priority",
                json!({"description": "x", "templateRef": {"name": "t"}, "priority": "high"}),
            ),
            ("agents", "Agent", "port", json!({"port": "http"})),
            ("agenttemplates", "AgentTemplate", "maxConcurrentTasks", json!({"maxConcurrentTasks": "many"})),
        ];
        for (plural, kind, field, spec) in &odd {
            loosen(world, plural, field).await?;
            let objects = dynamic(world, kind);
            let object = json!({"metadata": {"name": "odd"}, "spec": spec, "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind});
            let history = History::record(objects.clone());
            create_once_served(&objects, &object).await?;
            let reported = |object: &DynamicObject| {
                let condition = &object.data["status"]["conditions"][0];
                condition["type"] == "Accepted"
                    && condition["reason"] == "Invalid"
                    && condition["message"].as_str().is_some_and(|text| text.contains("cannot be read"))
            };
            history.until_object("odd", "its condition", reported).await?;
        }
        beside.task("fine", json!({"templateRef": {"name": "t"}})).await?;
        beside.succeeds("fine").await?;
        // A controller that starts with such objects works, too.
        first.kill().await?;
        let next = Controller::start(world.cluster, Options::default()).await?;
        beside.task("fine-too", json!({"templateRef": {"name": "t"}})).await?;
        beside.succeeds("fine-too").await?;
        ensure!(world.api::<Pod>().get_opt("odd-pod").await?.is_none(), "it ran");
        for (_, kind, ..) in &odd {
            dynamic(world, kind).delete("odd", &DeleteParams::default()).await?;
        }
        install::install(&Remote::new(world.client.clone())).await?;
        next.terminate().await
    };
    explain(outcome.await, world, &[&first])
}

/// The objects of one of our kinds, whether or not our types can read them.
pub fn dynamic(world: &World, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubeopencode.io", "v1alpha1", kind));
    Api::namespaced_with(world.client.clone(), &world.namespace, &kind)
}

/// Lets the API server accept anything in one field.
pub async fn loosen(world: &World, plural: &str, field: &str) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let schema = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{field}");
    let any = json!([{"op": "replace", "path": schema, "value": {"x-kubernetes-preserve-unknown-fields": true}}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(any)?);
    crds.patch(&format!("{plural}.kubeopencode.io"), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Creates an object as soon as the API server uses its new definition.
pub async fn create_once_served(objects: &Api<DynamicObject>, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        match objects.create(&PostParams::default(), &object).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 422 => {}
            Err(error) => return Err(error.into()),
        }
        ensure!(tokio::time::Instant::now() < deadline, "the API server does not use its new definition");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// JSON readers in Rust cannot read this Agent, neither here nor in the controller, so kubectl reads it.
async fn an_agent_that_nests_too_deeply_affects_only_itself() -> anyhow::Result<()> {
    let alone = Alone::turn().await?;
    // More than a reader of JSON in Rust takes, and not more than the embedded server stores.
    let (world, levels) = (&alone.world, 300);
    let beside = World::on(world.cluster).await?;
    let config = (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    let agent = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": {"name": "deep"},
                       "spec": {"config": config}});
    let server = Remote::new(world.client.clone());
    let kind = Kind::named("Agent")?;
    let answer = server.send(Request::create(kind, &world.namespace, &agent)).await?;
    ensure!(answer.code == 201, "{}", answer.code);
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        beside.agent("fine", json!({})).await?;
        beside.agent_is("fine", "a look at it", |agent| agent.status.is_some()).await?;
        let path = "jsonpath={.status.conditions[?(@.type=='ConfigValid')].message}";
        let message = async || -> anyhow::Result<String> {
            let kubectl = world.cluster.kubectl_command(["get", "agent", "deep", "-n", &world.namespace, "-o", path]);
            let output = tokio::process::Command::from(kubectl).output().await?;
            Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
        };
        let deadline = tokio::time::Instant::now() + LIMIT;
        while !message().await?.contains("nests deeper than 64 levels") {
            ensure!(tokio::time::Instant::now() < deadline, "its status says: {}", message().await?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        controller.terminate().await
    };
    let outcome = explain(outcome.await, world, &[&controller]);
    let path = format!("/apis/kubeopencode.io/v1alpha1/namespaces/{}/agents/deep", world.namespace);
    server.send(Request::delete(&path)).await?;
    outcome
}

async fn a_run_is_exported_to_the_collector() -> anyhow::Result<()> {
    let (sender, mut exports) = tokio::sync::mpsc::unbounded_channel::<Value>();
    let collect = move |Json(export): Json<Value>| async move { drop(sender.send(export)) };
    let collector = Router::new().route("/v1/traces", post(collect));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, collector).await });
    let outcome = with(async |world| {
        configure(world, json!({"observability": {"openTelemetry": {"enabled": true, "endpoint": endpoint}}})).await?;
        world.template("t", json!({})).await?;
        world.task("traced", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("traced").await?;
        let export = tokio::time::timeout(LIMIT, exports.recv()).await?;
        let export = export.context("the collector is gone")?;
        let spans = export.pointer("/resourceSpans/0/scopeSpans/0/spans").and_then(Value::as_array);
        let names: Vec<&str> = spans.into_iter().flatten().filter_map(|span| span["name"].as_str()).collect();
        ensure!(names.first().is_some_and(|name| name.ends_with("/traced")), "{names:?}");
        ensure!(names.contains(&"queued") && names.contains(&"worked"), "{names:?}");
        Ok(())
    });
    let outcome = outcome.await;
    server.abort();
    outcome
}
