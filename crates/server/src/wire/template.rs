//! AgentTemplates on the wire.

use api::AgentTemplate;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{Condition, Identity, Settings, conditions};
use crate::live::cache::Load;

/// An AgentTemplate.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateResponse {
    #[serde(flatten)]
    pub identity: Identity,
    #[serde(flatten)]
    pub settings: Settings,
    pub conditions: Vec<Condition>,
    /// Main model, as provider/model: of modelRef, otherwise of config.model.
    pub resolved_model: Option<String>,
    /// Number of Agents that use the template.
    pub agent_count: usize,
    /// Number of Tasks that use the template directly, finished ones included.
    pub task_count: usize,
    /// Number of these Tasks that have not finished.
    pub active_task_count: usize,
}

impl AgentTemplateResponse {
    /// The template, used by so many Agents and by the Tasks of `load`.
    pub fn of(template: &AgentTemplate, agent_count: usize, load: Load, resolved_model: Option<String>) -> Self {
        Self {
            identity: Identity::of(template),
            settings: Settings::from(&template.spec.settings),
            conditions: conditions(template.status.as_ref().and_then(|status| status.conditions.as_ref())),
            resolved_model,
            agent_count,
            task_count: load.running + load.waiting + load.finished,
            active_task_count: load.running + load.waiting,
        }
    }
}
