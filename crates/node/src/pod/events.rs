//! Events of a Pod and its containers.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;

use super::Worker;
use crate::{
    pod::lifecycle::Role,
    runtime::Runtime,
    status::{PodOutcome, events::Severity},
};

impl Worker {
    /// Emits a normal event for a container.
    pub(super) fn emit(&self, index: usize, reason: &str, message: &str) {
        self.node.events.emit(Severity::Normal, self.container_reference(index), reason, message);
    }

    /// Emits a warning event for a container.
    pub(super) fn warn(&self, index: usize, reason: &str, message: &str) {
        self.node.events.emit(Severity::Warning, self.container_reference(index), reason, message);
    }

    /// Emits a warning about what blocks the Pod or one of its containers, once.
    pub(super) fn warn_once(&mut self, container: Option<usize>, reason: &str, problem: &str) {
        let last_warning = format!("{reason}: {problem}");
        if self.last_warning.as_ref() == Some(&last_warning) {
            return;
        }
        match container {
            Some(index) => self.warn(index, reason, problem),
            None => self.node.events.warning(&self.pod, reason, problem),
        }
        self.last_warning = Some(last_warning);
    }

    /// Emits the reason of a failed Pod, unless its containers explain it.
    pub(super) fn emit_failure(&self, over: &PodOutcome) {
        if let (Some(reason), Some(message)) = (&over.reason, &over.message) {
            self.node.events.warning(&self.pod, reason, message);
        }
    }

    /// Emits an event that the image of a container is available.
    pub(super) fn emit_pulled(&self, index: usize) {
        let image = &self.images[index];
        let message = match &self.node.runtime {
            Runtime::Engine(engine) => format!("Container image {image:?} is present in {engine}"),
            Runtime::Processes(_) => format!("Container image {image:?} is mapped to programs on this machine"),
        };
        self.emit(index, "Pulled", &message);
    }

    /// The object reference of a container.
    fn container_reference(&self, index: usize) -> ObjectReference {
        let slot = &self.slots[index];
        let list = if slot.role == Role::Main { "containers" } else { "initContainers" };
        let field_path = Some(format!("spec.{list}{{{}}}", slot.name));
        ObjectReference { field_path, ..self.pod.object_ref(&()) }
    }
}
