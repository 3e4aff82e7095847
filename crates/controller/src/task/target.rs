//! What Tasks wait for and run on: an Agent or a template.

use std::fmt;

use api::{Task, names::annotations};
use k8s_openapi::api::core::v1::Pod;
use kubeopencode_core::queue::Lane;
use observe::Key;

/// An Agent or template that Tasks wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Which of the two.
    pub kind: TargetKind,
    /// Namespace and name.
    pub key: Key,
}

/// What Tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// An Agent.
    Agent,
    /// An AgentTemplate.
    Template,
}

impl Target {
    /// The Agent `name`.
    pub fn agent(key: Key) -> Self {
        Self { kind: TargetKind::Agent, key }
    }

    /// The template `name`.
    pub fn template(key: Key) -> Self {
        Self { kind: TargetKind::Template, key }
    }

    /// What a Task waits for or runs on.
    pub fn of(task: &Task) -> Option<Self> {
        let namespace = task.metadata.namespace.clone().unwrap_or_default();
        match (&task.spec.agent_ref, &task.spec.template_ref) {
            (Some(agent), _) => Some(Self::agent(Key::new(namespace, &agent.name))),
            (None, Some(template)) => Some(Self::template(Key::new(namespace, &template.name))),
            (None, None) => None,
        }
    }

    /// What a Pod runs on, by its annotation.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let (kind, name) = pod.metadata.annotations.as_ref()?.get(annotations::RUNS_ON)?.split_once('/')?;
        let key = Key::new(pod.metadata.namespace.clone().unwrap_or_default(), name);
        match kind {
            "Agent" => Some(Self::agent(key)),
            "AgentTemplate" => Some(Self::template(key)),
            _ => None,
        }
    }

    /// Its queue, for messages.
    pub fn lane(&self) -> Lane {
        match self.kind {
            TargetKind::Agent => Lane::Agent(self.key.name.clone()),
            TargetKind::Template => Lane::Template(self.key.name.clone()),
        }
    }
}

/// As in [`annotations::RUNS_ON`].
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TargetKind::Agent => "Agent",
            TargetKind::Template => "AgentTemplate",
        };
        write!(f, "{kind}/{}", self.key.name)
    }
}
