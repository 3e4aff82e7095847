//! Settings of one run of a Task: workspace, inputs, artefacts, caches, limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Probe};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::LocalRef,
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
    /// Containers that run beside the task, in its Pod, and are reached at localhost. A Task on an Agent's server cannot
    /// set them: the server runs in a Pod of the Agent, for which those of a template have no effect either.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub services: Option<Vec<SideService>>,
    /// From admission to the start of the task container; 5m when unset.
    pub startup_timeout: Option<Duration>,
    /// Whether a failed run is tried again.
    pub retry: Option<Retry>,
    /// After the end of the agent: how long storing artefacts, outputs and caches, and publishing may take; 10m when
    /// unset.
    pub collect_timeout: Option<Duration>,
    /// Push the changes of the run to a branch, and open a pull request. The agent never holds the credential.
    pub publish: Option<Publish>,
}

/// Where the files of a run live. Unset: in an emptyDir that goes with the Pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.claimName) || (has(self.accessMode) && self.accessMode == 'ReadWriteMany')", "claimName needs accessMode ReadWriteMany: an existing claim is shared, each run gets a directory of its own").into_rule())]
#[x_kube(validation = ("!has(self.sharing) || self.sharing != 'All' || (has(self.accessMode) && self.accessMode == 'ReadWriteMany')", "sharing All needs accessMode ReadWriteMany: any other workspace belongs to a single run").into_rule())]
pub struct Workspace {
    /// ReadWriteOnce: a claim of its own, deleted with the Pod of the run. ReadWriteMany: a claim that runs share, one
    /// directory a run; any storage class that several nodes can mount, such as NFS.
    pub access_mode: Option<WorkspaceAccess>,
    /// Storage class; the cluster's default when unset.
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Size, such as 20Gi (the default).
    #[schemars(length(max = 64), regex(pattern = r"^[0-9]+(\.[0-9]+)?([KMGTPE]i?|m|k)?$"))]
    pub size: Option<String>,
    /// An existing claim to share, of this namespace. When unset, ReadWriteMany creates a claim for the Agent or
    /// template (`kubeopencode-workspace-…`), which is kept until that is deleted; the directory of a run is removed with
    /// its Task. In an existing claim nothing is ever removed.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: Option<String>,
    /// How much of a shared claim a run sees; Run when unset. Run: only its own directory, mounted at `workspaceDir`.
    /// All: the whole volume, mounted at `workspaceDir`; the run works in its own directory
    /// `<workspaceDir>/<task>.<uid>/<epoch>` (the variable `WORKSPACE_DIR`), beside those of other runs, which it can
    /// read and change.
    pub sharing: Option<WorkspaceSharing>,
    /// Keep the claim of a failed run until its Task is deleted, for inspection; the event WorkspaceRetained names it. A
    /// shared claim keeps the files of every run that long.
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

/// How much of a shared claim a run sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkspaceSharing {
    /// Its own directory.
    #[default]
    Run,
    /// The whole volume.
    All,
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

/// Pushes the changes of a run to a branch, and opens a pull request. The agent never holds the credential.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Publish {
    /// Name of the Git context whose changes are pushed; needed if there are several.
    #[schemars(length(min = 1, max = 253))]
    pub context: Option<String>,
    /// Branch to push to; `agents/{{ task }}` when unset. `{{ namespace }}`, `{{ task }}` and `{{ epoch }}` are replaced.
    /// A branch that has other commits is never overwritten.
    #[schemars(length(min = 1, max = 244))]
    pub branch: Option<String>,
    /// Branch that the pull request is to change; the `ref` of the context when unset.
    #[schemars(length(min = 1, max = 244))]
    pub base_branch: Option<String>,
    /// Message of the commit with changes that the agent did not commit; the title of the Task when unset.
    #[schemars(length(max = 65_536))]
    pub message: Option<String>,
    /// Author of that commit.
    pub author: Option<PublishAuthor>,
    /// After which end the changes are pushed.
    #[serde(default)]
    pub when: PublishWhen,
    /// Secret with `username` and `password`, or with `ssh-privatekey` and `ssh-known-hosts`. A pull request needs a
    /// token as `password`.
    pub secret_ref: LocalRef,
    /// Open a pull request, which GitLab calls a merge request.
    pub pull_request: Option<PullRequest>,
}

/// Author of a commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishAuthor {
    /// Name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Address.
    #[schemars(length(min = 1, max = 253))]
    pub email: String,
}

/// After which end of a run its changes are pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PublishWhen {
    /// After success.
    #[default]
    OnSuccess,
    /// After every end.
    Always,
}

/// A pull request on GitHub, GitLab, Gitea or Forgejo.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Title; the subject of the newest commit when unset.
    #[schemars(length(max = 253))]
    pub title: Option<String>,
    /// Text; the agent's final answer when unset.
    #[schemars(length(max = 65_536))]
    pub body: Option<String>,
    /// Open it as a draft.
    #[serde(default)]
    pub draft: bool,
    /// Labels to add.
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub labels: Option<Vec<String>>,
    /// The software of the server. When unset, found by the host name (github, gitlab), and Gitea otherwise.
    pub provider: Option<PullRequestProvider>,
    /// Base URL of the server's API; derived from the repository's URL when unset.
    #[serde(rename = "apiURL")]
    #[schemars(length(max = 4096), regex(pattern = r"^https?://.+$"))]
    pub api_url: Option<String>,
}

/// The software of a Git server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullRequestProvider {
    /// GitHub and GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea and Forgejo.
    Gitea,
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
