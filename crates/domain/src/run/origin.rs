//! Origin of a setting, recorded for every field of a run.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The object that set a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", content = "name")]
pub enum Origin {
    /// The Task itself.
    Task,
    /// The Agent of this name.
    Agent(String),
    /// The AgentTemplate of this name.
    Template(String),
    /// The KubeOpenCodeConfig.
    Config,
    /// An environment variable of the controller.
    Environment,
    /// The default of the program; nothing sets the value.
    BuiltIn,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task => f.write_str("the Task"),
            Self::Agent(name) => write!(f, "Agent '{name}'"),
            Self::Template(name) => write!(f, "AgentTemplate '{name}'"),
            Self::Config => f.write_str("the KubeOpenCodeConfig"),
            Self::Environment => f.write_str("the controller's environment"),
            Self::BuiltIn => f.write_str("built-in default"),
        }
    }
}

/// The origin of every resolved field, by its path in the resolved settings: `timeout`, `agent.executorImage`,
/// `agent.tools[2]` for an element that the Task added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Origin of the field at `path`.
    pub fn get(&self, path: &str) -> Option<&Origin> {
        self.0.get(path)
    }

    /// All origins, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(path, origin)| (path.as_str(), origin))
    }

    /// Records that the value of the field at `to` follows from the field at `from`.
    pub fn copy(&mut self, from: &str, to: &str) {
        if let Some(origin) = self.get(from).cloned() {
            self.note(to, origin);
        }
    }

    /// Records the origin of the field at `path`, in place of an earlier one.
    pub(crate) fn note(&mut self, path: impl Into<String>, origin: Origin) {
        self.0.insert(path.into(), origin);
    }
}
