//! Objects that an agent refers to: models, instructions and tools, read when they are needed.

use std::collections::BTreeMap;

use api::{
    Instruction, Model, ModelProvider, RemoteMCPServer,
    conditions::reasons,
    refs::{AllowedNamespaces, ObjectRef},
    run::Budget,
    tools::{ToolBinding, ToolKind},
    workload::{CaBundle, CaBundlePlace},
};
use domain::{
    opencode::{
        self, CompiledConfig, ConfigError, ConfigInput, InstructionText, ModelBinding, ToolServer, instruction_text,
    },
    platform::Platform,
    references::may_refer,
    run::resolved::ResolvedAgent,
    workload::contexts::ContextPlan,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, core::NamespaceResourceScope};

use crate::shared::{
    Shared, apply,
    dependents::{Dependency, Uses},
};

/// The objects that an agent refers to, as read.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    pub model: Option<ModelBinding>,
    /// Model for small tasks such as titles.
    pub small_model: Option<ModelBinding>,
    /// In the order of the spec.
    pub instructions: Vec<InstructionText>,
    pub tools: Vec<ToolServer>,
    /// Certificates of `caBundle` from a ConfigMap, in PEM. A bundle in a Secret is not read here.
    pub authorities: Option<String>,
}

impl Bindings {
    /// OpenCode's configuration for an agent with these models, instructions and tools, whose cost is limited by
    /// `budget`.
    pub fn compile(
        &self,
        agent: &ResolvedAgent,
        contexts: &ContextPlan,
        platform: &Platform,
        budget: Option<&Budget>,
    ) -> Result<CompiledConfig, ConfigError> {
        let config = self.compile_any(agent, contexts, platform)?;
        let limits = [budget, platform.budget.as_ref()];
        config.check_model(limits.into_iter().flatten().any(|limit| limit.max_cost.is_some()))?;
        Ok(config)
    }

    /// Checks that the cost of an agent with these models can be counted.
    pub fn check_price(&self, agent: &ResolvedAgent, platform: &Platform) -> Result<(), ConfigError> {
        let config = self.compile_any(agent, &ContextPlan::default(), platform)?;
        config.unpriced.map_or(Ok(()), |model| Err(ConfigError::Unpriced(model)))
    }

    fn compile_any(
        &self,
        agent: &ResolvedAgent,
        contexts: &ContextPlan,
        platform: &Platform,
    ) -> Result<CompiledConfig, ConfigError> {
        opencode::compile(&ConfigInput {
            agent,
            model: self.model.as_ref(),
            small_model: self.small_model.as_ref(),
            instructions: &self.instructions,
            tools: &self.tools,
            contexts,
            llm_traces: platform.open_telemetry.as_ref().is_some_and(|otel| otel.enabled && otel.enable_llm_traces),
        })
    }
}

/// Why an object that an agent refers to cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{kind} '{name}' does not exist in namespace '{namespace}'")]
    NotFound { kind: &'static str, namespace: String, name: String },
    /// No controller of this version serves tools of this kind, whether or not the object exists.
    #[error(
        "tools of {kind} '{name}' are not available: this version serves tools only from a RemoteMCPServer; create RemoteMCPServer '{name}' with their address in namespace '{namespace}'"
    )]
    NotServed { kind: &'static str, namespace: String, name: String },
    /// The object does not have the requested key.
    #[error("ConfigMap '{name}' has no key '{key}'")]
    NoKey { name: String, key: String },
    /// The owner of the object does not allow its use. The message does not reveal whether it exists.
    #[error(
        "{kind} '{name}' of namespace '{namespace}' may not be used from here: its owner must set allowedNamespaces"
    )]
    NotAllowed { kind: &'static str, namespace: String, name: String },
    /// The provider's API key is in a Secret that Pods of this namespace cannot read.
    #[error(
        "ModelProvider '{name}' keeps its key in namespace '{namespace}', where Pods of this namespace cannot read it: create a ModelProvider here"
    )]
    SecretElsewhere { namespace: String, name: String },
    /// The API server refused something or did not answer.
    #[error("{}", apply::answer(.0))]
    Api(#[from] kube::Error),
}

