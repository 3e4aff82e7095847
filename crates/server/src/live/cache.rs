//! Caches of the watched kinds, and the feed of their changes.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use api::{
    Agent, AgentTemplate, AgentTool, AgentWorkflow, CronTask, Instruction, KubeOpenCodeConfig, MCPServer, Model,
    ModelProvider, Registry, RemoteMCPServer, Task, TaskPhase, settings::AgentSettings,
};
use domain::{
    agent::{
        merge,
        model::{MainModel, main_model},
    },
    opencode::ModelBinding,
    platform::Platform,
    run::target::{RunsOn, Target},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt, runtime::watcher};
use observe::{Cache, Change, Key};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;

use crate::{
    live::feed::{ChangeType, Feed, Message},
    routes::kind::Served,
};

/// The caches of all watched kinds.
#[derive(Debug)]
pub struct Caches {
    pub tasks: Cache<Task>,
    pub cron_tasks: Cache<CronTask>,
    pub agents: Cache<Agent>,
    pub templates: Cache<AgentTemplate>,
    pub configs: Cache<KubeOpenCodeConfig>,
    pub registries: Cache<Registry>,
    pub providers: Cache<ModelProvider>,
    pub models: Cache<Model>,
    pub instructions: Cache<Instruction>,
    pub remote_servers: Cache<RemoteMCPServer>,
    pub servers: Cache<MCPServer>,
    pub tools: Cache<AgentTool>,
    pub workflows: Cache<AgentWorkflow>,
    pub namespaces: Cache<Namespace>,
    pub feed: Feed,
    loads: Mutex<HashMap<Target, Load>>,
    environment: fn(&str) -> Option<String>,
}

/// Tasks of an Agent or template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Tasks that hold a slot.
    pub running: usize,
    /// Tasks that wait.
    pub waiting: usize,
    /// Tasks that have ended and still exist.
    pub finished: usize,
}

impl Caches {
    /// Empty caches.
    pub fn new(feed_prefix: &str, environment: fn(&str) -> Option<String>) -> Self {
        Self {
            tasks: Cache::default(),
            cron_tasks: Cache::default(),
            agents: Cache::default(),
            templates: Cache::default(),
            configs: Cache::default(),
            registries: Cache::default(),
            providers: Cache::default(),
            models: Cache::default(),
            instructions: Cache::default(),
            remote_servers: Cache::default(),
            servers: Cache::default(),
            tools: Cache::default(),
            workflows: Cache::default(),
            namespaces: Cache::default(),
            feed: Feed::new(feed_prefix),
            loads: Mutex::default(),
            environment,
        }
    }

    /// Watches all kinds until the task is dropped.
    pub async fn follow(self: Arc<Self>, client: Client) {
        let mut watches = JoinSet::new();
        let caches = Arc::clone(&self);
        let changed = move |change: &Change<'_, Task>| caches.task_changed(change);
        watches.spawn(self.tasks.follow(client.clone(), watcher::Config::default(), slim_task, changed));
        self.follow_kind::<CronTask>(&client, &mut watches);
        self.follow_kind::<Agent>(&client, &mut watches);
        self.follow_kind::<AgentTemplate>(&client, &mut watches);
        self.follow_kind::<Registry>(&client, &mut watches);
        self.follow_kind::<ModelProvider>(&client, &mut watches);
        self.follow_kind::<Model>(&client, &mut watches);
        self.follow_kind::<Instruction>(&client, &mut watches);
        self.follow_kind::<RemoteMCPServer>(&client, &mut watches);
        self.follow_kind::<MCPServer>(&client, &mut watches);
        self.follow_kind::<AgentTool>(&client, &mut watches);
        self.follow_kind::<AgentWorkflow>(&client, &mut watches);
        watches.spawn(self.configs.follow(client.clone(), watcher::Config::default(), |_| (), |_| ()));
        watches.spawn(self.namespaces.follow(client, watcher::Config::default(), slim_namespace, |_| ()));
        while watches.join_next().await.is_some() {}
    }

    fn follow_kind<K: Served>(self: &Arc<Self>, client: &Client, watches: &mut JoinSet<()>) {
        let caches = Arc::clone(self);
        let changed = move |change: &Change<'_, K>| caches.changed(change);
        watches.spawn(K::cache(self).follow(client.clone(), watcher::Config::default(), |_| (), changed));
    }

    /// Whether every kind was listed once.
    pub fn is_complete(&self) -> bool {
        self.tasks.is_complete()
            && self.cron_tasks.is_complete()
            && self.agents.is_complete()
            && self.templates.is_complete()
            && self.configs.is_complete()
            && self.registries.is_complete()
            && self.providers.is_complete()
            && self.models.is_complete()
            && self.instructions.is_complete()
            && self.remote_servers.is_complete()
            && self.servers.is_complete()
            && self.tools.is_complete()
            && self.workflows.is_complete()
            && self.namespaces.is_complete()
    }

    /// The platform's settings now.
    pub fn platform(&self) -> Platform {
        Platform::from(self.configs.object(&Key::new("", "cluster")).as_deref(), &self.environment)
    }

