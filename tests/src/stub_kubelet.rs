//! A kubelet without a machine: reports the statuses that the script of a case sets for the Pods of a namespace.
//!
//! It binds Pods to a node that exists only as an object, and writes the statuses that a kubelet would write. The
//! script is by Task and can change while the Pod lives; without an entry a Pod
//! runs and ends well. Pods that belong to no Task are servers: they become ready and stay, unless
//! the script has an entry for `AGENT-server`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, pin_mut};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Container, Node, Pod},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::watcher::{self, Event},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// kube-controller-manager gives up on a node without a heartbeat for 50 s.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The scripted behaviour of the Pod of a Task.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Runs until the script changes, the Pod is deleted, or its deadline passes.
    Hold,
    /// It runs and ends.
    End(End),
    /// A node takes it, and then its status is this.
    Status(Value),
    /// No node takes it.
    Unscheduled,
    /// It runs, and is gone the next moment.
    Vanish,
    /// It runs, and nothing that is done to it has any effect: its node cannot be reached.
    Deaf,
}

/// How the task container ends.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Its exit code.
    pub code: i32,
    /// The runtime's reason, such as `OOMKilled`.
    pub reason: &'static str,
    /// Its termination message.
    pub message: String,
}

impl Act {
    /// The agent finishes its work and reports success.
    pub fn succeed() -> Self {
        let report = json!({
            "outcome": "Succeeded", "reason": "Succeeded", "message": "done", "sessionID": "ses_1",
            "usage": {"tokens": {"input": 10, "output": 5, "reasoning": 1, "cacheRead": 2, "cacheWrite": 1},
                      "cost": 0.25, "messages": 3, "filesChanged": 2, "additions": 7, "deletions": 1},
            "summary": "all is well",
        });
        Self::End(End { code: 0, reason: "Completed", message: report.to_string() })
    }

    /// The agent fails, and reports why.
    pub fn fail(reason: &str, message: &str) -> Self {
        let report = json!({"outcome": "Failed", "reason": reason, "message": message});
        Self::End(End { code: 1, reason: "Error", message: report.to_string() })
    }

    /// The container ends without a report.
    pub fn exit(code: i32, reason: &'static str) -> Self {
        Self::End(End { code, reason, message: String::new() })
    }
}

/// UIDs of Pods by UID of the Task and number of the run.
pub type Runs = BTreeMap<(String, String), BTreeSet<String>>;

/// The node. It goes with this value.
pub struct Kubelet {
    shared: Arc<Shared>,
    worker: JoinHandle<()>,
}

struct Shared {
    client: Client,
    namespace: String,
    node: String,
    script: watch::Sender<HashMap<String, Act>>,
    runs: Mutex<Runs>,
    trouble: Mutex<Vec<String>>,
}

impl Kubelet {
    /// Starts a node for the Pods of `namespace`.
    pub async fn start(client: Client, namespace: &str) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            client,
            namespace: namespace.to_owned(),
            node: format!("node-of-{namespace}"),
            script: watch::Sender::default(),
            runs: Mutex::default(),
            trouble: Mutex::default(),
        });
        shared.beat().await?;
        let worker = tokio::spawn(work(Arc::clone(&shared)));
        Ok(Self { shared, worker })
    }

    /// Sets the behaviour of the Pods of a Task, or of one Pod, including running ones.
    pub fn script(&self, task: &str, act: Act) {
        self.shared.script.send_modify(|script| {
            script.insert(task.to_owned(), act);
        });
    }

    /// Which Pods it ever saw, for which runs.
    pub fn runs(&self) -> Runs {
        self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Errors of the stub itself.
    pub fn trouble(&self) -> Vec<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

async fn work(shared: Arc<Shared>) {
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &shared.namespace);
    let events = watcher::watcher(pods, watcher::Config::default());
    pin_mut!(events);
    let mut senders: HashMap<String, watch::Sender<Pod>> = HashMap::new();
    // They end with this set, which ends with the node.
    let mut tasks = JoinSet::new();
    let mut beat = tokio::time::interval(HEARTBEAT);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => {
                    let uid = pod.uid().unwrap_or_default();
                    if let Some(sender) = senders.get(&uid) {
                        sender.send_replace(pod);
                        continue;
                    }
                    let (sender, updates) = watch::channel(pod);
                    senders.insert(uid, sender);
                    let shared = Arc::clone(&shared);
                    tasks.spawn(async move { shared.run_pod(updates).await });
                }
                // Dropping the sender ends the lifecycle.
                Some(Ok(Event::Delete(pod))) => drop(senders.remove(&pod.uid().unwrap_or_default())),
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                None => return,
            },
            _ = beat.tick() => shared.note(shared.beat().await),
            Some(_) = tasks.join_next() => {}
        }
    }
}

