//! The fixture of a case: a namespace of an API server, the controller, and a scripted node.

use std::{fmt::Debug, future::Future, sync::Arc};

use anyhow::{Context as _, ensure};
use api::{Agent, AgentTemplate, CronTask, KubeOpenCodeConfig, Task, TaskPhase, TaskStatus};
use blackbox::{
    control_plane::{ControlPlane, Others, Server},
    controller::{Controller, Options},
    history::History,
    stub_kubelet::{Act, Kubelet},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

tokio::task_local! {
    /// The server that the case at hand runs on. Cases do not ask: they get a [`World`], or an [`Alone`].
    pub static SERVER: Server;
}

/// One value for each server.
pub struct OnEach<T> {
    real: T,
    embedded: T,
}

impl<T> OnEach<T> {
    pub const fn new(real: T, embedded: T) -> Self {
        Self { real, embedded }
    }

    /// The one for the server of this case.
    pub fn here(&self) -> &T {
        match SERVER.get() {
            Server::Real => &self.real,
            Server::Embedded => &self.embedded,
        }
    }
}

/// An object that lives in a namespace.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A namespace, its stub node, and the recorded changes of its Tasks and Pods.
pub struct World {
    pub cluster: &'static ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub kubelet: Kubelet,
    pub tasks: History<Task>,
    pub pods: History<Pod>,
}

/// Runs a case in a namespace of the control plane that most cases share, with the controller that they share.
pub async fn shared<F, Fut>(case: F) -> anyhow::Result<()>
where
    F: FnOnce(Arc<World>) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    let controller = shared_controller().await?;
    let world = Arc::new(World::on(shared_cluster().await?).await?);
    let outcome = case(Arc::clone(&world)).await;
    explain(outcome, &world, &[controller])
}

/// The controller of the shared control plane.
pub async fn shared_controller() -> anyhow::Result<&'static Controller> {
    static CONTROLLER: OnEach<OnceCell<Controller>> = OnEach::new(OnceCell::const_new(), OnceCell::const_new());
    let start = || async { Controller::start(shared_cluster().await?, Options::default()).await };
    CONTROLLER.here().get_or_try_init(start).await
}

async fn shared_cluster() -> anyhow::Result<&'static ControlPlane> {
    static CLUSTER: OnEach<OnceCell<ControlPlane>> = OnEach::new(OnceCell::const_new(), OnceCell::const_new());
    CLUSTER.here().get_or_try_init(|| ControlPlane::start(SERVER.get(), Others::Workloads)).await
}

/// A control plane without a controller, for cases that start, kill or configure their own: one after the other.
pub struct Alone {
    pub world: World,
    _turn: MutexGuard<'static, ()>,
}

/// A control plane that one case uses at a time.
struct ExclusiveCluster {
    turn: Mutex<()>,
    cluster: OnceCell<ControlPlane>,
}

impl ExclusiveCluster {
    const fn new() -> Self {
        Self { turn: Mutex::const_new(()), cluster: OnceCell::const_new() }
    }
}

impl Alone {
    /// Waits for the turn, on one of two control planes.
    pub async fn turn() -> anyhow::Result<Self> {
        static EXCLUSIVE_CLUSTERS: OnEach<[ExclusiveCluster; 2]> = OnEach::new(
            [ExclusiveCluster::new(), ExclusiveCluster::new()],
            [ExclusiveCluster::new(), ExclusiveCluster::new()],
        );
        let [first, second] = EXCLUSIVE_CLUSTERS.here();
        let (exclusive, turn) = tokio::select! {
            turn = first.turn.lock() => (first, turn),
            turn = second.turn.lock() => (second, turn),
        };
        let cluster = exclusive.cluster.get_or_try_init(|| ControlPlane::start(SERVER.get(), Others::None)).await?;
        let world = World::on(cluster).await?;
        let configs: Api<KubeOpenCodeConfig> = Api::all(world.client.clone());
        configs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        // Pending work for an Agent of an earlier case would be counted in this one.
        for agent in Api::<Agent>::all(world.client.clone()).list(&ListParams::default()).await? {
            let namespace = agent.metadata.namespace.unwrap_or_default();
            let agents: Api<Agent> = Api::namespaced(world.client.clone(), &namespace);
            agents.delete(&agent.metadata.name.unwrap_or_default(), &DeleteParams::default()).await?;
        }
        Ok(Self { world, _turn: turn })
    }
}

