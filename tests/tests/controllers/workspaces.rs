//! The volumes with the files of runs: a claim that the runs of a template share, and claims that were left behind.

use anyhow::{Context as _, ensure};
use api::{AgentTemplate, Task};
use blackbox::{
    cases,
    controller::{Controller, Options},
    history::History,
    runner::Case,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::world::{Alone, World, explain, message, shared};

pub const CASES: &[Case] = cases![
    a_claim_that_a_pod_left_behind_is_deleted_and_a_retained_one_is_not,
    a_shared_claim_is_made_once_and_the_directories_of_deleted_tasks_are_removed_from_it,
    a_run_sees_its_own_directory_or_the_whole_volume,
    a_claim_of_somebody_else_is_not_shared,
];

/// The claim that the runs of the template share.
const CLAIM: &str = "kubeopencode-workspace-template-t";
/// The claim of the first run of a Task.
const RETAINED: &str = "done-pod-workspace";

fn on_template() -> Value {
    json!({"templateRef": {"name": "t"}})
}

/// The variable of the container of a Pod.
fn variable(pod: &Pod, name: &str) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    container.env.iter().flatten().find(|var| var.name == name)?.value.clone()
}

/// Waits for the Pod that cleans the shared claim, other than `but`, and plays its end.
async fn cleaner(world: &World, but: Option<&str>, report: &Value) -> anyhow::Result<Pod> {
    let name = format!("{CLAIM}-cleaner");
    let runs = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.metadata.uid.as_deref() != but && phase == Some("Running")
    };
    let pod = world.pods.until_object(&name, "running", runs).await?;
    let terminated = json!({"exitCode": 0, "reason": "Completed", "message": report.to_string()});
    let container = json!({
        "name": "clean", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": terminated},
    });
    world.merge_status::<Pod>(&name, json!({"phase": "Succeeded", "containerStatuses": [container]})).await?;
    Ok((*pod).clone())
}

/// Waits until a claim that was there is being deleted: it may be protected until its Pods are gone.
async fn leaves(claims: &History<PersistentVolumeClaim>, name: &str) -> anyhow::Result<()> {
    let left = |claims: &History<PersistentVolumeClaim>| {
        let was_there = claims.versions().iter().any(|claim| claim.name_any() == name);
        let is_there = claims.now(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
        (was_there && !is_there).then_some(())
    };
    claims.until(&format!("the deletion of {name}"), left).await
}

async fn a_shared_claim_is_made_once_and_the_directories_of_deleted_tasks_are_removed_from_it() -> anyhow::Result<()> {
    shared(async |world| {
        let template =
            world.template("t", json!({"workspace": {"accessMode": "ReadWriteMany", "size": "1Gi"}})).await?;
        let mut uids = Vec::new();
        for task in ["gone", "kept"] {
            uids.push(world.task(task, on_template()).await?.uid().context("a UID")?);
            world.succeeds(task).await?;
        }
        let claims = world.api::<PersistentVolumeClaim>();
        let claim = claims.get(CLAIM).await?;
        let owner = claim.owner_references().first().context("an owner")?;
        ensure!(owner.kind == "AgentTemplate" && Some(&owner.uid) == template.metadata.uid.as_ref(), "{owner:?}");
        ensure!(claim.labels().get("kubeopencode.io/managed-by").is_some_and(|by| by == "kubeopencode"), "{claim:?}");
        for task in ["gone", "kept"] {
            let pod = world.api::<Pod>().get(&format!("{task}-pod")).await?;
            let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
            let names: Vec<_> = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).collect();
            ensure!(names.len() == 1 && names[0].claim_name == CLAIM, "{names:?}");
        }

        world.delete::<Task>("gone").await?;
        // The volume has a directory of a Task that was deleted unseen.
        let unseen = "0a0b0c0d-1111-2222-3333-0123456789ab";
        let report = json!({"removed": 1, "others": [uids[1], unseen]});
        let first = cleaner(&world, None, &report).await?;
        ensure!(variable(&first, "KUBEOPENCODE_REMOVED_TASKS").as_ref() == Some(&uids[0]), "{first:?}");
        ensure!(variable(&first, "KUBEOPENCODE_KNOWN_TASKS").as_ref() == Some(&uids[1]), "{first:?}");
        let report = json!({"removed": 0, "failed": [unseen], "others": [unseen], "problems": ["it is busy"]});
        let second = cleaner(&world, first.metadata.uid.as_deref(), &report).await?;
        ensure!(variable(&second, "KUBEOPENCODE_REMOVED_TASKS").as_deref() == Some(unseen), "{second:?}");
        // There is no third one: what cannot be removed is reported, not tried for ever.
        world.pods.until_gone(&second.name_any()).await?;
        let still = claims.get(CLAIM).await?;
        ensure!(still.metadata.uid == claim.metadata.uid && still.metadata.deletion_timestamp.is_none(), "{still:?}");

        let history = world.record::<PersistentVolumeClaim>();
        world.delete::<AgentTemplate>("t").await?;
        leaves(&history, CLAIM).await?;
        ensure!(world.api::<Pod>().get_opt(&second.name_any()).await?.is_none(), "a third Pod");
        Ok(())
    })
    .await
}

