//! Garbage collection: deletes objects whose owners are gone, with foreground, background and orphan propagation.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use crate::{
    Shared,
    graph::{Entry, FOREGROUND, ORPHAN},
    kinds,
};

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Present,
    /// The owner is being deleted and waits for its dependents.
    Waiting,
    /// The owner does not exist, or an object with another UID has its name.
    Absent,
}

/// What happens to an object.
#[derive(Debug, PartialEq)]
enum Verdict {
    Keep,
    /// Delete it, with this propagation to its own dependents.
    Delete(PropagationPolicy),
    /// Keep it, and remove the owners with these UIDs.
    DropOwners(Vec<String>),
}

/// Decides about an object by the state of its owners.
fn decide(entry: &Entry, states: &[(&OwnerReference, OwnerState)], has_dependents: bool) -> Verdict {
    let uids = |wanted: fn(OwnerState) -> bool| {
        states.iter().filter(|(_, state)| wanted(*state)).map(|(owner, _)| owner.uid.clone()).collect::<Vec<_>>()
    };
    if states.is_empty() {
        return Verdict::Keep;
    }
    let lost = uids(|state| state != OwnerState::Present);
    if lost.len() < states.len() {
        return if lost.is_empty() { Verdict::Keep } else { Verdict::DropOwners(lost) };
    }
    // An object that its owner waits for waits for its own dependents too, so that the order holds over generations.
    let awaited = states.iter().any(|(_, state)| *state == OwnerState::Waiting);
    if awaited && has_dependents || entry.has_finalizer(FOREGROUND) {
        return Verdict::Delete(PropagationPolicy::Foreground);
    }
    Verdict::Delete(if entry.has_finalizer(ORPHAN) { PropagationPolicy::Orphan } else { PropagationPolicy::Background })
}

pub(crate) async fn reconcile(shared: &Arc<Shared>, uid: &str) -> Result<Next, kube::Error> {
    let (entry, dependents) = {
        let graph = shared.graph();
        let Some(entry) = graph.get(uid).cloned() else { return Ok(Next::Wait) };
        let dependents: Vec<Entry> = graph.dependents(uid).into_iter().cloned().collect();
        (entry, dependents)
    };
    if entry.deleting {
        if entry.has_finalizer(ORPHAN) {
            for dependent in &dependents {
                ignore_gone(drop_owners(shared, dependent, &[uid.to_owned()]).await)?;
            }
            ignore_gone(remove_finalizer(shared, &entry, ORPHAN).await)?;
        } else if entry.has_finalizer(FOREGROUND) {
            let blocks = |dependent: &&Entry| {
                dependent.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
            };
            if dependents.iter().any(|dependent| blocks(&dependent)) {
                return Ok(Next::Wait);
            }
            ignore_gone(remove_finalizer(shared, &entry, FOREGROUND).await)?;
        }
        return Ok(Next::Wait);
    }
    let mut states = Vec::new();
    for owner in &entry.owners {
        match state(shared, &entry, owner).await? {
            Some(state) => states.push((owner, state)),
            // The kind of the owner is unknown, perhaps not defined yet. Keep the object; defining the kind triggers
            // another pass.
            None => return Ok(Next::Wait),
        }
    }
    let done = match decide(&entry, &states, !dependents.is_empty()) {
        Verdict::Keep => Ok(()),
        Verdict::DropOwners(owners) => drop_owners(shared, &entry, &owners).await.map(drop),
        Verdict::Delete(propagation) => delete(shared, &entry, propagation).await,
    };
    match done {
        // The object changed since the decision.
        Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(Next::Retry),
        other => ignore_gone(other).map(|()| Next::Wait),
    }
}

