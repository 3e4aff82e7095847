//! Who belongs to whom: a controller takes in what matches its selector and has no owner, and lets go of what no longer
//! matches.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    core::{Selector, SelectorExt as _},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::pods::controller_of;

/// How an object stands to one that could control it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is controlled by it and matches.
    Ours,
    /// It is controlled by it and no longer matches.
    Stray,
    /// Nobody controls it and it matches.
    Orphan,
    /// It has nothing to do with it.
    Stranger,
}

/// How `child` stands to `parent`, which selects by `selector`.
pub(crate) fn relation(child: &impl Resource, parent: &impl Resource, selector: &Selector) -> Relation {
    let none = std::collections::BTreeMap::new();
    // An empty selector would take in every object; the API server refuses it for Deployments and ReplicaSets.
    let matches = selector.matches(child.meta().labels.as_ref().unwrap_or(&none)) && !selector.selects_all();
    match controller_of(child) {
        Some(owner) if Some(&owner.uid) == parent.meta().uid.as_ref() => {
            if matches {
                Relation::Ours
            } else {
                Relation::Stray
            }
        }
        None if matches && child.meta().deletion_timestamp.is_none() => Relation::Orphan,
        _ => Relation::Stranger,
    }
}

/// Makes `owner` the controller of `child`, as it was seen.
pub(crate) async fn adopt<K>(api: &Api<K>, child: &K, owner: &OwnerReference) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let owners: Vec<_> = child.owner_references().iter().cloned().chain([owner.clone()]).collect();
    set_owners(api, child, &owners).await
}

/// Takes the owner with `uid` away from `child`, as it was seen.
pub(crate) async fn release<K>(api: &Api<K>, child: &K, uid: &str) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let owners: Vec<_> = child.owner_references().iter().filter(|owner| owner.uid != uid).cloned().collect();
    set_owners(api, child, &owners).await
}

async fn set_owners<K>(api: &Api<K>, child: &K, owners: &[OwnerReference]) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    // With uid and version: what is written was decided about this version of this object.
    let meta = json!({"uid": child.uid(), "resourceVersion": child.resource_version(), "ownerReferences": owners});
    api.patch(&child.name_any(), &PatchParams::default(), &Patch::Merge(json!({ "metadata": meta }))).await
}
