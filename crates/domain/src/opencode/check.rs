//! Checks of the user's own configuration, before OpenCode sees it.
//!
//! OpenCode silently ignores unknown keys and reads a broken server entry with `enabled` as a mere switch. A server
//! with a broken configuration even reports that it is healthy. So the known part of the schema is checked here, and
//! the rest is left to OpenCode.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::ConfigError;

/// Provider packages that are part of OpenCode.
const BUNDLED: [&str; 22] = [
    "@ai-sdk/alibaba",
    "@ai-sdk/amazon-bedrock",
    "@ai-sdk/anthropic",
    "@ai-sdk/azure",
    "@ai-sdk/cerebras",
    "@ai-sdk/cohere",
    "@ai-sdk/deepinfra",
    "@ai-sdk/gateway",
    "@ai-sdk/github-copilot",
    "@ai-sdk/google",
    "@ai-sdk/google-vertex",
    "@ai-sdk/groq",
    "@ai-sdk/mistral",
    "@ai-sdk/openai",
    "@ai-sdk/openai-compatible",
    "@ai-sdk/perplexity",
    "@ai-sdk/togetherai",
    "@ai-sdk/vercel",
    "@ai-sdk/xai",
    "@openrouter/ai-sdk-provider",
    "gitlab-ai-provider",
    "venice-ai-sdk-provider",
];

/// Checks the known part of the schema.
pub(super) fn check(config: &Map<String, Value>) -> Result<(), ConfigError> {
    for (key, value) in config {
        match key.as_str() {
            "model" | "small_model" => expect(is_model(value), key, "provider/model")?,
            "instructions" | "enabled_providers" | "disabled_providers" => {
                expect(is_strings(value), key, "a list of texts")?;
            }
            "provider" => objects(key, value, "an object with one object per provider", |path, one| {
                expect(one.get("npm").is_none_or(Value::is_string), &format!("{path}.npm"), "the name of a package")?;
                for part in ["options", "models"] {
                    let fine = one.get(part).is_none_or(Value::is_object);
                    expect(fine, &format!("{path}.{part}"), "an object")?;
                }
                Ok(())
            })?,
            "agent" | "mode" | "command" => objects(key, value, "an object with one object per name", |path, one| {
                let model = one.get("model").is_none_or(is_model);
                expect(model, &format!("{path}.model"), "provider/model")?;
                one.get("permission").map_or(Ok(()), |rules| permission(&format!("{path}.permission"), rules))
            })?,
            "mcp" => objects(key, value, "an object with one object per server", server)?,
            "permission" => permission(key, value)?,
            "plugin" => {
                let plugin = |one: &Value| match one {
                    Value::String(_) => true,
                    Value::Array(pair) => pair.first().is_some_and(Value::is_string) && pair.len() <= 2,
                    _ => false,
                };
                expect(value.as_array().is_some_and(|all| all.iter().all(plugin)), key, "a list of plugins")?;
            }
            "skills" => {
                expect(value.is_object(), key, "an object")?;
                for part in ["paths", "urls"] {
                    expect(value.get(part).is_none_or(is_strings), &format!("{key}.{part}"), "a list of texts")?;
                }
            }
            "experimental" | "tools" | "server" | "tui" => expect(value.is_object(), key, "an object")?,
            _ => {}
        }
    }
    Ok(())
}

fn expect(fine: bool, path: &str, expected: &'static str) -> Result<(), ConfigError> {
    if fine { Ok(()) } else { Err(ConfigError::Field { path: path.to_owned(), expected }) }
}

fn objects(
    key: &str,
    value: &Value,
    expected: &'static str,
    each: impl Fn(&str, &Map<String, Value>) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    let Some(all) = value.as_object() else { return expect(false, key, expected) };
    for (name, one) in all {
        let path = format!("{key}.{name}");
        let Some(one) = one.as_object() else { return expect(false, &path, "an object") };
        each(&path, one)?;
    }
    Ok(())
}

fn server(path: &str, one: &Map<String, Value>) -> Result<(), ConfigError> {
    let text = |key: &str| one.get(key).and_then(Value::as_str);
    match text("type") {
        Some("remote") => expect(
            text("url").is_some_and(|url| url.starts_with("http") || url.starts_with('{')),
            &format!("{path}.url"),
            "an http or https address",
        ),
        Some("local") => expect(
            one.get("command").is_some_and(|command| is_strings(command) && command.get(0).is_some()),
            &format!("{path}.command"),
            "a list with a program and its arguments",
        ),
        // Only a switch: turns a server of another configuration on or off.
        None if one.len() == 1 && one.get("enabled").is_some_and(Value::is_boolean) => Ok(()),
        _ => expect(false, &format!("{path}.type"), "local or remote"),
    }
}

fn permission(path: &str, value: &Value) -> Result<(), ConfigError> {
    const ACTION: &str = "allow, ask or deny";
    let action = |value: &Value| matches!(value.as_str(), Some("allow" | "ask" | "deny"));
    let Some(rules) = value.as_object() else {
        return expect(action(value), path, "allow, ask, deny or an object of rules");
    };
    for (key, rule) in rules {
        let path = format!("{path}.{key}");
        match rule.as_object() {
            None => expect(action(rule), &path, ACTION)?,
            Some(patterns) => {
                for (pattern, rule) in patterns {
                    expect(action(rule), &format!("{path}.{pattern}"), ACTION)?;
                }
            }
        }
    }
    Ok(())
}

/// `provider/model`, or a reference to the environment.
fn is_model(value: &Value) -> bool {
    let parts = value.as_str().and_then(|text| text.split_once('/'));
    parts.is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty())
        || value.as_str().is_some_and(|text| text.contains("{env:"))
}

fn is_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

/// A list of texts.
pub(super) fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    Some(value?.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Providers that a configuration describes or uses in its models.
pub(super) fn named_providers(config: &Map<String, Value>) -> BTreeSet<String> {
    let provider = |model: &Value| model.as_str()?.split_once('/').map(|(provider, _)| provider.to_owned());
    let described = config.get("provider").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned());
    let top = ["model", "small_model"].into_iter().filter_map(|key| provider(config.get(key)?));
    let groups = ["agent", "mode", "command"].into_iter().filter_map(|key| config.get(key)?.as_object());
    let nested = groups.flat_map(Map::values).filter_map(|one| provider(one.get("model")?));
    described.chain(top).chain(nested).filter(|id| !id.contains('{')).collect()
}

/// Whether OpenCode would install a package with npm at run time.
pub(super) fn needs_npm(config: &Map<String, Value>) -> bool {
    let local = |text: &str| text.starts_with("file:") || text.starts_with('/') || text.starts_with('.');
    let plugins = config.get("plugin").and_then(Value::as_array).into_iter().flatten();
    let names = plugins.filter_map(|one| one.as_str().or_else(|| one.get(0).and_then(Value::as_str)));
    let providers = config.get("provider").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let packages = providers.filter_map(|one| one.get("npm").and_then(Value::as_str));
    names.chain(packages.filter(|package| !BUNDLED.contains(package))).any(|name| !local(name))
}
