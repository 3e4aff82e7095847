//! Settings shared by Agents and AgentTemplates on the wire.

use api::{
    context::{ContextType, GitSync, PluginSpec, SkillSource},
    refs::ObjectRef,
    settings::AgentSettings,
    workload::{CredentialSecretRef, Quota},
};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::piece::{anything, piece, pieces};

/// Settings of an Agent or AgentTemplate.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
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
    #[schema(schema_with = piece::<Quota>)]
    pub quota: Option<Quota>,
    /// Names of Secrets, never their values.
    pub credentials: Vec<Credential>,
    pub contexts: Vec<ContextSummary>,
    #[schema(schema_with = pieces::<SkillSource>)]
    pub skills: Option<Vec<SkillSource>>,
    #[schema(schema_with = pieces::<PluginSpec>)]
    pub plugins: Option<Vec<PluginSpec>>,
    /// OpenCode's own configuration: an object, or a text that holds one.
    #[schema(schema_with = anything)]
    pub config: Option<Value>,
    #[schema(schema_with = piece::<ObjectRef>)]
    pub model_ref: Option<ObjectRef>,
}

/// A Secret that an agent gets, by name.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    pub name: String,
    #[schema(schema_with = piece::<CredentialSecretRef>)]
    pub secret_ref: CredentialSecretRef,
    pub mount_path: Option<String>,
    pub env: Option<String>,
}

/// A context without the content.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSummary {
    pub name: Option<String>,
    pub description: Option<String>,
    #[serde(rename = "type")]
    #[schema(schema_with = piece::<ContextType>)]
    pub kind: ContextType,
    pub mount_path: Option<String>,
    #[schema(schema_with = piece::<GitSync>)]
    pub sync: Option<GitSync>,
}

impl From<&AgentSettings> for Settings {
    fn from(settings: &AgentSettings) -> Self {
        let credential = |credential: &api::workload::Credential| Credential {
            name: credential.name.clone(),
            secret_ref: credential.secret_ref.clone(),
            mount_path: credential.mount_path.clone(),
            env: credential.env.clone(),
        };
        let context = |context: &api::context::ContextItem| ContextSummary {
            name: context.name.clone(),
            description: context.description.clone(),
            kind: context.kind,
            mount_path: context.mount_path.clone(),
            sync: context.git.as_ref().and_then(|git| git.sync.clone()),
        };
        Self {
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
            credentials: settings.credentials.iter().flatten().map(credential).collect(),
            contexts: settings.contexts.iter().flatten().map(context).collect(),
            skills: settings.skills.clone(),
            plugins: settings.plugins.clone(),
            config: settings.config.clone(),
            model_ref: settings.model_ref.clone(),
        }
    }
}

fn length<T>(list: Option<&Vec<T>>) -> usize {
    list.map_or(0, Vec::len)
}
