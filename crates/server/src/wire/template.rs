//! AgentTemplates on the wire.

use api::AgentTemplate;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Condition, Identity, Settings, conditions};

/// An AgentTemplate.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateResponse {
    #[serde(flatten)]
    pub identity: Identity,
    #[serde(flatten)]
    pub settings: Settings,
    pub conditions: Vec<Condition>,
    /// Number of Agents that use the template.
    pub agent_count: usize,
    /// Number of unfinished Tasks that use the template directly.
    pub task_count: usize,
}

impl AgentTemplateResponse {
    /// The template, used by so many Agents and unfinished Tasks.
    pub fn of(template: &AgentTemplate, agent_count: usize, task_count: usize) -> Self {
        Self {
            identity: Identity::of(template),
            settings: Settings::from(&template.spec.settings),
            conditions: conditions(template.status.as_ref().and_then(|status| status.conditions.as_ref())),
            agent_count,
            task_count,
        }
    }
}
