//! Events: what `kubectl describe pod` tells about trouble. They are written aside; nobody waits for one.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Client, Resource as _,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;

/// Events that wait to be written; more are dropped.
const BACKLOG: usize = 1024;

/// Writes events.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    /// Starts to write events in the name of a node.
    pub(crate) fn start(client: Client, node: &str) -> Self {
        let (sender, mut queue) = mpsc::channel::<(Event, ObjectReference)>(BACKLOG);
        let reporter = Reporter { controller: "kubelet".into(), instance: Some(node.to_owned()) };
        let recorder = Recorder::new(client, reporter);
        tokio::spawn(async move {
            while let Some((event, about)) = queue.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::debug!(%error, reason = %event.reason, "an event was not written");
                }
            }
        });
        Self(sender)
    }

    /// Something a person should look at.
    pub(crate) fn warning(&self, pod: &Pod, reason: &str, note: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: reason.to_owned(),
            secondary: None,
        };
        // Without the version, repetitions of an event are recognised as such.
        let about = ObjectReference { resource_version: None, ..pod.object_ref(&()) };
        if self.0.try_send((event, about)).is_err() {
            tracing::debug!(reason, "too many events: one was dropped");
        }
    }
}
