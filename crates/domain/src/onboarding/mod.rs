//! From a model provider, its key and a model to the objects that a first Task needs.
//!
//! The page, the REST API and `kubeopencode setup` compile the same objects with [`manifests`] and test a provider with
//! the same [`Probe`] before anything is saved.

mod answers;
mod probe;

use std::fmt;

use api::{
    kinds::model_provider::ModelProviderType,
    names::{GROUP, VERSION},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use probe::{Finding, Probe, Reply, Request, Step};

/// Field manager of the objects: the page and the command line may repeat each other's setup.
pub const FIELD_MANAGER: &str = "kubeopencode-setup";
/// Key of the API key inside the Secret.
pub const SECRET_KEY: &str = "api-key";

/// Longest name of a setup; the names of its objects have suffixes.
const LONGEST_NAME: usize = 50;
/// Longest name of a Model object.
const LONGEST_OBJECT: usize = 63;
/// Limit of `ModelProvider.spec.baseURL`.
const LONGEST_URL: usize = 4096;
/// Limit of `Model.spec.model`.
const LONGEST_MODEL: usize = 253;
/// Providers have keys of at most a few hundred characters; tokens of gateways are longer.
const LONGEST_KEY: usize = 8192;

/// A provider that a setup offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    Anthropic,
    #[serde(rename = "openai")]
    OpenAI,
    Google,
    Ollama,
    /// Any server with OpenAI's chat completions.
    #[serde(rename = "openai-compatible")]
    OpenAICompatible,
}

impl Provider {
    /// All providers, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::OpenAI, Self::Google, Self::Ollama, Self::OpenAICompatible];

    /// The name in requests and arguments; also the default name of the objects.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAI => "openai",
            Self::Google => "google",
            Self::Ollama => "ollama",
            Self::OpenAICompatible => "openai-compatible",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAI => "OpenAI",
            Self::Google => "Google Gemini",
            Self::Ollama => "Ollama",
            Self::OpenAICompatible => "OpenAI-compatible server",
        }
    }

    /// Whether the provider answers nothing without a key.
    pub fn needs_key(self) -> bool {
        matches!(self, Self::Anthropic | Self::OpenAI | Self::Google)
    }

    /// Whether the address has no default.
    pub fn needs_url(self) -> bool {
        self == Self::OpenAICompatible
    }

    /// The address if the user gives none, with the version in its path where clients expect it.
    pub fn default_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1"),
            Self::OpenAI => Some("https://api.openai.com/v1"),
            Self::Google => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::Ollama => Some("http://127.0.0.1:11434"),
            Self::OpenAICompatible => None,
        }
    }

    fn kind(self) -> ModelProviderType {
        match self {
            Self::Anthropic => ModelProviderType::Anthropic,
            Self::OpenAI => ModelProviderType::OpenAI,
            Self::Google => ModelProviderType::Google,
            Self::Ollama => ModelProviderType::Ollama,
            Self::OpenAICompatible => ModelProviderType::OpenAICompatible,
        }
    }
}

/// An API key. It appears in no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key in `text` without surrounding white space; `None` if nothing is left.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ApiKey")
    }
}

/// How to reach a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub provider: Provider,
    /// The provider's default when unset.
    pub base_url: Option<String>,
    pub key: Option<ApiKey>,
}

/// What a user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub connection: Connection,
    /// Name of the ModelProvider and the template; the name of the provider when unset.
    pub name: Option<String>,
    /// Name of the model at the provider.
    pub model: String,
}

/// A field of a setup is invalid. The text contains no value of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// The field, as in requests: `key`, `baseUrl`, `name` or `model`.
    pub field: &'static str,
    pub message: String,
}

fn invalid<T>(field: &'static str, message: impl Into<String>) -> Result<T, SetupError> {
    Err(SetupError { field, message: message.into() })
}

/// An object to apply.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    pub kind: &'static str,
    /// Plural name of the kind, as in paths.
    pub plural: &'static str,
    /// API group; empty for Kubernetes' own core.
    pub group: &'static str,
    pub name: String,
    /// The whole object. That of a Secret contains the key.
    pub object: Value,
}

impl fmt::Debug for Manifest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} '{}'", self.kind, self.name)
    }
}

impl Connection {
    /// The connection with a tidy address, if every field is valid.
    fn checked(&self) -> Result<Self, SetupError> {
        let Self { provider, base_url, key } = self;
        let base_url = base_url.as_deref().map(|url| url.trim().trim_end_matches('/')).filter(|url| !url.is_empty());
        match base_url {
            None if provider.needs_url() => return invalid("baseUrl", "the address of the server is required"),
            None => {}
            Some(url) => check_url(url)?,
        }
        match key {
            None if provider.needs_key() => return invalid("key", format!("{} requires a key", provider.title())),
            Some(key) if key.0.len() > LONGEST_KEY => {
                return invalid("key", format!("the key has more than {LONGEST_KEY} characters"));
            }
            // A header cannot carry other characters.
            Some(key) if !key.0.chars().all(|c| c.is_ascii_graphic()) => {
                return invalid("key", "the key contains a space, a line break or a character that no key has");
            }
            None | Some(_) => {}
        }
        Ok(Self { provider: *provider, base_url: base_url.map(str::to_owned), key: key.clone() })
    }
}

