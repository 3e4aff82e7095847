//! Starting the containers of a Pod.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{
    Event, RETRY, Worker,
    launch::{Launch, identity, security},
    termination::not_started,
};
use crate::{
    pod::{downward_api::DownwardApi, environment::Environment, journal::Entry, lifecycle::State, objects::References},
    process::limits::Limits,
    runtime::{Ready, Runtime, engine::Found, images::Image},
};

impl Worker {
    /// Starts a container, or sets its waiting reason. Returns true if the start failed and the container has
    /// terminated.
    pub(super) async fn start(&mut self, index: usize, now: Timestamp) -> bool {
        if let Some(at) = self.slots[index].not_before.filter(|at| *at > now) {
            self.back_off(index, at);
            return false;
        }
        if self.live[index].retry_at.is_some_and(|at| at > now) {
            return false;
        }
        let image = match self.image(index).await {
            Ok(image) => image,
            Err((reason, problem)) => {
                self.wait(index, reason, &problem);
                // An engine may pull the image later. A missing program on this machine stays missing.
                self.live[index].retry_at = self.node.runtime.engine().map(|_| now + RETRY);
                return false;
            }
        };
        let slot = &self.slots[index];
        let ran_before = slot.state.ended().is_some() || slot.last.is_some();
        let run = slot.restarts + u32::from(ran_before);
        let ready = match self.build(index, run, &image).await {
            Ok(ready) => ready,
            Err(problem) => {
                self.wait(index, "CreateContainerConfigError", &problem);
                self.live[index].retry_at = Some(now + RETRY);
                return false;
            }
        };
        self.live[index].retry_at = None;
        self.emit_pulled(index);
        let slot = &mut self.slots[index];
        if let State::Terminated(ended) = &slot.state {
            slot.last = Some(ended.clone());
        }
        (slot.restarts, slot.not_before, slot.state) = (run, None, State::Starting);
        match self.launch(index, run, ready).await {
            Ok(()) => false,
            Err(error) => {
                self.ended(index, run, not_started(format!("cannot start the container: {error}")));
                true
            }
        }
    }

    /// Sets the waiting reason CrashLoopBackOff.
    fn back_off(&mut self, index: usize, until: Timestamp) {
        let slot = &mut self.slots[index];
        let State::Terminated(ended) = &slot.state else { return };
        let wait = until.duration_since(ended.finished_at).as_secs();
        let message = format!(
            "back-off {wait}s restarting failed container={} pod={}_{}({})",
            slot.name, self.handle.name, self.handle.namespace, self.handle.uid
        );
        slot.last = Some(ended.clone());
        slot.state = State::Waiting { reason: "CrashLoopBackOff".to_owned(), message: Some(message.clone()) };
        self.warn_once(Some(index), "BackOff", &message);
    }

    fn wait(&mut self, index: usize, reason: &str, message: &str) {
        let slot = &mut self.slots[index];
        if let State::Terminated(ended) = &slot.state {
            slot.last = Some(ended.clone());
        }
        slot.state = State::Waiting { reason: reason.to_owned(), message: Some(message.to_owned()) };
        self.warn_once(Some(index), "Failed", message);
    }

    /// Resolves the image. The error is a reason and a message.
    async fn image(&self, index: usize) -> Result<Found, (&'static str, String)> {
        let (container, name) = (&self.containers[index], &self.images[index]);
        match &self.node.runtime {
            Runtime::Engine(engine) => engine.image(name, container.image_pull_policy.as_deref()).await,
            Runtime::Processes(_) => match self.node.images.find(name) {
                Ok(image) => Ok(Found { image, user_name: None }),
                Err(error) => Err(("ErrImagePull", error.to_string())),
            },
        }
    }

    /// Builds the start parameters. The error is a message for events.
    async fn build(&mut self, index: usize, run: u32, found: &Found) -> Result<Ready, String> {
        let container = &self.containers[index];
        let image = known_user(found, &self.pod, container)?;
        let identity = identity(&self.pod, container, &image)?;
        let security = security(&self.pod, container, &identity);
        let references = References::of_container(container);
        let objects = references.read(&self.node.client, &self.handle.namespace).await;
        let objects = objects.map_err(|error| error.to_string())?;
        let facts =
            DownwardApi { pod: &self.pod, address: self.address, host: self.node.host, machine: self.node.machine };
        let environment = Environment::of(container, &facts, &objects).map_err(|error| error.to_string())?;
        let volumes = self.volumes.mounts(container, &environment).map_err(|error| error.to_string())?;
        let launch = Launch {
            pod: &self.pod,
            container,
            image: &image,
            environment: &environment,
            identity,
            volumes,
            run,
            address: self.address,
            switch_user: self.node.is_root,
            engine: self.node.runtime.engine().is_some(),
        };
        let init = launch.prepare(&self.directories).map_err(|error| error.to_string())?;
        let name = format!("{}-{}-{run}", self.handle.uid, container.name);
        let image = self.images[index].clone();
        Ok(Ready { name, image, init, limits: Limits::of(container), security })
    }

    async fn launch(&mut self, index: usize, run: u32, ready: Ready) -> std::io::Result<()> {
        let name = self.slots[index].name.clone();
        // On disk before the container runs: the next node must know that it may have run.
        let (journal, entry) = (Arc::clone(&self.journal), Entry::Start { container: name.clone(), run });
        let written = tokio::task::spawn_blocking(move || {
            journal.lock().unwrap_or_else(PoisonError::into_inner).write_durably(&entry)
        });
        written.await.map_err(std::io::Error::other)??;
        let log = self.logs[index].begin(run)?;
        if let Some(container) = self.handle.containers().get_mut(&name) {
            container.run = Some(run);
        }
        let events = self.handle.events();
        let on_event = move |event| {
            // The worker may have finished.
            let _ = events.send(Event::Container { slot: index, run, event });
        };
        self.live[index].running = Some(self.node.runtime.start(ready, log, on_event)?);
        Ok(())
    }
}

/// The image; an error if runAsNonRoot is set and the numeric user is unknown.
fn known_user(found: &Found, pod: &Pod, container: &Container) -> Result<Image, String> {
    let whole = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let guarded = own.run_as_non_root.or(whole.run_as_non_root).unwrap_or_default();
    match &found.user_name {
        Some(name) if guarded && own.run_as_user.or(whole.run_as_user).is_none() => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        )),
        _ => Ok(found.image.clone()),
    }
}
