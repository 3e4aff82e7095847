//! `executorImageBuild`: one Pod for equal builds, an image by digest, and failures that are named.

use std::net::Ipv4Addr;

use anyhow::{Context as _, ensure};
use api::Agent;
use blackbox::{
    cases,
    controller::{Controller, Options},
    git_server::GitServer,
    runner::Case,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, PodSpec},
};
use serde_json::{Value, json};

use crate::world::{Alone, World, condition, explain, message};

pub const CASES: &[Case] = cases![
    two_tasks_share_one_build_and_use_the_image_by_digest,
    a_failed_build_is_named_and_tried_again_for_the_next_task,
    a_build_without_a_registry_or_a_repository_is_refused,
    an_agent_keeps_its_image_until_the_next_one_is_there,
];

/// Runs a case with a controller and a configuration of its own.
async fn with<F>(config: Value, case: F) -> anyhow::Result<()>
where
    F: AsyncFnOnce(&World) -> anyhow::Result<()>,
{
    let alone = Alone::turn().await?;
    alone.world.configure(config).await?;
    let controller = Controller::start(alone.world.cluster, Options::default()).await?;
    let outcome = async {
        case(&alone.world).await?;
        controller.terminate().await
    };
    explain(outcome.await, &alone.world, &[&controller])
}

fn registry() -> Value {
    json!({"imageBuild": {"registry": "registry.example.com/agents"}})
}

/// A digest of this digit.
fn digest(digit: char) -> String {
    format!("sha256:{}", String::from(digit).repeat(64))
}

/// The Pods that build, except those that were seen before.
fn builders(world: &World, but: &[Pod]) -> Vec<Pod> {
    let known = |pod: &Pod| but.iter().any(|other| other.metadata.uid == pod.metadata.uid);
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let mut all: Vec<Pod> = world.pods.versions().iter().map(|pod| (**pod).clone()).collect();
    all.retain(|pod| name(pod).starts_with("kubeopencode-image-") && !known(pod));
    all.sort_by_key(|pod| pod.metadata.uid.clone());
    all.dedup_by_key(|pod| pod.metadata.uid.clone());
    all
}

/// Waits for a Pod that builds, other than these.
async fn builder(world: &World, but: &[Pod]) -> anyhow::Result<Pod> {
    let uids: Vec<_> = but.iter().map(|pod| pod.metadata.uid.clone()).collect();
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        name.starts_with("kubeopencode-image-") && phase == Some("Running") && !uids.contains(&pod.metadata.uid)
    };
    let pod = world.pods.until("a running builder", |pods| pods.all().into_iter().find(|pod| runs(pod))).await?;
    Ok((*pod).clone())
}

/// Plays the end of a build: the message of the container `push`, or of `build` if it fails.
async fn end(world: &World, pod: &Pod, outcome: Result<String, &str>) -> anyhow::Result<()> {
    let container = |name: &str, code: i32, message: &str| {
        let at = jiff::Timestamp::now();
        let terminated =
            json!({"exitCode": code, "reason": "Error", "message": message, "finishedAt": format!("{at:.0}")});
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
               "state": {"terminated": terminated}})
    };
    let status = match outcome {
        Ok(digest) => {
            let message = json!({ "digest": digest }).to_string();
            json!({"phase": "Succeeded", "containerStatuses": [container("push", 0, &message)]})
        }
        Err(message) => json!({"phase": "Failed", "initContainerStatuses": [container("build", 1, message)]}),
    };
    world.merge_status::<Pod>(pod.metadata.name.as_deref().unwrap_or_default(), status).await.map(drop)
}

fn image<'a>(spec: Option<&'a PodSpec>, container: &str) -> Option<&'a str> {
    let found = spec?.containers.iter().find(|one| one.name == container)?;
    found.image.as_deref()
}

fn on_template() -> Value {
    json!({"templateRef": {"name": "t"}})
}