impl Shared {
    fn note(&self, outcome: Result<(), kube::Error>) {
        if let Err(error) = outcome {
            self.trouble.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
    }

    /// Renews the lease of the node.
    async fn beat(&self) -> Result<(), kube::Error> {
        let now = Timestamp::now();
        let force = PatchParams::apply("stub-kubelet").force();
        let nodes: Api<Node> = Api::all(self.client.clone());
        let (name, second) = (&self.node, moment(now));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        nodes.patch(name, &force, &Patch::Apply(node)).await?;
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                           "lastHeartbeatTime": second, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "status": {"conditions": [ready]}});
        nodes.patch_status(name, &force, &Patch::Apply(node)).await?;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}")});
        let lease =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec});
        match leases.patch(name, &force, &Patch::Apply(lease)).await {
            // Without kube-controller-manager the namespace does not exist, and the lease is not read.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn run_pod(&self, updates: watch::Receiver<Pod>) {
        let outcome = PodLifecycle { node: self, updates, started: None, last: None }.go().await;
        match outcome {
            // The Pod is gone, or was written meanwhile.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            other => self.note(other),
        }
    }
}

/// The lifecycle of one Pod.
struct PodLifecycle<'a> {
    node: &'a Shared,
    updates: watch::Receiver<Pod>,
    started: Option<Timestamp>,
    /// The last behaviour applied.
    last: Option<Act>,
}

