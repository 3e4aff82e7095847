//! What every reconciler shares.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use api::{
    Agent, AgentTemplate, CronTask, KubeOpenCodeConfig, Registry, Task,
    conditions::{reasons, types},
    run::Retry,
};
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
use kubeopencode_core::{contexts::ConfigMaps, platform::Platform, pod::attaches, resolved::ResolvedTask, status};
use observe::{Key, Kind, Queue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use store::{Archive, Owner};

use crate::{
    Environment,
    agent::{git_sync::LastLooks, server::Servers},
    apply::Applied,
    cron::Children,
    events::Events,
    logs::Logs,
    metrics::Metrics,
    parts::Parts,
    remote::Remote,
    task::{self, cleanup::Finished, made::Made, needs::KeyNames, queues::Queues, session::LeftBehind, target::Target},
    traces::{Collector, Traces},
};

/// What every reconciler shares. No lock is held across an await.
pub struct Context {
    /// The API server, behind the fence.
    pub client: Client,
    /// Tells people.
    pub events: Events,
    /// Tells programs.
    pub metrics: Arc<Metrics>,
    /// What is known of the cluster.
    pub seen: Cluster,
    /// What is to be done.
    pub work: Work,
    /// Who waits for what.
    pub queues: Queues,
    /// What lies outside the cluster.
    pub remote: Remote,
    /// Servers of Agents.
    pub servers: Servers,
    /// Repositories that Agents follow.
    pub looks: LastLooks,
    /// Where runs that ended are told.
    pub traces: Traces,
    /// What Agents use and others own.
    pub parts: Parts,
    /// What outlives Pods, if anything does.
    pub archive: Option<Arc<dyn Archive>>,
    /// Logs that outlive Pods.
    pub logs: Logs,
    /// What was applied.
    pub applied: Applied,
    /// Keys of what runs need and others own.
    pub key_names: KeyNames,
    /// Runs whose Pod was seen, and that Pod.
    pub made: Made,
    /// Finished Tasks, oldest first.
    pub finished: Finished,
    /// Tasks of CronTasks.
    pub children: Children,
    platform: RwLock<Arc<Platform>>,
    environment: Environment,
}

/// What is known of the cluster.
#[derive(Clone, Default)]
pub struct Cluster {
    /// Tasks; finished ones without what nobody asks for any more.
    pub tasks: Kind<Task>,
    /// Agents.
    pub agents: Kind<Agent>,
    /// Templates.
    pub templates: Kind<AgentTemplate>,
    /// CronTasks.
    pub crons: Kind<CronTask>,
    /// The configuration.
    pub configs: Kind<KubeOpenCodeConfig>,
    /// Registries.
    pub registries: Kind<Registry>,
    /// Pods of Tasks, and of the servers of Agents.
    pub pods: Kind<Pod>,
    /// Deployments of Agents.
    pub deployments: Kind<Deployment>,
    /// Services of Agents.
    pub services: Kind<Service>,
    /// ConfigMaps that we made.
    pub config_maps: Kind<ConfigMap>,
    /// Claims of Agents.
    pub claims: Kind<PersistentVolumeClaim>,
}

/// What is to be done, a queue for each reconciler.
#[derive(Clone, Default)]
pub struct Work {
    /// Agents and templates whose waiting Tasks need a decision.
    pub admissions: Queue<Target>,
    /// Tasks.
    pub tasks: Queue<Key>,
    /// Agents.
    pub agents: Queue<Key>,
    /// Templates.
    pub templates: Queue<Key>,
    /// CronTasks.
    pub crons: Queue<Key>,
    /// The configuration.
    pub configs: Queue<Key>,
    /// Registries.
    pub registries: Queue<Key>,
    /// Namespaces whose finished Tasks may have to go.
    pub cleanups: Queue<String>,
    /// Tasks that are gone and whose logs and records have to go too.
    pub logs: Queue<Owner>,
    /// Agents on which a Task may ask a person.
    pub approvals: Queue<Key>,
    /// Runs that are over and whose session may go on.
    pub sessions: Queue<LeftBehind>,
    /// Agents whose workspace may hold what Tasks delivered that are gone.
    pub sweeps: Queue<Key>,
}

impl Context {
    /// A context that knows nothing yet.
    pub fn new(
        client: Client,
        events: Events,
        traces: Traces,
        metrics: Arc<Metrics>,
        environment: Environment,
        archive: Option<Arc<dyn Archive>>,
    ) -> Self {
        let work = Work::default();
        Self {
            logs: Logs::new(archive.clone(), client.clone(), Arc::clone(&metrics), work.tasks.clone()),
            archive,
            client,
            events,
            metrics,
            seen: Cluster::default(),
            work,
            queues: Queues::default(),
            remote: Remote::default(),
            servers: Servers::default(),
            looks: LastLooks::default(),
            traces,
            parts: Parts::default(),
            applied: Applied::default(),
            key_names: KeyNames::default(),
            made: Made::default(),
            finished: Finished::default(),
            children: Children::default(),
            platform: RwLock::new(Arc::new(Platform::from(None, &*environment))),
            environment,
        }
    }

    /// Where traces go, if anywhere.
    pub fn collector(&self) -> Option<Collector> {
        Collector::of(&self.platform(), &self.environment)
    }

    /// A variable of the process's environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    /// The platform as it is now.
    pub fn platform(&self) -> Arc<Platform> {
        Arc::clone(&self.platform.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over a configuration. Answers whether anything changed.
    pub fn configure(&self, config: Option<&KubeOpenCodeConfig>) -> bool {
        let next = Platform::from(config, &*self.environment);
        let mut platform = self.platform.write().unwrap_or_else(PoisonError::into_inner);
        let changed = **platform != next;
        *platform = Arc::new(next);
        changed
    }

    /// The objects of a kind in a namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The template that an Agent names, if it exists and can be read.
    pub fn template_of(&self, agent: &Agent) -> Option<Arc<AgentTemplate>> {
        let name = &agent.spec.template_ref.as_ref()?.name;
        self.seen.templates.object(&Key::new(agent.metadata.namespace.clone().unwrap_or_default(), name))
    }

    /// Takes over a Task that was just written, ahead of the watch.
    pub fn learn_task(&self, mut task: Task) {
        task::slim(&mut task);
        self.seen.tasks.learn(task);
    }

    /// The settings of a run, as far as its Agent or template still exists.
    pub fn resolved(&self, task: &Task) -> Option<ResolvedTask> {
        task::start::resolve(self, task).ok().map(|(resolved, _)| resolved)
    }

    /// How long a Task may take to start.
    pub fn startup_timeout(&self, task: &Task) -> Duration {
        self.resolved(task).map_or_else(|| self.platform().startup_timeout, |resolved| resolved.startup_timeout)
    }

    /// Whether, and how often, a Task is tried again.
    pub fn retry(&self, task: &Task) -> Retry {
        self.resolved(task).map(|resolved| resolved.retry).unwrap_or_default()
    }

    /// Whether the task container is one of our own, which always leaves a report. A user's own attach image with the
    /// real OpenCode does not.
    pub fn leaves_a_report(&self, task: &Task) -> bool {
        let ours = self.platform().attach_image.clone();
        self.resolved(task).is_none_or(|task| !attaches(&task) || task.agent.attach_image == ours)
    }

    /// Reads ConfigMaps; one that does not exist is a value too.
    pub async fn read_config_maps(&self, namespace: &str, names: BTreeSet<String>) -> Result<ConfigMaps, kube::Error> {
        let api: Api<ConfigMap> = self.api(namespace);
        let mut found = ConfigMaps::new();
        for name in names {
            let data = api.get_opt(&name).await?.map(|map| map.data.unwrap_or_default());
            found.insert(name, data);
        }
        Ok(found)
    }

    /// Says in its status that an object cannot be read, once.
    pub async fn report_unreadable<K>(&self, key: &Key, why: &str) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let kind = ApiResource::erase::<K>(&());
        let objects = Api::namespaced_with(self.client.clone(), &key.namespace, &kind);
        report_unreadable(&objects, &key.name, types::ACCEPTED, why).await
    }

    /// Writes what differs between two statuses, if anything does, ignoring when conditions changed last.
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

/// Says in the condition `kind` of an object that it cannot be read, once.
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
    let told = object.data.pointer("/status/conditions/0/message").and_then(Value::as_str);
    if told == Some(conditions[0].message.as_str()) {
        return Ok(());
    }
    let patch = json!({ "status": { "conditions": conditions } });
    objects.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The merge patch that turns one status into another; nothing if they say the same.
pub fn status_patch(before: &impl Serialize, after: &impl Serialize) -> Result<Option<Value>, kube::Error> {
    let before = serde_json::to_value(before).map_err(kube::Error::SerdeError)?;
    let after = serde_json::to_value(after).map_err(kube::Error::SerdeError)?;
    Ok(difference(&before, &after).map(|status| json!({ "status": status })))
}

/// RFC 7396: what to merge into `before` to get `after`. A list is one value.
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

/// The time now; the only place that asks for it.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// When `moment` comes, for the work queue.
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
