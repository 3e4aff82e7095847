//! Models and their providers, as OpenCode names them.

use api::{
    kinds::{
        model::{ModelCost, ModelLimit, ModelOptions, ModelSpec},
        model_provider::{ModelProviderSpec, ModelProviderType},
    },
    refs::{HeaderFromSecret, Headers, SecretKeyRef},
};
use serde_json::{Map, Value, json};

use super::{
    ConfigError, ConfigInput,
    draft::{Draft, literal},
};
use crate::{contract::environment::PROVIDER_SECRET, workload::environment::variable_name};

/// Bundled with OpenCode, so nothing is downloaded. It uses chat completions, which every compatible server has.
const OPENAI_COMPATIBLE: &str = "@ai-sdk/openai-compatible";
/// Context and output tokens of a model that is not in OpenCode's catalogue.
const UNKNOWN_LIMIT: (i64, i64) = (128_000, 8_192);

/// A provider in OpenCode's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderBinding {
    /// OpenCode's id of the provider.
    pub id: String,
    /// npm package of the provider's client; OpenCode's choice when unset.
    pub npm: Option<String>,
    pub base_url: Option<String>,
    /// API key, in a Secret of the agent's namespace.
    pub api_key: Option<SecretKeyRef>,
    /// Headers that are not secret.
    pub headers: Headers,
    /// Headers from Secrets of the agent's namespace.
    pub secret_headers: Vec<HeaderFromSecret>,
    /// Further options, such as a region.
    pub options: Map<String, Value>,
}

/// A model of a provider in OpenCode's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelBinding {
    pub provider: ProviderBinding,
    /// Name of the model at the provider.
    pub model: String,
    /// Context and output tokens; OpenCode's catalogue if unset.
    pub limit: Option<ModelLimit>,
    /// Prices; OpenCode's catalogue if unset.
    pub cost: Option<ModelCost>,
    pub options: Option<ModelOptions>,
}

impl ModelBinding {
    /// A model of the ModelProvider `provider_name`.
    pub fn new(provider_name: &str, provider: &ModelProviderSpec, model: &ModelSpec) -> Self {
        Self {
            provider: ProviderBinding::new(provider_name, provider),
            model: model.model.clone(),
            limit: model.limit,
            cost: model.cost,
            options: model.options.clone(),
        }
    }

    /// As `provider/model`.
    pub fn reference(&self) -> String {
        format!("{}/{}", self.provider.id, self.model)
    }
}

impl ProviderBinding {
    /// The ModelProvider `name`.
    pub fn new(name: &str, spec: &ModelProviderSpec) -> Self {
        use ModelProviderType as Kind;
        let compatible = || (name.to_owned(), Some(OPENAI_COMPATIBLE.to_owned()));
        let known = |id: &str| (id.to_owned(), None);
        let (id, npm) = match (spec.kind, &spec.base_url) {
            // With the id of OpenAI and another address OpenCode would use the Responses API, which few other servers
            // have.
            (Kind::OpenAI, Some(_)) | (Kind::Ollama | Kind::OpenAICompatible, _) => compatible(),
            (Kind::OpenAI, None) => known("openai"),
            (Kind::Anthropic, _) => known("anthropic"),
            (Kind::Google, _) => known("google"),
            (Kind::Vertex, _) => known("google-vertex"),
            (Kind::Bedrock, _) => known("amazon-bedrock"),
            (Kind::Azure, _) => known("azure"),
            (Kind::OpenCode, _) => known(super::HOSTED),
        };
        let base_url = spec.base_url.as_deref().map(|url| {
            let url = url.trim_end_matches('/');
            // Ollama's own API is at the root, the compatible one below /v1.
            if spec.kind == Kind::Ollama && !url.ends_with("/v1") { format!("{url}/v1") } else { url.to_owned() }
        });
        let mut options = Map::new();
        let region = if spec.kind == Kind::Vertex { "location" } else { "region" };
        options.extend(spec.region.as_ref().map(|value| (region.to_owned(), json!(value))));
        options.extend(spec.project.as_ref().map(|value| ("project".to_owned(), json!(value))));
        Self {
            id,
            npm,
            base_url,
            api_key: spec.api_key_secret_ref.clone(),
            headers: spec.headers.clone().unwrap_or_default(),
            secret_headers: spec.headers_from.clone().unwrap_or_default(),
            options,
        }
    }
}

impl Draft {
    /// Writes models and providers. Returns the model in use.
    pub(super) fn models(&mut self, input: &ConfigInput<'_>) -> Result<Option<String>, ConfigError> {
        if let (Some(model), Some(small)) = (input.model, input.small_model)
            && model.provider.id == small.provider.id
            && model.provider != small.provider
        {
            return Err(ConfigError::ProviderClash(model.provider.id.clone()));
        }
        for binding in input.model.into_iter().chain(input.small_model) {
            self.bind(binding)?;
        }
        if let Some(model) = input.model {
            self.set("model", json!(model.reference()), true);
            self.sampling(model);
        }
        // A title costs a call; without a small model OpenCode may choose one of another provider.
        if let Some(small) = input.small_model.or(input.model) {
            self.set("small_model", json!(small.reference()), true);
        }
        Ok(self.whole.get("model").and_then(Value::as_str).map(str::to_owned))
    }

