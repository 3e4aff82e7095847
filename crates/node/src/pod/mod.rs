//! The life of one Pod, from its binding to the removal of its last file.
//!
//! One task a Pod. It hears what happened (the Pod changed, a container ended, a probe failed), asks [`crate::life`] what
//! comes next, does that, and reports what it sees. Nothing is polled.

mod attend;
mod ending;
mod handle;
mod launch;
mod start;
mod telling;

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use tokio::{sync::mpsc, task::AbortHandle, time::Instant};

pub(crate) use handle::{ContainerHandle, PodHandle};
pub(crate) use launch::Security;

use crate::{
    facts::Facts,
    journal::{Entry, History, Journal},
    life::{self, Phase, Restart, Role, Slot},
    logs::Log,
    node::Shared,
    objects::References,
    probe::Kind,
    report::Reporter,
    runtime::{Happened, Running},
    status::{self, Over, View},
    volumes::{Places, Volumes},
};
use launch::Directories;

/// How long a missing object or a failed write is left alone, unless something changes before.
const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// A Pod whose object is gone gets no more time than this.
const FORCED_GRACE: Duration = Duration::from_secs(1);
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// What a Pod hears of.
#[derive(Debug)]
pub(crate) enum Event {
    /// The Pod changed.
    Pod(Arc<Pod>),
    /// The Pod is gone.
    Gone,
    /// An object of its namespace changed.
    Changed(Object),
    /// Something happened to a run of a container.
    Container { slot: usize, run: u32, happened: Happened },
    /// The postStart hook of a container is through.
    Hooked { slot: usize, run: u32, outcome: Result<(), String> },
    /// A probe came to another verdict.
    Probed { slot: usize, run: u32, kind: Kind, answer: Result<(), String> },
    /// The node shuts down; everything has to end within this time.
    Shutdown(Duration),
}

/// An object that volumes and environments may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    ConfigMap(String),
    Secret(String),
}

/// Why a Pod is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Shutdown,
    Gone,
    Deleted,
    Deadline,
}

/// What belongs to a run of a container.
#[derive(Debug, Default)]
struct Live {
    running: Option<Running>,
    started_at: Option<Timestamp>,
    /// Probes and hooks.
    tasks: Vec<AbortHandle>,
    /// It is being ended, and gone by then.
    stop: Option<(Instant, AbortHandle)>,
    /// Its configuration was not complete; not looked at again before.
    retry_at: Option<Timestamp>,
}

impl Live {
    fn end(&mut self) {
        for task in self.tasks.drain(..).chain(self.stop.take().map(|(_, task)| task)) {
            task.abort();
        }
        self.running = None;
    }
}

/// The life of a Pod.
pub(crate) struct Worker {
    node: Arc<Shared>,
    pod: Arc<Pod>,
    handle: Arc<PodHandle>,
    inbox: mpsc::UnboundedReceiver<Event>,
    references: References,
    containers: Vec<Container>,
    images: Vec<String>,
    slots: Vec<Slot>,
    live: Vec<Live>,
    logs: Vec<Arc<Log>>,
    restart: Restart,
    address: Ipv4Addr,
    start_time: Timestamp,
    directories: Directories,
    journal: Arc<Mutex<Journal>>,
    volumes: Volumes,
    prepared: bool,
    retry_at: Option<Timestamp>,
    /// Up to when everything that was due has been done.
    looked_at: Timestamp,
    /// What was last complained about.
    complaint: Option<String>,
    over: Option<Over>,
    exceeded: bool,
    gone: bool,
    removed: bool,
    shutdown: Option<Duration>,
    reporter: Reporter,
    sent: Option<PodStatus>,
    /// Its status was final before this node saw it, and is not written again.
    settled: bool,
}

