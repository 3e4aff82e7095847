//! Every object of the cluster by its metadata, and who depends on whom.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;
use observe::Key;

/// Finalizer of an owner that goes after its dependants.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependants stay.
pub(crate) const ORPHAN: &str = "orphan";

/// A kind as the API server offers it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KindOf {
    pub resource: ApiResource,
    pub namespaced: bool,
}

/// What is known of an object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub kind: Arc<KindOf>,
    pub key: Key,
    pub uid: String,
    pub version: Option<String>,
    pub owners: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub going: bool,
    /// When it was written last, as far as its metadata tells.
    pub written: Option<Timestamp>,
}

impl Entry {
    pub(crate) fn new(kind: &Arc<KindOf>, meta: ObjectMeta) -> Option<Self> {
        let written = meta.managed_fields.iter().flatten().filter_map(|field| field.time.as_ref()).map(|time| time.0);
        Some(Self {
            kind: Arc::clone(kind),
            key: Key::new(meta.namespace.unwrap_or_default(), meta.name?),
            uid: meta.uid?,
            version: meta.resource_version,
            written: written.chain(meta.creation_timestamp.map(|time| time.0)).max(),
            owners: meta.owner_references.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            going: meta.deletion_timestamp.is_some(),
        })
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|found| found == finalizer)
    }

    /// Whether it is on its way out and its dependants go first.
    pub(crate) fn goes_after_its_dependants(&self) -> bool {
        self.going && self.has_finalizer(FOREGROUND)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    entries: HashMap<String, Entry>,
    dependants: HashMap<String, HashSet<String>>,
    /// UIDs of owners that were seen to go and still have dependants. Nobody can be asked for one whose kind went too.
    departed: HashSet<String>,
    /// UIDs by namespace; cluster-wide objects are under the empty name.
    places: HashMap<String, HashSet<String>>,
}

impl Inventory {
    pub(crate) fn get(&self, uid: &str) -> Option<&Entry> {
        self.entries.get(uid)
    }

    pub(crate) fn dependants(&self, uid: &str) -> Vec<&Entry> {
        let uids = self.dependants.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.entries.get(uid)).collect()
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<&Entry> {
        let uids = self.places.get(namespace).into_iter().flatten();
        uids.filter_map(|uid| self.entries.get(uid)).collect()
    }

    /// Whether an owner was seen to go.
    pub(crate) fn is_departed(&self, uid: &str) -> bool {
        self.departed.contains(uid)
    }

    /// UIDs of the objects of a kind.
    pub(crate) fn of_kind(&self, kind: &KindOf) -> HashSet<String> {
        self.entries.values().filter(|entry| *entry.kind == *kind).map(|entry| entry.uid.clone()).collect()
    }

    /// Takes an object in. Answers the UIDs of those to look at again: the object itself, its owners that wait for their
    /// dependants, and its dependants once it goes in a way that concerns them.
    pub(crate) fn put(&mut self, entry: Entry) -> Vec<String> {
        let uid = entry.uid.clone();
        let mut concerned = self.unlink(&uid);
        for owner in &entry.owners {
            self.dependants.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        self.places.entry(entry.key.namespace.clone()).or_default().insert(uid.clone());
        let with_dependants = entry.going && (entry.has_finalizer(FOREGROUND) || entry.has_finalizer(ORPHAN));
        if !entry.owners.is_empty() || with_dependants {
            concerned.push(uid.clone());
        }
        let waiting = |owner: &&OwnerReference| self.entries.get(&owner.uid).is_some_and(|owner| owner.going);
        concerned.extend(entry.owners.iter().filter(waiting).map(|owner| owner.uid.clone()));
        if with_dependants {
            concerned.extend(self.dependants.get(&uid).into_iter().flatten().cloned());
        }
        self.entries.insert(uid, entry);
        concerned
    }

    /// Takes note that an object is gone. Answers the UIDs of those to look at again, and its namespace.
    pub(crate) fn remove(&mut self, uid: &str) -> (Vec<String>, Option<Entry>) {
        let mut concerned = self.unlink(uid);
        if let Some(dependants) = self.dependants.get(uid) {
            concerned.extend(dependants.iter().cloned());
            self.departed.insert(uid.to_owned());
        }
        (concerned, self.entries.remove(uid))
    }

    /// Forgets whose dependant an object was. Answers the owners that may have waited for it.
    fn unlink(&mut self, uid: &str) -> Vec<String> {
        let Some(entry) = self.entries.get(uid) else { return Vec::new() };
        let mut waiting = Vec::new();
        for owner in &entry.owners {
            if let Some(others) = self.dependants.get_mut(&owner.uid) {
                others.remove(uid);
                if others.is_empty() {
                    self.departed.remove(&owner.uid);
                    self.dependants.remove(&owner.uid);
                }
            }
            if self.entries.get(&owner.uid).is_some_and(|owner| owner.going) {
                waiting.push(owner.uid.clone());
            }
        }
        if let Some(others) = self.places.get_mut(&entry.key.namespace) {
            others.remove(uid);
            if others.is_empty() {
                self.places.remove(&entry.key.namespace);
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

    pub(crate) fn entry(uid: &str, owners: &[(&str, bool)], going: Option<&str>) -> Entry {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let kind = Arc::new(KindOf { resource, namespaced: true });
        let owners: Vec<Value> = owners
            .iter()
            .map(|(uid, blocks)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks}))
            .collect();
        let meta = serde_json::from_value(json!({
            "name": uid, "namespace": "n", "uid": uid, "ownerReferences": owners,
            "deletionTimestamp": going.map(|_| "2026-01-01T00:00:00Z"), "finalizers": going.into_iter().collect::<Vec<_>>(),
        }))
        .unwrap();
        Entry::new(&kind, meta).unwrap()
    }

    #[test]
    fn who_goes_concerns_those_who_depend_on_it() {
        let mut inventory = Inventory::default();
        assert_eq!(inventory.put(entry("owner", &[], None)), [""; 0]);
        assert_eq!(inventory.put(entry("child", &[("owner", true)], None)), ["child"]);
        assert_eq!(inventory.put(entry("owner", &[], Some(FOREGROUND))), ["owner", "child"]);
        let (concerned, gone) = inventory.remove("child");
        assert_eq!((concerned, gone.map(|gone| gone.uid)), (vec!["owner".to_owned()], Some("child".to_owned())));
        assert!(inventory.dependants("owner").is_empty());
    }

    #[test]
    fn a_dependant_may_be_seen_before_its_owner() {
        let mut inventory = Inventory::default();
        inventory.put(entry("child", &[("owner", true)], None));
        inventory.put(entry("owner", &[], None));
        let (concerned, _) = inventory.remove("owner");
        assert_eq!(concerned, ["child"]);
        assert_eq!(inventory.in_namespace("n").len(), 1);
        assert!(inventory.is_departed("owner"));
        inventory.remove("child");
        assert!(!inventory.is_departed("owner"));
    }

    #[test]
    fn a_dependant_that_lets_go_is_one_no_more() {
        let mut inventory = Inventory::default();
        inventory.put(entry("owner", &[], Some(ORPHAN)));
        inventory.put(entry("child", &[("owner", true)], None));
        assert_eq!(inventory.dependants("owner").len(), 1);
        assert_eq!(inventory.put(entry("child", &[], None)), ["owner"]);
        assert!(inventory.dependants("owner").is_empty());
    }
}