async fn two_tasks_share_one_build_and_use_the_image_by_digest() -> anyhow::Result<()> {
    with(registry(), async |world| {
        let server = GitServer::start(Ipv4Addr::LOCALHOST, &[("Dockerfile", "FROM scratch\n")]).await?;
        let build = json!({"repository": server.url(), "ref": "main", "buildArgs": {"GO": "1.25"}});
        world.template("t", json!({"executorImageBuild": build, "maxConcurrentTasks": 1})).await?;
        world.task("one", on_template()).await?;
        let status = world.waits("one", "BuildingImage").await?;
        ensure!(status.run_epoch.is_none(), "a run that waits for an image is not claimed: {status:?}");
        let pod = builder(world, &[]).await?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        let said = message(&status);
        ensure!(said.contains(&name) && said.contains(&server.url()), "{said}");
        // It holds no slot, so that the second one is not held up by it, and waits for the same Pod.
        world.task("two", on_template()).await?;
        let status = world.waits("two", "BuildingImage").await?;
        ensure!(message(&status).contains(&name), "{status:?}");
        // A commit in the meantime is for later Tasks.
        server.commit("Dockerfile", "FROM scratch\nLABEL a=b\n").await?;

        end(world, &pod, Ok(digest('a'))).await?;
        for task in ["one", "two"] {
            world.succeeds(task).await?;
            let run = world.api::<Pod>().get(&format!("{task}-pod")).await?;
            let used = image(run.spec.as_ref(), "agent");
            let expected = format!("registry.example.com/agents/{}@{}", world.namespace, digest('a'));
            ensure!(used == Some(&expected), "{task}: {used:?}");
        }
        ensure!(builders(world, &[]).len() == 1, "{:?}", builders(world, &[]));
        // The image is known without the Pod.
        let known = world.record::<ConfigMap>();
        known.until_object("kubeopencode-images", "the image", |map| map.data.is_some()).await?;
        world.delete::<Pod>(&name).await?;
        world.pods.until_gone(&name).await?;
        let commit = pod_commit(&pod)?;
        let pinned = json!({"repository": server.url(), "ref": commit, "buildArgs": {"GO": "1.25"}});
        world.task("three", json!({"templateRef": {"name": "t"}, "executorImageBuild": pinned})).await?;
        world.succeeds("three").await?;
        ensure!(builders(world, &[pod]).is_empty(), "it was built again");
        Ok(())
    })
    .await
}

/// The commit that a Pod builds.
fn pod_commit(pod: &Pod) -> anyhow::Result<String> {
    let annotations = pod.metadata.annotations.as_ref().context("annotations")?;
    let about: Value = serde_json::from_str(annotations.get("kubeopencode.io/image-build").context("what it builds")?)?;
    Ok(about["commit"].as_str().context("a commit")?.to_owned())
}