fn check_url(url: &str) -> Result<(), SetupError> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return invalid("baseUrl", "the address must start with https:// or http://");
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || url.len() > LONGEST_URL || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return invalid("baseUrl", "the address is not a valid URL");
    }
    if authority.contains('@') {
        return invalid("baseUrl", "the address contains a user name: use the field of the key");
    }
    if url.contains(['?', '#', '{', '}']) {
        return invalid("baseUrl", "the address must end with a path, without ?, # and braces");
    }
    Ok(())
}

fn check_model(model: &str) -> Result<&str, SetupError> {
    let model = model.trim();
    if model.is_empty() {
        return invalid("model", "a model is required");
    }
    // OpenCode would replace {env:…} and {file:…}.
    if model.len() > LONGEST_MODEL || model.chars().any(|c| c.is_whitespace() || c.is_control() || "{}".contains(c)) {
        return invalid("model", "the name of a model has at most 253 characters, without spaces and braces");
    }
    Ok(model)
}

fn check_name(name: &str) -> Result<&str, SetupError> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let well_formed = name.chars().all(|c| letter(c) || c == '-')
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(letter);
    if well_formed && name.len() <= LONGEST_NAME {
        Ok(name)
    } else {
        invalid(
            "name",
            format!("at most {LONGEST_NAME} lowercase letters, digits and hyphens, beginning with a letter"),
        )
    }
}

/// The objects of a setup, in the order in which to apply them: Secret (if there is a key), ModelProvider, Model,
/// AgentTemplate.
pub fn manifests(setup: &Setup, namespace: &str) -> Result<Vec<Manifest>, SetupError> {
    let Setup { connection, name, model } = setup;
    let Connection { provider, base_url, key } = connection.checked()?;
    let name = check_name(name.as_deref().unwrap_or(provider.name()))?;
    let model = check_model(model)?;
    let secret = format!("{name}-key");
    let model_name = model_object(name, model);

    let mut spec = json!({ "type": provider.kind() });
    // The definition requires an address for Ollama; the others follow a change of the provider's own.
    if let Some(url) = base_url.or_else(|| (provider == Provider::Ollama).then(|| default_url(provider))) {
        spec["baseURL"] = url.into();
    }
    let mut objects = Vec::with_capacity(4);
    if let Some(key) = key {
        spec["apiKeySecretRef"] = json!({ "name": secret, "key": SECRET_KEY });
        let object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": secret, "namespace": namespace },
            "type": "Opaque",
            "data": { SECRET_KEY: STANDARD.encode(key.reveal()) },
        });
        objects.push(Manifest { kind: "Secret", plural: "secrets", group: "", name: secret, object });
    }
    let ours = |kind: &'static str, plural: &'static str, name: &str, spec: Value| Manifest {
        kind,
        plural,
        group: GROUP,
        name: name.to_owned(),
        object: json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        }),
    };
    objects.push(ours("ModelProvider", "modelproviders", name, spec));
    objects.push(ours("Model", "models", &model_name, json!({ "model": model, "providerRef": { "name": name } })));
    objects.push(ours(
        "AgentTemplate",
        "agenttemplates",
        name,
        json!({
            "workspaceDir": "/workspace",
            "serviceAccountName": "default",
            "modelRef": { "name": model_name },
        }),
    ));
    Ok(objects)
}

fn default_url(provider: Provider) -> String {
    provider.default_url().unwrap_or_default().to_owned()
}