    /// Tasks of an Agent or template.
    pub fn load(&self, target: &Target) -> Load {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).get(target).copied().unwrap_or_default()
    }

    /// How many Tasks may run on an Agent at once, its template merged in.
    pub fn slots(&self, agent: &Agent) -> Option<u32> {
        let most = self.merged(agent).max_concurrent_tasks;
        most.and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0)
    }

    /// The settings of an Agent, its template merged in.
    pub fn merged<'a>(&self, agent: &'a Agent) -> Cow<'a, AgentSettings> {
        let template = agent.spec.template_ref.as_ref();
        let template = template.and_then(|template| {
            self.templates.object(&Key::new(agent.namespace().unwrap_or_default(), &template.name))
        });
        match template {
            Some(template) => Cow::Owned(merge::merge(&agent.spec.settings, &template.spec.settings)),
            None => Cow::Borrowed(&agent.spec.settings),
        }
    }

    /// The main model of merged settings of the object `user`, as provider/model. A Model that does not exist is shown
    /// by its name.
    pub fn main_model(&self, user: &Key, settings: &AgentSettings) -> Option<String> {
        match main_model(settings)? {
            MainModel::Named(name) => Some(name),
            MainModel::Model(reference) => {
                let namespace = reference.namespace.as_deref().unwrap_or(&user.namespace);
                let model = self.models.object(&Key::new(namespace, &reference.name));
                let bound = model.and_then(|model| {
                    let at = &model.spec.provider_ref;
                    let home = at.namespace.as_deref().unwrap_or(namespace);
                    let provider = self.providers.object(&Key::new(home, &at.name))?;
                    Some(ModelBinding::new(&at.name, &provider.spec, &model.spec).reference())
                });
                Some(bound.unwrap_or(reference.name))
            }
        }
    }

    fn changed<K: Served>(&self, change: &Change<'_, K>) {
        if should_publish(change) {
            self.publish(change.was(), change.object());
        }
    }

    fn task_changed(&self, change: &Change<'_, Task>) {
        let before = change.was().and_then(|task| Some((Target::of(task)?, share(task))));
        let now = change.object().and_then(|task| Some((Target::of(task)?, share(task))));
        if before != now {
            let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((target, share)) = &before {
                let load = loads.entry(target.clone()).or_default();
                load.running = load.running.saturating_sub(share.running);
                load.waiting = load.waiting.saturating_sub(share.waiting);
                load.finished = load.finished.saturating_sub(share.finished);
                if *load == Load::default() {
                    loads.remove(target);
                }
            }
            if let Some((target, share)) = &now {
                let load = loads.entry(target.clone()).or_default();
                load.running += share.running;
                load.waiting += share.waiting;
                load.finished += share.finished;
            }
        }
        if !should_publish(change) {
            return;
        }
        self.publish(change.was(), change.object());
        // The response of an Agent contains its slots and queue, that of a template its number of Tasks.
        let moved = if before == now { None } else { now.or(before) };
        let Some((target, _)) = moved else { return };
        match target.runs_on {
            RunsOn::Agent(_) => {
                if let Some(agent) = self.agents.object(&target.key()) {
                    self.publish(Some(&*agent), Some(&*agent));
                }
            }
            RunsOn::Template(_) => {
                if let Some(template) = self.templates.object(&target.key()) {
                    self.publish(Some(&*template), Some(&*template));
                }
            }
        }
    }

    fn publish<K: Served>(&self, before: Option<&K>, now: Option<&K>) {
        let Some(object) = now.or(before) else { return };
        let what = match (before, now) {
            (_, None) => ChangeType::Deleted,
            (None, Some(_)) => ChangeType::Added,
            (Some(_), Some(_)) => ChangeType::Modified,
        };
        let meta = object.meta();
        self.feed.publish(&Message {
            kind: K::KIND,
            plural: K::PLURAL,
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            name: meta.name.as_deref().unwrap_or_default(),
            what,
            uid: meta.uid.as_deref(),
            resource_version: meta.resource_version.as_deref(),
            object: now.and_then(|object| to_raw_value(&object.short(self)).ok()),
        });
    }
}

/// Whether to publish a change: not objects of the first list, and not objects that a later list only
/// repeats.
fn should_publish<K: Served>(change: &Change<'_, K>) -> bool {
    let version = |object: Option<&K>| object.and_then(ResourceExt::resource_version);
    !change.first_list && version(change.was()) != version(change.object())
}

/// The contribution of a Task to the load of its target.
fn share(task: &Task) -> Load {
    let phase = task.status.as_ref().and_then(|status| status.phase).unwrap_or_default();
    match phase {
        TaskPhase::Running => Load { running: 1, ..Load::default() },
        TaskPhase::Pending | TaskPhase::Queued => Load { waiting: 1, ..Load::default() },
        TaskPhase::Completed | TaskPhase::Failed => Load { finished: 1, ..Load::default() },
    }
}

/// Tasks take most of the memory: keep the fields that lists, filters and totals need. Details are read on request.
fn slim_task(task: &mut Task) {
    const KEPT_CHARACTERS: usize = 1001;
    if let Some(text) = &mut task.spec.description
        && let Some((end, _)) = text.char_indices().nth(KEPT_CHARACTERS)
    {
        text.truncate(end);
        text.shrink_to_fit();
    }
    let spec = &mut task.spec;
    spec.contexts = None;
    spec.run.artifacts = None;
    spec.inputs = None;
    spec.run.caches = None;
    spec.run.services = None;
    spec.tools = None;
    if let Some(status) = &mut task.status {
        status.artifacts = None;
        if let Some(resolved) = &mut status.resolved {
            resolved.terms = None;
        }
        if let Some(result) = &mut status.result {
            result.outputs = None;
        }
    }
}

fn slim_namespace(namespace: &mut Namespace) {
    namespace.spec = None;
    namespace.status = None;
    namespace.metadata.annotations = None;
}

pub fn now() -> Timestamp {
    Timestamp::now()
}
