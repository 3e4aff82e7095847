//! PersistentVolumeClaims are bound at once: on one machine every claim is a directory that the node creates.
//!
//! Unlike on a cluster, there are no PersistentVolumes and no storage classes.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use crate::Shared;

/// The patch that marks a claim as bound, unless it is bound already.
fn bound(claim: &PersistentVolumeClaim) -> Option<Value> {
    let status = claim.status.as_ref();
    let spec = claim.spec.as_ref()?;
    let wanted = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let is_bound = status.and_then(|status| status.phase.as_deref()) == Some("Bound");
    if claim.metadata.deletion_timestamp.is_some() || is_bound && status.and_then(|s| s.capacity.as_ref()) == wanted {
        return None;
    }
    Some(json!({"phase": "Bound", "accessModes": spec.access_modes, "capacity": wanted}))
}

pub(crate) async fn reconcile(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let Some(claim) = shared.claims.object(key) else { return Ok(Next::Wait) };
    if let Some(status) = bound(&claim) {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(shared.client.clone(), &key.namespace);
        let patch = json!({"metadata": {"uid": claim.uid()}, "status": status});
        let made = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        shared.claims.insert_written(made);
    }
    Ok(Next::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_bound_once_with_what_it_asked_for() {
        let claim = |status: Value| -> PersistentVolumeClaim {
            serde_json::from_value(json!({
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                "status": status,
            }))
            .unwrap()
        };
        let status = bound(&claim(json!({"phase": "Pending"}))).unwrap();
        assert_eq!(status, json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}));
        assert_eq!(bound(&claim(status)), None);
    }
}