async fn a_failed_build_is_named_and_tried_again_for_the_next_task() -> anyhow::Result<()> {
    with(registry(), async |world| {
        let build = json!({"repository": "https://git.example.com/tools.git", "ref": "a".repeat(40)});
        world.template("t", json!({"executorImageBuild": build})).await?;
        world.task("one", on_template()).await?;
        let pod = builder(world, &[]).await?;
        end(world, &pod, Err("STEP 2/2: RUN make; make: *** [all] Error 2")).await?;
        let status = world.fails("one", "ImageBuildFailed").await?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        let said = message(&status);
        ensure!(said.contains("make: *** [all] Error 2") && said.contains(&name), "{said}");
        ensure!(said.contains("https://git.example.com/tools.git at aaaaaaaaaaaa"), "{said}");
        // Its log stays readable.
        ensure!(world.api::<Pod>().get_opt(&name).await?.is_some(), "the Pod is gone");

        // The end of the build has a precision of one second.
        let ended = jiff::Timestamp::now().as_second();
        while jiff::Timestamp::now().as_second() <= ended {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        world.task("two", on_template()).await?;
        let second = builder(world, std::slice::from_ref(&pod)).await?;
        ensure!(second.metadata.name == pod.metadata.name, "equal builds have one name");
        end(world, &second, Ok(digest('b'))).await?;
        world.succeeds("two").await.map(drop)
    })
    .await
}

async fn a_build_without_a_registry_or_a_repository_is_refused() -> anyhow::Result<()> {
    with(json!({"defaults": {"referenceGracePeriod": "2s"}}), async |world| {
        world.template("t", json!({})).await?;
        let build = |path: &str| {
            let build = json!({"repository": "http://127.0.0.1:9/none.git", "dockerfile": path});
            json!({"templateRef": {"name": "t"}, "executorImageBuild": build})
        };
        world.task("no-registry", build("Dockerfile")).await?;
        let status = world.fails("no-registry", "ImageBuildUnavailable").await?;
        ensure!(message(&status).contains("spec.imageBuild.registry"), "{status:?}");
        let mut config = registry();
        config["defaults"] = json!({"referenceGracePeriod": "2s"});
        world.configure(config).await?;
        // The configuration holds when a Task is judged by it.
        world.task("outside", build("../Dockerfile")).await?;
        let status = world.ended("outside").await?;
        ensure!(
            ["Invalid", "ImageBuildUnavailable"].contains(&status.reason.as_deref().unwrap_or_default()),
            "{status:?}"
        );
        world.task("no-repository", build("Dockerfile")).await?;
        let status = world.fails("no-repository", "ImageSourceUnavailable").await?;
        ensure!(message(&status).contains("it cannot be reached"), "{status:?}");
        ensure!(builders(world, &[]).is_empty(), "something was built");
        Ok(())
    })
    .await
}

async fn an_agent_keeps_its_image_until_the_next_one_is_there() -> anyhow::Result<()> {
    with(registry(), async |world| {
        let server = GitServer::start(Ipv4Addr::LOCALHOST, &[("Dockerfile", "FROM scratch\n")]).await?;
        let build = |arg: &str| json!({"repository": server.url(), "buildArgs": {"GO": arg}});
        world.agent("a", json!({"executorImageBuild": build("1")})).await?;
        let image_ready = |agent: &Agent| {
            condition(agent.status.as_ref().and_then(|status| status.conditions.as_ref()), "ImageReady")
        };
        world.agent_is("a", "building", |agent| image_ready(agent) == "False BuildingImage").await?;
        ensure!(world.api::<Deployment>().get_opt("a-server").await?.is_none(), "it has a server without an image");
        let first = builder(world, &[]).await?;
        end(world, &first, Ok(digest('1'))).await?;
        world.agent_is("a", "with an image", |agent| image_ready(agent) == "True ImageBuilt").await?;
        // No controller of Deployments is there.
        let numbers = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1});
        world.merge_status::<Deployment>("a-server", numbers).await?;
        let ready = |agent: &Agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true);
        let status = world.agent_is("a", "ready", ready).await?.status.clone().unwrap_or_default();
        let used = status.executor_image.context("the image in the status")?;
        ensure!(used.image.ends_with(&digest('1')) && used.commit == pod_commit(&first)?, "{used:?}");
        let server_image = async || {
            let deployment = world.deployment("a").await?;
            let spec = deployment.spec.and_then(|spec| spec.template.spec);
            anyhow::Ok(image(spec.as_ref(), "opencode-server").unwrap_or_default().to_owned())
        };
        ensure!(server_image().await? == used.image, "{}", server_image().await?);

        world.merge::<Agent>("a", json!({"spec": {"executorImageBuild": build("2")}})).await?;
        let second = builder(world, std::slice::from_ref(&first)).await?;
        world.agent_is("a", "building again", |agent| image_ready(agent) == "False BuildingImage").await?;
        ensure!(server_image().await? == used.image, "the server lost its image");
        // Meanwhile it works for Tasks.
        world.task("meanwhile", json!({"agentRef": {"name": "a"}})).await?;
        world.succeeds("meanwhile").await?;
        end(world, &second, Err("no space left on device")).await?;
        world.agent_is("a", "failed", |agent| image_ready(agent) == "False ImageBuildFailed").await?;
        ensure!(server_image().await? == used.image, "the server lost its image");
        Ok(())
    })
    .await
}
