//! How each kind is served: its cache, its response, and its short form in requests.

use std::{cmp::Ordering, fmt::Debug};

use api::{
    Agent, AgentTemplate, AgentTool, AgentWorkflow, CronTask, Instruction, MCPServer, Model, ModelProvider, Registry,
    RemoteMCPServer, Task, TaskSpec, kinds::agent::AgentPhase, names,
};
use domain::{
    run::{stage::shown_phase, target::Target, title::title},
    workload::names::runs_on,
};
use kube::{Resource, ResourceExt as _, core::NamespaceResourceScope};
use observe::{Cache, Key};
use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::{
    error::ApiError,
    live::{
        cache::{Caches, now},
        list::Filter,
    },
    routes::crud::PARTIAL,
    wire::{
        self, AgentResponse, AgentTemplateResponse, CronTaskResponse, Identity, ObjectResponse, RegistryResponse,
        TaskResponse,
    },
};

/// A kind that is served.
pub trait Served:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Response of the kind.
    type Response: Serialize + ToSchema + Send;
    /// Name of the kind.
    const KIND: &'static str;
    /// Plural name, in paths and rights.
    const PLURAL: &'static str;
    /// Short form of a request.
    const SHORT: Short = Short::NameAndSpec;
    /// Key of the objects in a list.
    const LIST: &'static str = "items";

    /// The cache of the kind.
    fn cache(caches: &Caches) -> &Cache<Self>;

    /// The response in lists.
    fn short(&self, caches: &Caches) -> Self::Response;

    /// The response with all details.
    fn detail(&self, caches: &Caches) -> Self::Response {
        self.short(caches)
    }

    /// A title for people, if the kind has one besides the name.
    fn title(&self) -> Option<String> {
        None
    }

    /// Whether the filters of the kind accept the object.
    fn wanted(&self, _filter: &Filter) -> bool {
        true
    }

    /// The phase, for filters and sorting.
    fn phase(&self) -> &'static str {
        ""
    }

    /// Order by duration, in seconds.
    fn took(&self) -> Option<i64> {
        None
    }

    /// Expands a short form to a whole object: `metadata` and `spec`.
    fn expand(short: Map<String, Value>) -> Result<Value, ApiError> {
        name_and_spec(short)
    }

    /// Expands the short form of a PUT to a change: an object with [`PARTIAL`] instead of a spec.
    fn partial(_short: Map<String, Value>) -> Result<Value, ApiError> {
        Err(ApiError::invalid("spec", "send the whole object: apiVersion, kind, metadata and spec"))
    }
}

/// Short forms of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// A [`wire::CreateTask`].
    Task,
    /// The spec, or instead of its template some fields of the Task.
    CronTask,
    /// Name and labels beside the fields of the spec.
    Flat,
    /// Name, labels and spec.
    NameAndSpec,
}

/// Fields of a Task that the short form of a CronTask may contain.
pub const OF_THE_TASK: [&str; 5] = ["description", "agentRef", "templateRef", "contexts", "timeout"];

