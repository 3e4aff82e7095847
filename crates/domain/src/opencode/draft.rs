//! A configuration under construction: the user's own, into which typed fields are written one after the other.

use std::collections::BTreeSet;

use api::{context::PluginTarget, refs::SecretKeyRef};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{ConfigError, ConfigInput, HOSTED, SecretEnv, ToolServer, check, permissions};
use crate::{
    contract::{environment::MCP_SECRET, paths},
    workload::{
        contexts::{FileItem, hex},
        environment::variable_name,
    },
};

pub(super) struct Draft {
    pub(super) whole: Map<String, Value>,
    /// The part that a repository must not change.
    pub(super) enforced: Map<String, Value>,
    /// Keys of the user's `config` that were replaced.
    pub(super) overridden: BTreeSet<String>,
    /// Secrets that the configuration refers to.
    pub(super) env: Vec<SecretEnv>,
}

impl Draft {
    /// Sets a key; with `enforce` a repository cannot change it.
    pub(super) fn set(&mut self, key: &str, value: Value, enforce: bool) {
        if self.whole.get(key).is_some_and(|old| *old != value) && enforce {
            self.overridden.insert(key.to_owned());
        }
        if enforce {
            self.enforced.insert(key.to_owned(), value.clone());
        }
        self.whole.insert(key.to_owned(), value);
    }

    /// Sets a key of an object, and enforces it.
    pub(super) fn merge(&mut self, object: &str, key: &str, value: &Value) {
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
    pub(super) fn append(&mut self, key: &str, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        let list = self.whole.entry(key).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.extend(values.iter().filter(|value| !list.contains(value)).cloned().collect::<Vec<_>>());
        }
    }

    /// A variable with a unique name for a Secret.
    pub(super) fn secret(&mut self, name: &str, secret: &SecretKeyRef) -> Value {
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

    /// Restricts OpenCode to the providers of the configuration. Returns whether it names any.
    pub(super) fn providers(&mut self, input: &ConfigInput<'_>) -> bool {
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
        let names_provider = !named.is_empty();
        if named.is_empty() {
            // Every provider with credentials in the environment is allowed, except the hosted default.
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
        names_provider
    }

    /// Whether a provider can come from elsewhere: credentials or variables in the environment, a plugin, files of a
    /// repository. In doubt it can: an agent that works must not be refused. A command of the user need not be OpenCode.
    pub(super) fn may_find_provider(&self, input: &ConfigInput<'_>) -> bool {
        let (agent, contexts) = (input.agent, input.contexts);
        let pod = &agent.pod;
        let is_config =
            |file: &FileItem| file.target_path.rsplit('/').next().is_some_and(|name| name.starts_with("opencode.json"));
        agent.command.is_some()
            || !agent.credentials.is_empty()
            || pod.extra_env.iter().flatten().next().is_some()
            || pod.extra_volume_mounts.iter().flatten().next().is_some()
            || !agent.plugins.is_empty()
            || self.whole.contains_key("plugin")
            || !(contexts.git.is_empty() && contexts.urls.is_empty() && contexts.directories.is_empty())
            || contexts.files.iter().any(is_config)
    }

    /// Whether the price of `model` is not known. OpenCode's catalogue has the prices of models whose provider it knows;
    /// a provider with an npm package of its own is not in it.
    pub(super) fn is_unpriced(&self, model: &str) -> bool {
        let Some((id, name)) = model.split_once('/') else { return false };
        let Some(provider) = self.whole.get("provider").and_then(|all| all.get(id)) else { return false };
        let priced = provider.get("models").and_then(|all| all.get(name)).and_then(|model| model.get("cost")).is_some();
        provider.get("npm").is_some() && !priced
    }

    /// Adds the servers of tools.
    pub(super) fn servers(&mut self, servers: &[ToolServer]) -> Result<(), ConfigError> {
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
                let variable = format!("{MCP_SECRET}{}_{}", variable_name(&server.name), variable_name(&header.name));
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
    pub(super) fn instructions(&mut self, input: &ConfigInput<'_>) -> Vec<FileItem> {
        let files: Vec<FileItem> = input
            .instructions
            .iter()
            .enumerate()
            .map(|(index, instruction)| FileItem {
                target_path: format!("{}/{index:02}-{}.md", paths::INSTRUCTIONS, instruction.name),
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

    /// Adds the skills.
    pub(super) fn skills(&mut self, input: &ConfigInput<'_>) {
        let skills = input.agent.skills.iter().filter(|skill| skill.git.is_some());
        let paths: Vec<Value> = skills.map(|skill| json!(format!("{}/{}", paths::SKILLS, skill.name))).collect();
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
    pub(super) fn plugins(&mut self, input: &ConfigInput<'_>) -> Option<String> {
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

/// Packages to install, each once; the first mention decides the version.
pub(super) fn packages(input: &ConfigInput<'_>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let plugins = input.agent.plugins.iter().map(|plugin| plugin.name.clone());
    plugins.filter(|name| seen.insert(package_name(name).to_owned())).collect()
}

/// The package of a spec: `@scope/name@1` is `@scope/name`.
fn package_name(spec: &str) -> &str {
    let version = spec.char_indices().skip(1).find(|(_, char)| *char == '@');
    version.map_or(spec, |(at, _)| &spec[..at])
}

/// Values of other objects, perhaps of other namespaces, must not read this agent's environment or files.
pub(super) fn literal(what: &str, value: &str) -> Result<(), ConfigError> {
    if value.contains("{env:") || value.contains("{file:") {
        return Err(ConfigError::Substitution { what: what.to_owned() });
    }
    Ok(())
}
