//! The graph of references: Secret, ModelProvider, Model, AgentTemplate, Agent, Task.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    Agent, AgentTemplate, AgentTool, CronTask, Instruction, MCPServer, Model, ModelProvider, RemoteMCPServer, Task,
    context::ContextItem, refs::ObjectRef, settings::AgentSettings,
};
use axum::{Json, extract::State};
use kube::ResourceExt as _;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    edge::{extract::Params, names},
    error::Answer,
    routes::kind::Served,
    state::{Server, Visible},
    wire::{Edge, Graph, Node, conditions, ready},
};

/// Maximum number of nodes; a larger graph is not readable.
const MOST_NODES: usize = 2000;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(graph))
}

/// Scope of the graph.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct GraphQuery {
    /// Only this namespace.
    namespace: Option<String>,
}

/// The graph of references between objects that the caller may see.
#[utoipa::path(get, path = "/graph", tag = "overview", params(GraphQuery), responses((status = 200, body = Graph)))]
async fn graph(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(query): Params<GraphQuery>,
) -> Answer<Json<Graph>> {
    let namespace = query.namespace.filter(|namespace| !namespace.is_empty());
    if let Some(namespace) = &namespace {
        names::namespace(namespace)?;
    }
    let namespace = namespace.as_deref();
    let mut drawing = Drawing::default();
    for provider in visible_objects::<ModelProvider>(&server, &caller, namespace).await? {
        drawing.provider(&provider);
    }
    for model in visible_objects::<Model>(&server, &caller, namespace).await? {
        drawing.model(&model);
    }
    for instruction in visible_objects::<Instruction>(&server, &caller, namespace).await? {
        drawing.put("Instruction", &*instruction, None, None);
    }
    for remote in visible_objects::<RemoteMCPServer>(&server, &caller, namespace).await? {
        let found = conditions(remote.status.as_ref().and_then(|status| status.conditions.as_ref()));
        drawing.put("RemoteMCPServer", &*remote, ready(&found), None);
    }
    for own in visible_objects::<MCPServer>(&server, &caller, namespace).await? {
        let found = conditions(own.status.as_ref().and_then(|status| status.conditions.as_ref()));
        drawing.put("MCPServer", &*own, ready(&found), None);
    }
    for tool in visible_objects::<AgentTool>(&server, &caller, namespace).await? {
        let found = conditions(tool.status.as_ref().and_then(|status| status.conditions.as_ref()));
        drawing.put("AgentTool", &*tool, ready(&found), None);
    }
    for template in visible_objects::<AgentTemplate>(&server, &caller, namespace).await? {
        let id = drawing.put("AgentTemplate", &*template, None, None);
        drawing.settings(&id, &template.namespace().unwrap_or_default(), &template.spec.settings);
    }
    for agent in visible_objects::<Agent>(&server, &caller, namespace).await? {
        drawing.agent(&agent);
    }
    for cron in visible_objects::<CronTask>(&server, &caller, namespace).await? {
        let id = drawing.put("CronTask", &*cron, None, Some(cron.spec.schedule.clone()));
        drawing.task_refs(&id, &cron.namespace().unwrap_or_default(), &cron.spec.task_template.spec);
    }
    let tasks = server.visible_or_nothing::<Task>(&caller, namespace).await?;
    drawing.tasks(server.caches.tasks.filter(|key, _| tasks.shows(key)));
    Ok(Json(drawing.finish()))
}

async fn visible_objects<K: Served>(server: &Server, caller: &Caller, namespace: Option<&str>) -> Answer<Vec<Arc<K>>> {
    let visible: Visible = server.visible_or_nothing::<K>(caller, namespace).await?;
    Ok(K::cache(&server.caches).filter(|key, _| visible.shows(key)))
}

/// A graph under construction.
#[derive(Default)]
struct Drawing {
    nodes: BTreeMap<String, Node>,
    edges: BTreeSet<Edge>,
}

