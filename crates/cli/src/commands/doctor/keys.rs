//! Whether the Secrets that models, Agents and templates need exist. Their values are never read.

use std::collections::BTreeSet;

use api::{Agent, AgentTemplate, ModelProvider};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};

use super::{finding::Finding, listed};
use crate::commands::connect::Cluster;

/// A Secret that an object refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Needed {
    secret: String,
    /// `None` for any key.
    key: Option<String>,
    /// The object that refers to it.
    by: String,
}

/// State of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    There,
    Missing,
    KeyMissing,
    Hidden,
}

/// Checks every Secret that a ModelProvider, an Agent or a template of the namespace refers to.
pub async fn examine(cluster: &Cluster, agents: &[Agent], templates: &[AgentTemplate]) -> Vec<Finding> {
    let providers = listed(cluster.api::<ModelProvider>()).await;
    let needed = needed(&providers, agents, templates);
    let secrets: Api<Secret> = cluster.api();
    let mut found = Vec::new();
    for one in needed {
        let state = match secrets.get_opt(&one.secret).await {
            Ok(None) => State::Missing,
            Ok(Some(secret)) => match &one.key {
                Some(key) if !secret.data.unwrap_or_default().contains_key(key) => State::KeyMissing,
                _ => State::There,
            },
            Err(_) => State::Hidden,
        };
        found.push((one, state));
    }
    judge(&found, &cluster.namespace)
}

fn needed(providers: &[ModelProvider], agents: &[Agent], templates: &[AgentTemplate]) -> BTreeSet<Needed> {
    let mut all = BTreeSet::new();
    for provider in providers {
        let by = format!("ModelProvider '{}'", provider.name_any());
        let headers = provider.spec.headers_from.iter().flatten().map(|header| &header.secret_key_ref);
        for secret in provider.spec.api_key_secret_ref.iter().chain(headers) {
            all.insert(Needed { secret: secret.name.clone(), key: Some(secret.key.clone()), by: by.clone() });
        }
    }
    let agents = agents.iter().map(|agent| (format!("Agent '{}'", agent.name_any()), &agent.spec.settings));
    let templates =
        templates.iter().map(|template| (format!("AgentTemplate '{}'", template.name_any()), &template.spec.settings));
    for (by, settings) in agents.chain(templates) {
        for secret in settings.credentials.iter().flatten().map(|credential| &credential.secret_ref) {
            all.insert(Needed { secret: secret.name.clone(), key: secret.key.clone(), by: by.clone() });
        }
    }
    all
}

fn judge(found: &[(Needed, State)], namespace: &str) -> Vec<Finding> {
    if found.is_empty() {
        return vec![Finding::ok("model keys", format!("nothing in namespace {namespace} names a Secret"))];
    }
    let mut findings = Vec::new();
    let there = found.iter().filter(|(_, state)| *state == State::There).count();
    if there > 0 {
        findings.push(Finding::ok("model keys", format!("{there} of {} Secrets are there", found.len())));
    }
    for (needed, state) in found {
        let Needed { secret, key, by } = needed;
        let subject = "model keys";
        match (state, key) {
            (State::There, _) => {}
            (State::Hidden, _) => findings.push(
                Finding::ok(subject, format!("Secret '{secret}', which {by} needs, cannot be looked at"))
                    .warn(format!("ask a person with access: kubectl get secret {secret} -n {namespace}")),
            ),
            (State::KeyMissing, Some(key)) => findings.push(
                Finding::ok(subject, format!("Secret '{secret}', which {by} needs, has no key '{key}'"))
                    .fail(format!("add the key, or correct the reference of {by}")),
            ),
            (State::Missing | State::KeyMissing, key) => {
                let literal = key.as_deref().unwrap_or("KEY");
                findings.push(
                    Finding::ok(subject, format!("Secret '{secret}', which {by} needs, does not exist")).fail(format!(
                        "kubectl create secret generic {secret} -n {namespace} --from-literal={literal}=…"
                    )),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::finding::show, *};
    use crate::commands::screen::Screen;

    #[test]
    fn every_secret_that_is_named_is_looked_for_once() {
        let provider: ModelProvider = serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1",
            "kind": "ModelProvider", "metadata": {"name": "p"}, "spec": {"type": "openai",
                "apiKeySecretRef": {"name": "a", "key": "k"},
                "headersFrom": [{"name": "X-A", "secretKeyRef": {"name": "a", "key": "k"}}]}}))
        .unwrap();
        let agent: Agent = serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
            "metadata": {"name": "dev"}, "spec": {"credentials": [{"name": "c", "secretRef": {"name": "b"}}]}}))
        .unwrap();
        let template: AgentTemplate = serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1",
            "kind": "AgentTemplate", "metadata": {"name": "base"},
            "spec": {"credentials": [{"name": "c", "secretRef": {"name": "gone", "key": "k"}}]}}))
        .unwrap();
        let found = needed(&[provider], &[agent], &[template]);
        let names: Vec<_> = found.iter().map(|one| format!("{} {:?} {}", one.secret, one.key, one.by)).collect();
        assert_eq!(
            names,
            ["a Some(\"k\") ModelProvider 'p'", "b None Agent 'dev'", "gone Some(\"k\") AgentTemplate 'base'"]
        );
    }

    #[test]
    fn a_missing_secret_is_reported_with_the_command_that_creates_it() {
        let one = |secret: &str| Needed {
            secret: secret.into(),
            key: Some("api-key".into()),
            by: "ModelProvider 'p'".into(),
        };
        let found = [
            (one("a"), State::There),
            (one("b"), State::Missing),
            (one("c"), State::KeyMissing),
            (one("d"), State::Hidden),
        ];
        insta::assert_snapshot!(show(&judge(&found, "team"), &Screen::default()), @r"
        ok    model keys: 1 of 4 Secrets are there
        fail  model keys: Secret 'b', which ModelProvider 'p' needs, does not exist
              fix: kubectl create secret generic b -n team --from-literal=api-key=…
        fail  model keys: Secret 'c', which ModelProvider 'p' needs, has no key 'api-key'
              fix: add the key, or correct the reference of ModelProvider 'p'
        warn  model keys: Secret 'd', which ModelProvider 'p' needs, cannot be looked at
              fix: ask a person with access: kubectl get secret d -n team
        ");
        assert_eq!(
            show(&judge(&[], "team"), &Screen::default()),
            "ok    model keys: nothing in namespace team names a Secret\n"
        );
    }
}
