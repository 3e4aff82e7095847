//! The metadata of every object of the cluster, and the graph of owners and dependents.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;
use observe::Key;

/// Finalizer of an owner that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are kept.
pub(crate) const ORPHAN: &str = "orphan";

/// A kind that the API server serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
}

/// The metadata of one object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: String,
    pub version: Option<String>,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
    /// Time of the last write, according to the managed fields.
    pub written: Option<Timestamp>,
}

impl Entry {
    pub(crate) fn new(kind: &Arc<Kind>, meta: ObjectMeta) -> Option<Self> {
        let written = meta.managed_fields.iter().flatten().filter_map(|field| field.time.as_ref()).map(|time| time.0);
        Some(Self {
            kind: Arc::clone(kind),
            key: Key::new(meta.namespace.unwrap_or_default(), meta.name?),
            uid: meta.uid?,
            version: meta.resource_version,
            written: written.chain(meta.creation_timestamp.map(|time| time.0)).max(),
            owners: meta.owner_references.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|found| found == finalizer)
    }

    /// Whether the object is being deleted and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ObjectGraph {
    entries: HashMap<String, Entry>,
    dependents: HashMap<String, HashSet<String>>,
    /// UIDs of deleted owners that still have dependents. The API server cannot be asked for an owner whose kind is
    /// deleted too.
    deleted_owners: HashSet<String>,
    /// UIDs by namespace; cluster-scoped objects have an empty namespace.
    by_namespace: HashMap<String, HashSet<String>>,
}

impl ObjectGraph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Entry> {
        self.entries.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<&Entry> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.entries.get(uid)).collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<&Entry> {
        let uids = self.by_namespace.get(namespace).into_iter().flatten();
        uids.filter_map(|uid| self.entries.get(uid)).collect()
    }

    /// Whether the deletion of an owner was observed.
    pub(crate) fn is_deleted(&self, uid: &str) -> bool {
        self.deleted_owners.contains(uid)
    }

    pub(crate) fn of_kind(&self, kind: &Kind) -> HashSet<String> {
        self.entries.values().filter(|entry| *entry.kind == *kind).map(|entry| entry.uid.clone()).collect()
    }

    /// Adds or replaces an object. Returns the UIDs to reconcile: the object itself, owners that wait for their
    /// dependents, and the dependents of an object whose deletion affects them.
    pub(crate) fn put(&mut self, entry: Entry) -> Vec<String> {
        let uid = entry.uid.clone();
        let mut concerned = self.unlink(&uid);
        for owner in &entry.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.by_namespace.entry(entry.key.namespace.clone()).or_default().insert(uid.clone());
        let with_dependents = entry.deleting && (entry.has_finalizer(FOREGROUND) || entry.has_finalizer(ORPHAN));
        if !entry.owners.is_empty() || with_dependents {
            concerned.push(uid.clone());
        }
        let waiting = |owner: &&OwnerReference| self.entries.get(&owner.uid).is_some_and(|owner| owner.deleting);
        concerned.extend(entry.owners.iter().filter(waiting).map(|owner| owner.uid.clone()));
        if with_dependents {
            concerned.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        self.entries.insert(uid, entry);
        concerned
    }

    /// Removes an object. Returns the UIDs to reconcile, and the removed object.
    pub(crate) fn remove(&mut self, uid: &str) -> (Vec<String>, Option<Entry>) {
        let mut concerned = self.unlink(uid);
        if let Some(dependents) = self.dependents.get(uid) {
            concerned.extend(dependents.iter().cloned());
            self.deleted_owners.insert(uid.to_owned());
        }
        (concerned, self.entries.remove(uid))
    }

    /// Removes the edges to the owners of an object. Returns the owners that may wait for it.
    fn unlink(&mut self, uid: &str) -> Vec<String> {
        let Some(entry) = self.entries.get(uid) else { return Vec::new() };
        let mut waiting = Vec::new();
        for owner in &entry.owners {
            if let Some(others) = self.dependents.get_mut(&owner.uid) {
                others.remove(uid);
                if others.is_empty() {
                    self.deleted_owners.remove(&owner.uid);
                    self.dependents.remove(&owner.uid);
                }
            }
            if self.entries.get(&owner.uid).is_some_and(|owner| owner.deleting) {
                waiting.push(owner.uid.clone());
            }
        }
        if let Some(others) = self.by_namespace.get_mut(&entry.key.namespace) {
            others.remove(uid);
            if others.is_empty() {
                self.by_namespace.remove(&entry.key.namespace);
            }
        }
        waiting
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kube::core::GroupVersionKind;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn entry(uid: &str, owners: &[(&str, bool)], deleting: Option<&str>) -> Entry {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let kind = Arc::new(Kind { resource, namespaced: true });
        let owners: Vec<Value> = owners
            .iter()
            .map(|(uid, blocks)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks}))
            .collect();
        let meta = serde_json::from_value(json!({
            "name": uid, "namespace": "n", "uid": uid, "ownerReferences": owners,
            "deletionTimestamp": deleting.map(|_| "2026-01-01T00:00:00Z"), "finalizers": deleting.into_iter().collect::<Vec<_>>(),
        }))
        .unwrap();
        Entry::new(&kind, meta).unwrap()
    }

    #[test]
    fn a_deletion_affects_the_dependents() {
        let mut graph = ObjectGraph::default();
        assert_eq!(graph.put(entry("owner", &[], None)), [""; 0]);
        assert_eq!(graph.put(entry("child", &[("owner", true)], None)), ["child"]);
        assert_eq!(graph.put(entry("owner", &[], Some(FOREGROUND))), ["owner", "child"]);
        let (concerned, gone) = graph.remove("child");
        assert_eq!((concerned, gone.map(|gone| gone.uid)), (vec!["owner".to_owned()], Some("child".to_owned())));
        assert!(graph.dependents("owner").is_empty());
    }

    #[test]
    fn a_dependent_may_be_seen_before_its_owner() {
        let mut graph = ObjectGraph::default();
        graph.put(entry("child", &[("owner", true)], None));
        graph.put(entry("owner", &[], None));
        let (concerned, _) = graph.remove("owner");
        assert_eq!(concerned, ["child"]);
        assert_eq!(graph.in_namespace("n").len(), 1);
        assert!(graph.is_deleted("owner"));
        graph.remove("child");
        assert!(!graph.is_deleted("owner"));
    }

    #[test]
    fn a_dependent_without_the_owner_reference_is_none() {
        let mut graph = ObjectGraph::default();
        graph.put(entry("owner", &[], Some(ORPHAN)));
        graph.put(entry("child", &[("owner", true)], None));
        assert_eq!(graph.dependents("owner").len(), 1);
        assert_eq!(graph.put(entry("child", &[], None)), ["owner"]);
        assert!(graph.dependents("owner").is_empty());
    }
}