/// Adds the controllers' log lines about the namespace to the error of a case.
pub fn explain(outcome: anyhow::Result<()>, world: &World, controllers: &[&Controller]) -> anyhow::Result<()> {
    let details = || {
        let logs: Vec<String> = controllers.iter().map(|controller| controller.log(&world.namespace)).collect();
        format!(
            "log of the controller about {}:\n{}\nthe node: {:?}",
            world.namespace,
            logs.join("\n--\n"),
            world.kubelet.trouble()
        )
    };
    let outcome = outcome.and_then(|()| {
        ensure!(world.kubelet.trouble().is_empty(), "the node had trouble");
        Ok(())
    });
    outcome.map_err(|error| anyhow::anyhow!("{error:#}\n{}", details()))
}

impl World {
    /// A fresh namespace of a control plane.
    pub async fn on(cluster: &'static ControlPlane) -> anyhow::Result<Self> {
        let client = cluster.client().await?;
        let namespace = cluster.namespace().await?;
        let kubelet = Kubelet::start(client.clone(), &namespace).await?;
        let tasks = History::record(Api::namespaced(client.clone(), &namespace));
        let pods = History::record(Api::namespaced(client.clone(), &namespace));
        Ok(Self { cluster, client, namespace, kubelet, tasks, pods })
    }

    /// The objects of a kind in this namespace.
    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Records the changes of the objects of a kind.
    pub fn record<K: Namespaced>(&self) -> History<K> {
        History::record(self.api())
    }

    /// Creates an object from its spec.
    pub async fn create<K: Namespaced>(&self, name: &str, spec: Value) -> anyhow::Result<K> {
        self.create_with(name, json!({}), spec).await
    }

