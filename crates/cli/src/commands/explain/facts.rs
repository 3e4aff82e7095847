//! What must be known to explain a Task.

use api::{Agent, AgentTemplate, KubeOpenCodeConfig, Task};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, api::ListParams};
use kubeopencode_core::platform::Platform;

use crate::commands::{connect::Cluster, describe, problem::Answer, task::follow};

/// What is known of a Task and of what it meets.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The Task.
    pub task: Task,
    /// The Agent that it names, if it exists.
    pub agent: Option<Agent>,
    /// The template that the Task or its Agent names, if it exists.
    pub template: Option<AgentTemplate>,
    /// The platform's settings, as far as they can be seen from outside of the controllers.
    pub platform: Platform,
    /// All Tasks of the namespace.
    pub neighbours: Vec<Task>,
    /// The Pod of its current run, if there is one.
    pub pod: Option<Pod>,
    /// What happened to the Task and to its Pod, oldest first.
    pub events: Vec<Event>,
    /// The present.
    pub now: Timestamp,
}

impl Facts {
    /// Asks the cluster.
    pub async fn fetch(cluster: &Cluster, name: &str) -> Answer<Self> {
        let task = follow::find(cluster, name).await?;
        let agent = match &task.spec.agent_ref {
            Some(agent) => cluster.api::<Agent>().get_opt(&agent.name).await?,
            None => None,
        };
        let named = agent.as_ref().and_then(|agent| agent.spec.template_ref.as_ref());
        let template = match task.spec.template_ref.as_ref().or(named) {
            Some(template) => cluster.api::<AgentTemplate>().get_opt(&template.name).await?,
            None => None,
        };
        // Not everybody may read the platform's settings or Pods; without them less is explained, but not nothing.
        let configs: Api<KubeOpenCodeConfig> = Api::all(cluster.client.clone());
        let config = configs.get_opt("cluster").await.ok().flatten();
        let pod = match task.status.as_ref().and_then(|status| status.pod_name.as_deref()) {
            Some(pod) => cluster.api::<Pod>().get_opt(pod).await.ok().flatten(),
            None => None,
        };
        let mut events = describe::events(cluster, task.metadata.uid.as_deref()).await;
        if let Some(pod) = &pod {
            events.extend(describe::events(cluster, pod.metadata.uid.as_deref()).await);
        }
        let neighbours = cluster.api::<Task>().list(&ListParams::default()).await?.items;
        let platform = Platform::from(config.as_ref(), &|_| None);
        Ok(Self { task, agent, template, platform, neighbours, pod, events, now: Timestamp::now() })
    }

    /// Another Task of the namespace.
    pub fn neighbour(&self, name: &str) -> Option<&Task> {
        self.neighbours.iter().find(|task| task.metadata.name.as_deref() == Some(name))
    }

    /// What the Task runs on, in words.
    pub fn target(&self) -> String {
        let spec = &self.task.spec;
        match (&spec.agent_ref, &spec.template_ref) {
            (Some(agent), _) => format!("Agent '{}'", agent.name),
            (None, Some(template)) => format!("AgentTemplate '{}'", template.name),
            (None, None) => "nothing".to_owned(),
        }
    }
}
