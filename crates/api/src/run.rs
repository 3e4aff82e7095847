//! Settings of one run of a Task: workspace, inputs, artefacts, caches, limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Probe};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    schema::{Duration, IntoRule as _},
    workload::Protocol,
};

/// The settings of a run that both a Task and a template can set. The Task's value wins; a list replaces a list.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSettings {
    /// Files that are kept after the run.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub artifacts: Option<Vec<Artifact>>,
    /// Files that later runs can reuse.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub caches: Option<Vec<Cache>>,
    /// Keys that the result must have.
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub outputs: Option<Vec<String>>,
    /// Containers that run beside the task.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub services: Option<Vec<SideService>>,
    /// From admission to the start of the task container; 5m when unset.
    pub startup_timeout: Option<Duration>,
    /// Whether a failed run is tried again.
    pub retry: Option<Retry>,
}

/// Where the files of a run live. Unset: in an emptyDir that goes with the Pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.claimName) || (has(self.accessMode) && self.accessMode == 'ReadWriteMany')", "claimName needs accessMode ReadWriteMany: an existing claim is shared, each run gets a directory of its own").into_rule())]
#[x_kube(validation = ("!has(self.accessMode) || self.accessMode != 'ReadWriteMany' || has(self.claimName)", "accessMode ReadWriteMany needs claimName: create a PersistentVolumeClaim that several Pods can mount, and name it here").into_rule())]
pub struct Workspace {
    /// ReadWriteOnce: a claim of its own, gone when the run is over. ReadWriteMany: a shared claim, one directory a run.
    pub access_mode: Option<WorkspaceAccess>,
    /// Storage class; the cluster's default when unset.
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Size, such as 20Gi (the default).
    #[schemars(length(max = 64), regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|m|k)?$"))]
    pub size: Option<String>,
    /// An existing claim to share; required for ReadWriteMany.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: Option<String>,
    /// Keep the claim of a failed run until its Task is deleted, for inspection. A shared claim keeps the files of every run.
    #[serde(default)]
    pub retain_on_failure: bool,
}

/// How a workspace volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkspaceAccess {
    /// Isolated: one claim a run.
    ReadWriteOnce,
    /// Shared: one claim, a directory a run.
    ReadWriteMany,
}

/// Files that are kept after the run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Name of the artefact.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Paths or patterns, relative to the workspace.
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 4096)))]
    pub paths: Vec<String>,
    /// Do not fail the Task if nothing matches.
    #[serde(default)]
    pub optional: bool,
    /// After which end they are kept.
    #[serde(default)]
    pub when: ArtifactWhen,
    /// Delete them after this time; kept as long as the Task when unset.
    pub expire_after: Option<Duration>,
}

/// After which end of a run artefacts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArtifactWhen {
    /// After success.
    #[default]
    OnSuccess,
    /// After failure.
    OnFailure,
    /// After every end.
    Always,
}

/// An artefact of another Task, put in place before the start.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// Task that made it, in the same namespace.
    #[schemars(length(min = 1, max = 63))]
    pub from_task: String,
    /// Name of the artefact.
    #[schemars(length(min = 1, max = 63))]
    pub artifact: String,
    /// Where to put it; a relative path starts at the workspace.
    #[schemars(length(min = 1, max = 4096))]
    pub mount_path: String,
    /// Optional: continue if unavailable.
    #[serde(default)]
    pub optional: bool,
}

/// Files that later runs can reuse. Trouble with a cache never fails a Task.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// Name of the cache.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Key of an exact hit; `{{ hash "go.sum" }}` is replaced by the hash of files.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Key prefixes to fall back to, best first.
    #[schemars(length(max = 16), inner(length(min = 1, max = 512)))]
    pub restore_keys: Option<Vec<String>>,
    /// Paths to keep, relative to the workspace.
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 4096)))]
    pub paths: Vec<String>,
    /// Restore, save, or both.
    #[serde(default)]
    pub policy: CachePolicy,
}

/// Whether a run reads or writes a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CachePolicy {
    /// Restore before, save after.
    #[default]
    PullPush,
    /// Only restore.
    Pull,
    /// Only save.
    Push,
}