    /// Creates an object from its spec, with more metadata.
    pub async fn create_with<K: Namespaced>(&self, name: &str, mut metadata: Value, spec: Value) -> anyhow::Result<K> {
        metadata["name"] = json!(name);
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec,
        });
        // Strictly, so that a case with a misspelt field does not pass by accident.
        let path = format!("{}?fieldValidation=Strict", K::url_path(&(), Some(&self.namespace)));
        let request = http::Request::post(path).header("content-type", "application/json");
        let created = self.client.request(request.body(object.to_string().into_bytes())?).await;
        created.with_context(|| format!("creating {name}"))
    }

    /// Creates a template, with a model unless `spec` says where one comes from.
    pub async fn template(&self, name: &str, spec: Value) -> anyhow::Result<AgentTemplate> {
        self.create(name, with_model(spec)).await
    }

    /// Creates an Agent, with a model unless `spec` says where one comes from.
    pub async fn agent(&self, name: &str, spec: Value) -> anyhow::Result<Agent> {
        self.create(name, with_model(spec)).await
    }

    /// Creates a Task with `spec` and a default description.
    pub async fn task(&self, name: &str, mut spec: Value) -> anyhow::Result<Task> {
        if spec.get("description").is_none() {
            spec["description"] = json!("say hello");
        }
        self.create(name, spec).await
    }

    pub async fn cron(&self, name: &str, mut spec: Value) -> anyhow::Result<CronTask> {
        if spec.get("schedule").is_none() {
            // Not while a test runs.
            spec["schedule"] = json!("0 0 1 1 *");
        }
        spec["taskTemplate"] = json!({"spec": {"description": "say hello", "templateRef": {"name": "t"}}});
        self.create(name, spec).await
    }

    pub async fn config_map(&self, name: &str, data: Value) -> anyhow::Result<ConfigMap> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        Ok(self.api().create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    /// Sets the configuration of the cluster.
    pub async fn configure(&self, spec: Value) -> anyhow::Result<()> {
        let configs: Api<KubeOpenCodeConfig> = Api::all(self.client.clone());
        let object = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "KubeOpenCodeConfig",
            "metadata": {"name": "cluster"}, "spec": spec,
        });
        configs.patch("cluster", &PatchParams::apply("blackbox").force(), &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Merges into an object.
    pub async fn merge<K: Namespaced>(&self, name: &str, patch: Value) -> anyhow::Result<K> {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("patching {name}"))
    }

    /// Merges into the status of an object.
    pub async fn merge_status<K: Namespaced>(&self, name: &str, patch: Value) -> anyhow::Result<K> {
        let patch = json!({ "status": patch });
        Ok(self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub async fn annotate<K: Namespaced>(&self, name: &str, key: &str, value: &str) -> anyhow::Result<K> {
        self.merge(name, json!({"metadata": {"annotations": {key: value}}})).await
    }

    pub async fn stop(&self, task: &str) -> anyhow::Result<()> {
        self.annotate::<Task>(task, "kubeopencode.io/stop", "true").await.map(drop)
    }

    pub async fn delete<K: Namespaced>(&self, name: &str) -> anyhow::Result<()> {
        self.api::<K>().delete(name, &DeleteParams::background()).await.with_context(|| format!("deleting {name}"))?;
        Ok(())
    }

    /// Waits for a Task to be as wanted.
    pub async fn until(
        &self,
        task: &str,
        what: &str,
        wanted: impl Fn(&TaskStatus) -> bool,
    ) -> anyhow::Result<TaskStatus> {
        let found = self.tasks.until_object(task, what, |task| task.status.as_ref().is_some_and(&wanted)).await?;
        Ok(found.status.clone().unwrap_or_default())
    }

    /// Waits for the end of a Task.
    pub async fn ended(&self, task: &str) -> anyhow::Result<TaskStatus> {
        self.until(task, "its end", |status| status.phase.is_some_and(TaskPhase::is_finished)).await
    }

    /// Waits for a Task to end well.
    pub async fn succeeds(&self, task: &str) -> anyhow::Result<TaskStatus> {
        let status = self.ended(task).await?;
        ensure!(reason(&status) == "Succeeded", "{task}: {status:?}");
        Ok(status)
    }

    /// Waits for a Task to fail, for this reason.
    pub async fn fails(&self, task: &str, why: &str) -> anyhow::Result<TaskStatus> {
        let status = self.ended(task).await?;
        ensure!(status.phase == Some(TaskPhase::Failed) && reason(&status) == why, "{task}: not {why} but {status:?}");
        Ok(status)
    }

    /// Waits for a Task to be admitted.
    pub async fn runs(&self, task: &str) -> anyhow::Result<TaskStatus> {
        self.until(task, "its run", |status| status.phase == Some(TaskPhase::Running)).await
    }

    /// Waits for a Task to wait for this reason.
    pub async fn waits(&self, task: &str, why: &str) -> anyhow::Result<TaskStatus> {
        let queued = |status: &TaskStatus| status.phase == Some(TaskPhase::Queued) && reason(status) == why;
        self.until(task, &format!("waiting for {why}"), queued).await
    }

    /// Waits until the container of a Task runs, and lets it run on.
    pub async fn works(&self, task: &str) -> anyhow::Result<Arc<Pod>> {
        let working = |pod: &Pod| {
            let of = pod.metadata.labels.as_ref().and_then(|labels| labels.get("kubeopencode.io/task"));
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            of.is_some_and(|of| of == task) && phase == Some("Running")
        };
        let wanted = format!("a running Pod of {task}");
        self.pods.until(&wanted, |pods| pods.all().into_iter().find(|pod| working(pod))).await
    }

    /// Lets the Pod of a Task end well.
    pub fn finish(&self, task: &str) {
        self.kubelet.script(task, Act::succeed());
    }

    /// Lets the Pods of a Task run until the script ends them.
    pub fn hold(&self, task: &str) {
        self.kubelet.script(task, Act::Hold);
    }

    /// Creates an Agent and waits until its server is ready.
    pub async fn ready_agent(&self, name: &str, spec: Value) -> anyhow::Result<Arc<Agent>> {
        self.agent(name, spec).await?;
        self.agent_is(name, "ready", |agent| agent.status.as_ref().and_then(|status| status.ready) == Some(true)).await
    }

    /// Waits for an Agent to be as wanted.
    pub async fn agent_is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Agent) -> bool,
    ) -> anyhow::Result<Arc<Agent>> {
        self.record::<Agent>().until_object(name, what, wanted).await
    }

    pub async fn deployment(&self, agent: &str) -> anyhow::Result<Deployment> {
        Ok(self.api().get(&format!("{agent}-server")).await?)
    }

    /// Checks that no run of this namespace ever had two Pods.
    pub fn each_run_has_one_pod(&self) -> anyhow::Result<()> {
        for (run, pods) in self.kubelet.runs() {
            ensure!(pods.len() == 1, "run {run:?} had {pods:?}");
        }
        Ok(())
    }
}

/// A model that the stub of the kubelet never calls.
fn with_model(mut spec: Value) -> Value {
    let sources = ["config", "modelRef", "command", "credentials", "templateRef"];
    if sources.iter().all(|source| spec.get(source).is_none()) {
        spec["config"] = json!({"model": "test/model"});
    }
    spec
}

/// Why a Task waits or how it ended.
pub fn reason(status: &TaskStatus) -> &str {
    status.reason.as_deref().unwrap_or_default()
}

/// The message of a Task.
pub fn message(status: &TaskStatus) -> &str {
    status.message.as_deref().unwrap_or_default()
}

/// Status and reason of a condition, such as `True Valid`; empty if there is none.
pub fn condition(
    conditions: Option<&Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>>,
    kind: &str,
) -> String {
    let found = conditions.into_iter().flatten().find(|condition| condition.type_ == kind);
    found.map(|condition| format!("{} {}", condition.status, condition.reason)).unwrap_or_default()
}
