//! OpenCode's configuration, compiled from an agent's settings.
//!
//! The user's own `config` is the base, typed fields win over it. The whole lies in a file; what a checked-out
//! repository must not change, above all where prompts and keys go, is given again in `OPENCODE_CONFIG_CONTENT`, which
//! OpenCode reads after a repository's own configuration. Secrets appear only as `{env:NAME}`.

mod check;
mod models;
mod permissions;

use std::collections::BTreeSet;
use std::time::Duration;

use api::{
    conditions::reasons,
    context::PluginTarget,
    refs::{HeaderFromSecret, Headers, SecretKeyRef},
    run::Values,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    contexts::{ContextPlan, FileItem, hex},
    environment::variable_name,
    resolved::ResolvedAgent,
};

pub use models::{ModelBinding, ProviderBinding};

/// Where OpenCode's configuration is.
pub(crate) const CONFIG_FILE: &str = "/tools/opencode.json";
/// Where the configuration of OpenCode's terminal is.
pub(crate) const TUI_FILE: &str = "/tools/tui.json";
/// Linux refuses a single environment variable of 128 KiB.
const MOST_ENFORCED: usize = 100 * 1024;
/// The hosted models that OpenCode uses when it knows no other: nobody's prompts go there by accident.
const HOSTED: &str = "opencode";

/// Tools of one server, as an agent uses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolServer {
    /// Name of the server; tools are called `<name>_<tool>`.
    pub name: String,
    /// Its address.
    pub url: String,
    /// Headers that are not secret.
    pub headers: Headers,
    /// Headers from Secrets of the agent's namespace.
    pub secret_headers: Vec<HeaderFromSecret>,
    /// Give up a call after this time.
    pub timeout: Option<Duration>,
    /// Only these tools; all when empty.
    pub allowed: Vec<String>,
    /// Tools that need a person's approval.
    pub ask: Vec<String>,
    /// Whether it is offered at all.
    pub enabled: bool,
}

/// A text that the agent follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionText {
    /// Name of the Instruction.
    pub name: String,
    /// The text, with its variables replaced.
    pub text: String,
}

/// What a configuration is compiled from.
#[derive(Clone, Copy, Debug)]
pub struct ConfigInput<'a> {
    /// The agent: its own `config`, skills, plugins, credentials, approval.
    pub agent: &'a ResolvedAgent,
    /// Model to use.
    pub model: Option<&'a ModelBinding>,
    /// Model for small work.
    pub small_model: Option<&'a ModelBinding>,
    /// Instructions, in order.
    pub instructions: &'a [InstructionText],
    /// Tools.
    pub tools: &'a [ToolServer],
    /// Its contexts.
    pub contexts: &'a ContextPlan,
    /// Trace calls of models.
    pub llm_traces: bool,
}

/// A variable whose value is in a Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretEnv {
    /// Name of the variable.
    pub name: String,
    /// Where its value is.
    pub secret: SecretKeyRef,
}

/// A configuration, ready for a Pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompiledConfig {
    /// The whole configuration.
    pub json: String,
    /// What a repository must not change, for `OPENCODE_CONFIG_CONTENT`.
    pub enforced: String,
    /// Configuration of the terminal, if it has plugins.
    pub tui_json: Option<String>,
    /// `OPENCODE_PERMISSION`, when nothing says what is allowed: everything is, nobody is there to ask.
    pub permission: Option<String>,
    /// Instructions as files.
    pub instruction_files: Vec<FileItem>,
    /// Secrets that the configuration refers to.
    pub env: Vec<SecretEnv>,
    /// Packages of plugins to install.
    pub plugin_packages: Vec<String>,
    /// Whether OpenCode itself must reach npm at run time.
    pub needs_npm: bool,
    /// Keys of the user's `config` that typed fields or the platform replaced.
    pub overridden: Vec<String>,
    /// The model in use, as `provider/model`.
    pub model: Option<String>,
    /// Hash of everything here.
    pub hash: String,
}

/// Why there is no valid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A field of the user's configuration.
    #[error("config.{path} is not valid: expected {expected}")]
    Field {
        /// Where.
        path: String,
        /// What should be there.
        expected: &'static str,
    },
    /// Two providers with one id.
    #[error("two ModelProviders would both be provider {0:?} of OpenCode; use models of one of them")]
    ProviderClash(String),
    /// Two servers whose tools would have the same names.
    #[error("the tool servers {first:?} and {second:?} would give their tools the same names; rename one of them")]
    ServerClash {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// A value that OpenCode would replace by something of the agent's environment or files.
    #[error("{what} contains `{{env:` or `{{file:`, which OpenCode would replace; use a Secret reference instead")]
    Substitution {
        /// Which value.
        what: String,
    },
    /// Too much for an environment variable.
    #[error(
        "models, tools and permissions need {0} bytes of configuration, more than a container can be given; use fewer tools"
    )]
    TooLarge(usize),
}

