//! OpenCode: its configuration, compiled from an agent's settings, and the sessions and messages of its server
//! ([`session`], [`message`], [`changes`]).
//!
//! The user's own `config` is the base; typed fields take precedence. The result is written to a file. The part that a
//! checked-out repository must not change, above all the destination of prompts and keys, is also set in
//! `OPENCODE_CONFIG_CONTENT`, which OpenCode reads after the configuration of a repository. Secrets appear only as
//! `{env:NAME}`.

pub mod changes;
mod check;
mod draft;
pub mod message;
mod models;
mod permissions;
pub mod session;

use std::collections::BTreeSet;
use std::time::Duration;

use api::{
    conditions::reasons,
    refs::{HeaderFromSecret, Headers, SecretKeyRef},
    run::Values,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    run::resolved::ResolvedAgent,
    workload::contexts::{ContextPlan, FileItem, hex},
};

use draft::{Draft, packages};
pub use models::{ModelBinding, ProviderBinding};

/// Limit of `OPENCODE_CONFIG_CONTENT` in bytes. Linux refuses an environment variable of 128 KiB.
const MAX_ENFORCED: usize = 100 * 1024;
/// Hosted models that OpenCode uses by default; disabled, so that no prompt is sent there by accident.
const HOSTED: &str = "opencode";

/// An MCP server whose tools an agent uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolServer {
    /// Prefix of its tools: `<name>_<tool>`.
    pub name: String,
    pub url: String,
    /// Headers that are not secret.
    pub headers: Headers,
    /// Headers from Secrets of the agent's namespace.
    pub secret_headers: Vec<HeaderFromSecret>,
    /// Timeout of one call; OpenCode's default when unset.
    pub timeout: Option<Duration>,
    /// Only these tools; all if empty.
    pub allowed: Vec<String>,
    /// Tools that need a person's approval.
    pub ask: Vec<String>,
    pub enabled: bool,
}

/// The text of an Instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionText {
    pub name: String,
    /// With variables replaced.
    pub text: String,
}

/// Input of [`compile`].
#[derive(Clone, Copy, Debug)]
pub struct ConfigInput<'a> {
    /// Its own `config`, skills, plugins, credentials and approval.
    pub agent: &'a ResolvedAgent,
    /// `None` leaves the choice to `config` or OpenCode.
    pub model: Option<&'a ModelBinding>,
    /// Model for small tasks such as titles.
    pub small_model: Option<&'a ModelBinding>,
    /// In the order of the spec.
    pub instructions: &'a [InstructionText],
    pub tools: &'a [ToolServer],
    pub contexts: &'a ContextPlan,
    /// Whether model calls are traced.
    pub llm_traces: bool,
}

/// A variable whose value is in a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretEnv {
    pub name: String,
    pub secret: SecretKeyRef,
}

/// A compiled configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompiledConfig {
    pub json: String,
    /// The part that a repository must not change, for `OPENCODE_CONFIG_CONTENT`.
    pub enforced: String,
    /// Configuration of the terminal; `None` if it has no plugins.
    pub tui_json: Option<String>,
    /// Value of `OPENCODE_PERMISSION` if there are no rules: everything is allowed, because no person can be asked.
    pub permission: Option<String>,
    /// Instructions as files.
    pub instruction_files: Vec<FileItem>,
    /// Secrets that the configuration refers to.
    pub env: Vec<SecretEnv>,
    /// Packages of plugins to install.
    pub plugin_packages: Vec<String>,
    /// Whether OpenCode itself needs npm at run time.
    pub needs_npm: bool,
    /// Keys of the user's `config` that typed fields or the platform replaced.
    pub overridden: Vec<String>,
    /// The model in use, as `provider/model`.
    pub model: Option<String>,
    /// Neither a model nor a provider is configured, and nothing in the Pod can bring one.
    pub lacks_model: bool,
    /// The model in use if its price is not known: it is not in OpenCode's catalogue, and no price is configured.
    pub unpriced: Option<String>,
    /// Hash of all other fields.
    pub hash: String,
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A field of the user's `config` is invalid.
    #[error("config.{path} is not valid: expected {expected}")]
    Field {
        /// Path of the field.
        path: String,
        /// The expected type or value.
        expected: &'static str,
    },
    /// Two providers have the same id.
    #[error("two ModelProviders would both be provider {0:?} of OpenCode; use models of one of them")]
    ProviderClash(String),
    /// Two servers whose tools would have the same names.
    #[error("the tool servers {first:?} and {second:?} would give their tools the same names; rename one of them")]
    ServerClash { first: String, second: String },
    /// A value that OpenCode would replace with content of the agent's environment or files.
    #[error("{what} contains `{{env:` or `{{file:`, which OpenCode would replace; use a Secret reference instead")]
    Substitution {
        /// Name of the value.
        what: String,
    },
    /// The enforced part is too large for an environment variable.
    #[error(
        "models, tools and permissions need {0} bytes of configuration, more than a container can be given; use fewer tools"
    )]
    TooLarge(usize),
    /// No model, no provider and no credentials are configured.
    #[error(
        "no model is configured: set modelRef, or config.model and credentials for its provider, or run `kubeopencode setup`"
    )]
    NoModel,
    /// The cost is limited, and the price of the model is not known.
    #[error(
        "maxCost cannot be enforced, because the price of model {0:?} is not known: set cost in its Model, or provider.….models.….cost in config (0 if it is free), or use maxTokens"
    )]
    Unpriced(String),
}

