//! A PersistentVolumeClaim is bound at once: on one machine every claim is a directory that the node makes.
//!
//! Not as on a cluster: there are no PersistentVolumes and no storage classes.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use observe::{Key, Next};
use serde_json::{Value, json};

use super::World;

/// The status of a claim that is bound, if it is not so yet.
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

/// Makes it so.
pub(crate) async fn pass(world: &World, key: &Key) -> Result<Next, kube::Error> {
    let Some(claim) = world.claims.object(key) else { return Ok(Next::Wait) };
    if let Some(status) = bound(&claim) {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(world.client.clone(), &key.namespace);
        let patch = json!({"metadata": {"uid": claim.uid()}, "status": status});
        let made = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        world.claims.learn(made);
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