impl Error {
    /// Reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::NoKey { .. } => reasons::REFERENCE_NOT_FOUND,
            Self::NotServed { .. } => reasons::NOT_SUPPORTED,
            Self::NotAllowed { .. } => reasons::REFERENCE_NOT_ALLOWED,
            Self::SecretElsewhere { .. } => reasons::SECRET_MISSING,
            Self::Api(_) => reasons::APPLY_FAILED,
        }
    }

    /// Whether only a change of a watched object can help. The labels of namespaces, which decide about access, are not
    /// watched.
    pub fn waits_for_change(&self) -> bool {
        !matches!(self, Self::NotAllowed { .. } | Self::Api(_))
    }
}

/// Reads every object that the agent of `namespace` refers to, and adds it to `uses`.
pub async fn read(
    shared: &Shared,
    namespace: &str,
    agent: &ResolvedAgent,
    uses: &mut Uses<'_>,
) -> Result<Bindings, Error> {
    let mut bindings = Bindings::default();
    if let Some(reference) = &agent.model {
        bindings.model = Some(model(shared, namespace, reference, uses).await?);
    }
    if let Some(reference) = &agent.small_model {
        bindings.small_model = Some(model(shared, namespace, reference, uses).await?);
    }
    bindings.instructions = instructions(shared, namespace, &agent.instructions, uses).await?;
    for binding in &agent.tools {
        bindings.tools.push(tool(shared, namespace, binding, uses).await?);
    }
    if let Some(CaBundlePlace::ConfigMap { name, key }) = agent.ca_bundle.as_ref().and_then(CaBundle::place) {
        bindings.authorities = Some(config_map_text(shared, namespace, &name, &key, uses).await?);
    }
    Ok(bindings)
}

async fn model(
    shared: &Shared,
    namespace: &str,
    reference: &ObjectRef,
    uses: &mut Uses<'_>,
) -> Result<ModelBinding, Error> {
    let allowed = |model: &Model| model.spec.allowed_namespaces.clone();
    let model: Model = find(shared, "Model", namespace, reference, uses, allowed).await?;
    let home = reference.namespace.as_deref().unwrap_or(namespace);
    let provider_ref = &model.spec.provider_ref;
    let allowed = |provider: &ModelProvider| provider.spec.allowed_namespaces.clone();
    let provider: ModelProvider = find(shared, "ModelProvider", home, provider_ref, uses, allowed).await?;
    let provider_home = provider_ref.namespace.as_deref().unwrap_or(home);
    let secret = provider.spec.api_key_secret_ref.is_some() || provider.spec.headers_from.is_some();
    if secret && provider_home != namespace {
        return Err(Error::SecretElsewhere { namespace: provider_home.into(), name: provider_ref.name.clone() });
    }
    Ok(ModelBinding::new(&provider_ref.name, &provider.spec, &model.spec))
}

/// Reads instructions, and adds them to `uses`.
pub async fn instructions(
    shared: &Shared,
    namespace: &str,
    references: &[ObjectRef],
    uses: &mut Uses<'_>,
) -> Result<Vec<InstructionText>, Error> {
    let mut found = Vec::new();
    for reference in references {
        found.push(instruction(shared, namespace, reference, uses).await?);
    }
    Ok(found)
}

async fn instruction(
    shared: &Shared,
    namespace: &str,
    reference: &ObjectRef,
    uses: &mut Uses<'_>,
) -> Result<InstructionText, Error> {
    let allowed = |instruction: &Instruction| instruction.spec.allowed_namespaces.clone();
    let found: Instruction = find(shared, "Instruction", namespace, reference, uses, allowed).await?;
    let home = reference.namespace.as_deref().unwrap_or(namespace);
    let text = match (&found.spec.text, &found.spec.config_map_key_ref) {
        (Some(text), _) => text.clone(),
        (None, Some(key)) => config_map_text(shared, home, &key.name, &key.key, uses).await?,
        (None, None) => String::new(),
    };
    let values = found.spec.variables.clone().unwrap_or_default();
    Ok(InstructionText { name: reference.name.clone(), text: instruction_text(&text, &values) })
}

