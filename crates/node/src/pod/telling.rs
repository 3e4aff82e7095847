//! What people are told of a Pod while it lives.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;

use super::Worker;
use crate::{events::Weight, life::Role, runtime::Runtime, status::Over};

impl Worker {
    /// Says that something happens to a container as it should.
    pub(super) fn tell(&self, index: usize, reason: &str, message: &str) {
        self.node.events.say(Weight::Normal, self.part(index), reason, message);
    }

    /// Says that something is wrong with a container.
    pub(super) fn warn(&self, index: usize, reason: &str, message: &str) {
        self.node.events.say(Weight::Warning, self.part(index), reason, message);
    }

    /// Says once what keeps the Pod, or one of its containers, from going on.
    pub(super) fn complain(&mut self, container: Option<usize>, reason: &str, problem: &str) {
        let complaint = format!("{reason}: {problem}");
        if self.complaint.as_ref() == Some(&complaint) {
            return;
        }
        match container {
            Some(index) => self.warn(index, reason, problem),
            None => self.node.events.warning(&self.pod, reason, problem),
        }
        self.complaint = Some(complaint);
    }

    /// Says why the Pod failed, where that is not what its containers did.
    pub(super) fn say_why(&self, over: &Over) {
        if let (Some(reason), Some(message)) = (&over.reason, &over.message) {
            self.node.events.warning(&self.pod, reason, message);
        }
    }

    /// Says that the image of a container is there.
    pub(super) fn tell_of_image(&self, index: usize) {
        let image = &self.images[index];
        let message = match &self.node.runtime {
            Runtime::Engine(engine) => format!("Container image {image:?} is present in {engine}"),
            Runtime::Processes(_) => format!("Container image {image:?} stands for programs of this machine"),
        };
        self.tell(index, "Pulled", &message);
    }

    /// A container, as events name it.
    fn part(&self, index: usize) -> ObjectReference {
        let slot = &self.slots[index];
        let list = if slot.role == Role::Main { "containers" } else { "initContainers" };
        let field_path = Some(format!("spec.{list}{{{}}}", slot.name));
        ObjectReference { field_path, ..self.pod.object_ref(&()) }
    }
}
