//! Writes the status of a Pod in the background: always the latest, one write at a time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::watch;

/// Bounds of the retry backoff.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Writes the statuses of one Pod. A status that is replaced before it is written is skipped.
#[derive(Debug)]
pub(crate) struct Reporter {
    wanted: watch::Sender<(u64, PodStatus)>,
    written: watch::Receiver<u64>,
}

impl Reporter {
    /// Starts the background task for the Pod with this name and UID.
    pub(crate) fn start(pods: Api<Pod>, name: String, uid: String) -> Self {
        let (wanted, mut next) = watch::channel((0, PodStatus::default()));
        let (done, written) = watch::channel(0);
        tokio::spawn(async move {
            while next.changed().await.is_ok() {
                let (number, status) = next.borrow_and_update().clone();
                write(&pods, &name, &uid, &status, &mut next).await;
                done.send_replace(number);
            }
        });
        Self { wanted, written }
    }

    /// Replaces the status to be written.
    pub(crate) fn report(&self, status: PodStatus) {
        self.wanted.send_modify(|(number, wanted)| {
            *number += 1;
            *wanted = status;
        });
    }

    /// Waits until the latest status is written.
    pub(crate) async fn flush(&mut self) {
        let number = self.wanted.borrow().0;
        // The background task lives as long as this value.
        let _ = self.written.wait_for(|written| *written >= number).await;
    }
}

async fn write(
    pods: &Api<Pod>,
    name: &str,
    uid: &str,
    status: &PodStatus,
    newer: &mut watch::Receiver<(u64, PodStatus)>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        // The API server rejects a patch with another UID than the object's.
        let patch = json!({ "metadata": { "uid": uid }, "status": status });
        match pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return,
            // The Pod is gone or recreated, or the status is invalid.
            Err(kube::Error::Api(refused)) if matches!(refused.code, 400..=428 | 430..=499) => {
                if !matches!(refused.code, 404 | 409) {
                    tracing::warn!(pod = name, error = %refused, "the status of a Pod was rejected");
                }
                return;
            }
            Err(error) => tracing::debug!(pod = name, %error, "cannot write the status of a Pod yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
            _ = newer.changed() => { newer.mark_changed(); return }
        }
    }
}
