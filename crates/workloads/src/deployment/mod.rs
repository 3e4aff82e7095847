//! Deployments: one ReplicaSet per template, replaced by a rolling update or recreated.
//!
//! Unlike on a cluster, a Deployment that is scaled during a rollout is not scaled proportionally; the new ReplicaSet
//! takes the difference.

mod plan;
mod status;
mod template;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, ReplicaSet},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Selector,
};
use observe::{Key, Next};
use serde_json::json;

use crate::{Shared, ownership, pods};
use plan::{Observed, Step};

pub(crate) async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(deployment) = shared.deployments.object(key) else { return Ok(Next::Wait) };
    let Some(spec) = &deployment.spec else { return Ok(Next::Wait) };
    let Ok(selector) = Selector::try_from(spec.selector.clone()) else { return Ok(Next::Wait) };
    let sets = sets_of(shared, &deployment, &selector).await?;
    let uids: Vec<String> = sets.iter().filter_map(|set| set.uid()).collect();
    let mut observed = Observed { deployment: &deployment, spec, sets: &sets, old_pods_running: false };
    let rollout = observed.rollout();
    let new_uid = rollout.new.as_ref().and_then(|new| new.uid());
    let is_old = |pod: &k8s_openapi::api::core::v1::Pod| {
        let owner = pods::controller_of(pod).map(|owner| &owner.uid);
        owner.is_some_and(|uid| uids.contains(uid) && new_uid.as_ref() != Some(uid)) && !pods::is_over(pod)
    };
    observed.old_pods_running = !shared.pods.in_namespace(&key.namespace, is_old).is_empty();

    let now = Timestamp::now();
    let steps = observed.steps(&rollout);
    let (status, requeue_at) = status::status(&observed, &rollout, &steps, now);
    let api: Api<Deployment> = Api::namespaced(shared.client.clone(), &key.namespace);
    for step in &steps {
        if let Step::Create(set) = step
            && !create(shared, &api, &deployment, set).await?
        {
            return Ok(Next::Retry);
        }
        execute(shared, step).await?;
    }
    record_revision(shared, &api, &deployment, &rollout.revision().to_string()).await?;
    if !status::same(deployment.status.as_ref(), &status) {
        let patch = json!({"metadata": {"uid": deployment.uid()}, "status": status});
        let made = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        shared.deployments.insert_written(made);
    }
    Ok(requeue_at.map_or(Next::Wait, crate::at))
}

/// The ReplicaSets of a Deployment, oldest first. Orphans that match the selector are adopted.
async fn sets_of(
    shared: &Shared,
    deployment: &Deployment,
    selector: &Selector,
) -> Result<Vec<Arc<ReplicaSet>>, kube::Error> {
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<ReplicaSet> = Api::namespaced(shared.client.clone(), &namespace);
    let mut sets = Vec::new();
    for set in shared.replica_sets.in_namespace(&namespace, |_| true) {
        match ownership::relation(&*set, deployment, selector) {
            ownership::Relation::Ours => sets.push(set),
            ownership::Relation::Orphan if deployment.metadata.deletion_timestamp.is_none() => {
                let Some(owner) = deployment.controller_owner_ref(&()) else { continue };
                let owner = OwnerReference { block_owner_deletion: Some(true), ..owner };
                let adopted = ownership::adopt(&api, &*set, &owner).await?;
                shared.replica_sets.insert_written(adopted.clone());
                sets.push(Arc::new(adopted));
            }
            ownership::Relation::Mismatched => {
                let released = ownership::release(&api, &*set, &deployment.uid().unwrap_or_default()).await?;
                shared.replica_sets.insert_written(released);
            }
            ownership::Relation::Orphan | ownership::Relation::Unrelated => {}
        }
    }
    sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
    Ok(sets)
}

/// Creates the ReplicaSet. Returns false if its name is taken; the next pass uses another name.
async fn create(
    shared: &Shared,
    api: &Api<Deployment>,
    deployment: &Deployment,
    set: &ReplicaSet,
) -> Result<bool, kube::Error> {
    let sets: Api<ReplicaSet> = Api::namespaced(shared.client.clone(), &deployment.namespace().unwrap_or_default());
    match sets.create(&PostParams::default(), set).await {
        Ok(made) => {
            shared.replica_sets.insert_written(made);
            Ok(true)
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            let there = sets.get_opt(&set.name_any()).await?;
            let ours = there
                .as_ref()
                .and_then(pods::controller_of)
                .is_some_and(|owner| Some(&owner.uid) == deployment.uid().as_ref());
            match there {
                // The watch has not delivered it yet.
                Some(there) if ours => shared.replica_sets.insert_written(there),
                Some(_) => {
                    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
                    let patch =
                        json!({"metadata": {"uid": deployment.uid()}, "status": {"collisionCount": collisions + 1}});
                    let made =
                        api.patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
                    shared.deployments.insert_written(made);
                }
                None => {}
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

async fn execute(shared: &Shared, step: &Step) -> Result<(), kube::Error> {
    let (set, patch) = match step {
        Step::Create(_) => return Ok(()),
        Step::Scale(set, replicas) => (set, json!({"spec": {"replicas": replicas}})),
        Step::SetRevision(set, revision) => {
            (set, json!({"metadata": {"annotations": {template::REVISION: revision.to_string()}}}))
        }
        Step::Delete(set) => {
            let api: Api<ReplicaSet> = Api::namespaced(shared.client.clone(), &set.namespace().unwrap_or_default());
            let preconditions = Preconditions { uid: set.uid(), resource_version: None };
            api.delete(&set.name_any(), &DeleteParams::default().preconditions(preconditions)).await?;
            return Ok(());
        }
    };
    let api: Api<ReplicaSet> = Api::namespaced(shared.client.clone(), &set.namespace().unwrap_or_default());
    let made = api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    shared.replica_sets.insert_written(made);
    Ok(())
}

/// `kubectl rollout history` reads the revision from the Deployment too.
async fn record_revision(
    shared: &Shared,
    api: &Api<Deployment>,
    deployment: &Deployment,
    revision: &str,
) -> Result<(), kube::Error> {
    let paused = deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true));
    let noted = deployment.annotations().get(template::REVISION).is_some_and(|noted| noted == revision);
    if paused || noted || deployment.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let patch = json!({"metadata": {"annotations": {template::REVISION: revision}}});
    // Through the status subresource, as on a cluster: otherwise the annotation would be a user change with a new
    // generation.
    let made = api.patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    shared.deployments.insert_written(made);
    Ok(())
}
