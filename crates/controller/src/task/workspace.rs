//! The claim that a run had to itself: it goes when the run is over, unless somebody wants to look at what failed.

use api::Task;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use kubeopencode_core::workspace::{Afterwards, afterwards};

use crate::{apply::controller_uid, context::Context};

/// A run is over. Trouble with its claim holds up nobody: Kubernetes deletes it with the Pod at the latest.
pub async fn ended(ctx: &Context, task: &Task, pod: &Pod, failed: bool) {
    let resolved = ctx.resolved(task);
    let settings = resolved.as_ref().map(|resolved| resolved.workspace.clone().unwrap_or_default());
    match afterwards(pod, settings.as_ref(), failed) {
        Afterwards::Nothing => {}
        Afterwards::Keep(claim) => {
            let note =
                format!("the files of the failed run are in PersistentVolumeClaim '{claim}' until the Task is deleted");
            ctx.events.normal(task, "WorkspaceRetained", note);
        }
        Afterwards::Free(claim) => {
            if let Err(error) = free(ctx, pod, &claim).await {
                let note = format!("PersistentVolumeClaim '{claim}' stays until the Task is deleted: {error}");
                ctx.events.warning(task, "WorkspaceNotFreed", note);
            }
        }
    }
}

/// Deletes a claim if it is the Pod's: one of that name that somebody else made stays.
async fn free(ctx: &Context, pod: &Pod, claim: &str) -> Result<(), kube::Error> {
    let claims = ctx.api::<PersistentVolumeClaim>(&pod.namespace().unwrap_or_default());
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
