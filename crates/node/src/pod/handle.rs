//! What the rest of the node knows of a Pod.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::mpsc, time::Instant};

use super::Event;
use crate::{logs::Log, runtime::Target};

/// A container of a Pod.
#[derive(Clone, Debug)]
pub(crate) struct ContainerHandle {
    /// What it printed.
    pub(crate) log: Arc<Log>,
    /// Its last run.
    pub(crate) run: Option<u32>,
    /// Where commands are run, while it runs.
    pub(crate) target: Option<Target>,
}

/// A Pod that lives here.
#[derive(Debug)]
pub(crate) struct PodHandle {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    /// When it was taken: of two with the same name, the later one is meant.
    pub(crate) taken: Instant,
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
        Self { uid, namespace, name, address, taken: Instant::now(), events, containers: Mutex::new(containers) }
    }

    /// Tells the Pod something. False if it is over and nobody listens.
    pub(crate) fn tell(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// Whether the Pod is over, so that only its log and its record are left.
    pub(crate) fn rests(&self) -> bool {
        self.events.is_closed()
    }

    /// How to tell it something from elsewhere.
    pub(crate) fn events(&self) -> mpsc::UnboundedSender<Event> {
        self.events.clone()
    }

    /// Its containers by name.
    pub(crate) fn containers(&self) -> MutexGuard<'_, HashMap<String, ContainerHandle>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A container.
    pub(crate) fn container(&self, name: &str) -> Option<ContainerHandle> {
        self.containers().get(name).cloned()
    }
}
