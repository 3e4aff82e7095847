//! State that the reconcilers share.

pub mod apply;
pub mod background;
pub mod bindings;
pub mod dependents;
pub mod events;
pub(crate) mod failpoint;
pub mod metrics;
pub mod secret;
pub mod settings;
pub mod traces;

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
};

use api::{
    Agent, AgentTemplate, CronTask, KubeOpenCodeConfig, Registry, Task,
    conditions::{reasons, types},
};
use domain::{platform::Platform, run::target::Target, status, workload::contexts::ConfigMaps};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use observe::{Cache, Key, Queue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use store::{Archive, CacheScope, Owner};

use crate::{
    Environment,
    agent::{git_sync::LastLooks, server::Servers},
    cron::Children,
    image::Images,
    logs::Logs,
    lookup::Lookup,
    opt_in::OptIns,
    shared::{
        apply::Applied,
        dependents::Dependents,
        events::Events,
        metrics::Metrics,
        traces::{Collector, Traces},
    },
    task::{
        self, cleanup::Finished, last_pods::LastPods, needs::KeyNames, queues::Queues, results::Unread,
        secrets::TaskSecrets, session::LeftBehind, workspace::Workspaces,
    },
};

/// State that the reconcilers share, grouped by use. No lock is held across an await.
pub struct Shared {
    /// Client of the API server, behind the fence.
    pub client: Client,
    pub cache: Caches,
    pub work: Work,
    pub telemetry: Telemetry,
    pub tasks: TaskState,
    pub agents: AgentState,
    pub records: Records,
    pub dependents: Dependents,
    /// Client of Git servers, image registries and npm.
    pub lookup: Lookup,
    /// Secrets that every Task of their namespace may use.
    pub opt_ins: OptIns,
    /// Images that are being built, and who waits for them.
    pub images: Images,
    /// Tasks by the CronTask that owns them.
    pub children: Children,
    platform: RwLock<Arc<Platform>>,
    environment: Environment,
}

/// Reports of the controllers about their work.
pub struct Telemetry {
    pub events: Events,
    pub metrics: Arc<Metrics>,
    /// Traces of finished runs.
    pub traces: Traces,
}

/// State of the Task reconcilers.
#[derive(Default)]
pub struct TaskState {
    /// Queues of all Agents and templates.
    pub queues: Queues,
    pub last_pods: LastPods,
    /// Finished Tasks by namespace.
    pub finished: Finished,
    /// Keys of the Secrets and ConfigMaps that runs need.
    pub key_names: KeyNames,
    /// Whether Tasks may use the Secrets that they name.
    pub secrets: TaskSecrets,
    /// Claims that runs share, and claims that were left behind.
    pub workspaces: Workspaces,
}

/// State of the Agent reconciler.
#[derive(Default)]
pub struct AgentState {
    /// Clients of the OpenCode servers of Agents.
    pub servers: Servers,
    /// The last polls of the repositories that Agents follow.
    pub looks: LastLooks,
    /// The last applied version of each object.
    pub applied: Applied,
}

/// Logs and records that outlive Pods.
pub struct Records {
    /// Where logs and records are stored; `None` without an archive.
    pub archive: Option<Arc<dyn Archive>>,
    /// Followers that copy logs into the archive.
    pub logs: Logs,
    /// Ended runs whose results the store does not list.
    pub unread: Unread,
}

/// Watched objects.
#[derive(Clone, Default)]
pub struct Caches {
    /// Finished Tasks are reduced by [`task::slim`].
    pub tasks: Cache<Task>,
    pub agents: Cache<Agent>,
    pub templates: Cache<AgentTemplate>,
    pub crons: Cache<CronTask>,
    pub configs: Cache<KubeOpenCodeConfig>,
    pub registries: Cache<Registry>,
    /// Pods of Tasks, and of the servers of Agents.
    pub pods: Cache<Pod>,
    pub deployments: Cache<Deployment>,
    pub services: Cache<Service>,
    /// ConfigMaps with our label.
    pub config_maps: Cache<ConfigMap>,
    pub claims: Cache<PersistentVolumeClaim>,
}

/// One work queue per reconciler.
#[derive(Clone, Default)]
pub struct Work {
    /// Agents and templates whose waiting Tasks need a decision.
    pub admissions: Queue<Target>,
    pub tasks: Queue<Key>,
    pub agents: Queue<Key>,
    pub templates: Queue<Key>,
    pub crons: Queue<Key>,
    pub configs: Queue<Key>,
    pub registries: Queue<Key>,
    /// Claims with the files of runs.
    pub claims: Queue<Key>,
    /// Pods that build an image.
    pub images: Queue<Key>,
    /// Namespaces whose finished Tasks are due for a cleanup.
    pub cleanups: Queue<String>,
    /// Deleted Tasks whose logs and records are to be deleted.
    pub logs: Queue<Owner>,
    /// Deleted Agents and templates whose caches are to be deleted.
    pub caches: Queue<CacheScope>,
    /// Agents on which a Task may request approval.
    pub approvals: Queue<Key>,
    /// Finished runs whose session may still be active.
    pub sessions: Queue<LeftBehind>,
    /// Agents whose workspace may hold deliveries of deleted Tasks.
    pub sweeps: Queue<Key>,
    /// Namespaces in which the Secrets that Tasks may use changed.
    pub opt_ins: Queue<String>,
}

impl Shared {
    /// Empty caches and queues, and the platform's built-in settings.
    pub fn new(
        client: Client,
        telemetry: Telemetry,
        environment: Environment,
        archive: Option<Arc<dyn Archive>>,
        lookup: Lookup,
        secrets: TaskSecrets,
    ) -> Self {
        let work = Work::default();
        let platform = Platform::from(None, &*environment);
        let tasks = TaskState { secrets, ..TaskState::default() };
        tasks.queues.with(|index| index.set_grace(platform.reference_grace_period));
        let logs = Logs::new(archive.clone(), client.clone(), Arc::clone(&telemetry.metrics), work.tasks.clone());
        Self {
            client,
            cache: Caches::default(),
            work,
            telemetry,
            tasks,
            agents: AgentState::default(),
            records: Records { archive, logs, unread: Unread::default() },
            dependents: Dependents::default(),
            lookup,
            opt_ins: OptIns::default(),
            images: Images::default(),
            children: Children::default(),
            platform: RwLock::new(Arc::new(platform)),
            environment,
        }
    }

    /// The collector of traces; `None` if no endpoint is configured.
    pub fn collector(&self) -> Option<Collector> {
        Collector::of(&self.platform(), &self.environment)
    }

    /// Looks up an environment variable of this process.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    /// The current platform settings.
    pub fn platform(&self) -> Arc<Platform> {
        Arc::clone(&self.platform.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies a configuration. Returns whether anything changed.
    pub fn configure(&self, config: Option<&KubeOpenCodeConfig>) -> bool {
        let next = Platform::from(config, &*self.environment);
        let mut platform = self.platform.write().unwrap_or_else(PoisonError::into_inner);
        let changed = **platform != next;
        self.tasks.queues.with(|index| index.set_grace(next.reference_grace_period));
        *platform = Arc::new(next);
        changed
    }

    /// API of a kind in a namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The template of an Agent, if it exists and can be read.
    pub fn template_of(&self, agent: &Agent) -> Option<Arc<AgentTemplate>> {
        let name = &agent.spec.template_ref.as_ref()?.name;
        self.cache.templates.object(&Key::new(agent.metadata.namespace.clone().unwrap_or_default(), name))
    }

    /// Puts a Task that was just written into the cache, ahead of the watch.
    pub fn insert_written_task(&self, mut task: Task) {
        task::slim(&mut task);
        self.cache.tasks.insert_written(task);
    }

    /// Reads ConfigMaps. The value of a missing one is `None`.
    pub async fn read_config_maps(&self, namespace: &str, names: BTreeSet<String>) -> Result<ConfigMaps, kube::Error> {
        let api: Api<ConfigMap> = self.api(namespace);
        let mut found = ConfigMaps::new();
        for name in names {
            let data = api.get_opt(&name).await?.map(|map| map.data.unwrap_or_default());
            found.insert(name, data);
        }
        Ok(found)
    }

    /// Reports in the status, once, that an object cannot be read.
    pub async fn report_unreadable<K>(&self, key: &Key, why: &str) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let kind = ApiResource::erase::<K>(&());
        let objects = Api::namespaced_with(self.client.clone(), &key.namespace, &kind);
        report_unreadable(&objects, &key.name, types::ACCEPTED, why).await
    }

    /// Writes the difference between two statuses, if any. Transition times of conditions are ignored.
    ///
    /// With a `version` the write only succeeds on that version of the object.
    pub async fn write_status<K>(
        &self,
        key: &Key,
        before: &impl Serialize,
        after: &impl Serialize,
        version: Option<&str>,
    ) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let Some(mut patch) = status_patch(before, after)? else { return Ok(None) };
        if let Some(version) = version {
            patch["metadata"] = json!({ "resourceVersion": version });
        }
        let api: Api<K> = self.api(&key.namespace);
        api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(Some)
    }
}

/// Reports in the condition `kind` of an object that it cannot be read, once.
pub async fn report_unreadable(
    objects: &Api<DynamicObject>,
    name: &str,
    kind: &str,
    why: &str,
) -> Result<(), kube::Error> {
    let Some(object) = objects.get_opt(name).await? else { return Ok(()) };
    let mut conditions = Vec::new();
    let message = format!("this object cannot be read: {why}");
    status::set(&mut conditions, kind, false, reasons::INVALID, message, object.metadata.generation, now());
    let reported = object.data.pointer("/status/conditions/0/message").and_then(Value::as_str);
    if reported == Some(conditions[0].message.as_str()) {
        return Ok(());
    }
    let patch = json!({ "status": { "conditions": conditions } });
    objects.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The merge patch that turns one status into another; `None` if they are equal.
pub fn status_patch(before: &impl Serialize, after: &impl Serialize) -> Result<Option<Value>, kube::Error> {
    let before = serde_json::to_value(before).map_err(kube::Error::SerdeError)?;
    let after = serde_json::to_value(after).map_err(kube::Error::SerdeError)?;
    Ok(difference(&before, &after).map(|status| json!({ "status": status })))
}

/// The merge patch (RFC 7396) that turns `before` into `after`. A list is one value.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
            let changed = new.iter().filter_map(|(key, value)| match old.get(key) {
                Some(old) => difference(old, value).map(|value| (key.clone(), value)),
                None => Some((key.clone(), value.clone())),
            });
            let patch: serde_json::Map<String, Value> = gone.chain(changed).collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) if old == new => None,
        (_, new) => Some(new.clone()),
    }
}

/// The current time. No other function reads the clock.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The instant of `moment`, for the work queue.
pub fn instant(moment: Timestamp) -> tokio::time::Instant {
    let wait = moment.duration_since(now()).try_into().unwrap_or_default();
    tokio::time::Instant::now() + wait
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_only_what_differs() {
        let before = json!({"phase": "Queued", "queuePosition": 2, "usage": {"cost": "1"}, "list": [1]});
        let after = json!({"phase": "Running", "usage": {"cost": "1"}, "list": [1, 2]});
        assert_eq!(
            status_patch(&before, &after).unwrap(),
            Some(json!({"status": {"queuePosition": null, "phase": "Running", "list": [1, 2]}}))
        );
        assert_eq!(status_patch(&after, &after).unwrap(), None);
    }
}