async fn a_run_sees_its_own_directory_or_the_whole_volume() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"workspace": {"accessMode": "ReadWriteMany", "size": "1Gi"}})).await?;
        let all = json!({"accessMode": "ReadWriteMany", "sharing": "All"});
        for (task, workspace) in [("one", None), ("all", Some(all))] {
            let mut spec = on_template();
            if let Some(workspace) = workspace {
                spec["workspace"] = workspace;
            }
            world.task(task, spec).await?;
            world.succeeds(task).await?;
            let pod = world.api::<Pod>().get(&format!("{task}-pod")).await?;
            let uid = world.api::<Task>().get(task).await?.uid().unwrap_or_default();
            let container = pod.spec.as_ref().context("a spec")?.containers.first().context("a container")?;
            let mounts = container.volume_mounts.iter().flatten().filter(|mount| mount.name == "workspace");
            let mounts: Vec<_> =
                mounts.map(|mount| (mount.mount_path.as_str(), mount.sub_path.as_deref().unwrap_or(""))).collect();
            let (directory, work) = match task {
                "one" => (format!("{uid}/1"), "/workspace".to_owned()),
                _ => (format!("all.{uid}/1"), format!("/workspace/all.{uid}/1")),
            };
            let mut expected = vec![(work.as_str(), directory.as_str())];
            if task == "all" {
                expected.push(("/workspace", ""));
            }
            ensure!(mounts == expected && container.working_dir.as_ref() == Some(&work), "{task}: {container:?}");
        }
        Ok(())
    })
    .await
}

async fn a_claim_of_somebody_else_is_not_shared() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"workspace": {"accessMode": "ReadWriteMany"}})).await?;
        let spec = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}});
        world.create::<PersistentVolumeClaim>(CLAIM, spec).await?;
        world.task("refused", on_template()).await?;
        let status = world.fails("refused", "NameConflict").await?;
        ensure!(message(&status).contains(CLAIM) && message(&status).contains("AgentTemplate/t"), "{status:?}");
        ensure!(world.api::<Pod>().get_opt("refused-pod").await?.is_none(), "it has a Pod");
        // Named, it is shared.
        let workspace = json!({"accessMode": "ReadWriteMany", "claimName": CLAIM});
        world.task("shares", json!({"templateRef": {"name": "t"}, "workspace": workspace})).await?;
        world.succeeds("shares").await.map(drop)
    })
    .await
}

async fn a_claim_that_a_pod_left_behind_is_deleted_and_a_retained_one_is_not() -> anyhow::Result<()> {
    // Nothing else deletes objects whose owner is gone there.
    let alone = Alone::turn().await?;
    let world = &alone.world;
    let controller = Controller::start(world.cluster, Options::default()).await?;
    let outcome = async {
        world.template("t", json!({})).await?;
        let task = world.task("done", on_template()).await?;
        world.succeeds("done").await?;
        let nobody = json!({
            "apiVersion": "v1", "kind": "Pod", "name": "done-pod-9", "uid": "0a0b0c0d-1111-2222-3333-000000000009",
            "controller": true,
        });
        let owner = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": "done", "uid": task.metadata.uid,
        });
        let labels = json!({
            "app.kubernetes.io/managed-by": "kubeopencode", "kubeopencode.io/managed-by": "kubeopencode",
            "app.kubernetes.io/component": "run-workspace", "kubeopencode.io/task": "done",
        });
        let mut retained = labels.clone();
        retained["kubeopencode.io/retained"] = json!("true");
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let history = world.record::<PersistentVolumeClaim>();
        for (name, metadata) in [
            (RETAINED, json!({"labels": retained, "ownerReferences": [nobody, owner]})),
            ("of-somebody-else", json!({"ownerReferences": [nobody]})),
            ("leaked", json!({"labels": labels, "ownerReferences": [nobody]})),
        ] {
            world.create_with::<PersistentVolumeClaim>(name, metadata, spec.clone()).await?;
        }
        leaves(&history, "leaked").await?;
        for name in [RETAINED, "of-somebody-else"] {
            let claim = world.api::<PersistentVolumeClaim>().get(name).await?;
            ensure!(claim.metadata.deletion_timestamp.is_none(), "{name}");
        }
        // It goes with its Task.
        world.delete::<Task>("done").await?;
        leaves(&history, RETAINED).await?;
        controller.terminate().await
    };
    explain(outcome.await, world, &[&controller])
}
