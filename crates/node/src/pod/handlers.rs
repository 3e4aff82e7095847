//! Event handlers of a Pod worker.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Lifecycle, Pod};
use tokio::time::Instant;

use super::{
    Event, Object, Worker,
    termination::{self, Exit, NOT_STARTED, describe, not_started},
};
use crate::{
    logs::last_lines,
    pod::{
        journal::{Entry, Process},
        lifecycle::{self, Role, State},
        probe::{self, Action, Kind, Prober},
    },
    runtime::{ContainerEvent, Target},
};

/// Kubernetes does not limit postStart hooks; this bounds how long a Pod can hang in one.
const HOOK_LIMIT: Duration = Duration::from_mins(10);
/// Maximum length of an error message in an event.
const MAX_ERROR: usize = 400;

impl Worker {
    pub(super) async fn handle(&mut self, event: Event) {
        match event {
            Event::Pod(pod) => self.pod_changed(pod).await,
            Event::Deleted => self.gone = true,
            Event::ObjectChanged(object) => self.object_changed(&object).await,
            Event::Shutdown(grace) => self.shutdown = Some(grace),
            Event::Container { slot, run, event } if self.slots[slot].restarts == run => match event {
                ContainerEvent::Started { target } => self.started(slot, run, target),
                ContainerEvent::Failed { message } => {
                    // The engine writes its error messages to the log.
                    let output = last_lines(&self.logs[slot], run, 1, MAX_ERROR);
                    let message = if output.is_empty() { message } else { format!("{message}: {}", output.trim_end()) };
                    self.ended(slot, run, not_started(message));
                }
                ContainerEvent::Exited { code, signal, out_of_memory } => {
                    let started_at = self.live[slot].started_at;
                    let (container, log) = (&self.containers[slot], &self.logs[slot]);
                    let exit = Exit { code, signal, out_of_memory };
                    let mut ended = describe(container, run, exit, started_at, &self.directories, log);
                    ended.shorten_message(self.containers.len());
                    self.ended(slot, run, ended);
                }
            },
            Event::HookFinished { slot, run, outcome } if self.slots[slot].restarts == run => match outcome {
                Ok(()) => self.hooked(slot),
                Err(problem) => {
                    self.warn(slot, "FailedPostStartHook", &problem);
                    let message = format!("Container {} failed its postStart hook", self.slots[slot].name);
                    self.stop(slot, self.grace(None), &message);
                }
            },
            Event::ProbeChanged { slot, run, kind, answer } if self.slots[slot].restarts == run => {
                self.probed(slot, kind, answer);
            }
            // Events of an earlier run.
            Event::Container { .. } | Event::HookFinished { .. } | Event::ProbeChanged { .. } => {}
        }
    }

    async fn pod_changed(&mut self, pod: Arc<Pod>) {
        let shown = |pod: &Pod| (pod.metadata.labels.clone(), pod.metadata.annotations.clone());
        let new_facts = shown(&pod) != shown(&self.pod);
        self.pod = pod;
        if new_facts && self.prepared {
            self.refresh().await;
        }
    }

    async fn object_changed(&mut self, object: &Object) {
        let ours = match object {
            Object::ConfigMap(name) => self.references.config_maps.contains(name),
            Object::Secret(name) => self.references.secrets.contains(name),
        };
        if !ours || self.over.is_some() {
            return;
        }
        // A missing object may exist now.
        self.retry_at = None;
        for live in &mut self.live {
            live.retry_at = None;
        }
        if self.prepared {
            self.refresh().await;
        }
    }

    /// Updates the volumes. A volume whose object cannot be read keeps its content.
    pub(super) async fn refresh(&mut self) {
        if self.over.is_none()
            && let Err(problem) = self.update_volumes().await
        {
            self.warn_once(None, "FailedMount", &problem);
        }
    }

    fn started(&mut self, index: usize, run: u32, target: Target) {
        let now = Timestamp::now();
        let name = self.slots[index].name.clone();
        // Containers of an engine are found by label instead.
        if let Target::Process(inside) = &target
            && let Some(process) = Process::now(inside.pid)
        {
            self.journal_entry(&Entry::Process { container: name.clone(), run, process });
        }
        self.slots[index].state = State::Running { since: now };
        self.live[index].started_at = Some(now);
        self.emit(index, "Started", &format!("Started container {name}"));
        if let Some(container) = self.handle.containers().get_mut(&name) {
            container.target = Some(target);
        }
        let hook = self.lifecycle(index).and_then(|lifecycle| lifecycle.post_start);
        match (hook, self.prober(index)) {
            (Some(hook), Some(prober)) => {
                let action = Action::of_hook(&hook, &self.containers[index], self.address);
                let events = self.handle.events();
                let task = tokio::spawn(async move {
                    let outcome = prober.execute(&action, HOOK_LIMIT).await;
                    // The worker may have finished.
                    let _ = events.send(Event::HookFinished { slot: index, run, outcome });
                });
                self.live[index].tasks.push(task.abort_handle());
            }
            _ => self.hooked(index),
        }
    }

