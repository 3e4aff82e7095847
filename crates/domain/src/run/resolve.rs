//! From raw specs to resolved settings: Task > Agent > AgentTemplate > KubeOpenCodeConfig > environment > built-in.
//!
//! Settings are resolved once a run, before it is claimed; see [`super::terms`] for those that are needed later. The
//! origin of each field is recorded, so that "why this image?" has an answer after the Agent changed.

use std::collections::BTreeMap;

use api::{
    Agent, AgentTemplate, Task, TaskSpec, conditions::reasons, names::defaults, run::RunSettings,
    settings::AgentSettings, tools::ToolBinding,
};

use crate::{
    agent::merge::{Layer, merge_noting},
    platform::{Platform, secret_names},
    run::{
        origin::{Origin, Origins},
        resolved::{ResolvedAgent, ResolvedTarget, ResolvedTask},
    },
    workload::agent::password_ref,
};

mod fields;
mod values;

use fields::{AgentFields, RunFields};
pub(super) use values::span;
use values::{config_object, normal_dir};

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The Agent names a template that does not exist.
    #[error("Agent '{agent}' uses AgentTemplate '{template}', which does not exist in its namespace")]
    TemplateNotFound { agent: String, template: String },
    /// `config` is not a JSON object.
    #[error("config of {origin} is not valid: {problem}")]
    Config {
        /// Origin of the setting.
        origin: Origin,
        /// The error and its position.
        problem: String,
    },
    /// `workspaceDir` cannot be a workspace.
    #[error("workspaceDir '{dir}' of {origin} cannot be used: {problem}")]
    WorkspaceDir {
        /// Origin of the setting.
        origin: Origin,
        /// The directory as written.
        dir: String,
        /// The error.
        problem: &'static str,
    },
}

impl ResolveError {
    /// Stable reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TemplateNotFound { .. } => reasons::TEMPLATE_NOT_FOUND,
            Self::Config { .. } => reasons::CONFIG_INVALID,
            Self::WorkspaceDir { .. } => reasons::INVALID,
        }
    }

    /// Whether only an edit of the named object helps. A missing template may still be created.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::TemplateNotFound { .. })
    }
}

/// The objects that the settings of a Task come from, besides the Task itself.
#[derive(Clone, Copy, Debug)]
pub enum Sources<'a> {
    /// The server of an Agent.
    Agent {
        /// The Agent.
        agent: &'a Agent,
        /// `None` if the Agent names none, or it does not exist.
        template: Option<&'a AgentTemplate>,
        /// Address of its server.
        url: &'a str,
    },
    /// A Pod of its own.
    Template(&'a AgentTemplate),
}

/// The settings of an Agent, with those of its template and the platform's defaults.
pub fn resolve_agent(
    agent: &Agent,
    template: Option<&AgentTemplate>,
    platform: &Platform,
) -> Result<ResolvedAgent, ResolveError> {
    agent_with_origins(agent, template, platform).map(|(resolved, _)| resolved)
}

/// The settings of a template, with the platform's defaults.
pub fn resolve_template(template: &AgentTemplate, platform: &Platform) -> Result<ResolvedAgent, ResolveError> {
    template_with_origins(template, platform).map(|(resolved, _)| resolved)
}