/// The text under a key of a ConfigMap.
async fn config_map_text(
    shared: &Shared,
    namespace: &str,
    name: &str,
    key: &str,
    uses: &mut Uses<'_>,
) -> Result<String, Error> {
    uses.add(Dependency::of::<ConfigMap>(namespace, name));
    let Some(map) = shared.api::<ConfigMap>(namespace).get_opt(name).await? else {
        return Err(Error::NotFound { kind: "ConfigMap", namespace: namespace.to_owned(), name: name.to_owned() });
    };
    let text = map.data.unwrap_or_default().remove(key);
    text.ok_or_else(|| Error::NoKey { name: name.to_owned(), key: key.to_owned() })
}

async fn tool(
    shared: &Shared,
    namespace: &str,
    binding: &ToolBinding,
    uses: &mut Uses<'_>,
) -> Result<ToolServer, Error> {
    let kind = match binding.reference.kind {
        ToolKind::RemoteMCPServer => "RemoteMCPServer",
        ToolKind::MCPServer => "MCPServer",
        ToolKind::AgentTool => "AgentTool",
        ToolKind::Agent => "Agent",
    };
    let reference = ObjectRef { name: binding.reference.name.clone(), namespace: binding.reference.namespace.clone() };
    let allowed = |server: &RemoteMCPServer| server.spec.allowed_namespaces.clone();
    // The tools of every kind are reached through a RemoteMCPServer of the same name.
    let found = find(shared, kind, namespace, &reference, uses, allowed).await;
    let server: RemoteMCPServer = found.map_err(|error| match error {
        Error::NotFound { kind, namespace, name } if binding.reference.kind != ToolKind::RemoteMCPServer => {
            Error::NotServed { kind, namespace, name }
        }
        other => other,
    })?;
    let home = reference.namespace.as_deref().unwrap_or(namespace);
    let mut secret_headers =
        if home == namespace { server.spec.headers_from.clone().unwrap_or_default() } else { Vec::new() };
    let own = binding.headers_from.clone().unwrap_or_default();
    secret_headers.retain(|header| !own.iter().any(|mine| mine.name.eq_ignore_ascii_case(&header.name)));
    secret_headers.extend(own);
    Ok(ToolServer {
        name: reference.name,
        url: address(&server, home, &shared.platform().cluster_domain),
        headers: server.spec.headers.clone().unwrap_or_default(),
        secret_headers,
        timeout: server.spec.timeout.and_then(api::Duration::nonzero),
        allowed: binding.tool_names.clone().unwrap_or_default(),
        ask: binding.require_approval.clone().unwrap_or_default(),
        enabled: binding.enabled,
    })
}

fn address(server: &RemoteMCPServer, namespace: &str, domain: &str) -> String {
    match (&server.spec.url, &server.spec.service_ref) {
        (Some(url), _) => url.clone(),
        (None, Some(service)) => {
            let namespace = service.namespace.as_deref().unwrap_or(namespace);
            let port = service.port.map(|port| format!(":{port}")).unwrap_or_default();
            let path = server.spec.path.as_deref().unwrap_or("/mcp");
            format!("http://{}.{namespace}.svc.{domain}{port}{path}", service.name)
        }
        (None, None) => String::new(),
    }
}

/// Reads an object, if its owner allows it. To the caller, "forbidden" and "not found" look the same.
async fn find<K>(
    shared: &Shared,
    kind: &'static str,
    from: &str,
    reference: &ObjectRef,
    uses: &mut Uses<'_>,
    allowed: impl Fn(&K) -> Option<AllowedNamespaces>,
) -> Result<K, Error>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let home = reference.namespace.as_deref().unwrap_or(from);
    let (namespace, name) = (home.to_owned(), reference.name.clone());
    uses.add(Dependency::of::<K>(home, &reference.name));
    let found: Option<K> = shared.api::<K>(home).get_opt(&reference.name).await?;
    if home == from {
        return found.ok_or(Error::NotFound { kind, namespace, name });
    }
    let labels = namespace_labels(shared, from).await?;
    match found {
        Some(object) if may_refer(from, &labels, home, allowed(&object).as_ref()) => Ok(object),
        _ => Err(Error::NotAllowed { kind, namespace, name }),
    }
}

async fn namespace_labels(shared: &Shared, name: &str) -> Result<BTreeMap<String, String>, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(shared.client.clone());
    Ok(namespaces.get_opt(name).await?.and_then(|namespace| namespace.metadata.labels).unwrap_or_default())
}
