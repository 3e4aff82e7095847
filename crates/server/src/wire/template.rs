//! AgentTemplates on the wire.

use api::{
    AgentTemplate,
    context::{PluginSpec, SkillSource},
    refs::ObjectRef,
    workload::Quota,
};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::{
    Condition, Credential, Identity,
    agent::{ContextSummary, contexts, credentials, length},
    conditions,
};

/// An AgentTemplate.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentTemplateResponse {
    #[serde(flatten)]
    pub identity: Identity,
    pub executor_image: Option<String>,
    pub agent_image: Option<String>,
    pub attach_image: Option<String>,
    pub workspace_dir: Option<String>,
    pub service_account_name: Option<String>,
    pub contexts_count: usize,
    pub credentials_count: usize,
    pub skills_count: usize,
    pub plugins_count: usize,
    pub max_concurrent_tasks: Option<i32>,
    #[schema(value_type = Option<Object>)]
    pub quota: Option<Quota>,
    /// Names of Secrets, never their values.
    pub credentials: Vec<Credential>,
    pub contexts: Vec<ContextSummary>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub skills: Option<Vec<SkillSource>>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub plugins: Option<Vec<PluginSpec>>,
    /// OpenCode's own configuration.
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
    #[schema(value_type = Option<Object>)]
    pub model_ref: Option<ObjectRef>,
    pub conditions: Vec<Condition>,
    /// Agents that use it.
    pub agent_count: usize,
    /// Tasks that run on it or wait for it.
    pub task_count: usize,
}

impl AgentTemplateResponse {
    /// The template, used by so many Agents and unfinished Tasks.
    pub fn of(template: &AgentTemplate, agent_count: usize, task_count: usize) -> Self {
        let settings = &template.spec.settings;
        Self {
            identity: Identity::of(template),
            executor_image: settings.executor_image.clone(),
            agent_image: settings.agent_image.clone(),
            attach_image: settings.attach_image.clone(),
            workspace_dir: settings.workspace_dir.clone(),
            service_account_name: settings.service_account_name.clone(),
            contexts_count: length(settings.contexts.as_ref()),
            credentials_count: length(settings.credentials.as_ref()),
            skills_count: length(settings.skills.as_ref()),
            plugins_count: length(settings.plugins.as_ref()),
            max_concurrent_tasks: settings.max_concurrent_tasks,
            quota: settings.quota,
            credentials: credentials(settings),
            contexts: contexts(settings),
            skills: settings.skills.clone(),
            plugins: settings.plugins.clone(),
            config: settings.config.clone(),
            model_ref: settings.model_ref.clone(),
            conditions: conditions(template.status.as_ref().and_then(|status| status.conditions.as_ref())),
            agent_count,
            task_count,
        }
    }
}