impl ConfigError {
    /// Reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoModel => reasons::NO_MODEL,
            Self::Unpriced(_) => reasons::UNPRICED_MODEL,
            _ => reasons::CONFIG_INVALID,
        }
    }

    /// Whether the configuration is valid, and lacks something that other objects can still provide.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NoModel | Self::Unpriced(_))
    }
}

impl CompiledConfig {
    /// Checks that an agent can work with this configuration, and that its cost can be counted if it is limited.
    pub fn check_model(&self, cost_is_limited: bool) -> Result<(), ConfigError> {
        if self.lacks_model {
            return Err(ConfigError::NoModel);
        }
        match &self.unpriced {
            Some(model) if cost_is_limited => Err(ConfigError::Unpriced(model.clone())),
            _ => Ok(()),
        }
    }
}

/// Replaces `{{ name }}` in an Instruction by its variables; an unknown name stays.
pub fn instruction_text(text: &str, variables: &Values) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        done.push_str(before);
        let Some((name, tail)) = after.split_once("}}") else {
            done.push_str("{{");
            rest = after;
            continue;
        };
        if let Some(value) = variables.get(name.trim()) {
            done.push_str(value);
            rest = tail;
        } else {
            done.push_str("{{");
            rest = after;
        }
    }
    done.push_str(rest);
    done
}

/// Compiles the configuration.
pub fn compile(input: &ConfigInput<'_>) -> Result<CompiledConfig, ConfigError> {
    let base = input.agent.config.clone().unwrap_or_default();
    check::check(&base)?;
    let mut draft = Draft { whole: base, enforced: Map::new(), overridden: BTreeSet::new(), env: Vec::new() };
    draft.set("$schema", json!("https://opencode.ai/config.json"), false);
    draft.set("autoupdate", json!(false), true);
    draft.set("share", json!("disabled"), true);
    let model = draft.models(input)?;
    let names_provider = draft.providers(input);
    draft.servers(input.tools)?;
    let permission = permissions::decide(input, &mut draft);
    let instruction_files = draft.instructions(input);
    draft.skills(input);
    let tui_json = draft.plugins(input);
    if input.llm_traces {
        draft.merge("experimental", "openTelemetry", &json!(true));
    }
    // A repository that redirects a provider would receive its key; one that changes the model changes the bill.
    for key in ["provider", "model", "small_model"] {
        if let Some(value) = draft.whole.get(key) {
            draft.enforced.insert(key.to_owned(), value.clone());
        }
    }
    let needs_npm = check::needs_npm(&draft.whole);
    let lacks_model = !names_provider && !draft.may_find_provider(input);
    let unpriced = model.clone().filter(|model| draft.is_unpriced(model));
    let enforced = Value::Object(draft.enforced).to_string();
    if enforced.len() > MAX_ENFORCED {
        return Err(ConfigError::TooLarge(enforced.len()));
    }
    let json = serde_json::to_string_pretty(&Value::Object(draft.whole)).unwrap_or_default();
    let mut compiled = CompiledConfig {
        json,
        enforced,
        tui_json,
        permission,
        instruction_files,
        env: draft.env,
        plugin_packages: packages(input),
        needs_npm,
        overridden: draft.overridden.into_iter().collect(),
        model,
        lacks_model,
        unpriced,
        hash: String::new(),
    };
    compiled.hash = hash(&compiled);
    Ok(compiled)
}

fn hash(config: &CompiledConfig) -> String {
    let CompiledConfig {
        json,
        enforced,
        tui_json,
        permission,
        instruction_files,
        env,
        plugin_packages,
        needs_npm,
        overridden: _,
        model: _,
        lacks_model: _,
        unpriced: _,
        hash: _,
    } = config;
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update(text);
        hasher.update([0]);
    };
    add(json);
    add(enforced);
    add(tui_json.as_deref().unwrap_or_default());
    add(permission.as_deref().unwrap_or_default());
    add(&needs_npm.to_string());
    for file in instruction_files {
        add(&file.target_path);
        add(&file.content);
    }
    for one in env {
        add(&one.name);
        add(&one.secret.name);
        add(&one.secret.key);
    }
    for package in plugin_packages {
        add(package);
    }
    hex(&hasher.finalize(), 16)
}

#[cfg(test)]
mod tests;
