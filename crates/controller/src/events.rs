//! Events: what `kubectl describe` tells a person about an object.
//!
//! They are written aside, one after the other. A reconciler never waits for one, and a flood of them is cut rather than
//! kept in memory.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource, ResourceExt as _,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc;

/// Events that wait to be written; more are dropped.
const BACKLOG: usize = 1024;

/// Writes events. Clones share the queue.
#[derive(Clone)]
pub struct Events(mpsc::Sender<(Event, ObjectReference)>);

impl Events {
    /// Starts to write events in the name of `instance`.
    pub fn start(client: Client, instance: String) -> Self {
        let (sender, mut queue) = mpsc::channel::<(Event, ObjectReference)>(BACKLOG);
        let reporter = Reporter { controller: "kubeopencode".into(), instance: Some(instance) };
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

    /// Something went as it should.
    pub fn normal(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Normal, about, reason, note.into());
    }

    /// Something a person should look at.
    pub fn warning(&self, about: &impl Resource<DynamicType = ()>, reason: &str, note: impl Into<String>) {
        self.send(EventType::Warning, about, reason, note.into());
    }

    fn send(&self, type_: EventType, about: &impl Resource<DynamicType = ()>, reason: &str, note: String) {
        let event = Event { type_, reason: reason.into(), note: Some(note), action: reason.into(), secondary: None };
        let mut reference = about.object_ref(&());
        // Without the version, repetitions of an event are recognised as such.
        reference.resource_version = None;
        if self.0.try_send((event, reference)).is_err() {
            tracing::debug!(object = %about.name_any(), reason, "too many events: one was dropped");
        }
    }
}
