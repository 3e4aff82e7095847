//! The worker of one Pod, from its binding to the removal of its last file.
//!
//! One task per Pod. It receives events (the Pod changed, a container exited, a probe failed), asks
//! [`crate::pod::lifecycle`] for the next actions, executes them, and reports the status. It does not poll: events,
//! deadlines and retries wake it.

pub(crate) mod downward_api;
pub(crate) mod environment;
mod events;
pub(crate) mod expand;
mod handle;
mod handlers;
pub(crate) mod journal;
mod launch;
pub(crate) mod lifecycle;
pub(crate) mod objects;
pub(crate) mod probe;
pub(crate) mod removal;
mod start;
mod termination;

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
    logs::Log,
    node::Shared,
    pod::{
        downward_api::DownwardApi,
        journal::{Entry, History, Journal},
        lifecycle::{Phase, RestartPolicy, Role, Slot},
        objects::References,
        probe::Kind,
    },
    runtime::{ContainerEvent, Running},
    status::{self, PodOutcome, View, report::Reporter},
    volumes::{VolumePaths, Volumes},
};
use launch::Directories;

/// Retry interval for a missing object or a failed write, unless a change comes first.
const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// Maximum grace period of a Pod whose object is gone.
const FORCED_GRACE: Duration = Duration::from_secs(1);
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Events of a Pod worker.
#[derive(Debug)]
pub(crate) enum Event {
    /// The Pod object changed.
    Pod(Arc<Pod>),
    /// The Pod object is deleted.
    Deleted,
    /// A ConfigMap or Secret in the namespace of the Pod changed.
    ObjectChanged(Object),
    /// An event of a run of a container.
    Container { slot: usize, run: u32, event: ContainerEvent },
    /// The postStart hook of a container has finished.
    HookFinished { slot: usize, run: u32, outcome: Result<(), String> },
    /// The result of a probe changed.
    ProbeChanged { slot: usize, run: u32, kind: Kind, answer: Result<(), String> },
    /// The node shuts down; everything must terminate within this time.
    Shutdown(Duration),
}

/// An object that volumes and environments refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    ConfigMap(String),
    Secret(String),
}

/// Why a Pod is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    Shutdown,
    Gone,
    Deleted,
    Deadline,
}

/// The resources of a run of a container.
#[derive(Debug, Default)]
struct RunResources {
    running: Option<Running>,
    started_at: Option<Timestamp>,
    /// Probes and hooks.
    tasks: Vec<AbortHandle>,
    /// Deadline and task of a running stop.
    stop: Option<(Instant, AbortHandle)>,
    /// When to retry a container whose configuration is incomplete.
    retry_at: Option<Timestamp>,
}

impl RunResources {
    fn end(&mut self) {
        for task in self.tasks.drain(..).chain(self.stop.take().map(|(_, task)| task)) {
            task.abort();
        }
        self.running = None;
    }
}

/// The worker of a Pod.
pub(crate) struct Worker {
    node: Arc<Shared>,
    pod: Arc<Pod>,
    handle: Arc<PodHandle>,
    inbox: mpsc::UnboundedReceiver<Event>,
    references: References,
    containers: Vec<Container>,
    images: Vec<String>,
    slots: Vec<Slot>,
    live: Vec<RunResources>,
    logs: Vec<Arc<Log>>,
    restart: RestartPolicy,
    address: Ipv4Addr,
    start_time: Timestamp,
    directories: Directories,
    journal: Arc<Mutex<Journal>>,
    volumes: Volumes,
    prepared: bool,
    retry_at: Option<Timestamp>,
    /// Timed actions up to this time are done.
    timers_done_until: Timestamp,
    /// The last warning event, to avoid repeating it.
    last_warning: Option<String>,
    over: Option<PodOutcome>,
    exceeded: bool,
    gone: bool,
    removed: bool,
    shutdown: Option<Duration>,
    reporter: Reporter,
    sent: Option<PodStatus>,
    /// The status was final before this node saw the Pod, and is not written again.
    settled: bool,
}