impl Worker {
    /// Takes a Pod over and begins its life, or goes on with it.
    pub(crate) fn begin(node: Arc<Shared>, pod: Arc<Pod>) -> std::io::Result<Arc<PodHandle>> {
        let uid = pod.uid().unwrap_or_default();
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        let spec = pod.spec.clone().unwrap_or_default();
        let directories =
            Directories { own: node.pod_directory(&uid), scratch: node.scratch(), hidden: node.hidden.clone() };
        let history = History::read(&directories.own);
        let mut journal = Journal::open(&directories.own)?;
        let now = Timestamp::now();
        let status = pod.status.clone().unwrap_or_default();
        let known_start = status.start_time.as_ref().map(|time| time.0);
        let start_time = known_start.or_else(|| history.as_ref().map(|history| history.taken_at)).unwrap_or(now);
        let address = node.addresses.lock().unwrap_or_else(PoisonError::into_inner).take(&uid);
        let mut over = address.is_none().then(|| refused("OutOfAddresses", "every address for Pods is taken"));
        let address = address.unwrap_or(Ipv4Addr::LOCALHOST);

        let mut containers = spec.init_containers.clone().unwrap_or_default();
        let role = |container: &Container| match container.restart_policy.as_deref() {
            Some("Always") => Role::Sidecar,
            _ => Role::Init,
        };
        let mut slots: Vec<Slot> =
            containers.iter().map(|container| Slot::new(&container.name, role(container))).collect();
        slots.extend(spec.containers.iter().map(|container| Slot::new(&container.name, Role::Main)));
        containers.extend(spec.containers);
        let restart = Restart::of(spec.restart_policy.as_deref());

        let settled = match status.phase.as_deref() {
            Some("Succeeded") => Some(Phase::Succeeded),
            Some("Failed") => Some(Phase::Failed),
            _ => None,
        };
        if let Some(phase) = settled {
            over = Some(Over { phase, reason: status.reason.clone(), message: status.message.clone() });
        } else if let Some(history) = &history {
            over = over.or(history.recover(&mut slots, restart, now));
        } else if status.phase.as_deref() == Some("Running") && restart == Restart::Never {
            over = Some(refused("NodeLost", "this Pod ran before, but the node has lost what it knew of it"));
        }
        if history.is_none() {
            let taken =
                Entry::Taken { namespace: namespace.clone(), name: name.clone(), uid: uid.clone(), address, at: now };
            journal.write(&taken)?;
        }

        let logs: Vec<Arc<Log>> =
            containers.iter().map(|container| Log::new(directories.log(&container.name))).collect();
        let of = |log: &Arc<Log>| ContainerHandle { log: Arc::clone(log), run: log.last_run(), target: None };
        let known: HashMap<String, ContainerHandle> =
            containers.iter().map(|container| container.name.clone()).zip(logs.iter().map(of)).collect();
        let (events, inbox) = mpsc::unbounded_channel();
        let handle = Arc::new(PodHandle::new(uid.clone(), namespace.clone(), name.clone(), address, events, known));
        let pods: Api<Pod> = Api::namespaced(node.client.clone(), &namespace);
        let worker = Self {
            references: References::of_pod(&pod),
            images: containers.iter().map(|container| container.image.clone().unwrap_or_default()).collect(),
            live: containers.iter().map(|_| Live::default()).collect(),
            reporter: Reporter::start(pods, name, uid),
            handle: Arc::clone(&handle),
            journal: Arc::new(Mutex::new(journal)),
            settled: settled.is_some(),
            volumes: Volumes::default(),
            node,
            pod,
            inbox,
            containers,
            slots,
            logs,
            restart,
            address,
            start_time,
            directories,
            prepared: false,
            retry_at: None,
            looked_at: now,
            complaint: None,
            over,
            exceeded: false,
            gone: false,
            removed: false,
            shutdown: None,
            sent: None,
        };
        if let Some(over) = worker.over.as_ref().filter(|_| !worker.settled) {
            worker.say_why(over);
        }
        tokio::spawn(worker.live());
        Ok(handle)
    }

    async fn live(mut self) {
        loop {
            self.advance().await;
            self.report();
            if (self.gone || self.shutdown.is_some()) && !self.slots.iter().any(|slot| slot.state.is_active()) {
                break;
            }
            let wake = self.wake_at();
            let all_done = self.over.is_some() && (self.removed || self.pod.metadata.deletion_timestamp.is_none());
            tokio::select! {
                event = self.inbox.recv() => match event {
                    Some(event) => self.note(event).await,
                    None => break,
                },
                () = until(wake) => {}
                () = self.reporter.flush(), if all_done => {
                    if self.rest().await {
                        return;
                    }
                }
            }
            while let Ok(event) = self.inbox.try_recv() {
                self.note(event).await;
            }
        }
        self.leave().await;
    }

