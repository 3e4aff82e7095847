//! AgentWorkflow: steps of agents, Tasks, containers and HTTP calls as a graph.

use k8s_openapi::{
    api::core::v1::{EnvVar, ResourceRequirements},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::task::TaskSpec;
use crate::{
    refs::{AllowedNamespaces, HeaderFromSecret, Headers, ObjectRef},
    schema::{Duration, IntoRule as _},
};

/// Steps of agents, Tasks, containers and HTTP calls as a graph without cycles.
///
/// A step's fields may refer to `{{ params.NAME }}` and to `{{ steps.NAME.output }}` of a step that it depends on.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "AgentWorkflow",
    plural = "agentworkflows",
    shortname = "awf",
    category = "kubeopencode",
    namespaced,
    status = "AgentWorkflowStatus",
    derive = "PartialEq",
    doc = "Steps of agents, Tasks, containers and HTTP calls as a graph without cycles.",
    printcolumn(name = "Engine", type_ = "string", json_path = ".status.engine"),
    printcolumn(name = "Compiled", type_ = "string", json_path = ".status.conditions[?(@.type=='Compiled')].status"),
    printcolumn(name = "Last Run", type_ = "string", json_path = ".status.lastRun.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 52", "an AgentWorkflow's name has at most 52 characters: its runs add 11 more and have at most 63").into_rule()
)]
#[serde(rename_all = "camelCase")]
pub struct AgentWorkflowSpec {
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Values that a run takes.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub params: Option<Vec<Param>>,
    /// The steps.
    #[schemars(length(min = 1, max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = ("self.all(s, !has(s.dependsOn) || s.dependsOn.all(d, d != s.name && self.exists(o, o.name == d)))", "dependsOn must name other steps of this workflow").into_rule())]
    pub steps: Vec<Step>,
    /// Values that a run gives back.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub outputs: Option<Vec<Output>>,
    /// Who runs it. Auto: Argo Workflows if the cluster has it, otherwise we do.
    #[serde(default)]
    pub engine: Engine,
    /// Stop a run after this time.
    pub timeout: Option<Duration>,
    /// ServiceAccount of the run's Pods.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// From which namespaces it may be used.
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// A value that a run takes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Param {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z][A-Za-z0-9_-]*$"))]
    pub name: String,
    /// What it is.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Its value if the run gives none. Without it the run must give one.
    #[schemars(length(max = 65536))]
    pub value: Option<String>,
}

/// A value that a run gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The value, such as `{{ steps.review.output }}`.
    #[schemars(length(min = 1, max = 65536))]
    pub value: String,
}

/// One step; exactly one of agent, task, container, http and switch says what it does.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("[has(self.agent), has(self.task), has(self.container), has(self.http), has(self.switch)].filter(x, x).size() == 1", "a step has exactly one of agent, task, container, http and switch").into_rule())]
pub struct Step {
    /// Its name.
    #[schemars(length(min = 1, max = 50), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Sends a message to an Agent.
    pub agent: Option<AgentStep>,
    /// Creates a Task.
    pub task: Option<TaskSpec>,
    /// Runs a container.
    pub container: Option<ContainerStep>,
    /// Calls an HTTP endpoint.
    pub http: Option<HttpStep>,
    /// Selects the steps that continue.
    #[schemars(length(min = 1, max = 16))]
    pub switch: Option<Vec<Case>>,
    /// Steps that must succeed first.
    #[schemars(length(max = 50), inner(length(min = 1, max = 50)))]
    pub depends_on: Option<Vec<String>>,
    /// Skip the step unless this expression is true.
    #[schemars(length(max = 4096))]
    pub condition: Option<String>,
    /// Fail the step after this time.
    pub timeout: Option<Duration>,
    /// Try again after a failure. Off by default.
    pub retry: Option<StepRetry>,
}

/// Tries of a step.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRetry {
    /// How often to try again.
    #[schemars(range(min = 0, max = 10))]
    pub limit: i32,
    /// Wait this long before the first retry; twice as long before each further one.
    pub backoff: Option<Duration>,
}

/// A message to an Agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStep {
    /// The Agent.
    #[serde(rename = "ref")]
    pub reference: ObjectRef,
    /// Prompt for the agent.
    #[schemars(length(min = 1, max = 262_144))]
    pub text: String,
}

/// A container that runs to its end. It leaves its output in `/tmp/result`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStep {
    /// Its image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Its command.
    #[schemars(length(max = 256))]
    pub command: Option<Vec<String>>,
    /// Arguments of the command.
    #[schemars(length(max = 256))]
    pub args: Option<Vec<String>>,
    /// Its environment.
    pub env: Option<Vec<EnvVar>>,
    /// Its resources.
    pub resources: Option<ResourceRequirements>,
    /// Its working directory.
    #[schemars(length(max = 4096))]
    pub working_dir: Option<String>,
}

/// A call of an HTTP endpoint.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpStep {
    /// The address.
    #[schemars(length(min = 1, max = 4096))]
    pub url: String,
    /// The method.
    #[serde(default)]
    pub method: HttpMethod,
    /// Headers to send.
    pub headers: Option<Headers>,
    /// Headers to send whose values are secret.
    #[schemars(length(max = 32))]
    pub headers_from: Option<Vec<HeaderFromSecret>>,
    /// The body.
    #[schemars(length(max = 262_144))]
    pub body: Option<String>,
    /// Expression over `status` and `body` that is true on success; any 2xx when unset.
    #[schemars(length(max = 4096))]
    pub success_condition: Option<String>,
}

/// Methods of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names say all")]
pub enum HttpMethod {
    #[default]
    Get,
    Post,
    Put,
    Delete,
    Patch,
    Head,
    Options,
}

/// One way that a switch can take.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = ("has(self.condition) ? !has(self.default) : has(self.default) && self.default", "a case has either condition or default: true").into_rule())]
pub struct Case {
    /// Taken if this expression is true and no earlier case was taken.
    #[schemars(length(min = 1, max = 4096))]
    pub condition: Option<String>,
    /// Taken if no other case was.
    pub default: Option<bool>,
    /// Step to continue with.
    #[schemars(length(min = 1, max = 50))]
    pub then: String,
}

/// Who runs a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Engine {
    /// Argo if the cluster has it, otherwise we do.
    #[default]
    Auto,
    /// Argo Workflows.
    Argo,
    /// We do.
    Native,
}

/// Observed state of an AgentWorkflow.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentWorkflowStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// Who runs it.
    pub engine: Option<Engine>,
    /// The Argo WorkflowTemplate that it was compiled to.
    pub workflow_template: Option<String>,
    /// Its last run.
    pub last_run: Option<WorkflowRun>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// One run of a workflow.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowRun {
    /// Its name.
    pub name: Option<String>,
    /// State: Running, Succeeded or Failed.
    pub phase: Option<String>,
    /// When it started.
    pub start_time: Option<Time>,
    /// When it ended.
    pub completion_time: Option<Time>,
    /// Why it failed.
    pub message: Option<String>,
}
