//! Starting the containers of a Pod.

use std::sync::{Arc, PoisonError};

use jiff::Timestamp;

use super::{
    Event, RETRY, Worker,
    ending::not_started,
    launch::{Launch, identity},
};
use crate::{
    environment::Environment,
    facts::Facts,
    inside::{Init, Start},
    journal::Entry,
    life::{self, State},
    objects::References,
};

impl Worker {
    /// Starts a container, or says why it has to wait. True if it came to its end by that.
    pub(super) async fn start(&mut self, index: usize, now: Timestamp) -> bool {
        if let Some(at) = self.slots[index].not_before.filter(|at| *at > now) {
            self.back_off(index, at);
            return false;
        }
        if self.live[index].retry_at.is_some_and(|at| at > now) {
            return false;
        }
        let image = match self.node.images.find(&self.images[index]) {
            Ok(image) => image,
            Err(error) => {
                self.wait(index, "ErrImagePull", &error.to_string());
                return false;
            }
        };
        let slot = &self.slots[index];
        let ran_before = slot.state.ended().is_some() || slot.last.is_some();
        let run = slot.restarts + u32::from(ran_before);
        let init = match self.build(index, run, &image).await {
            Ok(init) => init,
            Err(problem) => {
                self.wait(index, "CreateContainerConfigError", &problem);
                self.live[index].retry_at = Some(now + RETRY);
                return false;
            }
        };
        self.live[index].retry_at = None;
        let slot = &mut self.slots[index];
        if let State::Ended(ended) = &slot.state {
            slot.last = Some(ended.clone());
        }
        (slot.restarts, slot.not_before, slot.state) = (run, None, State::Starting);
        match self.launch(index, run, init).await {
            Ok(()) => false,
            Err(error) => {
                let ended = not_started(format!("cannot start the container: {error}"));
                self.write_down(&Entry::End { container: self.slots[index].name.clone(), run, ended: ended.clone() });
                life::note_end(&mut self.slots[index], ended);
                true
            }
        }
    }

    /// It ended too often lately.
    fn back_off(&mut self, index: usize, until: Timestamp) {
        let slot = &mut self.slots[index];
        let State::Ended(ended) = &slot.state else { return };
        let wait = until.duration_since(ended.finished_at).as_secs();
        let message = format!(
            "back-off {wait}s restarting failed container={} pod={}_{}({})",
            slot.name, self.handle.name, self.handle.namespace, self.handle.uid
        );
        slot.last = Some(ended.clone());
        slot.state = State::Waiting { reason: "CrashLoopBackOff".to_owned(), message: Some(message.clone()) };
        self.complain("BackOff", &message);
    }

    fn wait(&mut self, index: usize, reason: &str, message: &str) {
        let slot = &mut self.slots[index];
        if let State::Ended(ended) = &slot.state {
            slot.last = Some(ended.clone());
        }
        slot.state = State::Waiting { reason: reason.to_owned(), message: Some(message.to_owned()) };
        self.complain("Failed", message);
    }

    /// What the process of the container is told. The error is for people.
    async fn build(&mut self, index: usize, run: u32, image: &crate::images::Image) -> Result<Init, String> {
        let container = &self.containers[index];
        let identity = identity(&self.pod, container, image)?;
        let references = References::of_container(container);
        let objects = references.read(&self.node.client, &self.handle.namespace).await;
        let objects = objects.map_err(|error| error.to_string())?;
        let facts = Facts { pod: &self.pod, address: self.address, host: self.node.host, machine: self.node.machine };
        let environment = Environment::of(container, &facts, &objects).map_err(|error| error.to_string())?;
        let volumes = self.volumes.mounts(container, &environment).map_err(|error| error.to_string())?;
        let launch = Launch {
            pod: &self.pod,
            container,
            image,
            environment: &environment,
            identity,
            volumes,
            run,
            address: self.address,
            switch_user: !self.node.helper.user_namespace,
        };
        launch.prepare(&self.directories).map_err(|error| error.to_string())
    }

    async fn launch(&mut self, index: usize, run: u32, init: Init) -> std::io::Result<()> {
        let name = self.slots[index].name.clone();
        // On disk before anything runs: whoever comes after us knows that this may have run.
        let (journal, entry) = (Arc::clone(&self.journal), Entry::Start { container: name.clone(), run });
        let written = tokio::task::spawn_blocking(move || {
            journal.lock().unwrap_or_else(PoisonError::into_inner).write_durably(&entry)
        });
        written.await.map_err(std::io::Error::other)??;
        let log = self.logs[index].begin(run)?;
        if let Some(container) = self.handle.containers().get_mut(&name) {
            container.run = Some(run);
        }
        let process = Arc::new(init.process.clone());
        let events = self.handle.events();
        let tell = move |happened| {
            // A Pod that has ended does not listen.
            let _ = events.send(Event::Container { slot: index, run, happened });
        };
        let start = Start { user_namespace: self.node.helper.user_namespace, init };
        self.live[index].running = Some(self.node.helper.start(start, log, tell)?);
        self.live[index].process = Some(process);
        Ok(())
    }
}