/// Name of the Model object: `anthropic-claude-sonnet-4-5`.
fn model_object(name: &str, model: &str) -> String {
    let mut slug = String::with_capacity(model.len());
    for c in model.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let whole = format!("{name}-{}", slug.trim_end_matches('-')).trim_end_matches('-').to_owned();
    if whole.len() <= LONGEST_OBJECT {
        return whole;
    }
    // The digest keeps two long names apart.
    let digest = Sha256::digest(model);
    let short = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    format!("{}-{short:08x}", whole[..LONGEST_OBJECT - 9].trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(provider: Provider, url: Option<&str>, key: Option<&str>, model: &str) -> Setup {
        Setup {
            connection: Connection { provider, base_url: url.map(str::to_owned), key: key.and_then(ApiKey::read) },
            name: None,
            model: model.to_owned(),
        }
    }

    fn compiled(setup: &Setup) -> Vec<Manifest> {
        manifests(setup, "team").unwrap()
    }

    #[test]
    fn a_key_and_a_model_become_four_objects_that_refer_to_each_other() {
        let objects = compiled(&setup(Provider::Anthropic, None, Some(" sk-1234\n"), "claude-sonnet-4-5"));
        let shown: Vec<_> = objects.iter().map(|manifest| format!("{manifest:?}")).collect();
        assert_eq!(
            shown,
            [
                "Secret 'anthropic-key'",
                "ModelProvider 'anthropic'",
                "Model 'anthropic-claude-sonnet-4-5'",
                "AgentTemplate 'anthropic'"
            ]
        );
        assert_eq!(objects[0].object["data"], json!({ "api-key": STANDARD.encode("sk-1234") }));
        assert_eq!(
            objects[1].object["spec"],
            json!({ "type": "anthropic", "apiKeySecretRef": { "name": "anthropic-key", "key": "api-key" } })
        );
        assert_eq!(objects[2].object["spec"]["providerRef"], json!({ "name": "anthropic" }));
        assert_eq!(objects[3].object["spec"]["modelRef"], json!({ "name": "anthropic-claude-sonnet-4-5" }));
        for manifest in &objects {
            assert_eq!(manifest.object["metadata"]["namespace"], "team");
            assert_eq!(manifest.object["kind"], manifest.kind);
        }
    }

    #[test]
    fn the_objects_fit_their_kinds_and_compile_into_opencodes_configuration() {
        for provider in Provider::ALL {
            let url = provider.needs_url().then_some("http://127.0.0.1:8080/v1/");
            let objects = compiled(&setup(provider, url, provider.needs_key().then_some("sk-1234"), "org/m:1.5"));
            let spec =
                |kind: &str| objects.iter().find(|manifest| manifest.kind == kind).unwrap().object["spec"].clone();
            let template: api::AgentTemplateSpec = serde_json::from_value(spec("AgentTemplate")).unwrap();
            let model: api::ModelSpec = serde_json::from_value(spec("Model")).unwrap();
            let found = serde_json::from_value(spec("ModelProvider")).unwrap();
            assert_eq!(template.settings.model_ref.unwrap().name, format!("{}-org-m-1-5", provider.name()));
            let binding = crate::opencode::ModelBinding::new(&model.provider_ref.name, &found, &model);
            let expected = match provider {
                Provider::Ollama => Some("http://127.0.0.1:11434/v1"),
                Provider::OpenAICompatible => Some("http://127.0.0.1:8080/v1"),
                _ => None,
            };
            assert_eq!(binding.provider.base_url.as_deref(), expected, "{provider:?}");
            assert_eq!(binding.provider.api_key.is_some(), provider.needs_key(), "{provider:?}");
        }
    }

    #[test]
    fn a_server_without_a_key_needs_no_secret() {
        let objects = compiled(&setup(Provider::Ollama, None, None, "qwen3"));
        assert_eq!(
            objects.iter().map(|manifest| manifest.kind).collect::<Vec<_>>(),
            ["ModelProvider", "Model", "AgentTemplate"]
        );
        assert!(objects[0].object["spec"].get("apiKeySecretRef").is_none());
    }

    #[test]
    fn a_long_name_of_a_model_keeps_its_object_apart() {
        let long = |last: &str| model_object("lab", &format!("{}{last}", "very-long/".repeat(9)));
        assert!(long("a").len() <= LONGEST_OBJECT);
        assert_ne!(long("a"), long("b"));
        assert_eq!(model_object("lab", "///"), "lab");
    }

    #[test]
    fn an_invalid_field_is_named_and_a_key_is_not_shown() {
        let check = |setup: Setup, field: &str, text: &str| {
            let error = manifests(&setup, "team").unwrap_err();
            assert_eq!((error.field, error.message.contains(text)), (field, true), "{error}");
            assert!(!format!("{error:?} {:?}", setup.connection.key).contains("hunter"), "{error:?}");
        };
        let server = |url: &str| setup(Provider::OpenAICompatible, Some(url), None, "m");
        check(setup(Provider::OpenAI, None, None, "m"), "key", "requires a key");
        check(setup(Provider::OpenAI, None, Some("hunter two"), "m"), "key", "space");
        check(setup(Provider::OpenAI, None, Some("hünter"), "m"), "key", "character");
        check(setup(Provider::OpenAI, None, Some("hunter2"), " "), "model", "required");
        check(setup(Provider::OpenAI, None, Some("hunter2"), "{env:HOME}"), "model", "braces");
        check(setup(Provider::OpenAICompatible, Some("  "), None, "m"), "baseUrl", "required");
        check(server("ftp://lab/v1"), "baseUrl", "https://");
        check(server("http:///v1"), "baseUrl", "valid");
        check(server("http://me:hunter2@lab/v1"), "baseUrl", "user name");
        check(server("http://lab/v1?key=hunter2"), "baseUrl", "path");
        for name in ["Lab", "9lab", "lab-", "", &"a".repeat(51)] {
            let setup = Setup { name: Some(name.to_owned()), ..server("http://lab/v1") };
            check(setup, "name", "lowercase");
        }
    }
}
