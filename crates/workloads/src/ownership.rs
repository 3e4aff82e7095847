//! Ownership by selector: controllers adopt orphans that match, and release objects that no longer match.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    core::{Selector, SelectorExt as _},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::pods::controller_of;

/// The relation of an object to a possible controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Controlled by it, and matches the selector.
    Ours,
    /// Controlled by it, but no longer matches.
    Mismatched,
    /// Matches, and has no controller.
    Orphan,
    /// Neither controlled by it nor adoptable.
    Unrelated,
}

pub(crate) fn relation(child: &impl Resource, parent: &impl Resource, selector: &Selector) -> Relation {
    let none = std::collections::BTreeMap::new();
    // An empty selector would match every object; the API server rejects it for Deployments and ReplicaSets.
    let matches = selector.matches(child.meta().labels.as_ref().unwrap_or(&none)) && !selector.selects_all();
    match controller_of(child) {
        Some(owner) if Some(&owner.uid) == parent.meta().uid.as_ref() => {
            if matches {
                Relation::Ours
            } else {
                Relation::Mismatched
            }
        }
        None if matches && child.meta().deletion_timestamp.is_none() => Relation::Orphan,
        _ => Relation::Unrelated,
    }
}

/// Makes `owner` the controller of `child`. Fails if `child` changed since it was read.
pub(crate) async fn adopt<K>(api: &Api<K>, child: &K, owner: &OwnerReference) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let owners: Vec<_> = child.owner_references().iter().cloned().chain([owner.clone()]).collect();
    set_owners(api, child, &owners).await
}

/// Removes the owner with `uid` from `child`. Fails if `child` changed since it was read.
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
    // The UID and version make the API server reject the patch if the object changed since the decision.
    let meta = json!({"uid": child.uid(), "resourceVersion": child.resource_version(), "ownerReferences": owners});
    api.patch(&child.name_any(), &PatchParams::default(), &Patch::Merge(json!({ "metadata": meta }))).await
}