/// Fields of a CronTask that can be changed individually, besides the description of its Task.
pub const CHANGED_ALONE: [&str; 6] =
    ["schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "maxRetainedTasks"];

/// Orders two objects by creation time, then by name.
pub fn by_age<K: Resource>(a: &K, b: &K) -> Ordering {
    let age = |object: &K| object.meta().creation_timestamp.as_ref().map(|time| time.0);
    let (of_a, of_b) = (a.meta(), b.meta());
    age(a).cmp(&age(b)).then_with(|| of_a.name.cmp(&of_b.name)).then_with(|| of_a.namespace.cmp(&of_b.namespace))
}

impl Served for Task {
    type Response = TaskResponse;
    const KIND: &'static str = "Task";
    const PLURAL: &'static str = "tasks";
    const LIST: &'static str = "tasks";
    const SHORT: Short = Short::Task;

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.tasks
    }

    fn short(&self, _: &Caches) -> TaskResponse {
        TaskResponse::short(self, now())
    }

    fn detail(&self, _: &Caches) -> TaskResponse {
        TaskResponse::detail(self, now())
    }

    fn title(&self) -> Option<String> {
        self.spec.description.as_deref().and_then(title)
    }

    fn wanted(&self, filter: &Filter) -> bool {
        let status = self.status.as_ref();
        let named = |reference: &Option<api::refs::LocalRef>, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| reference.as_ref().is_some_and(|reference| reference.name == *wanted))
        };
        let cron = || self.metadata.labels.as_ref().and_then(|labels| labels.get(names::labels::CRON_TASK));
        filter.phase(Served::phase(self))
            && named(&self.spec.agent_ref, &filter.agent)
            && named(&self.spec.template_ref, &filter.template)
            && filter.reason.as_ref().is_none_or(|wanted| status.and_then(|s| s.reason.as_ref()) == Some(wanted))
            && filter.crontask.as_ref().is_none_or(|wanted| cron() == Some(wanted))
    }

    fn phase(&self) -> &'static str {
        shown_phase(self)
    }

    fn took(&self) -> Option<i64> {
        let status = self.status.as_ref()?;
        let end = status.completion_time.as_ref().map_or_else(now, |time| time.0);
        Some(end.duration_since(status.start_time.as_ref()?.0).as_secs())
    }

    fn expand(short: Map<String, Value>) -> Result<Value, ApiError> {
        let task: wire::CreateTask = read(short)?;
        if task.description.trim().is_empty() {
            return Err(ApiError::invalid("description", "the description is empty"));
        }
        let mut metadata = named(task.name.as_deref());
        if task.name.is_none() {
            metadata["generateName"] = "task-".into();
        }
        put(&mut metadata, "annotations", task.annotations.clone());
        let mut labels = task.labels.clone().unwrap_or_default();
        let mut spec = serde_json::to_value(task).map_err(|error| ApiError::bad_request(error.to_string()))?;
        remove(&mut spec, &["name", "labels", "annotations"]);
        // An invalid spec is refused by the API server, with a better message.
        if let Ok(read) = TaskSpec::deserialize(&spec) {
            labels.extend(runs_on(&read).map(|(label, name)| (label.to_owned(), name.to_owned())));
        }
        put(&mut metadata, "labels", Some(labels));
        Ok(json!({ "metadata": metadata, "spec": spec }))
    }
}

impl Served for CronTask {
    type Response = CronTaskResponse;
    const KIND: &'static str = "CronTask";
    const PLURAL: &'static str = "crontasks";
    const LIST: &'static str = "cronTasks";
    const SHORT: Short = Short::CronTask;

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.cron_tasks
    }

    fn short(&self, _: &Caches) -> CronTaskResponse {
        CronTaskResponse::of(self)
    }

    fn expand(mut short: Map<String, Value>) -> Result<Value, ApiError> {
        let name = name_of(&mut short)?;
        let task: Map<String, Value> =
            OF_THE_TASK.iter().filter_map(|field| Some(((*field).to_owned(), short.shift_remove(*field)?))).collect();
        if !task.is_empty() {
            if short.contains_key("taskTemplate") {
                return Err(ApiError::invalid("taskTemplate", "set either taskTemplate or description, agentRef, …"));
            }
            short.insert("taskTemplate".to_owned(), json!({ "spec": task }));
        }
        let labels = short.shift_remove("labels");
        let mut metadata = named(Some(&name));
        put(&mut metadata, "labels", labels);
        Ok(json!({ "metadata": metadata, "spec": short }))
    }

    fn partial(mut short: Map<String, Value>) -> Result<Value, ApiError> {
        let description = short.shift_remove("description");
        if let Some(unknown) = short.keys().find(|key| !CHANGED_ALONE.contains(&key.as_str())) {
            return Err(ApiError::invalid(unknown, "it cannot be changed alone; send the whole object"));
        }
        if let Some(description) = description {
            short.insert("taskTemplate".to_owned(), json!({ "spec": { "description": description } }));
        }
        Ok(json!({ PARTIAL: short }))
    }
}