    /// Lets go of everything: a Pod that is over may stay for long, and its handle knows where its log is. False if it
    /// has to leave at once.
    async fn rest(&mut self) -> bool {
        let before = Arc::clone(&self.pod);
        self.inbox.close();
        while let Ok(event) = self.inbox.try_recv() {
            self.note(event).await;
        }
        if self.gone {
            return false;
        }
        self.node.left.notify_waiters();
        // What came in the last moment is for the next life.
        if !Arc::ptr_eq(&before, &self.pod) {
            self.node.take(Arc::clone(&self.pod));
        }
        true
    }

    /// Does what comes next.
    async fn advance(&mut self) {
        loop {
            let now = Timestamp::now();
            self.looked_at = now;
            if self.over.is_some() {
                if self.pod.metadata.deletion_timestamp.is_some()
                    && !self.removed
                    && !self.gone
                    && self.shutdown.is_none()
                {
                    self.remove(now).await;
                }
                return;
            }
            if self.prepared && self.volumes.renew_at().is_some_and(|at| at <= now) {
                self.refresh().await;
            }
            let why = self.why_stop(now);
            if why.is_none() && !self.prepared && !self.prepare(now).await {
                return;
            }
            let next = life::next(&self.slots, self.restart, why.is_some());
            for index in next.stop {
                let message = format!("Stopping container {}", self.slots[index].name);
                self.stop(index, self.grace(why), &message);
            }
            let mut ended_at_once = false;
            for index in next.start {
                ended_at_once |= self.start(index, now).await;
            }
            match next.over {
                Some(phase) if self.shutdown.is_none() => self.finish(phase, why),
                _ if ended_at_once => {}
                _ => return,
            }
        }
    }

