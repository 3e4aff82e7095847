//! What nobody owns any more goes, and who is deleted goes together with its dependants, after them, or without them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use super::{
    World,
    inventory::{Entry, FOREGROUND, ORPHAN},
    kinds,
};

/// How an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is there.
    Present,
    /// It is on its way out and waits for its dependants.
    Waiting,
    /// It is not there, or an object with another UID has its name.
    Absent,
}

/// What becomes of an object.
#[derive(Debug, PartialEq)]
enum Verdict {
    Stay,
    /// It goes; how its own dependants go is said too.
    Go(PropagationPolicy),
    /// It stays, without the owners with these UIDs.
    LetGo(Vec<String>),
}

/// Judges an object by how its owners stand.
fn judge(entry: &Entry, standings: &[(&OwnerReference, Standing)], has_dependants: bool) -> Verdict {
    let uids = |wanted: fn(Standing) -> bool| {
        standings
            .iter()
            .filter(|(_, standing)| wanted(*standing))
            .map(|(owner, _)| owner.uid.clone())
            .collect::<Vec<_>>()
    };
    if standings.is_empty() {
        return Verdict::Stay;
    }
    let lost = uids(|standing| standing != Standing::Present);
    if lost.len() < standings.len() {
        return if lost.is_empty() { Verdict::Stay } else { Verdict::LetGo(lost) };
    }
    // What an owner waits for waits for its own dependants too, so that the order holds over generations.
    let awaited = standings.iter().any(|(_, standing)| *standing == Standing::Waiting);
    if awaited && has_dependants || entry.has_finalizer(FOREGROUND) {
        return Verdict::Go(PropagationPolicy::Foreground);
    }
    Verdict::Go(if entry.has_finalizer(ORPHAN) { PropagationPolicy::Orphan } else { PropagationPolicy::Background })
}

/// Looks at an object.
pub(crate) async fn pass(world: &Arc<World>, uid: &str) -> Result<Next, kube::Error> {
    let (entry, dependants) = {
        let inventory = world.inventory();
        let Some(entry) = inventory.get(uid).cloned() else { return Ok(Next::Wait) };
        let dependants: Vec<Entry> = inventory.dependants(uid).into_iter().cloned().collect();
        (entry, dependants)
    };
    if entry.going {
        if entry.has_finalizer(ORPHAN) {
            for dependant in &dependants {
                ignore_gone(let_go(world, dependant, &[uid.to_owned()]).await)?;
            }
            ignore_gone(remove_finalizer(world, &entry, ORPHAN).await)?;
        } else if entry.has_finalizer(FOREGROUND) {
            let blocks = |dependant: &&Entry| {
                dependant.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
            };
            if dependants.iter().any(|dependant| blocks(&dependant)) {
                return Ok(Next::Wait);
            }
            ignore_gone(remove_finalizer(world, &entry, FOREGROUND).await)?;
        }
        return Ok(Next::Wait);
    }
    let mut standings = Vec::new();
    for owner in &entry.owners {
        match standing(world, &entry, owner).await? {
            Some(standing) => standings.push((owner, standing)),
            // Its kind is not known, perhaps not yet. Nothing is given up for that; whoever defines it asks again.
            None => return Ok(Next::Wait),
        }
    }
    let done = match judge(&entry, &standings, !dependants.is_empty()) {
        Verdict::Stay => Ok(()),
        Verdict::LetGo(owners) => let_go(world, &entry, &owners).await.map(drop),
        Verdict::Go(propagation) => delete(world, &entry, propagation).await,
    };
    match done {
        // It changed since it was judged.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Next::Retry),
        other => ignore_gone(other).map(|()| Next::Wait),
    }
}

