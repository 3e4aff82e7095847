//! The Secrets that a Pod needs, read from the Pod itself, so that none is forgotten, and whether they changed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString,
    api::core::v1::{Container, EnvVar, PodSpec, Volume},
};
use sha2::{Digest as _, Sha256};

use crate::workload::contexts::hex;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretNeed {
    /// Keys that must exist. Empty: any keys.
    pub keys: BTreeSet<String>,
    /// The Pod cannot start without it.
    pub required: bool,
    /// A container that runs as long as the Pod has it in its environment or its files, so a new value needs a new Pod.
    /// A Secret of an init container takes effect at the next start.
    pub lasting: bool,
}

/// A sentence about missing Secrets and keys. `keys` returns the keys of a Secret; `None` if it does not exist.
pub fn trouble<'a>(
    needs: &BTreeMap<String, SecretNeed>,
    keys: impl Fn(&str) -> Option<&'a BTreeSet<String>>,
) -> Option<String> {
    let mut troubles = Vec::new();
    for (name, need) in needs.iter().filter(|(_, need)| need.required) {
        match keys(name) {
            None => troubles.push(format!("Secret '{name}' does not exist")),
            Some(keys) => {
                let missing = need.keys.difference(keys);
                troubles.extend(missing.map(|key| format!("Secret '{name}' has no key '{key}'")));
            }
        }
    }
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// The Secrets that a Pod of `spec` needs, by name. Secrets for pulling images are not included: a Pod may start
/// without them.
pub fn needed_secrets(spec: &PodSpec) -> BTreeMap<String, SecretNeed> {
    let mut needs = BTreeMap::new();
    let volumes: BTreeMap<&str, &Volume> = spec.volumes.iter().flatten().map(|v| (v.name.as_str(), v)).collect();
    for container in spec.init_containers.iter().flatten() {
        let lasting = container.restart_policy.as_deref() == Some("Always");
        container_needs(container, lasting, &volumes, &mut needs);
    }
    for container in &spec.containers {
        container_needs(container, true, &volumes, &mut needs);
    }
    needs
}

/// Identifies the values of a Secret without revealing them. Labels and annotations do not count.
///
/// The fingerprint is in an annotation that more people can read than the Secret. It is keyed with the Secret's UID: a
/// person who knows the UID can read the Secret, and others cannot guess values.
pub fn fingerprint(uid: &str, data: &BTreeMap<String, ByteString>) -> String {
    let mut hasher = Sha256::new();
    let parts = data.iter().flat_map(|(key, value)| [key.as_bytes(), value.0.as_slice()]);
    for part in std::iter::once(uid.as_bytes()).chain(parts) {
        // The length prefix makes the input unambiguous.
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize(), 64)
}

/// A digest that changes when a Secret changes that needs a new Pod; `None` if there is none. `state` returns the
/// fingerprint of a Secret; `None` if it does not exist.
pub fn digest(needs: &BTreeMap<String, SecretNeed>, state: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut hasher = Sha256::new();
    let mut any = false;
    for (name, _) in needs.iter().filter(|(_, need)| need.lasting) {
        any = true;
        hasher.update(name);
        hasher.update([0]);
        hasher.update(state(name).unwrap_or_default());
        hasher.update([0]);
    }
    any.then(|| hex(&hasher.finalize(), 64))
}

fn container_needs(
    container: &Container,
    lasting: bool,
    volumes: &BTreeMap<&str, &Volume>,
    needs: &mut BTreeMap<String, SecretNeed>,
) {
    let mut need = |name: &str, keys: Vec<String>, optional: Option<bool>| {
        let need: &mut SecretNeed = needs.entry(name.to_owned()).or_default();
        need.lasting |= lasting;
        if optional != Some(true) {
            need.required = true;
            need.keys.extend(keys);
        }
    };
    for source in container.env_from.iter().flatten().filter_map(|from| from.secret_ref.as_ref()) {
        need(&source.name, Vec::new(), source.optional);
    }
    for key in container.env.iter().flatten().filter_map(secret_key) {
        need(&key.name, vec![key.key.clone()], key.optional);
    }
    for mount in container.volume_mounts.iter().flatten() {
        let Some(volume) = volumes.get(mount.name.as_str()) else { continue };
        if let Some(secret) = &volume.secret
            && let Some(name) = &secret.secret_name
        {
            let keys = secret.items.iter().flatten().map(|item| item.key.clone());
            need(name, keys.collect(), secret.optional);
        }
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for secret in projected.filter_map(|source| source.secret.as_ref()) {
            let keys = secret.items.iter().flatten().map(|item| item.key.clone());
            need(&secret.name, keys.collect(), secret.optional);
        }
    }
}

fn secret_key(variable: &EnvVar) -> Option<&k8s_openapi::api::core::v1::SecretKeySelector> {
    variable.value_from.as_ref()?.secret_key_ref.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodSpec {
        serde_json::from_value(serde_json::json!({
            "initContainers": [{"name": "git", "env": [
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "git", "key": "token"}}}
            ]}],
            "containers": [{"name": "agent",
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "model", "key": "key"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "maybe", "key": "b", "optional": true}}}
                ],
                "envFrom": [{"secretRef": {"name": "all"}}],
                "volumeMounts": [{"name": "files", "mountPath": "/x"}, {"name": "mixed", "mountPath": "/y"}]
            }],
            "volumes": [
                {"name": "files", "secret": {"secretName": "files", "items": [{"key": "k", "path": "p"}]}},
                {"name": "mixed", "projected": {"sources": [{"secret": {"name": "model", "items": [{"key": "ca", "path": "c"}]}}]}},
                {"name": "unused", "secret": {"secretName": "unused"}}
            ]
        }))
        .unwrap()
    }

    #[test]
    fn every_way_to_use_a_secret_is_seen() {
        let needs = needed_secrets(&pod());
        let names: Vec<&str> = needs.keys().map(String::as_str).collect();
        assert_eq!(names, ["all", "files", "git", "maybe", "model"]);
        assert_eq!(needs["model"].keys, BTreeSet::from(["ca".to_owned(), "key".to_owned()]));
        assert!(!needs["maybe"].required && needs["all"].required);
        assert!(!needs["git"].lasting && needs["model"].lasting);
    }

    #[test]
    fn only_a_secret_that_lasts_changes_the_digest() {
        let needs = needed_secrets(&pod());
        let with = |changed: &'static str| {
            digest(&needs, move |name| Some(if name == changed { "2".to_owned() } else { "1".to_owned() }))
        };
        assert_eq!(with("git"), with("nothing"));
        assert_ne!(with("model"), with("nothing"));
        assert_ne!(digest(&needs, |_| None), with("nothing"));
    }

    #[test]
    fn a_fingerprint_changes_with_the_values_and_with_nothing_else() {
        let data = |pairs: &[(&str, &str)]| -> BTreeMap<String, ByteString> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), ByteString((*value).into()))).collect()
        };
        let one = fingerprint("uid", &data(&[("a", "b")]));
        assert_eq!(one, fingerprint("uid", &data(&[("a", "b")])));
        for other in [data(&[("a", "c")]), data(&[("ab", "")]), data(&[("a", "b"), ("c", "")]), data(&[])] {
            assert_ne!(one, fingerprint("uid", &other), "{other:?}");
        }
        assert_ne!(one, fingerprint("other", &data(&[("a", "b")])), "without the key the value cannot be guessed");
    }

    #[test]
    fn what_is_missing_is_named() {
        let needs = needed_secrets(&pod());
        let all = BTreeSet::from(["ca", "k", "key", "token"].map(str::to_owned));
        assert_eq!(trouble(&needs, |_| Some(&all)), None);
        let none = BTreeSet::new();
        let found = |name: &str| match name {
            "model" => Some(&none),
            "git" | "maybe" => None,
            _ => Some(&all),
        };
        let expected = "Secret 'git' does not exist; Secret 'model' has no key 'ca'; Secret 'model' has no key 'key'";
        assert_eq!(trouble(&needs, found).as_deref(), Some(expected));
    }
}
