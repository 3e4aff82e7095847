//! The PersistentVolumeClaim of a single run: deleted when the run is over, unless the run failed and its terms retain it.

use api::Task;
use domain::run::{
    terms::RunTerms,
    workspace::{Afterwards, afterwards},
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};

use crate::shared::{Shared, apply::controller_uid};

/// Deletes or keeps the claim of a run that is over. An error is reported and not retried: Kubernetes deletes the claim
/// with the Pod.
pub async fn ended(shared: &Shared, task: &Task, terms: &RunTerms, pod: &Pod, failed: bool) {
    match afterwards(pod, terms.retain_workspace, failed) {
        Afterwards::Nothing => {}
        Afterwards::Keep(claim) => {
            let note =
                format!("the files of the failed run are in PersistentVolumeClaim '{claim}' until the Task is deleted");
            shared.telemetry.events.normal(task, "WorkspaceRetained", note);
        }
        Afterwards::Free(claim) => {
            if let Err(error) = free(shared, pod, &claim).await {
                let note = format!("PersistentVolumeClaim '{claim}' stays until the Task is deleted: {error}");
                shared.telemetry.events.warning(task, "WorkspaceNotFreed", note);
            }
        }
    }
}

/// Deletes a claim if the Pod owns it. A claim of that name with another owner stays.
async fn free(shared: &Shared, pod: &Pod, claim: &str) -> Result<(), kube::Error> {
    let claims = shared.api::<PersistentVolumeClaim>(&pod.namespace().unwrap_or_default());
    let Some(found) = claims.get_metadata_opt(claim).await? else { return Ok(()) };
    if found.metadata.deletion_timestamp.is_some() || controller_uid(&found) != pod.metadata.uid.as_deref() {
        return Ok(());
    }
    let preconditions = Some(Preconditions { uid: found.uid(), resource_version: None });
    match claims.delete(claim, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}