    fn lifecycle(&self, index: usize) -> Option<Lifecycle> {
        let plain = self.slots[index].role == Role::Init;
        self.containers[index].lifecycle.clone().filter(|_| !plain)
    }

    fn prober(&self, index: usize) -> Option<Prober> {
        let target = self.handle.container(&self.slots[index].name)?.target?;
        Some(Prober { runtime: self.node.runtime.clone(), target })
    }

    /// The postStart hook is done; start the probes.
    fn hooked(&mut self, index: usize) {
        if self.slots[index].role == Role::Init {
            return;
        }
        if !self.watch(index, Kind::Startup) {
            self.is_up(index);
        }
    }

    fn is_up(&mut self, index: usize) {
        self.slots[index].started = true;
        self.slots[index].ready = !self.watch(index, Kind::Readiness);
        self.watch(index, Kind::Liveness);
    }

    /// Starts a probe. Returns false if the container has none of this kind.
    fn watch(&mut self, index: usize, kind: Kind) -> bool {
        let Some(probe) = kind.of(&self.containers[index]).cloned() else { return false };
        let Some(prober) = self.prober(index) else { return false };
        let action = Action::of_probe(&probe, &self.containers[index], self.address);
        let (events, run) = (self.handle.events(), self.slots[index].restarts);
        let on_change = move |answer| {
            // The worker may have finished.
            let _ = events.send(Event::ProbeChanged { slot: index, run, kind, answer });
        };
        let task = tokio::spawn(probe::watch(prober, probe, action, kind, on_change));
        self.live[index].tasks.push(task.abort_handle());
        true
    }

    fn probed(&mut self, index: usize, kind: Kind, answer: Result<(), String>) {
        if let Err(problem) = &answer {
            let note = format!("{} probe failed: {problem}", kind.title());
            self.warn(index, "Unhealthy", &note);
        }
        match (kind, answer) {
            (Kind::Readiness, answer) => self.slots[index].ready = answer.is_ok(),
            (Kind::Startup, Ok(())) => self.is_up(index),
            (Kind::Liveness, Ok(())) => {}
            (Kind::Startup | Kind::Liveness, Err(_)) => {
                let probe = kind.of(&self.containers[index]);
                let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
                let own = own.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
                let (name, word) = (&self.slots[index].name, kind.title().to_lowercase());
                let message = format!("Container {name} failed its {word} probe");
                self.stop(index, own.unwrap_or_else(|| self.grace(None)), &message);
            }
        }
    }

    /// Stops a container within a grace period. A second call can only shorten the period.
    pub(super) fn stop(&mut self, index: usize, grace: Duration, why: &str) {
        let deadline = Instant::now() + grace;
        if self.live[index].stop.as_ref().is_some_and(|(until, _)| *until <= deadline) {
            return;
        }
        let Some(running) = self.live[index].running.clone() else { return };
        let again = self.live[index].stop.take();
        let hook = self.lifecycle(index).and_then(|lifecycle| lifecycle.pre_stop).filter(|_| again.is_none());
        let hook = hook.and_then(|hook| {
            Some((self.prober(index)?, Action::of_hook(&hook, &self.containers[index], self.address)))
        });
        match again {
            Some((_, task)) => task.abort(),
            None => self.emit(index, "Killing", why),
        }
        self.slots[index].ready = false;
        let task = tokio::spawn(termination::stop(running, grace, hook));
        self.live[index].stop = Some((deadline, task.abort_handle()));
    }

    pub(super) fn ended(&mut self, index: usize, run: u32, ended: lifecycle::Terminated) {
        if let (NOT_STARTED, Some(message)) = (ended.reason.as_str(), &ended.message) {
            self.warn(index, "Failed", message);
        }
        let name = self.slots[index].name.clone();
        if let Some(container) = self.handle.containers().get_mut(&name) {
            container.target = None;
        }
        self.live[index].end();
        // A container stopped by the shutdown of the node has not finished: the next node reports it as lost.
        if self.shutdown.is_none() {
            self.journal_entry(&Entry::End { container: name, run, ended: ended.clone() });
        }
        lifecycle::record_exit(&mut self.slots[index], ended);
    }
}
