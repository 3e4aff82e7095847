//! Secrets and ConfigMaps that a run needs, and which of them are missing.
//!
//! A Pod without one of them waits on its node until the startup timeout, and a repository or document whose Secret is
//! missing is requested anonymously. So the run waits before it takes a slot. Only the names of keys are read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use api::conditions::reasons;
use k8s_openapi::api::core::v1::PodSpec;

use crate::{
    contract::environment::GIT_USERNAME,
    run::progress::HOUSEKEEPER_CONTAINER,
    workload::{contexts::ContextPlan, secrets::needed_secrets, volumes::CA_BUNDLE},
};

/// Keys of a Secret for a repository. One of them is enough.
const GIT_KEYS: &[&str] = &["username", "password", "ssh-privatekey"];
/// Keys of a Secret for a document. One of them is enough.
const URL_KEYS: &[&str] = &["token", "username"];

/// A Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Secret(String),
    ConfigMap(String),
}

impl Holder {
    /// Condition reason for a Task whose reference is missing.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Secret(_) => reasons::SECRET_MISSING,
            Self::ConfigMap(_) => reasons::REFERENCE_NOT_FOUND,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(name) => write!(f, "Secret '{name}'"),
            Self::ConfigMap(name) => write!(f, "ConfigMap '{name}'"),
        }
    }
}

/// What a run needs from an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// All of these keys must exist.
    keys: BTreeSet<String>,
    /// For each user, one of these keys must exist.
    one_of: Vec<(String, &'static [&'static str])>,
}

impl Need {
    /// A sentence about missing keys. `found` are the existing keys; `None` if the object does not exist.
    pub fn missing_from(&self, holder: &Holder, found: Option<&BTreeSet<String>>) -> Option<String> {
        let Some(found) = found else { return Some(format!("{holder} does not exist")) };
        if let Some(key) = self.keys.iter().find(|key| !found.contains(*key)) {
            return Some(format!("{holder} has no key '{key}'"));
        }
        let (who, keys) = self.one_of.iter().find(|(_, keys)| !keys.iter().any(|key| found.contains(*key)))?;
        Some(format!("{holder} has none of the keys {}, one of which {who} needs", keys.join(", ")))
    }
}

