//! What a Task runs on: an Agent or an AgentTemplate of its namespace.

use std::{fmt, str::FromStr};

use api::{Key, Task, TaskSpec, names::annotations};
use k8s_openapi::api::core::v1::Pod;

/// The Agent or AgentTemplate that a Task names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunsOn {
    /// The server of the Agent of this name.
    Agent(String),
    /// A Pod built from the AgentTemplate of this name.
    Template(String),
}

impl RunsOn {
    /// The target of a Task with this spec. An Agent wins over a template.
    pub fn of(spec: &TaskSpec) -> Option<Self> {
        let agent = spec.agent_ref.as_ref().map(|agent| Self::Agent(agent.name.clone()));
        agent.or_else(|| spec.template_ref.as_ref().map(|template| Self::Template(template.name.clone())))
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Agent(_) => "Agent",
            Self::Template(_) => "AgentTemplate",
        }
    }

    pub fn name(&self) -> &str {
        let (Self::Agent(name) | Self::Template(name)) = self;
        name
    }
}

/// As in [`annotations::RUNS_ON`]: `Agent/name` or `AgentTemplate/name`.
impl fmt::Display for RunsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.name())
    }
}

/// A text that is neither `Agent/name` nor `AgentTemplate/name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected Agent/<name> or AgentTemplate/<name>")]
pub struct NotATarget;

impl FromStr for RunsOn {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Self, NotATarget> {
        match text.split_once('/') {
            Some(("Agent", name)) => Ok(Self::Agent(name.to_owned())),
            Some(("AgentTemplate", name)) => Ok(Self::Template(name.to_owned())),
            _ => Err(NotATarget),
        }
    }
}

/// An Agent or AgentTemplate that Tasks wait for, with its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Namespace of the object and of its Tasks.
    pub namespace: String,
    pub runs_on: RunsOn,
}

impl Target {
    pub fn agent(Key { namespace, name }: Key) -> Self {
        Self { namespace, runs_on: RunsOn::Agent(name) }
    }

    pub fn template(Key { namespace, name }: Key) -> Self {
        Self { namespace, runs_on: RunsOn::Template(name) }
    }

    pub fn of(task: &Task) -> Option<Self> {
        let namespace = task.metadata.namespace.clone().unwrap_or_default();
        Some(Self { namespace, runs_on: RunsOn::of(&task.spec)? })
    }

    /// The target of a Task's Pod, by its annotation.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        let runs_on = pod.metadata.annotations.as_ref()?.get(annotations::RUNS_ON)?.parse().ok()?;
        Some(Self { namespace: pod.metadata.namespace.clone().unwrap_or_default(), runs_on })
    }

    pub fn key(&self) -> Key {
        Key::new(&self.namespace, self.runs_on.name())
    }

    /// `None` if the target is a template.
    pub fn agent_key(&self) -> Option<Key> {
        matches!(self.runs_on, RunsOn::Agent(_)).then(|| self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_of_a_pod_names_its_target() {
        for runs_on in [RunsOn::Agent("a".into()), RunsOn::Template("t".into())] {
            assert_eq!(runs_on.to_string().parse(), Ok(runs_on));
        }
        for text in ["", "Agent", "agent/a", "Task/a"] {
            assert_eq!(text.parse::<RunsOn>(), Err(NotATarget), "{text}");
        }
    }
}