/// The settings of one run, with the origin of each.
pub fn resolve_task(
    task: &Task,
    sources: Sources<'_>,
    platform: &Platform,
) -> Result<(ResolvedTask, Origins), ResolveError> {
    let (target, (agent, origins), template, agent_budget) = match sources {
        Sources::Agent { agent, template, url } => {
            let name = name_of(agent);
            let password_secret = password_ref(&name, agent.spec.server.as_ref());
            let target = ResolvedTarget::Agent { name, url: url.to_owned(), password_secret };
            let template = template.filter(|_| agent.spec.template_ref.is_some());
            let budget = agent.spec.budget.clone().map(|budget| (budget, Origin::Agent(name_of(agent))));
            (target, agent_with_origins(agent, template, platform)?, template, budget)
        }
        Sources::Template(template) => {
            let target = ResolvedTarget::Template { name: name_of(template) };
            (target, template_with_origins(template, platform)?, Some(template), None)
        }
    };

    // Without `..`: a new field of a Task does not compile until its meaning for a run is decided here.
    let TaskSpec {
        description,
        contexts,
        agent_ref: _,
        template_ref: _,
        timeout,
        priority: _,
        workspace,
        run: RunSettings { artifacts, caches, outputs, services, startup_timeout, retry, collect_timeout, publish },
        inputs,
        stall_timeout,
        executor_image_build,
        depends_on: _,
        instruction_refs,
        tools,
        budget,
        approval,
    } = task.spec.clone();
    let empty = RunSettings::default();
    let shared = template.map_or(&empty, |template| &template.spec.run);
    let by_template = template.map_or(Origin::BuiltIn, |template| Origin::Template(name_of(template)));
    let mut run = RunFields { origins, by_template };

    let mut agent = agent;
    run.replace("agent.executorImageBuild", executor_image_build.map(Some), &mut agent.executor_image_build);
    run.replace("agent.stallTimeout", span(stall_timeout), &mut agent.stall_timeout);
    run.replace("agent.approval", approval, &mut agent.approval);
    for reference in instruction_refs.unwrap_or_default() {
        run.note(format!("agent.instructionRefs[{}]", agent.instructions.len()), Origin::Task);
        agent.instructions.push(reference);
    }
    for tool in tools.unwrap_or_default() {
        run.note(format!("agent.tools[{}]", put_tool(&mut agent.tools, tool)), Origin::Task);
    }

    run.note("target", Origin::Task);
    let (agent_workspace, workspace_origin) = (agent.workspace.clone(), run.origin_of("agent.workspace"));
    let platform_budget = platform.budget.clone().map(|budget| (budget, platform.origin("budget")));
    let budgets = [budget.map(|budget| (budget.into(), Origin::Task)), agent_budget, platform_budget];
    let resolved = ResolvedTask {
        target,
        description: run.own("description", description.filter(|text| !text.is_empty())),
        contexts: run.own("contexts", contexts).unwrap_or_default(),
        timeout: run.own("timeout", span(timeout)),
        startup_timeout: run
            .shared("startupTimeout", span(startup_timeout), span(shared.startup_timeout))
            .unwrap_or_else(|| run.fall_back("startupTimeout", platform, platform.startup_timeout)),
        workspace: run.first("workspace", [(workspace, Origin::Task), (agent_workspace, workspace_origin)]),
        artifacts: run.shared("artifacts", artifacts, shared.artifacts.clone()).unwrap_or_default(),
        inputs: run.own("inputs", inputs).unwrap_or_default(),
        caches: run.shared("caches", caches, shared.caches.clone()).unwrap_or_default(),
        outputs: run.shared("outputs", outputs, shared.outputs.clone()).unwrap_or_default(),
        services: run.shared("services", services, shared.services.clone()).unwrap_or_default(),
        retry: run
            .shared("retry", retry, shared.retry.clone())
            .unwrap_or_else(|| run.fall_back("retry", platform, platform.retry.clone().unwrap_or_default())),
        collect_timeout: run
            .shared("collectTimeout", span(collect_timeout), span(shared.collect_timeout))
            .unwrap_or_else(|| run.fall_back("collectTimeout", platform, platform.collect_timeout)),
        publish_inherited: publish.is_none(),
        publish: run.shared("publish", publish, shared.publish.clone()),
        budget: run.smallest_budget(&budgets.into_iter().flatten().collect::<Vec<_>>()),
        agent,
    };
    Ok((resolved, run.origins))
}

fn agent_with_origins(
    agent: &Agent,
    template: Option<&AgentTemplate>,
    platform: &Platform,
) -> Result<(ResolvedAgent, Origins), ResolveError> {
    let by_agent = Origin::Agent(name_of(agent));
    let Some(named) = &agent.spec.template_ref else {
        let nothing = AgentSettings::default();
        return resolve_settings(&agent.spec.settings, &nothing, &by_agent, &by_agent, platform);
    };
    let Some(template) = template else {
        return Err(ResolveError::TemplateNotFound { agent: name_of(agent), template: named.name.clone() });
    };
    let by_template = Origin::Template(name_of(template));
    resolve_settings(&agent.spec.settings, &template.spec.settings, &by_agent, &by_template, platform)
}

fn template_with_origins(
    template: &AgentTemplate,
    platform: &Platform,
) -> Result<(ResolvedAgent, Origins), ResolveError> {
    let origin = Origin::Template(name_of(template));
    resolve_settings(&template.spec.settings, &AgentSettings::default(), &origin, &origin, platform)
}