impl Worker {
    /// Starts the worker of a Pod, or resumes from its journal.
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
        let address = node.addresses.lock().unwrap_or_else(PoisonError::into_inner).allocate(&uid);
        let mut over = address.is_none().then(|| refused("OutOfAddresses", "no free Pod address"));
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
        let restart = RestartPolicy::of(spec.restart_policy.as_deref());

        let settled = match status.phase.as_deref() {
            Some("Succeeded") => Some(Phase::Succeeded),
            Some("Failed") => Some(Phase::Failed),
            _ => None,
        };
        if let Some(phase) = settled {
            over = Some(PodOutcome { phase, reason: status.reason.clone(), message: status.message.clone() });
        } else if let Some(history) = &history {
            over = over.or(history.recover(&mut slots, restart, now));
        } else if status.phase.as_deref() == Some("Running") && restart == RestartPolicy::Never {
            over = Some(refused("NodeLost", "this Pod ran before, but its journal on this node is lost"));
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
            live: containers.iter().map(|_| RunResources::default()).collect(),
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
            timers_done_until: now,
            last_warning: None,
            over,
            exceeded: false,
            gone: false,
            removed: false,
            shutdown: None,
            sent: None,
        };
        if let Some(over) = worker.over.as_ref().filter(|_| !worker.settled) {
            worker.emit_failure(over);
        }
        tokio::spawn(worker.run());
        Ok(handle)
    }

    async fn run(mut self) {
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
                    Some(event) => self.handle(event).await,
                    None => break,
                },
                () = until(wake) => {}
                () = self.reporter.flush(), if all_done => {
                    if self.park().await {
                        return;
                    }
                }
            }
            while let Ok(event) = self.inbox.try_recv() {
                self.handle(event).await;
            }
        }
        self.leave().await;
    }

    /// Releases the resources of a finished Pod, which may exist for long; the handle keeps the path of its log.
    /// Returns false if the Pod must be removed now.
    async fn park(&mut self) -> bool {
        let before = Arc::clone(&self.pod);
        self.inbox.close();
        while let Ok(event) = self.inbox.try_recv() {
            self.handle(event).await;
        }
        if self.gone {
            return false;
        }
        self.node.left.notify_waiters();
        // An event arrived at the last moment: handle it in a new worker.
        if !Arc::ptr_eq(&before, &self.pod) {
            self.node.sync_pod(Arc::clone(&self.pod));
        }
        true
    }

    /// Executes the next actions.
    async fn advance(&mut self) {
        loop {
            let now = Timestamp::now();
            self.timers_done_until = now;
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
            let why = self.stop_reason(now);
            if why.is_none() && !self.prepared && !self.prepare(now).await {
                return;
            }
            let next = lifecycle::next(&self.slots, self.restart, why.is_some());
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

    fn stop_reason(&mut self, now: Timestamp) -> Option<StopReason> {
        self.exceeded = self.exceeded || self.deadline().is_some_and(|deadline| deadline <= now);
        if self.shutdown.is_some() {
            Some(StopReason::Shutdown)
        } else if self.gone {
            Some(StopReason::Gone)
        } else if self.pod.metadata.deletion_timestamp.is_some() {
            Some(StopReason::Deleted)
        } else {
            self.exceeded.then_some(StopReason::Deadline)
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        self.start_time.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    fn grace(&self, why: Option<StopReason>) -> Duration {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let own = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let own = own.map_or(DEFAULT_GRACE, seconds);
        match why {
            Some(StopReason::Shutdown) => self.shutdown.unwrap_or_default().min(own),
            Some(StopReason::Gone) => FORCED_GRACE.min(own),
            Some(StopReason::Deleted) => self.pod.metadata.deletion_grace_period_seconds.map_or(own, seconds),
            Some(StopReason::Deadline) | None => own,
        }
    }

    /// Sets up the volumes. Returns false if it must be retried.
    async fn prepare(&mut self, now: Timestamp) -> bool {
        if self.retry_at.is_some_and(|at| at > now) {
            return false;
        }
        match self.update_volumes().await {
            Ok(()) => {
                (self.prepared, self.retry_at) = (true, None);
                true
            }
            Err(problem) => {
                self.retry_at = Some(now + RETRY);
                self.warn_once(None, "FailedMount", &problem);
                false
            }
        }
    }

    async fn update_volumes(&mut self) -> Result<(), String> {
        let group = launch::volume_group(&self.pod).filter(|_| self.node.is_root);
        let places = VolumePaths {
            volumes: self.directories.own.join("volumes"),
            claims: self.node.claims(&self.handle.namespace),
            host_paths: self.node.host_paths,
            memory: self.node.is_root,
            group,
        };
        let pod = Arc::clone(&self.pod);
        let facts = DownwardApi { pod: &pod, address: self.address, host: self.node.host, machine: self.node.machine };
        self.volumes.set_up(&self.node.client, &facts, &places).await.map_err(|error| error.to_string())
    }

    fn finish(&mut self, phase: Phase, why: Option<StopReason>) {
        let mains = || self.slots.iter().filter(|slot| slot.role == Role::Main);
        let well = mains().all(|slot| slot.state.ended().is_some_and(|ended| ended.code == 0));
        let over = if self.exceeded {
            refused("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        } else {
            let phase = match why {
                Some(_) if well => Phase::Succeeded,
                _ => phase,
            };
            PodOutcome { phase, reason: None, message: None }
        };
        self.journal_entry(&Entry::Finished(over.clone()));
        self.emit_failure(&over);
        // Nothing is waited for any more.
        self.retry_at = None;
        self.over = Some(over);
    }

    /// Writes an optional journal entry. A lost entry only costs accuracy after a restart.
    fn journal_entry(&self, entry: &Entry) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = journal.write(entry) {
            tracing::warn!(pod = self.handle.name, %error, "cannot write the journal of a Pod");
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

    /// Our last status, merged with what others wrote since.
    fn before(&self) -> PodStatus {
        let seen = self.pod.status.clone().unwrap_or_default();
        let Some(sent) = &self.sent else { return seen };
        let ours = |kind: &str| sent.conditions.iter().flatten().any(|condition| condition.type_ == kind);
        let mut conditions = seen.conditions.unwrap_or_default();
        conditions.retain(|condition| !ours(&condition.type_));
        conditions.extend(sent.conditions.iter().flatten().cloned());
        PodStatus { conditions: Some(conditions), ..sent.clone() }
    }

    /// Deletes the Pod object: the last step for a Pod that is being deleted.
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
                tracing::debug!(pod = self.handle.name, %error, "cannot delete the Pod object yet");
                self.retry_at = Some(now + SignedDuration::from_secs(1));
            }
        }
    }

    /// The time of the next timed action.
    fn wake_at(&self) -> Option<Timestamp> {
        if self.over.is_some() {
            return self.retry_at.filter(|_| !self.removed);
        }
        let waiting = self.slots.iter().filter(|slot| !slot.state.is_active());
        let starts = waiting.filter_map(|slot| slot.not_before);
        let retries = self.live.iter().filter_map(|live| live.retry_at).chain(self.retry_at);
        let timers = starts.chain(retries).chain(self.volumes.renew_at()).filter(|at| *at > self.timers_done_until);
        timers.chain(self.deadline().filter(|_| !self.exceeded)).min()
    }

    /// Removes all files, unless the node only shuts down.
    async fn leave(mut self) {
        for live in &mut self.live {
            live.end();
        }
        if self.gone {
            let (node, uid) = (Arc::clone(&self.node), self.handle.uid.clone());
            let removed = tokio::task::spawn_blocking(move || node.remove_pod_files(&uid)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(pod = self.handle.name, %error, "cannot remove the files of a Pod");
            }
            self.node.addresses.lock().unwrap_or_else(PoisonError::into_inner).release(&self.handle.uid);
        }
        self.node.remove(&self.handle.uid);
    }
}

fn refused(reason: &str, message: &str) -> PodOutcome {
    PodOutcome { phase: Phase::Failed, reason: Some(reason.to_owned()), message: Some(message.to_owned()) }
}

/// Waits until a time; for ever if there is none.
async fn until(at: Option<Timestamp>) {
    match at {
        Some(at) => {
            let left = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