/// The state of an owner; `None` if its kind is unknown. An owner that is not in the graph may just have been created,
/// so the API server is asked.
async fn state(shared: &Shared, entry: &Entry, owner: &OwnerReference) -> Result<Option<OwnerState>, kube::Error> {
    let known = shared.graph().get(&owner.uid).map(|known| (known.waits_for_dependents(), known.key.clone()));
    if let Some((waiting, key)) = known {
        // Owner references across namespaces are invalid.
        let reachable = key.namespace.is_empty() || key.namespace == entry.key.namespace;
        let waiting = if waiting { OwnerState::Waiting } else { OwnerState::Present };
        return Ok(Some(if reachable { waiting } else { OwnerState::Absent }));
    }
    if shared.graph().is_deleted(&owner.uid) {
        return Ok(Some(OwnerState::Absent));
    }
    let Some(kind) = shared.kinds.find(&owner.api_version, &owner.kind) else { return Ok(None) };
    if kind.namespaced && entry.key.namespace.is_empty() {
        return Ok(None);
    }
    let found = kinds::api_in(&shared.client, &kind, &entry.key.namespace).get_metadata_opt(&owner.name).await?;
    let same = found.filter(|found| found.uid().as_ref() == Some(&owner.uid));
    Ok(Some(same.map_or(OwnerState::Absent, |found| {
        let deleting = found.metadata.deletion_timestamp.is_some();
        let waiting = deleting && found.finalizers().iter().any(|finalizer| finalizer == FOREGROUND);
        if waiting { OwnerState::Waiting } else { OwnerState::Present }
    })))
}

/// Deletes this version of an object. Fails if it was recreated, or adopted since.
pub(crate) async fn delete(shared: &Shared, entry: &Entry, propagation: PropagationPolicy) -> Result<(), kube::Error> {
    let preconditions = Preconditions { uid: Some(entry.uid.clone()), resource_version: entry.version.clone() };
    let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    objects(shared, entry).delete(&entry.key.name, &params.preconditions(preconditions)).await.map(drop)
}

async fn drop_owners(shared: &Shared, entry: &Entry, owners: &[String]) -> Result<DynamicObject, kube::Error> {
    let left: Vec<_> = entry.owners.iter().filter(|owner| !owners.contains(&owner.uid)).collect();
    patch(shared, entry, json!({ "ownerReferences": left })).await
}

async fn remove_finalizer(shared: &Shared, entry: &Entry, finalizer: &str) -> Result<DynamicObject, kube::Error> {
    let left: Vec<_> = entry.finalizers.iter().filter(|found| *found != finalizer).collect();
    patch(shared, entry, json!({ "finalizers": left })).await
}

/// Patches the metadata of this version of an object.
async fn patch(shared: &Shared, entry: &Entry, mut metadata: Value) -> Result<DynamicObject, kube::Error> {
    metadata["uid"] = json!(entry.uid);
    metadata["resourceVersion"] = json!(entry.version);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    objects(shared, entry).patch(&entry.key.name, &PatchParams::default(), &patch).await
}

fn objects(shared: &Shared, entry: &Entry) -> Api<DynamicObject> {
    let Key { namespace, .. } = &entry.key;
    kinds::api_in(&shared.client, &entry.kind, namespace)
}

fn ignore_gone<T>(outcome: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::entry;

    #[track_caller]
    fn check(states: &[(&str, OwnerState)], finalizer: Option<&str>, has_dependents: bool, verdict: &Verdict) {
        let owners: Vec<_> = states.iter().map(|(uid, _)| (*uid, true)).collect();
        let mut entry = entry("child", &owners, None);
        entry.finalizers.extend(finalizer.map(ToOwned::to_owned));
        let states: Vec<_> = entry.owners.iter().zip(states).map(|(owner, (_, state))| (owner, *state)).collect();
        assert_eq!(decide(&entry, &states, has_dependents), *verdict);
    }

    #[test]
    fn an_object_is_deleted_with_its_last_owner() {
        use OwnerState::{Absent, Present, Waiting};
        use PropagationPolicy::{Background, Foreground, Orphan};
        check(&[], None, false, &Verdict::Keep);
        check(&[("a", Present)], None, true, &Verdict::Keep);
        check(&[("a", Absent)], None, true, &Verdict::Delete(Background));
        check(&[("a", Absent), ("b", Absent)], None, false, &Verdict::Delete(Background));
        check(&[("a", Absent), ("b", Present)], None, false, &Verdict::DropOwners(vec!["a".into()]));
        check(&[("a", Waiting), ("b", Present)], None, false, &Verdict::DropOwners(vec!["a".into()]));
        check(&[("a", Waiting)], None, false, &Verdict::Delete(Background));
        check(&[("a", Waiting)], None, true, &Verdict::Delete(Foreground));
        check(&[("a", Absent)], Some(ORPHAN), true, &Verdict::Delete(Orphan));
        check(&[("a", Absent)], Some(FOREGROUND), false, &Verdict::Delete(Foreground));
    }
}