impl Served for Agent {
    type Response = AgentResponse;
    const KIND: &'static str = "Agent";
    const PLURAL: &'static str = "agents";
    const LIST: &'static str = "agents";
    const SHORT: Short = Short::Flat;

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.agents
    }

    fn short(&self, caches: &Caches) -> AgentResponse {
        let load = caches.load(&Target::agent(Key::of(self)));
        let response = AgentResponse::of(self, load.running, load.waiting, caches.slots(self));
        // The controller reports the model when it has applied the Agent.
        let resolved_model =
            response.resolved_model.or_else(|| caches.main_model(&Key::of(self), &caches.merged(self)));
        AgentResponse { resolved_model, ..response }
    }

    fn wanted(&self, filter: &Filter) -> bool {
        let template = self.spec.template_ref.as_ref().map(|template| &template.name);
        let ready = self.status.as_ref().and_then(|status| status.ready).unwrap_or_default();
        filter.phase(Served::phase(self))
            && filter.template.as_ref().is_none_or(|wanted| template == Some(wanted))
            && filter.ready.is_none_or(|wanted| wanted == ready)
    }

    fn phase(&self) -> &'static str {
        self.status.as_ref().and_then(|status| status.phase).map(AgentPhase::as_str).unwrap_or_default()
    }

    fn expand(short: Map<String, Value>) -> Result<Value, ApiError> {
        flat(short)
    }
}

impl Served for AgentTemplate {
    type Response = AgentTemplateResponse;
    const KIND: &'static str = "AgentTemplate";
    const PLURAL: &'static str = "agenttemplates";
    const LIST: &'static str = "agentTemplates";
    const SHORT: Short = Short::Flat;

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.templates
    }

    fn short(&self, caches: &Caches) -> AgentTemplateResponse {
        let (key, name) = (Key::of(self), self.name_any());
        let uses = |at: &Key, agent: &Agent| {
            at.namespace == key.namespace && agent.spec.template_ref.as_ref().is_some_and(|other| other.name == name)
        };
        let agents = caches.agents.filter(uses).len();
        let load = caches.load(&Target::template(key.clone()));
        let model = caches.main_model(&key, &self.spec.settings);
        AgentTemplateResponse::of(self, agents, load, model)
    }

    fn expand(short: Map<String, Value>) -> Result<Value, ApiError> {
        flat(short)
    }
}

impl Served for Registry {
    type Response = RegistryResponse;
    const KIND: &'static str = "Registry";
    const PLURAL: &'static str = "registries";
    const LIST: &'static str = "registries";

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.registries
    }

    fn short(&self, _: &Caches) -> RegistryResponse {
        RegistryResponse::of(self)
    }
}

/// Kinds with the general response.
macro_rules! plain {
    ($($kind:ty, $name:literal, $plural:literal, $cache:ident;)*) => {$(
        impl Served for $kind {
            type Response = ObjectResponse;
            const KIND: &'static str = $name;
            const PLURAL: &'static str = $plural;

            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$cache
            }

            fn short(&self, _: &Caches) -> ObjectResponse {
                let conditions = wire::conditions(self.status.as_ref().and_then(|status| status.conditions.as_ref()));
                object_response($name, Identity::of(self), conditions, &self.spec, self.status.as_ref())
            }
        }
    )*};
}

plain! {
    ModelProvider, "ModelProvider", "modelproviders", providers;
    Model, "Model", "models", models;
    Instruction, "Instruction", "instructions", instructions;
    RemoteMCPServer, "RemoteMCPServer", "remotemcpservers", remote_servers;
    MCPServer, "MCPServer", "mcpservers", servers;
    AgentTool, "AgentTool", "agenttools", tools;
    AgentWorkflow, "AgentWorkflow", "agentworkflows", workflows;
}

