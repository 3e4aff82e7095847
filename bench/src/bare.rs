//! The limit: the rate at which the same API server takes the same writes from a client that does nothing else.

use std::time::Instant;

use api::Task;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{node, world};

/// Writes of one Task's life: the user's one, the controller's three, the kubelet's two.
pub const WRITES: usize = 6;
/// Tasks whose writes are under way at once.
const AT_ONCE: usize = 32;

/// Which writes a bare client makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// All of a Task's life.
    Whole,
    /// Those of the user and the kubelet, and the Pod: no controller can do with less.
    Barest,
}

/// Only creates `count` Tasks, as users do. Returns Tasks per second, to compare with upstream's figures.
pub async fn creates(client: &Client, namespace: &str, count: usize) -> anyhow::Result<f64> {
    let names = (0..count).map(|number| format!("created-{number}"));
    let tasks = names.map(|name| world::task(&name, world::on_template(world::TEMPLATE))).collect();
    let begin = Instant::now();
    world::create(client, namespace, tasks).await?;
    let took = begin.elapsed().as_secs_f64();
    // No controller is to find them.
    let tasks: Api<Task> = Api::namespaced(client.clone(), namespace);
    tasks.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    Ok(count as f64 / took)
}

/// Sends the writes of `count` Tasks. `sample` is a Pod and a final status that the controller wrote. Returns Tasks per
/// second.
pub async fn rate(
    client: &Client,
    namespace: &str,
    count: usize,
    sample: &(Pod, Task),
    which: Life,
) -> anyhow::Result<f64> {
    let tasks: Api<Task> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let begin = Instant::now();
    let sequences = (0..count).map(|number| {
        let (tasks, pods) = (tasks.clone(), pods.clone());
        async move { live(&tasks, &pods, &format!("bare-{number}"), sample, which).await }
    });
    stream::iter(sequences).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let took = begin.elapsed().as_secs_f64();
    if which == Life::Barest {
        // To a controller they are Tasks that wait.
        tasks.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    }
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    Ok(count as f64 / took)
}

async fn live(tasks: &Api<Task>, pods: &Api<Pod>, name: &str, sample: &(Pod, Task), which: Life) -> kube::Result<()> {
    let params = PatchParams::default();
    let (pod, ended) = sample;
    let created = tasks.create(&PostParams::default(), &world::task(name, world::on_template(world::TEMPLATE))).await?;
    let claim = json!({
        "metadata": { "resourceVersion": created.metadata.resource_version },
        "status": { "phase": "Running", "runEpoch": 1, "attempt": 1, "podName": format!("{name}-pod") },
    });
    if which == Life::Whole {
        tasks.patch_status(name, &params, &Patch::Merge(claim)).await?;
    }
    let mut pod = pod.clone();
    pod.metadata.name = Some(format!("{name}-pod"));
    pod.metadata.namespace = None;
    (pod.metadata.uid, pod.metadata.resource_version, pod.metadata.owner_references) = (None, None, None);
    (pod.metadata.creation_timestamp, pod.metadata.managed_fields, pod.status) = (None, None, None);
    pods.create(&PostParams::default(), &pod).await?;
    pods.patch_status(&format!("{name}-pod"), &params, &Patch::Merge(node::running())).await?;
    pods.patch_status(&format!("{name}-pod"), &params, &Patch::Merge(node::succeeded())).await?;
    if which == Life::Whole {
        let status = json!({ "status": ended.status });
        tasks.patch_status(name, &params, &Patch::Merge(status)).await?;
    }
    Ok(())
}