impl Drawing {
    fn put(
        &mut self,
        kind: &str,
        object: &impl kube::ResourceExt,
        ready: Option<bool>,
        detail: Option<String>,
    ) -> String {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let id = format!("{kind}/{namespace}/{name}");
        let node = Node { id: id.clone(), kind: kind.to_owned(), namespace, name, ready, exists: Some(true), detail };
        self.nodes.insert(id.clone(), node);
        id
    }

    /// Adds a reference of `user` to an object. Only the names of Secrets and ConfigMaps are known.
    fn refer(&mut self, kind: &str, namespace: &str, name: &str, user: &str, label: &str) {
        let id = format!("{kind}/{namespace}/{name}");
        let exists = (!matches!(kind, "Secret" | "ConfigMap")).then_some(false);
        self.nodes.entry(id.clone()).or_insert_with(|| Node {
            id: id.clone(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ready: None,
            exists,
            detail: None,
        });
        self.edges.insert(Edge { from: id, to: user.to_owned(), label: label.to_owned() });
    }

    fn refer_to(&mut self, kind: &str, home: &str, reference: &ObjectRef, user: &str, label: &str) {
        self.refer(kind, reference.namespace.as_deref().unwrap_or(home), &reference.name, user, label);
    }

    fn provider(&mut self, provider: &ModelProvider) {
        let found = conditions(provider.status.as_ref().and_then(|status| status.conditions.as_ref()));
        let id = self.put("ModelProvider", provider, ready(&found), provider.spec.base_url.clone());
        let home = provider.namespace().unwrap_or_default();
        if let Some(key) = &provider.spec.api_key_secret_ref {
            self.refer("Secret", &home, &key.name, &id, "apiKeySecretRef");
        }
        for header in provider.spec.headers_from.iter().flatten() {
            self.refer("Secret", &home, &header.secret_key_ref.name, &id, "headersFrom");
        }
    }

    fn model(&mut self, model: &Model) {
        let found = conditions(model.status.as_ref().and_then(|status| status.conditions.as_ref()));
        let id = self.put("Model", model, ready(&found), Some(model.spec.model.clone()));
        self.refer_to(
            "ModelProvider",
            &model.namespace().unwrap_or_default(),
            &model.spec.provider_ref,
            &id,
            "providerRef",
        );
    }

    fn agent(&mut self, agent: &Agent) {
        let is_ready = agent.status.as_ref().and_then(|status| status.ready);
        let id = self.put("Agent", agent, is_ready, agent.spec.profile.clone());
        let home = agent.namespace().unwrap_or_default();
        if let Some(template) = &agent.spec.template_ref {
            self.refer("AgentTemplate", &home, &template.name, &id, "templateRef");
        }
        self.settings(&id, &home, &agent.spec.settings);
    }

    fn settings(&mut self, id: &str, home: &str, settings: &AgentSettings) {
        if let Some(model) = &settings.model_ref {
            self.refer_to("Model", home, model, id, "modelRef");
        }
        if let Some(model) = &settings.small_model_ref {
            self.refer_to("Model", home, model, id, "smallModelRef");
        }
        for instruction in settings.instruction_refs.iter().flatten() {
            self.refer_to("Instruction", home, instruction, id, "instructionRefs");
        }
        for tool in settings.tools.iter().flatten() {
            let kind = format!("{:?}", tool.reference.kind);
            let namespace = tool.reference.namespace.as_deref().unwrap_or(home);
            self.refer(&kind, namespace, &tool.reference.name, id, "tools");
        }
        for credential in settings.credentials.iter().flatten() {
            self.refer("Secret", home, &credential.secret_ref.name, id, "credentials");
        }
        self.contexts(id, home, settings.contexts.as_ref());
    }

    fn contexts(&mut self, id: &str, home: &str, contexts: Option<&Vec<ContextItem>>) {
        for config_map in contexts.into_iter().flatten().filter_map(|context| context.config_map.as_ref()) {
            self.refer("ConfigMap", home, &config_map.name, id, "contexts");
        }
    }

    fn task_refs(&mut self, id: &str, home: &str, spec: &api::TaskSpec) {
        if let Some(agent) = &spec.agent_ref {
            self.refer("Agent", home, &agent.name, id, "agentRef");
        }
        if let Some(template) = &spec.template_ref {
            self.refer("AgentTemplate", home, &template.name, id, "templateRef");
        }
    }

    /// Unfinished Tasks one by one, finished ones as one node for each Agent or template.
    fn tasks(&mut self, tasks: Vec<Arc<Task>>) {
        let mut finished: BTreeMap<(String, bool, String), usize> = BTreeMap::new();
        for task in tasks {
            let home = task.namespace().unwrap_or_default();
            let is_finished =
                task.status.as_ref().and_then(|status| status.phase).is_some_and(api::TaskPhase::is_finished);
            if is_finished {
                let target = task.spec.agent_ref.as_ref().or(task.spec.template_ref.as_ref());
                if let Some(target) = target {
                    let key = (home, task.spec.agent_ref.is_some(), target.name.clone());
                    *finished.entry(key).or_default() += 1;
                }
                continue;
            }
            let id = self.put("Task", &*task, None, Some(task.phase().to_owned()));
            self.task_refs(&id, &home, &task.spec);
            for dependency in task.spec.depends_on.iter().flatten() {
                self.refer("Task", &home, &dependency.task, &id, "dependsOn");
            }
        }
        for ((home, on_agent, name), count) in finished {
            let kind = if on_agent { "Agent" } else { "AgentTemplate" };
            let id = format!("Tasks/{home}/{kind}-{name}");
            self.nodes.insert(
                id.clone(),
                Node {
                    id: id.clone(),
                    kind: "Tasks".to_owned(),
                    namespace: home.clone(),
                    name: "finished".to_owned(),
                    ready: None,
                    exists: Some(true),
                    detail: Some(format!("{count} finished")),
                },
            );
            self.refer(kind, &home, &name, &id, if on_agent { "agentRef" } else { "templateRef" });
        }
    }

    fn finish(mut self) -> Graph {
        let truncated = self.nodes.len() > MOST_NODES;
        while self.nodes.len() > MOST_NODES {
            self.nodes.pop_last();
        }
        let edges = self.edges.into_iter();
        let edges = edges.filter(|edge| self.nodes.contains_key(&edge.from) && self.nodes.contains_key(&edge.to));
        let edges = edges.collect();
        Graph { edges, nodes: self.nodes.into_values().collect(), truncated }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_drawn_as_missing_and_secrets_by_name_only() {
        let mut drawing = Drawing::default();
        drawing.provider(
            &serde_json::from_value(json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "ModelProvider",
                "metadata": {"name": "openai", "namespace": "n"},
                "spec": {"type": "openai", "apiKeySecretRef": {"name": "key", "key": "k"}},
            }))
            .unwrap(),
        );
        drawing.agent(
            &serde_json::from_value(json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": {"name": "dev", "namespace": "n"},
                "spec": {"modelRef": {"name": "gone"}},
            }))
            .unwrap(),
        );
        let graph = drawing.finish();
        let exists = |id: &str| graph.nodes.iter().find(|node| node.id == id).unwrap().exists;
        assert_eq!(exists("Secret/n/key"), None);
        assert_eq!(exists("Model/n/gone"), Some(false));
        assert_eq!(exists("Agent/n/dev"), Some(true));
        let edge = |from: &str, to: &str| graph.edges.iter().any(|edge| edge.from == from && edge.to == to);
        assert!(edge("Secret/n/key", "ModelProvider/n/openai") && edge("Model/n/gone", "Agent/n/dev"));
    }
}