/// How an owner stands. What the inventory does not know is asked for: the owner may just have been made.
async fn standing(world: &World, entry: &Entry, owner: &OwnerReference) -> Result<Option<Standing>, kube::Error> {
    let known = world.inventory().get(&owner.uid).map(|known| (known.goes_after_its_dependants(), known.key.clone()));
    if let Some((waiting, key)) = known {
        // An owner in another namespace is no owner.
        let reachable = key.namespace.is_empty() || key.namespace == entry.key.namespace;
        let waiting = if waiting { Standing::Waiting } else { Standing::Present };
        return Ok(Some(if reachable { waiting } else { Standing::Absent }));
    }
    if world.inventory().is_departed(&owner.uid) {
        return Ok(Some(Standing::Absent));
    }
    let Some(kind) = world.kinds.find(&owner.api_version, &owner.kind) else { return Ok(None) };
    if kind.namespaced && entry.key.namespace.is_empty() {
        return Ok(None);
    }
    let found = kinds::api_in(&world.client, &kind, &entry.key.namespace).get_metadata_opt(&owner.name).await?;
    let same = found.filter(|found| found.uid().as_ref() == Some(&owner.uid));
    Ok(Some(same.map_or(Standing::Absent, |found| {
        let going = found.metadata.deletion_timestamp.is_some();
        let waiting = going && found.finalizers().iter().any(|finalizer| finalizer == FOREGROUND);
        if waiting { Standing::Waiting } else { Standing::Present }
    })))
}

/// Deletes an object as it was seen: neither the next one of its name nor one that has found an owner since.
pub(crate) async fn delete(world: &World, entry: &Entry, propagation: PropagationPolicy) -> Result<(), kube::Error> {
    let preconditions = Preconditions { uid: Some(entry.uid.clone()), resource_version: entry.version.clone() };
    let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    objects(world, entry).delete(&entry.key.name, &params.preconditions(preconditions)).await.map(drop)
}

async fn let_go(world: &World, entry: &Entry, owners: &[String]) -> Result<DynamicObject, kube::Error> {
    let left: Vec<_> = entry.owners.iter().filter(|owner| !owners.contains(&owner.uid)).collect();
    patch(world, entry, json!({ "ownerReferences": left })).await
}

async fn remove_finalizer(world: &World, entry: &Entry, finalizer: &str) -> Result<DynamicObject, kube::Error> {
    let left: Vec<_> = entry.finalizers.iter().filter(|found| *found != finalizer).collect();
    patch(world, entry, json!({ "finalizers": left })).await
}

/// Changes the metadata of an object as it was seen.
async fn patch(world: &World, entry: &Entry, mut metadata: Value) -> Result<DynamicObject, kube::Error> {
    metadata["uid"] = json!(entry.uid);
    metadata["resourceVersion"] = json!(entry.version);
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    objects(world, entry).patch(&entry.key.name, &PatchParams::default(), &patch).await
}

fn objects(world: &World, entry: &Entry) -> Api<DynamicObject> {
    let Key { namespace, .. } = &entry.key;
    kinds::api_in(&world.client, &entry.kind, namespace)
}

fn ignore_gone<T>(outcome: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::inventory::tests::entry, *};

    #[track_caller]
    fn check(standings: &[(&str, Standing)], finalizer: Option<&str>, has_dependants: bool, verdict: &Verdict) {
        let owners: Vec<_> = standings.iter().map(|(uid, _)| (*uid, true)).collect();
        let mut entry = entry("child", &owners, None);
        entry.finalizers.extend(finalizer.map(ToOwned::to_owned));
        let standings: Vec<_> =
            entry.owners.iter().zip(standings).map(|(owner, (_, standing))| (owner, *standing)).collect();
        assert_eq!(judge(&entry, &standings, has_dependants), *verdict);
    }

    #[test]
    fn an_object_goes_with_its_last_owner() {
        use PropagationPolicy::{Background, Foreground, Orphan};
        use Standing::{Absent, Present, Waiting};
        check(&[], None, false, &Verdict::Stay);
        check(&[("a", Present)], None, true, &Verdict::Stay);
        check(&[("a", Absent)], None, true, &Verdict::Go(Background));
        check(&[("a", Absent), ("b", Absent)], None, false, &Verdict::Go(Background));
        check(&[("a", Absent), ("b", Present)], None, false, &Verdict::LetGo(vec!["a".into()]));
        check(&[("a", Waiting), ("b", Present)], None, false, &Verdict::LetGo(vec!["a".into()]));
        check(&[("a", Waiting)], None, false, &Verdict::Go(Background));
        check(&[("a", Waiting)], None, true, &Verdict::Go(Foreground));
        check(&[("a", Absent)], Some(ORPHAN), true, &Verdict::Go(Orphan));
        check(&[("a", Absent)], Some(FOREGROUND), false, &Verdict::Go(Foreground));
    }
}