impl PodLifecycle<'_> {
    async fn go(mut self) -> Result<(), kube::Error> {
        let mut script = self.node.script.subscribe();
        let first = self.updates.borrow_and_update().clone();
        let task = first.labels().get("kubeopencode.io/task").cloned();
        if task.is_some() {
            let owner = first.owner_references().first().map(|owner| owner.uid.clone()).unwrap_or_default();
            let epoch = first.labels().get("kubeopencode.io/run-epoch").cloned().unwrap_or_default();
            let mut runs = self.node.runs.lock().unwrap_or_else(PoisonError::into_inner);
            runs.entry((owner, epoch)).or_default().insert(first.uid().unwrap_or_default());
        }
        loop {
            let pod = self.updates.borrow_and_update().clone();
            let act = {
                let script = script.borrow_and_update();
                if let Some(task) = &task {
                    script.get(&pod.name_any()).or_else(|| script.get(task)).cloned().unwrap_or_else(Act::succeed)
                } else {
                    // The script of a server is how it starts; one that has started goes on.
                    let agent = pod.labels().get("kubeopencode.io/agent").filter(|_| self.started.is_none());
                    agent.and_then(|agent| script.get(&format!("{agent}-server"))).cloned().unwrap_or(Act::Hold)
                }
            };
            let over = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let over = matches!(over, Some("Succeeded" | "Failed"));
            if pod.metadata.deletion_timestamp.is_some() && act != Act::Deaf {
                return self.leave(&pod, over).await;
            }
            let deadline = self.deadline(&pod);
            if !over && act != Act::Deaf && deadline.is_some_and(|at| at <= Timestamp::now()) {
                self.end(&pod, &stopped(), Some("DeadlineExceeded")).await?;
            } else if !over && self.last.as_ref() != Some(&act) {
                self.play(&pod, &act, task.is_none()).await?;
                self.last = Some(act);
            }
            let wait = deadline.filter(|_| !over).map(|at| at.duration_since(Timestamp::now()));
            tokio::select! {
                changed = self.updates.changed() => if changed.is_err() { return Ok(()) },
                changed = script.changed() => if changed.is_err() { return Ok(()) },
                () = pause(wait) => {}
            }
        }
    }

    /// Applies the script.
    async fn play(&mut self, pod: &Pod, act: &Act, server: bool) -> Result<(), kube::Error> {
        if *act == Act::Unscheduled {
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                   "message": "0/1 nodes are available"});
            return self.write(pod, json!({"conditions": [condition]})).await;
        }
        self.bind(pod).await?;
        if let Act::Status(status) = act {
            return self.write(pod, status.clone()).await;
        }
        if self.started.is_none() {
            self.started = Some(Timestamp::now());
            self.run(pod, server).await?;
        }
        match act {
            Act::End(end) => self.end(pod, end, None).await,
            Act::Vanish => self.remove(pod).await,
            _ => Ok(()),
        }
    }

    async fn bind(&self, pod: &Pod) -> Result<(), kube::Error> {
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            || self.last.as_ref().is_some_and(|act| *act != Act::Unscheduled)
        {
            return Ok(());
        }
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.node.node});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name_any()}, "target": target});
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", self.node.namespace, pod.name_any());
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(binding.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
        self.node.client.request::<Value>(request).await.map(drop)
    }

    async fn run(&self, pod: &Pod, ready: bool) -> Result<(), kube::Error> {
        let now = moment(Timestamp::now());
        let running = json!({"running": {"startedAt": now}});
        let status = json!({
            "phase": "Running",
            "startTime": now,
            "podIP": "10.9.9.9",
            "podIPs": [{"ip": "10.9.9.9"}],
            "conditions": conditions(ready),
            "initContainerStatuses": prepared(pod),
            "containerStatuses": containers(pod, &running, ready),
        });
        self.write(pod, status).await
    }

    async fn end(&self, pod: &Pod, end: &End, reason: Option<&str>) -> Result<(), kube::Error> {
        let now = Timestamp::now();
        let started = moment(self.started.unwrap_or(now));
        let terminated = json!({"terminated": {
            "exitCode": end.code, "reason": end.reason, "message": end.message,
            "startedAt": started, "finishedAt": moment(now),
        }});
        let phase = if end.code == 0 && reason.is_none() { "Succeeded" } else { "Failed" };
        let status = json!({
            "phase": phase,
            "reason": reason,
            "conditions": conditions(false),
            "containerStatuses": containers(pod, &terminated, false),
        });
        self.write(pod, status).await
    }

    /// Ends a Pod that is deleted, as gently as a kubelet does.
    async fn leave(&self, pod: &Pod, over: bool) -> Result<(), kube::Error> {
        if !over && self.started.is_some() {
            self.end(pod, &stopped(), None).await?;
        }
        self.remove(pod).await
    }

    async fn remove(&self, pod: &Pod) -> Result<(), kube::Error> {
        // This Pod, and not the next one of its name.
        let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
        let params = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
        self.pods().delete(&pod.name_any(), &params).await.map(drop)
    }

    async fn write(&self, pod: &Pod, status: Value) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        self.pods().patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.node.client.clone(), &self.node.namespace)
    }

    fn deadline(&self, pod: &Pod) -> Option<Timestamp> {
        let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
        self.started?.checked_add(SignedDuration::from_secs(seconds)).ok()
    }
}

async fn pause(wait: Option<SignedDuration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait.try_into().unwrap_or_default()).await,
        None => std::future::pending().await,
    }
}

/// The report that our helper leaves when it is stopped.
fn stopped() -> End {
    let report = json!({"outcome": "Failed", "reason": "Stopped", "message": "told to stop"});
    End { code: 143, reason: "Error", message: report.to_string() }
}

/// A moment in whole seconds, as a kubelet writes it.
pub fn moment(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn conditions(ready: bool) -> Value {
    let now = moment(Timestamp::now());
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": now})
    };
    json!([
        condition("PodScheduled", true),
        condition("Initialized", true),
        condition("ContainersReady", ready),
        condition("Ready", ready)
    ])
}

fn container(spec: &Container, state: &Value, ready: bool) -> Value {
    json!({"name": spec.name, "image": spec.image, "imageID": "stub", "ready": ready, "started": ready, "restartCount": 0, "state": state})
}

fn containers(pod: &Pod, state: &Value, ready: bool) -> Vec<Value> {
    let spec = pod.spec.iter().flat_map(|spec| &spec.containers);
    spec.map(|spec| container(spec, state, ready)).collect()
}

/// Containers that run before the task have done their work; those that run beside it are up.
fn prepared(pod: &Pod) -> Vec<Value> {
    let spec = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let now = moment(Timestamp::now());
    spec.map(|spec| {
        if spec.restart_policy.as_deref() == Some("Always") {
            return container(spec, &json!({"running": {"startedAt": now}}), true);
        }
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
        container(spec, &done, true)
    })
    .collect()
}