impl ConfigError {
    /// The reason in the condition.
    pub fn reason(&self) -> &'static str {
        reasons::CONFIG_INVALID
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
    draft.providers(input);
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
    let enforced = Value::Object(draft.enforced).to_string();
    if enforced.len() > MOST_ENFORCED {
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
        hash: String::new(),
    };
    compiled.hash = hash(&compiled);
    Ok(compiled)
}

/// A configuration in the making.
pub(super) struct Draft {
    whole: Map<String, Value>,
    enforced: Map<String, Value>,
    overridden: BTreeSet<String>,
    env: Vec<SecretEnv>,
}

impl Draft {
    /// Sets a key; `enforce` also keeps a repository from changing it.
    fn set(&mut self, key: &str, value: Value, enforce: bool) {
        if self.whole.get(key).is_some_and(|old| *old != value) && enforce {
            self.overridden.insert(key.to_owned());
        }
        if enforce {
            self.enforced.insert(key.to_owned(), value.clone());
        }
        self.whole.insert(key.to_owned(), value);
    }

    /// Sets a key of an object, and enforces it.
    fn merge(&mut self, object: &str, key: &str, value: &Value) {
        for (map, is_whole) in [(&mut self.whole, true), (&mut self.enforced, false)] {
            let entry = map.entry(object).or_insert_with(|| json!({}));
            if !entry.is_object() {
                *entry = json!({});
            }
            let old = entry.as_object_mut().and_then(|entry| entry.insert(key.to_owned(), value.clone()));
            if is_whole && old.is_some_and(|old| old != *value) {
                self.overridden.insert(format!("{object}.{key}"));
            }
        }
    }