fn object_response(
    kind: &str,
    identity: Identity,
    conditions: Vec<wire::Condition>,
    spec: &impl Serialize,
    status: Option<&impl Serialize>,
) -> ObjectResponse {
    let mut status = status.and_then(|status| serde_json::to_value(status).ok());
    if let Some(status) = &mut status {
        remove(status, &["conditions"]);
    }
    ObjectResponse {
        kind: kind.to_owned(),
        identity,
        ready: wire::ready(&conditions),
        conditions,
        spec: serde_json::to_value(spec).unwrap_or_default(),
        status,
    }
}

/// `{"name", "spec", "labels"?}`.
fn name_and_spec(mut short: Map<String, Value>) -> Result<Value, ApiError> {
    let mut metadata = named(Some(&name_of(&mut short)?));
    put(&mut metadata, "labels", short.shift_remove("labels"));
    let spec = short.shift_remove("spec").unwrap_or_else(|| json!({}));
    if let Some(unknown) = short.keys().next() {
        return Err(ApiError::invalid(unknown, "there is no such field; write name and spec, or the whole object"));
    }
    Ok(json!({ "metadata": metadata, "spec": spec }))
}

/// `{"name", "labels"?, …}` where everything else is the spec.
fn flat(mut short: Map<String, Value>) -> Result<Value, ApiError> {
    let mut metadata = named(Some(&name_of(&mut short)?));
    put(&mut metadata, "labels", short.shift_remove("labels"));
    Ok(json!({ "metadata": metadata, "spec": short }))
}

fn name_of(short: &mut Map<String, Value>) -> Result<String, ApiError> {
    match short.shift_remove("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name),
        _ => Err(ApiError::invalid("name", "a name is required")),
    }
}

fn named(name: Option<&str>) -> Value {
    name.map_or_else(|| json!({}), |name| json!({ "name": name }))
}

fn put(object: &mut Value, key: &str, value: Option<impl Serialize>) {
    if let Some(value) = value.and_then(|value| serde_json::to_value(value).ok()) {
        object[key] = value;
    }
}

fn remove(object: &mut Value, keys: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        for key in keys {
            object.shift_remove(*key);
        }
    }
}

fn read<T: DeserializeOwned>(short: Map<String, Value>) -> Result<T, ApiError> {
    serde_json::from_value(Value::Object(short)).map_err(|error| ApiError::unreadable(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand<K: Served>(short: Value) -> Result<Value, ApiError> {
        let Value::Object(short) = short else { unreachable!() };
        K::expand(short)
    }

    #[test]
    fn a_task_in_short_becomes_a_whole_one() {
        let short = json!({"description": "do it", "agentRef": {"name": "dev"}, "labels": {"a": "b"},
            "contexts": [{"type": "URL", "mountPath": "x", "url": {"source": "https://example.com"}}]});
        let whole = expand::<Task>(short).unwrap();
        assert_eq!(
            whole["metadata"],
            json!({"generateName": "task-", "labels": {"a": "b", "kubeopencode.io/agent": "dev"}})
        );
        assert_eq!(whole["spec"]["contexts"][0]["type"], "URL");
        assert!(whole["spec"].get("labels").is_none());
    }

    #[test]
    fn a_task_needs_words() {
        assert_eq!(expand::<Task>(json!({"description": " "})).unwrap_err().fields[0].field, "description");
        assert_eq!(
            expand::<Task>(json!({"description": "a", "foo": 1})).unwrap_err().reason,
            wire::ErrorReason::Invalid
        );
    }

    #[test]
    fn a_crontask_in_short_puts_the_task_into_its_template() {
        let whole = expand::<CronTask>(
            json!({"name": "n", "schedule": "@daily", "description": "d", "agentRef": {"name": "a"}}),
        )
        .unwrap();
        assert_eq!(
            whole["spec"],
            json!({"schedule": "@daily", "taskTemplate": {"spec": {"description": "d", "agentRef": {"name": "a"}}}})
        );
        assert!(expand::<CronTask>(json!({"schedule": "@daily"})).is_err());
    }

    #[test]
    fn what_a_short_form_does_not_know_is_refused() {
        assert_eq!(expand::<Model>(json!({"name": "a", "sepc": {}})).unwrap_err().fields[0].field, "sepc");
    }
}