    fn bind(&mut self, binding: &ModelBinding) -> Result<(), ConfigError> {
        let ModelBinding { provider, model, limit, cost, options } = binding;
        let ProviderBinding { id, npm, base_url, api_key, headers, secret_headers, options: extra } = provider;
        literal("the name of a model", model)?;
        let mut provider_options = extra.clone();
        if let Some(url) = base_url {
            literal(&format!("baseURL of provider {id:?}"), url)?;
            provider_options.insert("baseURL".to_owned(), json!(url));
        }
        if let Some(secret) = api_key {
            let reference = self.secret(&format!("{PROVIDER_SECRET}{}_API_KEY", variable_name(id)), secret);
            provider_options.insert("apiKey".to_owned(), reference);
        }
        let mut all_headers = Map::new();
        for (name, value) in headers {
            literal(&format!("header {name:?} of provider {id:?}"), value)?;
            all_headers.insert(name.clone(), json!(value));
        }
        for header in secret_headers {
            let variable = format!("{PROVIDER_SECRET}{}_{}", variable_name(id), variable_name(&header.name));
            let reference = self.secret(&variable, &header.secret_key_ref);
            all_headers.insert(header.name.clone(), reference);
        }
        if !all_headers.is_empty() {
            provider_options.insert("headers".to_owned(), Value::Object(all_headers));
        }
        let entry = model_entry(npm.is_some(), *limit, *cost, options.as_ref());
        // The models of the same provider, ours and the user's, stay.
        let known = self.whole.get("provider").and_then(|all| all.get(id)).and_then(|one| one.get("models"));
        let mut models = known.and_then(Value::as_object).cloned().unwrap_or_default();
        models.insert(model.clone(), entry);
        let mut provider = Map::new();
        provider.extend(npm.as_ref().map(|npm| ("npm".to_owned(), json!(npm))));
        provider.insert("options".to_owned(), Value::Object(provider_options));
        provider.insert("models".to_owned(), Value::Object(models));
        let second = self.enforced.get("provider").is_some_and(|all| all.get(id).is_some());
        let overridden = self.overridden.clone();
        self.merge("provider", id, &Value::Object(provider));
        if second {
            // Our own second model does not count as overridden by the user's configuration.
            self.overridden = overridden;
        }
        Ok(())
    }

    /// OpenCode sets temperature and top_p per agent, not per model; `build` is the default agent.
    fn sampling(&mut self, model: &ModelBinding) {
        let Some(options) = &model.options else { return };
        let mut own = Map::new();
        own.extend(options.temperature.map(|value| ("temperature".to_owned(), json!(value))));
        own.extend(options.top_p.map(|value| ("top_p".to_owned(), json!(value))));
        if own.is_empty() {
            return;
        }
        let known = self.whole.get("agent").and_then(|all| all.get("build")).and_then(Value::as_object);
        let mut build = known.cloned().unwrap_or_default();
        build.extend(own);
        self.merge("agent", "build", &Value::Object(build));
    }
}

/// The configuration of a model; complete if the model is not in OpenCode's catalogue.
fn model_entry(
    custom: bool,
    limit: Option<ModelLimit>,
    cost: Option<ModelCost>,
    options: Option<&ModelOptions>,
) -> Value {
    let mut entry = Map::new();
    let longest = options.and_then(|options| options.max_tokens);
    let limit = limit.unwrap_or_default();
    if custom || limit != ModelLimit::default() || longest.is_some() {
        let (context, output) = UNKNOWN_LIMIT;
        let output = longest.or(limit.output).unwrap_or(output);
        let limit = json!({ "context": limit.context.unwrap_or(context), "output": output });
        entry.insert("limit".to_owned(), limit);
    }
    if custom {
        entry.insert("tool_call".to_owned(), json!(true));
    }
    if let Some(ModelCost { input, output, cache_read, cache_write }) = cost {
        let mut prices = Map::new();
        prices.insert("input".to_owned(), json!(input.unwrap_or(0.0)));
        prices.insert("output".to_owned(), json!(output.unwrap_or(0.0)));
        prices.extend(cache_read.map(|price| ("cache_read".to_owned(), json!(price))));
        prices.extend(cache_write.map(|price| ("cache_write".to_owned(), json!(price))));
        entry.insert("cost".to_owned(), Value::Object(prices));
    }
    if let Some(options) = options {
        let mut own = options.extra.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        own.extend(options.reasoning_effort.map(|effort| ("reasoningEffort".to_owned(), json!(effort))));
        if !own.is_empty() {
            entry.insert("options".to_owned(), Value::Object(own));
        }
    }
    Value::Object(entry)
}