/// Merges two layers of settings and applies defaults.
fn resolve_settings(
    upper: &AgentSettings,
    lower: &AgentSettings,
    by_upper: &Origin,
    by_lower: &Origin,
    platform: &Platform,
) -> Result<(ResolvedAgent, Origins), ResolveError> {
    let mut given = BTreeMap::new();
    let merged = merge_noting(upper, lower, &mut |setting, layer| {
        given.insert(setting, if layer == Layer::Agent { by_upper } else { by_lower });
    });
    let AgentSettings {
        mut agent_image,
        mut executor_image,
        attach_image,
        mut executor_image_build,
        workspace_dir,
        command,
        contexts,
        skills,
        plugins,
        config,
        credentials,
        pod_spec,
        service_account_name,
        max_concurrent_tasks,
        quota,
        ca_bundle,
        proxy,
        image_pull_secrets,
        extra_ports,
        workspace,
        stall_timeout,
        model_ref,
        small_model_ref,
        instruction_refs,
        tools,
        approval,
        network_policy,
    } = merged;

    // The image that an Agent names takes precedence over the one that its template builds.
    if executor_image.is_some()
        && given.get("executorImage") == Some(&by_upper)
        && given.get("executorImageBuild").is_some_and(|origin| *origin != by_upper)
    {
        executor_image_build = None;
        given.remove("executorImageBuild");
    }

    let mut fields = AgentFields { given, platform, origins: Origins::default() };
    // Manifests for older versions, which had one image, set the image in which the agent works.
    if executor_image.is_none() && executor_image_build.is_none() && agent_image.is_some() {
        executor_image = agent_image.take();
        if let Some(origin) = fields.given.remove("agentImage") {
            fields.given.insert("executorImage", origin);
        }
    }

    let resolved = ResolvedAgent {
        agent_image: fields.or_platform("agentImage", agent_image, platform.agent_image.clone()),
        executor_image: fields.or_platform("executorImage", executor_image, platform.executor_image.clone()),
        attach_image: fields.or_platform("attachImage", attach_image, platform.attach_image.clone()),
        executor_image_build: fields.keep("executorImageBuild", executor_image_build),
        workspace_dir: match fields.keep("workspaceDir", workspace_dir) {
            Some(dir) => normal_dir(&dir).map_err(|problem| {
                let origin = fields.origin_of("workspaceDir");
                ResolveError::WorkspaceDir { origin, dir: dir.clone(), problem }
            })?,
            None => defaults::WORKSPACE_DIR.to_owned(),
        },
        command: fields.keep("command", command),
        contexts: fields.keep("contexts", contexts).unwrap_or_default(),
        skills: fields.keep("skills", skills).unwrap_or_default(),
        plugins: fields.keep("plugins", plugins).unwrap_or_default(),
        config: match fields.keep("config", config) {
            Some(config) => Some(config_object(config).map_err(|problem| {
                let origin = fields.origin_of("config");
                ResolveError::Config { origin, problem }
            })?),
            None => None,
        },
        credentials: fields.keep("credentials", credentials).unwrap_or_default(),
        pod: fields.keep("podSpec", pod_spec).unwrap_or_default(),
        service_account_name: fields.or_platform(
            "serviceAccountName",
            service_account_name,
            platform.service_account_name.clone(),
        ),
        max_concurrent_tasks: fields
            .keep("maxConcurrentTasks", max_concurrent_tasks)
            .and_then(|most| u32::try_from(most).ok())
            .filter(|most| *most > 0),
        quota: fields.keep("quota", quota),
        ca_bundle: fields.keep("caBundle", ca_bundle),
        proxy: fields.or_platform("proxy", proxy.map(Some), platform.proxy.clone()),
        image_pull_secrets: fields.or_platform(
            "imagePullSecrets",
            image_pull_secrets.map(secret_names),
            platform.image_pull_secrets.clone(),
        ),
        extra_ports: fields.keep("extraPorts", extra_ports).unwrap_or_default(),
        workspace: fields.or_platform("workspace", workspace.map(Some), platform.workspace.clone()),
        stall_timeout: fields.or_platform("stallTimeout", span(stall_timeout), platform.stall_timeout),
        model: fields.keep("modelRef", model_ref),
        small_model: fields.keep("smallModelRef", small_model_ref),
        instructions: fields.keep("instructionRefs", instruction_refs).unwrap_or_default(),
        tools: fields.keep("tools", tools).unwrap_or_default(),
        approval: fields.keep("approval", approval).unwrap_or_default(),
        network_policy: fields.or_platform("networkPolicy", network_policy.map(Some), platform.network_policy.clone()),
    };
    Ok((resolved, fields.origins))
}

/// Adds a Task's tool, in place of the agent's binding of the same object. Returns its index.
fn put_tool(tools: &mut Vec<ToolBinding>, tool: ToolBinding) -> usize {
    if let Some(index) = tools.iter().position(|other| other.reference == tool.reference) {
        tools[index] = tool;
        return index;
    }
    tools.push(tool);
    tools.len() - 1
}

fn name_of(object: &impl HasName) -> String {
    object.name().to_owned()
}

/// An object whose name is known.
trait HasName {
    fn name(&self) -> &str;
}

impl HasName for Agent {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

impl HasName for AgentTemplate {
    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
