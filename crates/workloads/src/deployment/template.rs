//! The ReplicaSet of a Deployment's template: hash, name, matching and revision.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};

/// Label that distinguishes the Pods of different templates.
pub(super) const HASH: &str = "pod-template-hash";
/// Annotation that numbers the templates of a Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";

/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 2] = ["kubectl.kubernetes.io/last-applied-configuration", REVISION];

/// Consonants, and digits that do not look like vowels, so that no hash is a word.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template. `collisions` changes it if the name is taken.
pub(super) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let mut hasher = Sha256::new();
    // k8s-openapi serializes fields in a fixed order and maps sorted, so equal templates give equal bytes.
    hasher.update(serde_json::to_vec(template).unwrap_or_default());
    if collisions > 0 {
        hasher.update(collisions.to_le_bytes());
    }
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    hasher.finalize().iter().take(10).map(letter).collect()
}

/// Whether `set` belongs to this template. Equal templates match whatever the hash: another controller may hash
/// differently.
pub(super) fn is_of(set: &ReplicaSet, template: &PodTemplateSpec, hash: &str) -> bool {
    if set.labels().get(HASH).is_some_and(|label| label == hash) {
        return true;
    }
    let Some(mut own) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else { return false };
    if let Some(labels) = own.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(HASH);
    }
    own == *template
}

/// The revision of a ReplicaSet, starting at 1.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(super) fn replica_set(deployment: &Deployment, hash: &str, revision: i64, replicas: i32) -> Option<ReplicaSet> {
    let spec = deployment.spec.as_ref()?;
    let owner = deployment.controller_owner_ref(&())?;
    let labelled = |labels: Option<BTreeMap<String, String>>| {
        let mut labels = labels.unwrap_or_default();
        labels.insert(HASH.to_owned(), hash.to_owned());
        Some(labels)
    };
    let mut template = spec.template.clone();
    let meta = template.metadata.get_or_insert_default();
    meta.labels = labelled(meta.labels.take());
    let mut selector = spec.selector.clone();
    selector.match_labels = labelled(selector.match_labels.take());
    Some(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: meta.labels.clone(),
            annotations: Some(annotations(deployment, revision)),
            owner_references: Some(vec![OwnerReference { block_owner_deletion: Some(true), ..owner }]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    })
}

fn annotations(deployment: &Deployment, revision: i64) -> BTreeMap<String, String> {
    let mut annotations = deployment.annotations().clone();
    annotations.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_template_has_one_hash_and_another_one_another() {
        let hash_of = |image: &str, collisions: i32| hash(&template(image), collisions);
        assert_eq!(hash_of("a", 0), hash_of("a", 0));
        assert_ne!(hash_of("a", 0), hash_of("b", 0));
        assert_ne!(hash_of("a", 0), hash_of("a", 1));
        assert!(hash_of("a", 0).len() == 10 && hash_of("a", 0).bytes().all(|byte| LETTERS.contains(&byte)));
    }

    #[test]
    fn a_set_is_recognised_by_its_template_or_its_hash() {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u", "annotations": {"a": "b", REVISION: "7"}},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("a")},
        }))
        .unwrap();
        let set = replica_set(&deployment, "hash", 8, 2).unwrap();
        assert!(is_of(&set, &template("a"), "other hash") && is_of(&set, &template("b"), "hash"));
        assert!(!is_of(&set, &template("b"), "other hash"));
        assert_eq!((set.name_any().as_str(), revision(&set)), ("web-hash", 8));
        assert_eq!(set.annotations().get("a").map(String::as_str), Some("b"));
    }
}
