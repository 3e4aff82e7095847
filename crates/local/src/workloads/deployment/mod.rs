//! A Deployment has a ReplicaSet for its template, and goes over from a former one without a gap.
//!
//! Not as on a cluster: a Deployment that is resized in the middle of a rollout is not resized in proportion; the new
//! ReplicaSet takes what is missing.

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

use super::{World, family, pods};
use plan::{Situation, Step};

/// Makes it so.
pub(crate) async fn pass(world: &World, key: &Key) -> Result<Next, kube::Error> {
    let Some(deployment) = world.deployments.object(key) else { return Ok(Next::Wait) };
    let Some(spec) = &deployment.spec else { return Ok(Next::Wait) };
    let Ok(selector) = Selector::try_from(spec.selector.clone()) else { return Ok(Next::Wait) };
    let sets = sets_of(world, &deployment, &selector).await?;
    let uids: Vec<String> = sets.iter().filter_map(|set| set.uid()).collect();
    let mut situation = Situation { deployment: &deployment, spec, sets: &sets, old_pods_work: false };
    let generations = situation.generations();
    let new_uid = generations.new.as_ref().and_then(|new| new.uid());
    let is_old = |pod: &k8s_openapi::api::core::v1::Pod| {
        let owner = pods::controller_of(pod).map(|owner| &owner.uid);
        owner.is_some_and(|uid| uids.contains(uid) && new_uid.as_ref() != Some(uid)) && !pods::is_over(pod)
    };
    situation.old_pods_work = !world.pods.in_namespace(&key.namespace, is_old).is_empty();

    let now = Timestamp::now();
    let steps = situation.steps(&generations);
    let (status, look_again) = status::status(&situation, &generations, &steps, now);
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), &key.namespace);
    for step in &steps {
        if let Step::Create(set) = step
            && !create(world, &api, &deployment, set).await?
        {
            return Ok(Next::Retry);
        }
        take(world, step).await?;
    }
    note_revision(world, &api, &deployment, &generations.revision().to_string()).await?;
    if !status::same(deployment.status.as_ref(), &status) {
        let patch = json!({"metadata": {"uid": deployment.uid()}, "status": status});
        let made = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        world.deployments.learn(made);
    }
    Ok(look_again.map_or(Next::Wait, super::at))
}

/// The ReplicaSets of a Deployment, oldest first; those without an owner that match are taken in.
async fn sets_of(
    world: &World,
    deployment: &Deployment,
    selector: &Selector,
) -> Result<Vec<Arc<ReplicaSet>>, kube::Error> {
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &namespace);
    let mut sets = Vec::new();
    for set in world.replica_sets.in_namespace(&namespace, |_| true) {
        match family::relation(&*set, deployment, selector) {
            family::Relation::Ours => sets.push(set),
            family::Relation::Orphan if deployment.metadata.deletion_timestamp.is_none() => {
                let Some(owner) = deployment.controller_owner_ref(&()) else { continue };
                let owner = OwnerReference { block_owner_deletion: Some(true), ..owner };
                let adopted = family::adopt(&api, &*set, &owner).await?;
                world.replica_sets.learn(adopted.clone());
                sets.push(Arc::new(adopted));
            }
            family::Relation::Stray => {
                let released = family::release(&api, &*set, &deployment.uid().unwrap_or_default()).await?;
                world.replica_sets.learn(released);
            }
            family::Relation::Orphan | family::Relation::Stranger => {}
        }
    }
    sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
    Ok(sets)
}

/// Makes the ReplicaSet. Answers false if its name was taken, which makes another one of the next pass.
async fn create(
    world: &World,
    api: &Api<Deployment>,
    deployment: &Deployment,
    set: &ReplicaSet,
) -> Result<bool, kube::Error> {
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &deployment.namespace().unwrap_or_default());
    match sets.create(&PostParams::default(), set).await {
        Ok(made) => {
            world.replica_sets.learn(made);
            Ok(true)
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            let there = sets.get_opt(&set.name_any()).await?;
            let ours = there
                .as_ref()
                .and_then(pods::controller_of)
                .is_some_and(|owner| Some(&owner.uid) == deployment.uid().as_ref());
            match there {
                // The watch has not shown it yet.
                Some(there) if ours => world.replica_sets.learn(there),
                Some(_) => {
                    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
                    let patch =
                        json!({"metadata": {"uid": deployment.uid()}, "status": {"collisionCount": collisions + 1}});
                    let made =
                        api.patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
                    world.deployments.learn(made);
                }
                None => {}
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

async fn take(world: &World, step: &Step) -> Result<(), kube::Error> {
    let (set, patch) = match step {
        Step::Create(_) => return Ok(()),
        Step::Scale(set, replicas) => (set, json!({"spec": {"replicas": replicas}})),
        Step::Revise(set, revision) => {
            (set, json!({"metadata": {"annotations": {template::REVISION: revision.to_string()}}}))
        }
        Step::Forget(set) => {
            let api: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &set.namespace().unwrap_or_default());
            let preconditions = Preconditions { uid: set.uid(), resource_version: None };
            api.delete(&set.name_any(), &DeleteParams::default().preconditions(preconditions)).await?;
            return Ok(());
        }
    };
    let api: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &set.namespace().unwrap_or_default());
    let made = api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    world.replica_sets.learn(made);
    Ok(())
}

/// `kubectl rollout history` reads the revision from the Deployment too.
async fn note_revision(
    world: &World,
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
    // By the status, as on a cluster: an annotation that changes otherwise is a new generation, as if people had done it.
    let made = api.patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    world.deployments.learn(made);
    Ok(())
}
