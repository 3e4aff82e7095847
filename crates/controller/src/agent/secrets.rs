//! The Secrets that an Agent's Pods need: whether they exist, and whether they changed.

use std::collections::{BTreeMap, BTreeSet};

use domain::workload::secrets::{self, SecretNeed};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};

use crate::shared::{
    Shared,
    dependents::{Dependency, Uses},
};

/// State of the Secrets that Pods need.
pub struct Found {
    /// Changes with every value that needs a new Pod; `None` if there is none.
    pub digest: Option<String>,
    /// A sentence about missing Secrets or keys; `None` if there are none.
    pub trouble: Option<String>,
}

/// The Secrets that Pods of a Deployment need.
pub fn needs(deployment: &Deployment) -> BTreeMap<String, SecretNeed> {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.map(secrets::needed_secrets).unwrap_or_default()
}

/// Reads the Secrets, and adds them to `uses`. Their values do not leave this function.
pub async fn look(
    shared: &Shared,
    namespace: &str,
    needs: &BTreeMap<String, SecretNeed>,
    uses: &mut Uses<'_>,
) -> Result<Found, kube::Error> {
    let mut fingerprints: BTreeMap<&str, String> = BTreeMap::new();
    let mut keys: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for name in needs.keys() {
        uses.add(Dependency::of::<Secret>(namespace, name));
        let Some(secret) = shared.api::<Secret>(namespace).get_opt(name).await? else { continue };
        let data = secret.data.unwrap_or_default();
        fingerprints.insert(name, secrets::fingerprint(&secret.metadata.uid.unwrap_or_default(), &data));
        keys.insert(name, data.into_keys().collect());
    }
    Ok(Found {
        digest: secrets::digest(needs, |name| fingerprints.get(name).cloned()),
        trouble: secrets::trouble(needs, |name| keys.get(name)),
    })
}