/// The needs of a built Pod. The Secret of a context is never optional: without it the context would be requested
/// anonymously, and a wrong answer would be used as the context.
pub fn needs(pod: &PodSpec, contexts: &ContextPlan) -> BTreeMap<Holder, Need> {
    let mut needs: BTreeMap<Holder, Need> = BTreeMap::new();
    for (name, need) in needed_secrets(pod).into_iter().filter(|(_, need)| need.required) {
        needs.entry(Holder::Secret(name)).or_default().keys.extend(need.keys);
    }
    let git = contexts
        .git
        .iter()
        .filter_map(|git| Some((git.secret.clone()?, format!("repository '{}'", git.name), GIT_KEYS)));
    let urls = contexts
        .urls
        .iter()
        .filter_map(|url| Some((url.secret.clone()?, format!("the document for {}", url.target_path), URL_KEYS)));
    // Optional for the container, which cannot name one of several keys; without it the agent would work for nothing.
    let housekeeper = pod.containers.iter().find(|container| container.name == HOUSEKEEPER_CONTAINER);
    let publish = housekeeper.and_then(|container| {
        let login = container.env.iter().flatten().find(|variable| variable.name == GIT_USERNAME)?;
        let secret = login.value_from.as_ref()?.secret_key_ref.as_ref()?;
        Some((secret.name.clone(), "publish".to_owned(), GIT_KEYS))
    });
    for (secret, who, keys) in git.chain(urls).chain(publish) {
        needs.entry(Holder::Secret(secret)).or_default().one_of.push((who, keys));
    }
    let bundle = pod.volumes.iter().flatten().find(|volume| volume.name == CA_BUNDLE);
    if let Some(map) = bundle.and_then(|volume| volume.config_map.as_ref()) {
        let keys = map.items.iter().flatten().map(|item| item.key.clone());
        needs.entry(Holder::ConfigMap(map.name.clone())).or_default().keys.extend(keys);
    }
    needs
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::contexts::{GitMount, GitTarget, UrlFetch};

    /// Objects are `name: keys`; `expected` is what is missing.
    #[track_caller]
    fn check(pod: Value, contexts: &ContextPlan, objects: &[&str], missing: &[&str]) {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let found = |holder: &Holder| {
            let (Holder::Secret(name) | Holder::ConfigMap(name)) = holder;
            let (_, keys) =
                objects.iter().filter_map(|line| line.split_once(':')).find(|(object, _)| object == name)?;
            Some(keys.split_whitespace().map(str::to_owned).collect())
        };
        let found_missing = needs(&pod, contexts)
            .into_iter()
            .filter_map(|(holder, need)| need.missing_from(&holder, found(&holder).as_ref()));
        assert_eq!(found_missing.collect::<Vec<_>>(), missing);
    }

    fn pod() -> Value {
        let variable = |secret: &str, key: &str, optional: bool| json!({"name": "X", "valueFrom": {"secretKeyRef": {"name": secret, "key": key, "optional": optional}}});
        json!({
            "containers": [{"name": "agent", "env": [variable("model", "key", false), variable("maybe", "a", true)]}],
            "volumes": [
                {"name": "ca-bundle", "configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "tls.crt"}]}},
                {"name": "mine", "configMap": {"name": "mine"}},
            ],
        })
    }

    #[test]
    fn what_a_pod_cannot_start_without_is_named() {
        let none = ContextPlan::default();
        check(pod(), &none, &["model: key", "ca: ca.crt"], &[]);
        check(pod(), &none, &["ca: ca.crt"], &["Secret 'model' does not exist"]);
        let both = ["Secret 'model' has no key 'key'", "ConfigMap 'ca' has no key 'ca.crt'"];
        check(pod(), &none, &["model: other", "ca: other"], &both);
    }

    #[test]
    fn the_secret_of_publish_must_have_a_key_that_is_of_use() {
        let login = |key: &str| {
            json!({"name": format!("GIT_{}", key.to_uppercase()),
            "valueFrom": {"secretKeyRef": {"name": "push", "key": key, "optional": true}}})
        };
        let env = [login("username"), login("password")];
        let pod = json!({"containers": [{"name": "agent"}, {"name": "housekeeper", "env": env}]});
        let none = ContextPlan::default();
        check(pod.clone(), &none, &["push: password"], &[]);
        check(pod.clone(), &none, &[], &["Secret 'push' does not exist"]);
        let useless =
            "Secret 'push' has none of the keys username, password, ssh-privatekey, one of which publish needs";
        check(pod, &none, &["push: token"], &[useless]);
    }

    #[test]
    fn a_secret_that_a_context_names_must_have_a_key_that_is_of_use() {
        let git = GitMount {
            name: "code".into(),
            repository: "https://git.example/x".into(),
            reference: "main".into(),
            depth: 1,
            recurse_submodules: false,
            secret: Some("login".into()),
            target: GitTarget::Parts(Vec::new()),
            optional: true,
            sync: None,
            of_task: false,
        };
        let url = UrlFetch {
            source: "https://docs.example/x".into(),
            target_path: "/workspace/x.md".into(),
            headers: BTreeMap::new(),
            secret: Some("wiki".into()),
            insecure: false,
            timeout: 1,
            max_bytes: None,
            mode: None,
            optional: false,
        };
        let contexts = ContextPlan { git: vec![git], urls: vec![url], ..ContextPlan::default() };
        let pod = json!({"containers": []});
        check(pod.clone(), &contexts, &["login: ssh-privatekey", "wiki: token"], &[]);
        check(pod.clone(), &contexts, &["login: username", "wiki: username password"], &[]);
        check(pod.clone(), &contexts, &[], &["Secret 'login' does not exist", "Secret 'wiki' does not exist"]);
        let useless = [
            "Secret 'login' has none of the keys username, password, ssh-privatekey, one of which repository 'code' needs",
            "Secret 'wiki' has none of the keys token, username, one of which the document for /workspace/x.md needs",
        ];
        check(pod, &contexts, &["login: ssh", "wiki: password"], &useless);
    }
}