    fn why_stop(&mut self, now: Timestamp) -> Option<Why> {
        self.exceeded = self.exceeded || self.deadline().is_some_and(|deadline| deadline <= now);
        if self.shutdown.is_some() {
            Some(Why::Shutdown)
        } else if self.gone {
            Some(Why::Gone)
        } else if self.pod.metadata.deletion_timestamp.is_some() {
            Some(Why::Deleted)
        } else {
            self.exceeded.then_some(Why::Deadline)
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        self.start_time.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    fn grace(&self, why: Option<Why>) -> Duration {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let own = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let own = own.map_or(DEFAULT_GRACE, seconds);
        match why {
            Some(Why::Shutdown) => self.shutdown.unwrap_or_default().min(own),
            Some(Why::Gone) => FORCED_GRACE.min(own),
            Some(Why::Deleted) => self.pod.metadata.deletion_grace_period_seconds.map_or(own, seconds),
            Some(Why::Deadline) | None => own,
        }
    }

    /// Sets the volumes up. False if that has to be tried again.
    async fn prepare(&mut self, now: Timestamp) -> bool {
        if self.retry_at.is_some_and(|at| at > now) {
            return false;
        }
        match self.show_volumes().await {
            Ok(()) => {
                (self.prepared, self.retry_at) = (true, None);
                true
            }
            Err(problem) => {
                self.retry_at = Some(now + RETRY);
                self.complain(None, "FailedMount", &problem);
                false
            }
        }
    }

    async fn show_volumes(&mut self) -> Result<(), String> {
        let group = launch::volume_group(&self.pod).filter(|_| self.node.is_root);
        let places = Places {
            volumes: self.directories.own.join("volumes"),
            claims: self.node.claims(&self.handle.namespace),
            host_paths: self.node.host_paths,
            memory: self.node.is_root,
            group,
        };
        let pod = Arc::clone(&self.pod);
        let facts = Facts { pod: &pod, address: self.address, host: self.node.host, machine: self.node.machine };
        self.volumes.set_up(&self.node.client, &facts, &places).await.map_err(|error| error.to_string())
    }

    fn finish(&mut self, phase: Phase, why: Option<Why>) {
        let mains = || self.slots.iter().filter(|slot| slot.role == Role::Main);
        let well = mains().all(|slot| slot.state.ended().is_some_and(|ended| ended.code == 0));
        let over = if self.exceeded {
            refused("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        } else {
            let phase = match why {
                Some(_) if well => Phase::Succeeded,
                _ => phase,
            };
            Over { phase, reason: None, message: None }
        };
        self.write_down(&Entry::Over(over.clone()));
        self.say_why(&over);
        // Whatever was waited for does not matter any more.
        self.retry_at = None;
        self.over = Some(over);
    }

    /// Writes into the journal. What is lost of these entries is found out the hard way.
    fn write_down(&self, entry: &Entry) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = journal.write(entry) {
            tracing::warn!(pod = self.handle.name, %error, "the journal of a Pod cannot be written");
        }
    }

    fn report(&mut self) {
        if self.settled || self.gone || self.shutdown.is_some() {
            return;
        }
        let before = self.before();
        let view = View {
            slots: &self.slots,
            images: &self.images,
            uid: &self.handle.uid,
            address: Some(self.address),
            host: self.node.host,
            start_time: self.start_time,
            prepared: self.prepared,
            stopping: self.pod.metadata.deletion_timestamp.is_some(),
            over: self.over.as_ref(),
            before: Some(&before),
            now: Timestamp::now(),
        };
        let status = status::status(&view);
        if self.sent.as_ref() != Some(&status) {
            self.reporter.report(status.clone());
            self.sent = Some(status);
        }
    }

    /// Our own last status, with what others wrote since.
    fn before(&self) -> PodStatus {
        let seen = self.pod.status.clone().unwrap_or_default();
        let Some(sent) = &self.sent else { return seen };
        let ours = |kind: &str| sent.conditions.iter().flatten().any(|condition| condition.type_ == kind);
        let mut conditions = seen.conditions.unwrap_or_default();
        conditions.retain(|condition| !ours(&condition.type_));
        conditions.extend(sent.conditions.iter().flatten().cloned());
        PodStatus { conditions: Some(conditions), ..sent.clone() }
    }

    /// Removes the object: the last thing that a node does for a Pod that was deleted.
    async fn remove(&mut self, now: Timestamp) {
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.report();
        self.reporter.flush().await;
        let preconditions = Some(Preconditions { uid: Some(self.handle.uid.clone()), resource_version: None });
        let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        let pods: Api<Pod> = Api::namespaced(self.node.client.clone(), &self.handle.namespace);
        match pods.delete(&self.handle.name, &params).await {
            Ok(_) => self.removed = true,
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => self.removed = true,
            Err(error) => {
                tracing::debug!(pod = self.handle.name, %error, "a Pod could not be removed yet");
                self.retry_at = Some(now + SignedDuration::from_secs(1));
            }
        }
    }

    /// The next moment at which something has to be done without anything happening.
    fn wake_at(&self) -> Option<Timestamp> {
        if self.over.is_some() {
            return self.retry_at.filter(|_| !self.removed);
        }
        let waiting = self.slots.iter().filter(|slot| !slot.state.is_active());
        let starts = waiting.filter_map(|slot| slot.not_before);
        let retries = self.live.iter().filter_map(|live| live.retry_at).chain(self.retry_at);
        let timers = starts.chain(retries).chain(self.volumes.renew_at()).filter(|at| *at > self.looked_at);
        timers.chain(self.deadline().filter(|_| !self.exceeded)).min()
    }

    /// Leaves nothing behind, unless the platform only stops.
    async fn leave(mut self) {
        for live in &mut self.live {
            live.end();
        }
        if self.gone {
            let (node, uid) = (Arc::clone(&self.node), self.handle.uid.clone());
            let removed = tokio::task::spawn_blocking(move || node.remove_files_of(&uid)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(pod = self.handle.name, %error, "the files of a Pod could not be removed");
            }
            self.node.addresses.lock().unwrap_or_else(PoisonError::into_inner).give_back(&self.handle.uid);
        }
        self.node.forget(&self.handle.uid);
    }
}

fn refused(reason: &str, message: &str) -> Over {
    Over { phase: Phase::Failed, reason: Some(reason.to_owned()), message: Some(message.to_owned()) }
}

/// Waits until a moment; for ever if there is none.
async fn until(at: Option<Timestamp>) {
    match at {
        Some(at) => {
            let left = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