    /// Appends to a list that OpenCode joins from all its sources, or replaces as a whole.
    fn append(&mut self, key: &str, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let list = self.whole.entry(key).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.extend(values.iter().filter(|value| !list.contains(value)).cloned().collect::<Vec<_>>());
        }
    }

    /// A variable for a Secret, with a name of its own.
    fn secret(&mut self, name: &str, secret: &SecretKeyRef) -> Value {
        let known =
            |env: &[SecretEnv], name: &str| env.iter().find(|one| one.name == name).map(|one| one.secret.clone());
        let mut name = name.to_owned();
        match known(&self.env, &name) {
            Some(other) if other == *secret => return json!(format!("{{env:{name}}}")),
            Some(_) => name = format!("{name}_{}", hex(&Sha256::digest(format!("{}/{}", secret.name, secret.key)), 8)),
            None => {}
        }
        if known(&self.env, &name).is_none() {
            self.env.push(SecretEnv { name: name.clone(), secret: secret.clone() });
        }
        json!(format!("{{env:{name}}}"))
    }

    /// Only providers that somebody named are used.
    fn providers(&mut self, input: &ConfigInput<'_>) {
        let mut named = check::named_providers(&self.whole);
        let own = check::strings(self.whole.get("enabled_providers"));
        let bound = input.model.into_iter().chain(input.small_model).map(|binding| binding.provider.id.clone());
        let env_names = input.agent.credentials.iter().filter_map(|credential| credential.env.as_deref());
        let extra = input.agent.pod.extra_env.iter().flatten().map(|var| var.name.as_str());
        if env_names.chain(extra).any(|name| name == "OPENCODE_API_KEY") {
            named.insert(HOSTED.to_owned());
        }
        if let Some(mut own) = own {
            own.extend(bound);
            named = own.into_iter().collect();
        } else {
            named.extend(bound);
        }
        if named.is_empty() {
            // Whatever the credentials in its environment open is fine, only not the hosted default.
            let mut disabled = check::strings(self.whole.get("disabled_providers")).unwrap_or_default();
            if !disabled.iter().any(|id| id == HOSTED) {
                disabled.push(HOSTED.to_owned());
            }
            self.whole.insert("disabled_providers".to_owned(), json!(disabled));
            self.enforced.insert("disabled_providers".to_owned(), json!(disabled));
        } else {
            let enabled: Vec<String> = named.into_iter().collect();
            self.whole.insert("enabled_providers".to_owned(), json!(enabled));
            self.enforced.insert("enabled_providers".to_owned(), json!(enabled));
        }
    }

    fn servers(&mut self, servers: &[ToolServer]) -> Result<(), ConfigError> {
        let mut names: Vec<(String, &str)> = Vec::new();
        for server in servers {
            let name = permissions::sanitised(&server.name);
            if let Some((_, first)) = names.iter().find(|(other, _)| *other == name) {
                let (first, second) = ((*first).to_owned(), server.name.clone());
                return Err(ConfigError::ServerClash { first, second });
            }
            literal(&format!("the url of tool server {:?}", server.name), &server.url)?;
            let mut headers = Map::new();
            for (header, value) in &server.headers {
                literal(&format!("header {header:?} of tool server {:?}", server.name), value)?;
                headers.insert(header.clone(), json!(value));
            }
            for header in &server.secret_headers {
                let variable = format!("KOC_MCP_{}_{}", variable_name(&server.name), variable_name(&header.name));
                let reference = self.secret(&variable, &header.secret_key_ref);
                headers.insert(header.name.clone(), reference);
            }
            // `oauth: false`: without it a 401 starts a flow that needs a browser.
            let mut entry = json!({ "type": "remote", "url": server.url, "enabled": server.enabled, "oauth": false });
            if !headers.is_empty() {
                entry["headers"] = Value::Object(headers);
            }
            if let Some(timeout) = server.timeout {
                entry["timeout"] = json!(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
            }
            self.merge("mcp", &server.name, &entry);
            names.push((name, &server.name));
        }
        Ok(())
    }

    /// Instructions come before contexts.
    fn instructions(&mut self, input: &ConfigInput<'_>) -> Vec<FileItem> {
        let files: Vec<FileItem> = input
            .instructions
            .iter()
            .enumerate()
            .map(|(index, instruction)| FileItem {
                target_path: format!("/tools/instructions/{index:02}-{}.md", instruction.name),
                content: instruction.text.clone(),
                mode: None,
                about: format!("Instruction {}", instruction.name),
            })
            .collect();
        let paths: Vec<Value> = files
            .iter()
            .map(|file| &file.target_path)
            .chain(&input.contexts.context_file)
            .map(|path| json!(path))
            .collect();
        self.append("instructions", &paths);
        if !paths.is_empty() {
            self.enforced.insert("instructions".to_owned(), Value::Array(paths));
        }
        files
    }

    fn skills(&mut self, input: &ConfigInput<'_>) {
        let skills = input.agent.skills.iter().filter(|skill| skill.git.is_some());
        let paths: Vec<Value> = skills.map(|skill| json!(format!("/skills/{}", skill.name))).collect();
        if paths.is_empty() {
            return;
        }
        let skills = self.whole.entry("skills").or_insert_with(|| json!({}));
        if let Some(list) = skills.as_object_mut().map(|skills| skills.entry("paths").or_insert_with(|| json!([])))
            && let Some(list) = list.as_array_mut()
        {
            list.extend(paths);
        }
    }

    /// Adds the server's plugins; returns the terminal's configuration if that has any.
    fn plugins(&mut self, input: &ConfigInput<'_>) -> Option<String> {
        let entries = |target: PluginTarget| -> Vec<Value> {
            let mut seen = BTreeSet::new();
            let plugins = input.agent.plugins.iter().filter(|plugin| plugin.target == target);
            plugins
                .filter(|plugin| seen.insert(package_name(&plugin.name).to_owned()))
                .map(|plugin| {
                    let path = format!("file:///plugins/node_modules/{}", package_name(&plugin.name));
                    plugin.options.as_ref().map_or_else(|| json!(path), |options| json!([path, options]))
                })
                .collect()
        };
        self.append("plugin", &entries(PluginTarget::Server));
        let terminal = entries(PluginTarget::Tui);
        (!terminal.is_empty()).then(|| json!({ "plugin": terminal }).to_string())
    }
}

/// The packages to install, each once; the first mention decides its version.
fn packages(input: &ConfigInput<'_>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let plugins = input.agent.plugins.iter().map(|plugin| plugin.name.clone());
    plugins.filter(|name| seen.insert(package_name(name).to_owned())).collect()
}

/// The package of a spec: `@scope/name@1` is `@scope/name`.
fn package_name(spec: &str) -> &str {
    let version = spec.char_indices().skip(1).find(|(_, char)| *char == '@');
    version.map_or(spec, |(at, _)| &spec[..at])
}

/// Values of other objects, perhaps of other namespaces, must not reach into this agent's environment or files.
fn literal(what: &str, value: &str) -> Result<(), ConfigError> {
    if value.contains("{env:") || value.contains("{file:") {
        return Err(ConfigError::Substitution { what: what.to_owned() });
    }
    Ok(())
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
