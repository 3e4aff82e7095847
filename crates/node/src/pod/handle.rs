//! The node's handle of a Pod worker.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::mpsc, time::Instant};

use super::Event;
use crate::{logs::Log, runtime::Target};

#[derive(Clone, Debug)]
pub(crate) struct ContainerHandle {
    pub(crate) log: Arc<Log>,
    /// The number of the last run.
    pub(crate) run: Option<u32>,
    /// Where commands are executed, while the container runs.
    pub(crate) target: Option<Target>,
}

#[derive(Debug)]
pub(crate) struct PodHandle {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    /// When the worker started: of two Pods with the same name, the later one is used.
    pub(crate) started: Instant,
    events: mpsc::UnboundedSender<Event>,
    containers: Mutex<HashMap<String, ContainerHandle>>,
}

impl PodHandle {
    pub(crate) fn new(
        uid: String,
        namespace: String,
        name: String,
        address: Ipv4Addr,
        events: mpsc::UnboundedSender<Event>,
        containers: HashMap<String, ContainerHandle>,
    ) -> Self {
        Self { uid, namespace, name, address, started: Instant::now(), events, containers: Mutex::new(containers) }
    }

    /// Sends an event to the worker. Returns false if the worker has finished.
    pub(crate) fn send(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// Whether the worker has finished, so that only log and journal are left.
    pub(crate) fn is_finished(&self) -> bool {
        self.events.is_closed()
    }

    /// A sender for background tasks.
    pub(crate) fn events(&self) -> mpsc::UnboundedSender<Event> {
        self.events.clone()
    }

    pub(crate) fn containers(&self) -> MutexGuard<'_, HashMap<String, ContainerHandle>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn container(&self, name: &str) -> Option<ContainerHandle> {
        self.containers().get(name).cloned()
    }
}