/// A container that runs beside the task, such as a database, and is ready before it starts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideService {
    /// Name of the container.
    #[schemars(length(min = 1, max = 50), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Its environment.
    pub env: Option<Vec<EnvVar>>,
    /// Its ports, reachable at localhost.
    pub ports: Option<Vec<SideServicePort>>,
    /// When it is ready; a TCP connection to its first port when unset.
    pub startup_probe: Option<Probe>,
}

/// A port of a side service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideServicePort {
    /// Name of the port.
    #[schemars(length(min = 1, max = 15))]
    pub name: Option<String>,
    /// Number of the port.
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,
    /// Protocol of the port.
    #[serde(default)]
    pub protocol: Protocol,
}

/// Whether a run that failed is tried again. Off by default: an agent's actions cannot be undone by trying again.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often to try again.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    pub max_retries: i32,
    /// After which failures. (Not called `on`: kubectl reads a bare `on` in YAML as true.)
    pub causes: Option<Vec<RetryCause>>,
    /// Wait this long before the first retry; twice as long before each further one. 30s when unset.
    pub backoff: Option<Duration>,
}

/// Failures that may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetryCause {
    /// The cluster ended the run: eviction, preemption, a lost node.
    Disruption,
    /// The task never started.
    Startup,
    /// The task command failed.
    NonZeroExit,
}

/// A Task that must end before this one starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// Name of the Task, in the same namespace.
    #[schemars(length(min = 1, max = 63))]
    pub task: String,
    /// Required outcome.
    #[serde(default)]
    pub condition: DependencyCondition,
}

/// Required outcome of a dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DependencyCondition {
    /// It completed and was not stopped.
    #[default]
    Succeeded,
    /// It failed or was stopped.
    Failed,
    /// It ended, however.
    Finished,
}

/// Limits of tokens and cost of a run, or of an Agent within a window. Reaching a limit stops the run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.maxTokens) || has(self.maxCost)", "set maxTokens, maxCost or both").into_rule())]
pub struct Budget {
    /// Tokens, input and output together, without those from the provider's cache.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<i64>,
    /// Cost in the currency of the models' prices, as a decimal number such as "2.50".
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+(\.[0-9]{1,6})?$"))]
    pub max_cost: Option<String>,
    /// Count over this window, all Tasks of the Agent together; for each run when unset.
    pub window: Option<Duration>,
}

/// Limits of tokens and cost of each run of a Task. Reaching a limit stops the run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.maxTokens) || has(self.maxCost)", "set maxTokens, maxCost or both").into_rule())]
pub struct RunBudget {
    /// Tokens, input and output together, without those from the provider's cache.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<i64>,
    /// Cost in the currency of the models' prices, as a decimal number such as "2.50".
    #[schemars(length(max = 32), regex(pattern = r"^[0-9]+(\.[0-9]{1,6})?$"))]
    pub max_cost: Option<String>,
}

impl From<RunBudget> for Budget {
    fn from(RunBudget { max_tokens, max_cost }: RunBudget) -> Self {
        Self { max_tokens, max_cost, window: None }
    }
}

/// How permission requests of the agent are answered.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Never: no person is asked, the agent's own rules decide. Ask: actions with the rule "ask" wait for a person.
    /// Always: every tool call waits for a person.
    #[serde(default)]
    pub mode: ApprovalMode,
    /// An unanswered request is rejected after this time; 1h when unset.
    pub timeout: Option<Duration>,
}

/// When a person is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalMode {
    /// No person is asked.
    #[default]
    Never,
    /// Where the rules say so.
    Ask,
    /// For every tool call.
    Always,
}

/// Prepared Pods that wait for Tasks on a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarmPool {
    /// How many Pods wait.
    #[schemars(range(min = 0, max = 100))]
    pub size: i32,
    /// Replace a Pod that waited for this long; 1h when unset.
    pub max_age: Option<Duration>,
}

/// Values by name, such as the outputs of a run.
pub type Values = BTreeMap<String, String>;
