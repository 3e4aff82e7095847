//! Writing the status of a Pod: always the latest, one write at a time, aside from the life of the Pod.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::sync::watch;

/// Between attempts when the API server does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Writes the statuses of one Pod. What is replaced before it was written is never written.
#[derive(Debug)]
pub(crate) struct Reporter {
    wanted: watch::Sender<(u64, PodStatus)>,
    written: watch::Receiver<u64>,
}

impl Reporter {
    /// Starts to write the status of the Pod with this name and UID, and of no other of the same name.
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

    /// Replaces the status that is to be written.
    pub(crate) fn report(&self, status: PodStatus) {
        self.wanted.send_modify(|(number, wanted)| {
            *number += 1;
            *wanted = status;
        });
    }

    /// Waits until the last status is written.
    pub(crate) async fn flush(&mut self) {
        let number = self.wanted.borrow().0;
        // The writer ends only with us.
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
        // With a UID that is not the object's own, the API server refuses the patch.
        let patch = json!({ "metadata": { "uid": uid }, "status": status });
        match pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return,
            // It is gone, another has its name, or its status cannot be written at all.
            Err(kube::Error::Api(refused)) if matches!(refused.code, 400..=428 | 430..=499) => {
                if !matches!(refused.code, 404 | 409) {
                    tracing::warn!(pod = name, error = %refused, "the status of a Pod was refused");
                }
                return;
            }
            Err(error) => tracing::debug!(pod = name, %error, "the status of a Pod could not be written yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            _ = newer.changed() => { newer.mark_changed(); return }
        }
    }
}
