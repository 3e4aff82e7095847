//! The Secrets that an Agent's Pods need: whether they are there, and whether they changed.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kubeopencode_core::secrets::{self, SecretNeed};

use crate::{
    context::Context,
    parts::{Part, Uses},
};

/// The Secrets that Pods of a Deployment need.
pub fn needs(deployment: &Deployment) -> BTreeMap<String, SecretNeed> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.map(secrets::needed_secrets).unwrap_or_default()
}

/// A digest that changes with the Secrets that need a new Pod. All of them are noted in `uses`.
pub fn digest(
    ctx: &Context,
    namespace: &str,
    needs: &BTreeMap<String, SecretNeed>,
    uses: &mut Uses<'_>,
) -> Option<String> {
    for name in needs.keys() {
        uses.add(Part::of::<Secret>(namespace, name));
    }
    secrets::digest(needs, |name| ctx.parts.version(&Part::of::<Secret>(namespace, name)))
}

/// What is wrong with them, as a sentence. Of a Secret only the names of its keys are looked at.
pub async fn trouble(
    ctx: &Context,
    namespace: &str,
    needs: &BTreeMap<String, SecretNeed>,
) -> Result<Option<String>, kube::Error> {
    let mut troubles = Vec::new();
    for (name, need) in needs.iter().filter(|(_, need)| need.required) {
        if ctx.parts.version(&Part::of::<Secret>(namespace, name)).is_none() {
            troubles.push(format!("Secret '{name}' does not exist"));
        } else if !need.keys.is_empty() {
            let keys = ctx.api::<Secret>(namespace).get_opt(name).await?.and_then(|secret| secret.data);
            let missing = need.keys.iter().filter(|key| !keys.as_ref().is_some_and(|keys| keys.contains_key(*key)));
            troubles.extend(missing.map(|key| format!("Secret '{name}' has no key '{key}'")));
        }
    }
    Ok((!troubles.is_empty()).then(|| troubles.join("; ")))
}
